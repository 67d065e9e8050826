package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/policy"
)

// TestRequeue gives dead letters another chance while the map is running.
func TestRequeue(t *testing.T) {
	now := time.Unix(1000, 0)
	m, err := policy.New(policy.Config{MaxParallel: 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	start := func(item, attempt int) {
		t.Helper()
		d := m.Next(now)
		if d.Kind != policy.Start || d.Item != item || d.Attempt != attempt {
			t.Fatalf("next is %+v, want item %d, attempt %d", d, item, attempt)
		}
		if _, err := m.Started(item, now); err != nil {
			t.Fatal(err)
		}
	}
	end := func(item int, ok bool) {
		t.Helper()
		o := policy.Outcome{OK: ok}
		if !ok {
			o.Err = errors.New("no")
		}
		if _, err := m.Finished(item, o, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Requeue(1, now); err == nil {
		t.Error("an item that has not failed was requeued")
	}
	start(1, 1)
	start(2, 1)
	if err := m.Requeue(1, now); err == nil {
		t.Error("an item that runs was requeued")
	}
	end(1, false)
	if err := m.Requeue(4, now); err == nil {
		t.Error("an item that is not there was requeued")
	}
	if err := m.Requeue(1, now); err != nil {
		t.Fatal(err)
	}
	if c := m.Counts(); c.Failed != 0 || c.DeadLettered != 0 || c.FailedForGood != 0 || c.Retrying != 1 || c.Pending != 1 || c.Running != 1 {
		t.Errorf("counts %+v", c)
	}
	start(1, 1) // it goes before those that have not begun
	end(1, true)
	start(3, 1)
	end(3, false)
	end(2, true)
	if d := m.Next(now); d.Kind != policy.Finished || d.Status != policy.CompletedWithFailures {
		t.Errorf("at the end: %+v", d)
	}
	if err := m.Requeue(3, now); !errors.Is(err, policy.ErrOver) {
		t.Errorf("after the end: %v", err)
	}
	if c := m.Counts(); c.Succeeded != 2 || c.DeadLettered != 1 || c.Finished() != 3 {
		t.Errorf("counts %+v", c)
	}
}

// TestRequeueCountsAgain: a letter that is requeued and fails again counts once
// for the bounds, and one that is requeued makes room below them.
func TestRequeueCountsAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	m, err := policy.New(policy.Config{MaxParallel: 1, MaxFailures: 2}, 4)
	if err != nil {
		t.Fatal(err)
	}
	fail := func(item int) {
		t.Helper()
		if _, err := m.Started(item, now); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Finished(item, policy.Outcome{Err: errors.New("no")}, now); err != nil {
			t.Fatal(err)
		}
	}
	fail(1)
	if err := m.Requeue(1, now); err != nil {
		t.Fatal(err)
	}
	fail(1)
	if s := m.Stopped(); s != policy.NotStopped {
		t.Fatalf("stopped by one item: %v", s)
	}
	fail(2)
	if s := m.Stopped(); s != policy.ByMaxFailures {
		t.Errorf("not stopped by two: %v", s)
	}
	if err := m.Requeue(2, now); !errors.Is(err, policy.ErrOver) {
		t.Errorf("of a map that stops: %v", err)
	}
}
