package mapper

import (
	"context"
	"time"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// This file has items whose agent has ended and whose end is not known yet, as their work
// waits to be merged. They hold no worker.

// park notes that an item waits.
func (x *Map) park(e *ending, now time.Time) {
	change, err := x.machine.Park(e.a.Item.Index, e.took, now)
	if err != nil {
		panic(errProtocol("park", err))
	}
	facts := x.breaker(change, now)
	if len(facts) == 0 {
		facts = x.counted(now)
	}
	x.record(append(facts, x.usedFact(e, now)...)...)
	own := *e // the worker continues to another item
	value.Put(&x.parked, e.a.Item.Index, &own)
	e.Parked()
}

// restoreParked has an item wait that waited when the process before this one went down.
func (x *Map) restoreParked(ctx context.Context, index int, rec journal.ItemRecord) error {
	it, err := x.feed.item(ctx, index)
	if err != nil {
		return err
	}
	now := x.Clock.Now()
	s := x.itemState(rec)
	s.Standing = policy.WasParked
	if _, err := x.machine.Restore(index, s, now); err != nil {
		return err
	}
	value.Put(&x.parked, index, &ending{a: Attempt{Item: it, Label: x.Template.Label(it), Number: rec.Attempts, Used: x.used[index], Start: now}, used: x.used[index]})
	delete(x.used, index)
	return nil
}

// Settle tells how an item ended that was parked, and returns when that is decided and
// recorded. One that is interrupted waits on, for the next life of the run. Nothing
// happens where the item does not wait.
func (x *Map) Settle(index int, e Ending) {
	decided := make(chan struct{})
	x.tell(func() {
		defer close(decided)
		p := x.parked[index]
		if p == nil {
			return
		}
		delete(x.parked, index)
		now := x.Clock.Now()
		p.Ending = e // without Parked
		if e.Err == nil {
			p.data = step.Data(e.Result)
		}
		if x.Deciding != nil {
			x.Deciding(index, p.a.Number)
		}
		v, err := x.machine.Finished(index, p.outcome(), now)
		if err != nil {
			panic(errProtocol("settle", err))
		}
		if e.Interrupted {
			return // that it waits is on record
		}
		if h := x.recordEnd(p, v, now); h != nil {
			x.due = append(x.due, h)
		}
		if v.Fate == policy.ItemRetry {
			x.feed.keep(p.a.Item)
		}
	})
	select {
	case <-decided:
	case <-x.done:
	}
}
