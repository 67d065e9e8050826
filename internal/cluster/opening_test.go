package cluster

import (
	"os"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestSessionReadsNoLane: a worker that begins to work for a run in the middle of its map
// reads nothing of what lanes have recorded. It would have its first lease for seconds, where
// many items have ended, before it began an item.
func TestSessionReadsNoLane(t *testing.T) {
	s := newSetting(t)
	run := s.submit(s.options("mode: mapreduce\nmap:\n  input: [1, 2, 3, 4, 5, 6]\n  max_parallel: 1\n  agent_template:\n    - shell: echo ${item}\n"))
	o := s.begin(run)
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: HomeLog(1, 1), Begin: true})
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	lane := func(w *Worker) string {
		t.Helper()
		l, _, over := c.Lease(time.Now())
		if l == nil || over {
			t.Fatal("no lease")
		}
		l.Spans = []Span{{Item: l.Spans[0].Item}}
		out, err := w.Lane(t.Context(), *l, nil, nil)
		if err != nil || out.Done != 1 || len(out.Odd) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		if err := c.Settle(l.ID, out, time.Now()); err != nil {
			t.Fatal(err)
		}
		s.record(run, &c.Order)
		return s.store.o.(dir).Path(s.store.Run(run).log(l.Log))
	}
	path := lane(s.workers[0])
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	lane(s.workers[1])
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, e := range s.events(run) {
		if e.Type == event.ItemFinished {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("%d items have ended in the journal of the run", ended)
	}
}
