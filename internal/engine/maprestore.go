package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
)

// restore tells the machine where each item stood.
func (x *mapRun) restore(ctx context.Context) error {
	st := x.r.state
	now := time.Now()
	if b, ok := st.Breakers[mapBreaker]; ok && len(b.Data) > 0 {
		var s policy.Snapshot
		if err := json.Unmarshal(b.Data, &s); err != nil {
			return fmt.Errorf("the recorded state of the map's breaker: %w", err)
		}
		if err := x.m.RestoreSnapshot(s); err != nil {
			return err
		}
	}
	skipped := policy.ItemPassed
	if x.r.file.Policy.OnItemFailure == "skip" {
		skipped = policy.ItemSkipped
	}
	x.r.classes.restore(st.Items.Errors())
	for index, rec := range st.Items.All() {
		x.before.set(index, rec.Before)
		if rec.Status == journal.ItemPending && rec.Recoveries == 0 && rec.Retry.Failures == 0 && rec.Merging == "" {
			continue // it has not begun
		}
		if rec.Merging != "" {
			took, err := x.takeOver(ctx, index, rec)
			if err != nil {
				return err
			}
			if took {
				rec = journal.ItemRecord{Status: journal.ItemSucceeded}
			}
		}
		v, err := x.m.Restore(index-1, itemState(rec, skipped), now)
		if err != nil {
			return err
		}
		if v.Fate.FailedForGood() && !rec.Status.Done() {
			x.given(v, rec)
		}
	}
	x.r.items.Total = x.m.Counts().Total
	x.m.Resume(x.r.resumed && st.Status != "" && st.Status != event.Running)
	return nil
}

// itemState is what the journal knows of an item, as the machine wants it.
func itemState(rec journal.ItemRecord, skipped policy.Fate) policy.ItemState {
	s := policy.ItemState{Attempts: rec.Retry.Failures, Recoveries: rec.Recoveries, Retry: retryState(rec.Retry), NotBefore: rec.Retry.NotBefore}
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
		s.Standing, s.Fate = policy.WasFinished, skipped
	case journal.ItemDeadLettered:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemDeadLettered
	case journal.ItemFailed:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemFailed
	}
	return s
}

// given makes a dead letter of an item that took the run down too often, or
// whose retry budget has passed while nothing ran.
func (x *mapRun) given(v policy.Verdict, rec journal.ItemRecord) {
	it, err := x.r.j.Item(context.Background(), v.Item+1)
	if err != nil {
		x.r.note("item %d: %v", v.Item+1, err)
		return
	}
	why := fmt.Errorf("the retries that are recorded allow no further attempt (%s)", v.Reason)
	if v.Exhausted {
		why = fmt.Errorf("it was running %d times when the run went down", rec.Recoveries)
	}
	x.record(agentRun{item: it, attempt: rec.Attempts, start: time.Now()}, v, &classError{"recovery", why})
}

type classError struct {
	class string
	err   error
}

func (e *classError) Error() string { return e.err.Error() }
func (e *classError) Unwrap() error { return e.err }
func (e *classError) Class() string { return e.class }
