package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/worktree"
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
	// Lacks are the facts that the record does not have, and that decisions may
	// depend on, each as a sentence.
	Lacks []string
}

// Replay runs a recorded history again, life by life, under a file that may have
// another policy than the recorded one: each attempt that was recorded ends as it
// did, and each life begins and ends when it did.
//
// Under the policy of the record each step and attempt also begins and ends at the
// time of the record, so that what depends on the time is decided as it was. For as
// long as all is decided as it was, a life continues from what is recorded of those
// before it, and after that from what they have done here.
func (r *Recording) Replay(ctx context.Context, p Program, seed uint64) (*Replayed, error) {
	steps, _ := r.evidence()
	o := Options{File: p.File, Pipeline: p.Pipeline, Settings: r.Settings, Model: r.average(steps)}
	n, err := prepare(&o)
	if err != nil {
		return nil, err
	}
	ctx, end := timeless(ctx)
	defer end()
	x := &replay{Recording: r, o: &o, names: n, seen: newWatch(), seed: luck(mix(seed)), out: &Replayed{Lacks: r.lacks()}, exact: p.is(r.Header), rounds: map[int]int{}}
	x.seen.outageEnd, _ = o.Model.End()
	for i := range r.lives {
		if err := x.live(ctx, i); err != nil {
			return nil, err
		}
	}
	x.out.Sample = &x.seen.Sample
	return x.out, nil
}

// is reports whether a program is what a run was begun with.
func (p Program) is(h journal.Header) bool {
	if p.Pipeline != nil {
		return bytes.Equal(p.Pipeline.Sources[p.Pipeline.Path], h.Source)
	}
	return bytes.Equal(p.File.Source, h.Source)
}

// replay is a history that is run again.
type replay struct {
	*Recording
	o      *Options
	names  *stepNames
	seen   *watch
	seed   luck
	out    *Replayed
	exact  bool        // under the policy of the record
	rounds map[int]int // the present attempt at an item

	past  []event.Event // what was recorded here, where it is not as in the record
	parts bool          // it is not
	took  time.Duration // by the lives that are over
}

// live runs a life again.
func (x *replay) live(ctx context.Context, i int) error {
	was := x.lives[i]
	clock := virtual.NewClock(was.began)
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	w := newWorld(x.o.Model, x.names, x.seed, clock, x.seen)
	w.began = was.began.Add(-x.took)
	l := &replayedLife{replay: x, was: was, number: i, clock: clock, world: w, kill: kill, made: decisions{}, draws: map[attemptKey]int{}, asked: map[attemptKey]int{}, started: map[attemptKey]int{}, tries: newBeginnings(), busy: map[attemptKey]busy{}, over: make(chan struct{}), loops: map[attemptKey]int{}, passed: make([]bool, len(was.turns))}
	l.Actions = w.actions().(*virtual.Actions)
	ports := w.ports(l, &itemList{model: x.o.Model, given: x.Items})
	if x.exact {
		clock.Later, ports.NotBefore, ports.Machine = l.later, was.notBefore, recordedTurns{l}
	}
	ports.Recorder, ports.Rand, ports.Composed = l, l.jitter, l.composed
	if x.merged {
		ports.Merge = &worktree.Run{}
	}
	ports.Data = len(x.lives) > 1
	before := x.before(i)
	if len(before) > 0 {
		ports.Earlier = journal.Facts{Events: before, Items: x.listed}
	}
	settings := x.o.Settings
	if was.parallel > 0 {
		settings.MaxParallel = was.parallel
	}
	var sum *engine.Summary
	clock.Run(func() {
		sum = engine.RunOn(ctx, engine.Options{Settings: settings, File: x.o.File, Pipeline: x.o.Pipeline, Environ: []string{}}, ports)
	})
	if errors.Is(sum.Err, items.ErrUnread) {
		return fmt.Errorf("the work items: %w", sum.Err)
	}
	if l.dead {
		x.took += was.ended.Sub(was.began)
	} else {
		x.took += clock.Now().Sub(was.began)
	}
	x.seen.Makespan, x.seen.Status = x.took, sum.Status
	if l.dead {
		x.seen.Status = event.Interrupted
	}
	x.compare(was.decisions, l.made)
	if x.parts = x.parts || len(x.out.Different) > 0 || !x.exact; x.parts && i+1 < len(x.lives) {
		x.past = append(slices.Clone(before), l.facts...)
	}
	return nil
}

// notBefore is when the nth work item of the life started; the zero time where it is not
// on record.
func (l *pastLife) notBefore(n int) (at time.Time) {
	if n < len(l.items) {
		at = l.items[n]
	}
	return at
}

// before is what a life finds on record.
func (x *replay) before(i int) []event.Event {
	was := x.lives[i]
	if i == 0 || !x.parts {
		return was.before
	}
	past := x.past
	if n := len(was.before); n > 0 {
		past = append(slices.Clone(past), was.before[n-was.own:]...)
	}
	for k := range past {
		past[k].Seq = int64(k) + 1
	}
	return past
}

// compare counts the decisions of a life that were made as in the record.
func (x *replay) compare(recorded, made decisions) {
	for _, at := range slices.Sorted(maps.Keys(recorded)) {
		was, is := recorded[at], made[at]
		x.out.Decisions += len(was)
		for i, d := range was {
			if i >= len(is) || is[i] != d {
				now := "nothing more"
				if i < len(is) {
					now = is[i]
				}
				x.out.Different = append(x.out.Different, fmt.Sprintf("%s: was %q, is %q", at, d, now))
				break
			}
			x.out.Same++
		}
	}
}

// lacks says what a replay would need and the record does not have.
func (r *Recording) lacks() (list []string) {
	undrawn, clipped := 0, 0
	for _, o := range r.outputs {
		if o.clipped {
			clipped++
		}
	}
	for i, l := range r.lives {
		for _, waits := range l.waits {
			for _, w := range waits {
				if w.Drawn == "" && w.Greatest > w.Least && w.Source != event.FromPolicy {
					undrawn++
				}
			}
		}
		if l.otherFile {
			list = append(list, fmt.Sprintf("life %d of the run continued with another file (--force), and the record lacks its text", i+1))
		}
	}
	if clipped > 0 {
		list = append(list, fmt.Sprintf("of %d outputs the record has the two ends alone, which is less than what reads them was given", clipped))
	}
	if undrawn > 0 {
		list = append(list, fmt.Sprintf("of %d waits the record lacks what was drawn for their jitter", undrawn))
	}
	return list
}
