package mapper

import (
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
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
