package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSlowLane: a lane at an item that takes longer than its lease gives back what is
// behind it while the item runs, so that others can run that; and begins none of it.
func TestSlowLane(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("mode: mapreduce\nmap:\n  input: [1, 2, 3, 4, 5, 6]\n  max_parallel: 1\n  agent_template:\n    - shell: echo ${item} >> ran; while [ ! -e kept ]; do sleep 0.02; done\n"))
	o := s.begin(run)
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true})
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	l, _, _ := c.Lease(time.Now())
	if items, _ := l.items(); len(items) < 2 {
		t.Fatalf("%+v", l)
	}
	l.Slice = 50 * time.Millisecond
	out, err := s.workers[0].Lane(context.Background(), *l, nil, func(first int) {
		if first != 1 {
			t.Errorf("the lane keeps %d items", first)
		}
		if err := c.Keep(l.ID, first, time.Now()); err != nil {
			t.Error(err)
		}
		if n := c.m.Counts(); n.Pending+n.Retrying != 5 || n.Running != 1 {
			t.Errorf("%+v", n)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "kept"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if err != nil || out.Done != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := c.Settle(l.ID, out, time.Now()); err != nil {
		t.Error(err)
	}
	if n := c.m.Counts(); n.Succeeded != 1 || n.Running != 0 || n.Pending+n.Retrying != 5 {
		t.Errorf("%+v", n)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "ran")); err != nil || string(text) != "1\n" {
		t.Errorf("%q, %v", text, err)
	}
}
