package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
)

// bare is a coordinator of a map of so many items.
func bare(t *testing.T, lanes, items int) *Coordinator {
	t.Helper()
	cfg := Config{Config: policy.Config{MaxParallel: lanes}}
	m, err := policy.New(cfg.policy(), items)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCoordinator(CoordinatorState{Config: cfg, Machine: m.State()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// notes are what the coordinator told.
func notes(c *Coordinator) string {
	var all strings.Builder
	for _, e := range c.Pending {
		for _, f := range e.Events {
			all.WriteString(f.Message + "\n")
		}
	}
	return all.String()
}

// TestBrokenLanes: where no lane can work, it is tried less and less often, at the
// least each half minute, and told twice, however long it continues; the first that can
// ends that; a map that stops waits for nothing.
func TestBrokenLanes(t *testing.T) {
	t.Parallel()
	const lanes = 3
	c, now := bare(t, lanes, 100), time.Unix(1_000_000, 0)
	begin, rounds := now, 0
	for ; now.Before(begin.Add(time.Hour)); rounds++ {
		var open []*Lease
		for len(open) < lanes {
			l, until, _ := c.Lease(now)
			if l == nil && len(open) == 0 && until.After(now) {
				now = until
				continue
			}
			if l == nil {
				t.Fatalf("no lease and no wait at %v", now)
			}
			open = append(open, l)
		}
		for _, l := range open {
			if err := c.Broken(l.ID, Settled{Prefix: Prefix{Log: l.Log}}, "no room", now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rounds < 120 || rounds > 128 {
		t.Errorf("%d rounds in an hour", rounds)
	}
	if told := notes(c); strings.Count(told, "\n") != 2 || !strings.Contains(told, "no worker can work for this run: no room; it is tried again each 30s at the latest") {
		t.Errorf("told: %s", told)
	}
	now = now.Add(time.Minute)
	l, _, _ := c.Lease(now)
	if err := c.Settle(l.ID, Settled{Prefix: Prefix{Log: l.Log}, Done: 1}, now); err != nil {
		t.Fatal(err)
	}
	if l, _, _ := c.Lease(now); l == nil || !strings.Contains(notes(c), "can work for this run again") {
		t.Errorf("%v, told: %s", l, notes(c))
	} else if err := c.Broken(l.ID, Settled{Prefix: Prefix{Log: l.Log}}, "no room", now); err != nil {
		t.Fatal(err)
	}
	if _, until, _ := c.Lease(now); !until.After(now) {
		t.Errorf("until %v", until)
	}
	c.Stop()
	if _, _, over := c.Lease(now); !over {
		t.Error("a map that stops waits")
	}
}

// TestControl: what a map is told to do holds for its next state, too; a letter is given
// back once, and only as long as it is one.
func TestControl(t *testing.T) {
	t.Parallel()
	c, now := bare(t, 1, 4), time.Unix(1_000_000, 0)
	tell := func(q Control) {
		t.Helper()
		if err := c.Control(q, now); err != nil {
			t.Fatal(err)
		}
		var err error
		if c, err = NewCoordinator(c.State()); err != nil {
			t.Fatal(err)
		}
	}
	end := func(l *Lease, odd ...Odd) {
		t.Helper()
		items, _ := l.items()
		if err := c.Settle(l.ID, Settled{Prefix: Prefix{Log: l.Log}, Done: len(items), Odd: odd}, now); err != nil {
			t.Fatal(err)
		}
	}
	l, _, _ := c.Lease(now)
	end(l, Odd{At: 0, Kind: oddFailed})
	tell(Control{Do: journal.Pause})
	if l, until, over := c.Lease(now); l != nil || over || !until.IsZero() {
		t.Errorf("a paused map: %v, %v, %v", l, until, over)
	}
	tell(Control{Do: journal.Continue})
	tell(Control{Do: journal.Parallel, Parallel: 3})
	if c.Lanes() != 3 {
		t.Errorf("%d lanes", c.Lanes())
	}
	again := Control{Do: Requeue, Again: []Letter{{Index: 1, ID: "1"}}}
	tell(again)
	if err := c.Control(again, now); err == nil {
		t.Error("a letter is run again twice")
	}
	for {
		l, _, over := c.Lease(now)
		if over {
			break
		}
		if c.Open() == 1 && c.m.Counts().Pending > 0 {
			end(l)
			if err := c.Control(again, now); err == nil && c.again[1] {
				t.Error("an item that ended well is run again")
			}
			continue
		}
		end(l)
	}
	if n := c.m.Counts(); n.Succeeded != 4 {
		t.Errorf("%+v", n)
	}
	if err := c.Control(Control{Do: journal.Pause}, now); !errors.Is(err, ErrNoMap) {
		t.Errorf("a map that is over: %v", err)
	}
	if err := bare(t, 1, 1).Control(Control{Do: journal.Parallel}, now); err == nil {
		t.Error("no items at once")
	}
	if err := bare(t, 1, 1).Control(Control{Do: journal.Probe}, now); err == nil || !strings.Contains(err.Error(), "never held") {
		t.Errorf("a probe of a run that is never held: %v", err)
	}
}

// TestPausedOverLives: the next life of a run that was paused is paused, with as many
// items at once as it was told, and its setup is not held.
func TestPausedOverLives(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("mode: mapreduce\nsetup:\n  - shell: echo one\nmap:\n  input: [1, 2]\n  max_parallel: 2\n  agent_template:\n    - shell: echo ${item}\n"))
	task := HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true}
	o := s.begin(run)
	begun := s.homeTask(&o, task)
	if begun.Config == nil || begun.Config.Paused {
		t.Fatalf("%+v", begun)
	}
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []Control{{Do: journal.Pause}, {Do: journal.Parallel, Parallel: 7}} {
		if err := c.Control(q, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c.Stop()
	s.record(run, &c.Order)
	after := HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-2", After: true, Halt: Interrupted}
	s.homeTask(&c.Order, after)
	o = s.begin(run)
	task.Life, task.Log = 2, "home-2-1"
	if begun = s.homeTask(&o, task); begun.Config == nil || !begun.Config.Paused || begun.Config.MaxParallel != 7 {
		t.Errorf("%+v", begun.Config)
	}
}
