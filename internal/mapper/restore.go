package mapper

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry/driver"
)

// Recorded is what is on record of a map.
type Recorded struct {
	Items   iter.Seq2[int, journal.ItemRecord]
	Breaker json.RawMessage // of the last breaker_changed of the map; nil for none
	Pause   event.Pause
	Hold    json.RawMessage // of the last fact of a hold that lasts; nil for none
	// QueueHold is Hold of the merge queue.
	QueueHold json.RawMessage
	// HoldBegan and QueueHoldBegan are the facts with which these holds began.
	HoldBegan, QueueHoldBegan json.RawMessage
	// CanaryPassed says that the first items have passed, and the others may start.
	CanaryPassed bool
	Width        json.RawMessage // of the last width_changed; nil for none
	// Results gives the items that have ended, for a map that may be held.
	Results iter.Seq2[journal.Result, error]
	// Event reads the event of a number.
	Event func(ctx context.Context, seq int64) (event.Event, error)
	// TakeOver finishes an item whose work was being merged when the process
	// before this one went down, or has it wait to be merged as before.
	TakeOver func(ctx context.Context, index int, rec journal.ItemRecord) (Taken, error)
	// GoOn: the run had stopped, and somebody asks to continue: the bounds that
	// the items have reached are let pass.
	GoOn bool
}

// Taken is what became of an item whose work was being merged when the process before
// this one went down.
type Taken uint8

// What becomes of such an item.
const (
	RunsAgain  Taken = iota // nothing of it is merged
	WasMerged               // it is finished
	WaitsAgain              // it waits to be merged: see [Map.Settle]
)

// Restore tells the machine where each item stood. It is called before Run.
func (x *Map) Restore(ctx context.Context, rec Recorded) error {
	s := policy.Snapshot{Pause: rec.Pause}
	if len(rec.Breaker) > 0 {
		s.Breaker = &circuit.Snapshot{}
		if err := json.Unmarshal(rec.Breaker, s.Breaker); err != nil {
			return fmt.Errorf("the recorded state of the map's breaker: %w", err)
		}
		x.breakerAt = *s.Breaker
	}
	if err := x.machine.RestoreSnapshot(s, x.Clock.Now()); err != nil {
		return err
	}
	for index, it := range rec.Items {
		if it.Before > 0 {
			x.before[index] = it.Before
		}
		if err := x.restoreItem(ctx, &rec, index, it); err != nil {
			return err
		}
	}
	if err := x.restoreHolds(rec.Hold, rec.QueueHold); err != nil {
		return err
	}
	if err := x.restoreOnHold(rec.HoldBegan, rec.QueueHoldBegan); err != nil {
		return err
	}
	if err := x.restoreWidth(rec.Width); err != nil {
		return err
	}
	if rec.CanaryPassed {
		if err := x.machine.RestoreCanary(); err != nil {
			return err
		}
	}
	x.machine.Resume(rec.GoOn)
	return x.restoreEnds(ctx, &rec)
}

func (x *Map) restoreItem(ctx context.Context, all *Recorded, index int, rec journal.ItemRecord) error {
	if rec.Status == journal.ItemPending && rec.Recoveries == 0 && rec.Retry.Failures == 0 && rec.Merging == "" && (!x.Budgeted || rec.Used == (event.Used{})) && !x.counts(rec.Retry.Began) {
		return nil // it has not begun, or it makes no difference that it has
	}
	if rec.Status == journal.ItemHandling {
		return x.restoreHandler(ctx, all, index, rec)
	}
	if x.Budgeted {
		value.Put(&x.used, index, rec.Used)
	}
	if rec.Merging != "" && all.TakeOver != nil {
		took, err := all.TakeOver(ctx, index, rec)
		if err != nil {
			return err
		}
		switch took {
		case WasMerged:
			rec = journal.ItemRecord{Status: journal.ItemSucceeded}
		case WaitsAgain:
			return x.restoreParked(ctx, index, rec)
		}
	}
	if err := x.restoreLast(ctx, all, index, rec); err != nil {
		return err
	}
	v, err := x.machine.Restore(index, x.itemState(rec), x.Clock.Now())
	if err == nil && v.Fate.FailedForGood() && !rec.Status.Done() {
		err = x.given(ctx, v, rec)
	}
	return err
}

// counts reports whether the time at which an item began counts in a deadline.
func (x *Map) counts(began time.Time) bool {
	return x.Policy.Retry != nil && x.Policy.Retry.Deadline > 0 && !began.IsZero()
}

// restoreLast keeps how an item failed that is to be tried again.
func (x *Map) restoreLast(ctx context.Context, all *Recorded, index int, rec journal.ItemRecord) error {
	if rec.Failed == 0 || rec.Status.Done() {
		return nil
	}
	e, err := all.Event(ctx, rec.Failed)
	if err != nil {
		return err
	}
	x.last[index], err = FailureOf(&e)
	return err
}

// FailureOf gives what the next attempt at an item knows of one that failed, from the record
// of that.
func FailureOf(e *event.Event) (*failure.Failure, error) {
	f := failure.Failure{Class: e.Class, Message: e.Message, Exit: e.ExitCode}
	if f.Class == ClassEvidence {
		var l Letter
		if err := json.Unmarshal(e.Data, &l); err != nil {
			return nil, fmt.Errorf("the recorded failure of item %s: %w", e.Item, err)
		}
		f.Stdout, f.Stderr = l.Printed()
	}
	return known(&f), nil
}

// restoreHandler keeps a handler that is due to be run.
func (x *Map) restoreHandler(ctx context.Context, all *Recorded, index int, rec journal.ItemRecord) error {
	e, err := all.Event(ctx, rec.Handler)
	if err != nil {
		return err
	}
	h := &handling{index: index}
	if err := json.Unmarshal(e.Data, &h.due); err != nil {
		return fmt.Errorf("the recorded handler of item %s: %w", e.Item, err)
	}
	x.due = append(x.due, h)
	_, err = x.machine.Restore(index, policy.ItemState{Standing: policy.WasFinished, Fate: policy.ItemHandled, Attempts: rec.Attempts}, x.Clock.Now())
	return err
}

// itemState is what the journal knows of an item, as the machine wants it.
func (x *Map) itemState(rec journal.ItemRecord) policy.ItemState {
	r := rec.Retry
	s := policy.ItemState{Attempts: r.Failures, Recoveries: rec.Recoveries, NotBefore: r.NotBefore,
		Retry: driver.State{Attempt: r.Failures, Slept: r.Slept, Prev: r.Prev, Began: r.Began, FirstFailure: r.FirstFailure, Due: r.NotBefore, Rules: r.Rules}}
	switch rec.Status {
	case journal.ItemWaiting:
		s.Standing = policy.WasWaiting
	case journal.ItemPending, journal.ItemRunning:
		if rec.Recoveries == 0 { // an interrupt returned it between two attempts
			s.Standing = policy.WasWaiting
			break
		}
		// The journal has counted this recovery already.
		s.Standing = policy.WasRunning
		s.Recoveries = max(0, rec.Recoveries-1)
	case journal.ItemSucceeded:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemSucceeded
	case journal.ItemSkipped:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemSkipped
	case journal.ItemUnchanged:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemUnchanged
	case journal.ItemDeadLettered:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemDeadLettered
	case journal.ItemFailed:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemFailed
	default:
		panic(fmt.Sprintf("mapper: an item is %d", rec.Status))
	}
	return s
}

// given records the end of an item that took the run down too often, or whose
// retries allow no further attempt by now.
func (x *Map) given(ctx context.Context, v policy.Verdict, rec journal.ItemRecord) error {
	it, err := x.feed.item(ctx, v.Item)
	if err != nil {
		return err
	}
	f := failure.Failure{Class: policy.ClassRecovery, Message: v.GivenUp}
	now := x.Clock.Now()
	h := x.recordEnd(&ending{a: Attempt{Item: it, Label: x.Template.Label(it), Number: rec.Attempts, Start: now}, Ending: Ending{Err: &f, Failure: f}}, v, now)
	if h != nil {
		x.due = append(x.due, h)
	}
	return nil
}
