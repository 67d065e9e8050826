package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
)

// AtFirst is how many run at once to begin with, where nobody says how many.
func (x *Executor) AtFirst() int { return cmp.Or(x.Processors, runtime.GOMAXPROCS(0)) }

// widening lets the rounds of a foreach begin that finds out how many of them run at once,
// by the controller of a map. Its methods do nothing for a nil one: then every worker may
// begin a round at any time.
type widening struct {
	Pauses // of who asks agents in the rounds

	f     *loop
	label string // of the step

	mu      sync.Mutex
	finder  *policy.Finder
	busy    int             // rounds that run
	waiting []chan struct{} // workers whose turn comes, closed when it does
	closed  bool            // no round begins any more
}

// widening begins where an earlier life of the run has left off; fact is what that has
// recorded last, nil where it has not.
func (f *loop) widening(a policy.Adaptive, label string, fact json.RawMessage) (*widening, error) {
	w := &widening{Pauses: cmp.Or[Pauses](f.p.Pauses, runPauses{f.x}), f: f, label: label, finder: policy.NewFinder(a)}
	f.p.Pauses = w
	if len(fact) > 0 {
		var known policy.WidthFact
		if err := json.Unmarshal(fact, &known); err != nil {
			return nil, fmt.Errorf("the recorded number of values at once of %s: %w", f.path, err)
		}
		w.finder.Restore(known.State)
	}
	w.tell()
	return w, nil
}

// turn waits until a round may begin, and begins it before another number of them may run
// at once; nil: none begins any more.
func (w *widening) turn(ctx context.Context, begin func() *round) *round {
	if w == nil {
		return begin()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && w.busy >= w.finder.AtOnce() {
		if w.wait(ctx) != nil {
			return nil
		}
	}
	if w.closed {
		return nil
	}
	w.busy++
	return begin()
}

// wait waits until there may be room for a round. The lock is held, and not while it waits.
func (w *widening) wait(ctx context.Context) error {
	mine := make(chan struct{})
	w.waiting = append(w.waiting, mine)
	w.mu.Unlock()
	ctx, end := w.f.x.Life.Until(ctx)
	defer end()
	err := w.f.x.Clock.Wait(ctx, -1, mine)
	w.mu.Lock()
	w.waiting = slices.DeleteFunc(w.waiting, func(c chan struct{}) bool { return c == mine })
	return err
}

// ended takes how a round ended that began at start.
func (w *widening) ended(ctx context.Context, err error, start time.Time) {
	if w == nil {
		return
	}
	now := w.f.x.Clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	cancelled := err != nil && w.f.x.Life.Interrupted(ctx, err)
	if f := failure.From(err); f != nil && f.RateLimited && !cancelled {
		w.finder.Refused(now)
	} else {
		w.finder.Ended(policy.Outcome{OK: err == nil, Cancelled: cancelled, Shortage: failure.Shortage(err), Took: now.Sub(start)}, w.busy, now)
	}
	w.busy--
	w.tell()
}

// Limited takes that an agent of a round was turned away.
func (w *widening) Limited(ctx context.Context, round int, after time.Duration, met Met, now time.Time) (ok bool) {
	ok = w.Pauses.Limited(ctx, round, after, met, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finder.Refused(now)
	w.tell()
	return ok
}

// tell records that another number of rounds may run at once, and wakes as many workers as may begin one.
// The lock is held, or nobody else has it yet.
func (w *widening) tell() {
	if c, ok := w.finder.Change(); ok {
		e := w.f.p.Event(event.WidthChanged, w.f.path)
		e.Time, e.Label, e.Total, e.Message, e.Data = w.f.x.Clock.Now(), w.label, c.To, c.String(), Data(c.Fact())
		w.f.x.record(e)
	}
	for room := w.finder.AtOnce() - w.busy; room > 0 && len(w.waiting) > 0; room-- {
		close(w.waiting[0])
		w.waiting = w.waiting[1:]
	}
}

// close ends the waits of all workers: one of them has found no further round.
func (w *widening) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, c := range w.waiting {
		close(c)
	}
	w.waiting = nil
}
