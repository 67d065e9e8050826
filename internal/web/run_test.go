package web

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestWatchedRunsStayOpen: of twice as many runs as are kept, those that are looked
// at every second are read once; when nobody looks, all but a few are forgotten.
func TestWatchedRunsStayOpen(t *testing.T) {
	st, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 2 * keptRuns {
		j, err := st.Create(journal.Header{Name: "m", Kind: "mapreduce"})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(event.Event{Type: event.RunStarted}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.Run())
	}
	synctest.Test(t, func(t *testing.T) {
		s := &runs{st: st}
		defer func() {
			if err := s.close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}()
		known := map[string]*run{}
		look := func(id string) {
			if err := s.with(id, func(r *run) error {
				if known[id] != nil && known[id] != r {
					t.Errorf("run %s was opened again", id)
				}
				known[id] = r
				return r.look(t.Context(), func() {})
			}); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			for _, id := range ids {
				look(id)
			}
			time.Sleep(busyBeat)
		}
		if len(s.open) != len(ids) {
			t.Errorf("%d of %d watched runs are open", len(s.open), len(ids))
		}
		time.Sleep(keptAfter)
		look(ids[0])
		if len(s.open) != keptRuns {
			t.Errorf("%d runs are open that nobody looks at, want %d", len(s.open), keptRuns)
		}
	})
}
