package mapper

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// TestHoldOfAnOldJournal: older journals count the items of a hold from 0, under another
// name; both lead to the same first probe.
func TestHoldOfAnOldJournal(t *testing.T) {
	now := time.Unix(5000, 0)
	for name, order := range map[string]string{"old": `"order":[4,2]`, "new": `"first":[5,3]`} {
		x, err := New(Options{Policy: policy.Config{MaxParallel: 2, SameError: &policy.SameError{}}, Total: 9, Clock: clock.Machine{}})
		if err != nil {
			t.Fatal(err)
		}
		var waiting iter.Seq2[int, journal.ItemRecord] = func(yield func(int, journal.ItemRecord) bool) {
			for i := 1; i <= 6; i++ {
				rec := journal.ItemRecord{Status: journal.ItemWaiting}
				rec.Retry.NotBefore = now
				if !yield(i, rec) {
					return
				}
			}
		}
		hold := json.RawMessage(`{"signature":{},"message":"no","items":2,"since":"1970-01-01T01:00:00Z","until":"1970-01-01T01:00:00Z",` + order + `}`)
		if err := x.Restore(t.Context(), Recorded{Items: waiting, Hold: hold}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{5, 3} {
			d := x.machine.Next(now)
			if d.Kind != policy.Start || !d.Probe || d.Item != want {
				t.Fatalf("%s: %+v, want a probe of item %d", name, d, want)
			}
			if _, err := x.machine.Started(d.Item, now); err != nil {
				t.Fatal(err)
			}
			if _, err := x.machine.Finished(d.Item, policy.Outcome{OK: true}, now); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestOnHoldOfAnEarlierLife: on_hold runs again for the holds that last, of the map and of its
// merge queue, as they began.
func TestOnHoldOfAnEarlierLife(t *testing.T) {
	hold := func(items int, queue bool) json.RawMessage {
		return step.Data(Held{Message: "no", Items: items, Since: time.Unix(3600, 0), Next: time.Unix(3600, 0), Queue: queue})
	}
	var none iter.Seq2[int, journal.ItemRecord] = func(func(int, journal.ItemRecord) bool) {}
	restored := func(rec Recorded) (items []int) {
		x, err := New(Options{Policy: policy.Config{MaxParallel: 2, SameError: &policy.SameError{}}, Total: 9, Clock: clock.Machine{},
			OnHold: func(context.Context, Held) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		rec.Items = none
		if err := x.Restore(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		for _, h := range x.due {
			items = append(items, h.hold.Items)
		}
		return items
	}
	if got := restored(Recorded{Hold: hold(5, false), HoldBegan: hold(3, false), QueueHold: hold(7, true), QueueHoldBegan: hold(6, true)}); !slices.Equal(got, []int{3, 6}) {
		t.Errorf("on_hold is due for holds of %v items", got)
	}
	if got := restored(Recorded{}); got != nil {
		t.Errorf("without a hold, on_hold is due for %v", got)
	}
}
