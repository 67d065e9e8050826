package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/policy"
)

// TestBrokenWorker: a worker on which the run cannot be, as it has not the run's secret,
// gives its lease back with nothing done, and does not take that for the run's end:
// what follows that is not done.
func TestBrokenWorker(t *testing.T) {
	t.Setenv("BIDE_TEST_TOKEN", "a-long-token")
	s := newSetting(t)
	run := s.submit(s.options(`
mode: mapreduce
secrets: {TOKEN: '${env:BIDE_TEST_TOKEN}'}
map:
  input: [1, 2]
  agent_template:
    - shell: echo "$TOKEN" | wc -c
finally:
  - shell: echo over >> over
`))
	o := s.begin(run)
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true})
	if begun.Config == nil {
		t.Fatalf("%+v", begun)
	}
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	l, _, _ := c.Lease(time.Now())
	if err := os.Unsetenv("BIDE_TEST_TOKEN"); err != nil { // as on another machine
		t.Fatal(err)
	}
	out, err := s.worker().Lane(context.Background(), *l, nil, nil)
	if !errors.Is(err, ErrBroken) || out.Done != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "over")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the steps of finally have run: %v", err)
	}
}

// TestNoRoom: where a lane's log cannot be made, nothing of its lease is run, whichever
// lease it is the reason is told in the same words, and the worker can work again when
// there is room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("mode: mapreduce\nmap:\n  input: [1, 2]\n  max_parallel: 2\n  agent_template:\n    - shell: echo over >> over\n"))
	o := s.begin(run)
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true})
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	lanes := filepath.Join(s.store.Run(run).Path(), "lanes")
	w, told := s.workers[0], map[string]bool{}
	for range 2 {
		l, _, _ := c.Lease(time.Now())
		log := s.store.o.(dir).Path(s.store.Run(run).log(l.Log))
		if err := os.WriteFile(log, nil, 0o600); err != nil { // in its place
			t.Fatal(err)
		}
		out, err := w.Lane(context.Background(), *l, nil, nil)
		if !errors.Is(err, ErrBroken) || !StoreFails(err) || out.Done != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		told[err.Error()] = true
		defer func() {
			if err := os.Remove(log); err != nil {
				t.Fatal(err)
			}
			if out, err := w.Lane(context.Background(), *l, nil, nil); err != nil || out.Done != 1 {
				t.Errorf("with room: %+v, %v", out, err)
			}
		}()
	}
	if len(told) != 1 || !told["the store cannot be written: "+lanes+": file exists"] {
		t.Errorf("told: %v", told)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "over")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something has run: %v", err)
	}
}

// TestBudgetOfLanes: however many lanes there are, their agents use no more than the
// budget and what the items in flight take, and all that is left is handed out.
func TestBudgetOfLanes(t *testing.T) {
	const lanes, each = 4, 30
	for _, budget := range []int64{1, 29, 30, 100, 1000} {
		m, err := policy.New(policy.Config{MaxParallel: lanes}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCoordinator(CoordinatorState{Config: Config{Config: policy.Config{MaxParallel: lanes}, Budget: engine.Usage{Tokens: budget}}, Machine: m.State()})
		if err != nil {
			t.Fatal(err)
		}
		used, now := int64(0), time.Unix(1_000_000, 0)
		for round := 0; ; round++ {
			var open []*Lease
			for len(open) < lanes {
				l, _, _ := c.Lease(now)
				if l == nil {
					break
				}
				open = append(open, l)
			}
			if len(open) == 0 {
				break
			}
			for _, l := range open {
				s := Settled{Prefix: Prefix{Log: l.Log}}
				items, _ := l.items()
				for s.Done < len(items) && !reached(s.Used, l.Budget) {
					s.Done, s.Used.Tokens, used = s.Done+1, s.Used.Tokens+each, used+each
				}
				if err := c.Settle(l.ID, s, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.Stopped() != Spent || used < budget || used >= budget+lanes*each {
			t.Errorf("of %d tokens %d were used; it stops for %q", budget, used, c.Stopped())
		}
	}
}
