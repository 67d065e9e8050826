package simulate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// Replayed is what a recorded history gives under a policy.
type Replayed struct {
	*Sample
	// Beyond is how many attempts were made that the record knows nothing of:
	// their outcomes were drawn from what it says of the others.
	Beyond int
	// Same and Decisions count decisions: those that were made as in the record,
	// and all of the record.
	Same, Decisions int
	// Different are the steps and items about which something else was decided,
	// each with the first difference.
	Different []string
}

// Replay runs a recorded history again, under a file that may have another
// policy than the recorded one: each attempt that was recorded ends as it did.
func (r *Recording) Replay(ctx context.Context, p Program, seed uint64) (*Replayed, error) {
	out := &Replayed{}
	made := decisions{}
	rounds := map[int]int{}
	var beyond atomic.Int64
	o := Options{
		File: p.File, Pipeline: p.Pipeline, Settings: r.Settings, Model: r.Fit(), Seeds: 1, First: seed, Items: r.Items,
		Facts:    func(_ int, e event.Event) { made.take(e, rounds) },
		unmerged: !r.merged,
		actions: func(w *world, drawn step.Actions) step.Actions {
			acts := drawn.(*virtual.Actions)
			model := acts.Model
			acts.Model = func(c *step.Call) virtual.Answer {
				got, ok := r.answer(c)
				if !ok {
					if strings.HasSuffix(c.Path, ".items") {
						got.Result.Output = r.lines(c)
						return got
					}
					beyond.Add(1)
					return model(c)
				}
				w.seen.attempt(w.names.static(c.Path), c, w.clock.Now().Sub(w.began), 0, 0)
				return got
			}
			return acts
		},
		rand: func(p step.Place, path string) backoff.Rand {
			if path == step.ItemJitter {
				return &recordedDelays{of: func(int) (event.Wait, bool) {
					wait, ok := r.itemWaits[[2]int{p.Index, p.Attempt}]
					return wait, ok
				}, rest: luck(mix(seed)).with(uint64(p.Index))}
			}
			return &recordedDelays{of: func(n int) (event.Wait, bool) {
				wait, ok := r.waits[attemptKey{p.Index, p.Attempt, path, n}]
				return wait, ok
			}, rest: luck(mix(seed)).with(hash(path)).with(uint64(p.Index))}
		},
	}
	list, err := Run(ctx, o)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out.Sample, out.Beyond = list[0], int(beyond.Load())
	for _, at := range slices.Sorted(maps.Keys(r.decisions)) {
		was, is := r.decisions[at], made[at]
		out.Decisions += len(was)
		for i, d := range was {
			if i >= len(is) || is[i] != d {
				now := "nothing more"
				if i < len(is) {
					now = is[i]
				}
				out.Different = append(out.Different, fmt.Sprintf("%s: was %q, is %q", at, d, now))
				break
			}
			out.Same++
		}
	}
	return out, nil
}

// answer is how an attempt ended that was recorded.
func (r *Recording) answer(c *step.Call) (virtual.Answer, bool) {
	k := attemptKey{c.Index, c.Attempt, c.Path, c.Number}
	if c.Index == 0 {
		k.round = 0
	}
	a, ok := r.attempts[k]
	if !ok {
		return r.fallback(c, k)
	}
	got := virtual.Answer{Takes: a.took}
	if a.failure != nil {
		f := *a.failure
		got.Failure = &f
		got.Result = action.Result{ExitCode: f.Exit, Status: f.Status, Output: f.Stdout, Stderr: f.Stderr}
		return got, true
	}
	k.n = 0
	if got.Result.Output = r.outputs[k]; c.Module != nil {
		got.Result.Output = printed(c.Module, got.Result.Output)
	}
	if _, web := c.Action.(*workflow.HTTP); web {
		got.Result.Status = 200
	}
	return got, true
}

// fallback is how the fallback of a step ended: it has no record of its own, but
// the end of its step says whether it helped.
func (r *Recording) fallback(c *step.Call, k attemptKey) (virtual.Answer, bool) {
	path, is := strings.CutSuffix(c.Path, ".fallback")
	k.path, k.n = path, 0
	helped, known := r.fellBack[k]
	if !is || !known {
		return virtual.Answer{}, false
	}
	if helped {
		return virtual.Answer{Result: action.Result{Output: r.outputs[k]}}, true
	}
	return virtual.Answer{Failure: &failure.Failure{Class: "exit", Exit: 1, Message: "exit status 1"}, Result: action.Result{ExitCode: 1}}, true
}

// lines are as many items of a loop as it had rounds.
func (r *Recording) lines(c *step.Call) string {
	prefix, most := strings.TrimSuffix(c.Path, ".items"), -1
	for k := range r.attempts {
		if rest, ok := strings.CutPrefix(k.path, prefix); ok && k.index == c.Index {
			var n int
			if i := strings.IndexByte(rest, '@'); i >= 0 {
				if _, err := fmt.Sscanf(rest[i:], "@%d", &n); err == nil {
					most = max(most, n)
				}
			}
		}
	}
	var b strings.Builder
	for i := range most + 1 {
		fmt.Fprintf(&b, "item %d\n", i+1)
	}
	return b.String()
}

// recordedDelays is a source of jitter that draws what was drawn for the nth wait.
type recordedDelays struct {
	of   func(n int) (event.Wait, bool)
	n    int
	rest luck
}

// Uint64 gives the number from which the recorded delay was made.
func (d *recordedDelays) Uint64() uint64 {
	d.n++
	w, ok := d.of(d.n)
	if !ok || w.Greatest <= w.Least {
		return d.rest.Uint64()
	}
	part := (float64(w.Delay-w.Least) + 0.5) / float64(w.Greatest-w.Least)
	switch {
	case part <= 0:
		return 0
	case part >= 1:
		return math.MaxUint64
	}
	return uint64(part * math.MaxUint64)
}
