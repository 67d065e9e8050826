package circuit_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/circuit/driver"
)

// A breaker whose probes fail stays open for longer each time, in the order of its
// schedule, and begins again once it has been closed; a restart changes nothing.
func TestOpenTimesThatVary(t *testing.T) {
	schedule := backoff.Schedule{Initial: time.Second, Max: 5 * time.Second}
	config := circuit.Config{FailureThreshold: 1, SuccessThreshold: 1, HalfOpenRequests: 1, OpenFor: schedule.Base}
	m, err := driver.NewMachine(driver.Config(config))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	answer := func(o circuit.Outcome) {
		t.Helper()
		ticket, err := m.Acquire(now)
		if err != nil {
			t.Fatal(err)
		}
		m.Done(ticket, o, now)
	}
	for round, opens := range [][]time.Duration{{1, 2, 4, 5, 5}, {1, 2}} {
		for i, seconds := range opens {
			want := seconds * time.Second
			answer(circuit.Failure)
			if got := m.RetryAfter(now); got != want {
				t.Fatalf("round %d, opening %d: it is open for %v, want %v", round, i+1, got, want)
			}
			// What a clock that was set back an hour asks for is no longer than that.
			if _, err := m.Acquire(now.Add(-time.Hour)); !isOpenFor(err, want) {
				t.Fatalf("round %d, opening %d: %v", round, i+1, err)
			}
			now = now.Add(-time.Hour)
			text, err := json.Marshal(m.Snapshot())
			if err != nil {
				t.Fatal(err)
			}
			var s circuit.Snapshot
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			if m, err = driver.NewMachine(driver.Config(config)); err != nil {
				t.Fatal(err)
			}
			if err := m.Restore(s); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Acquire(now.Add(want - 1)); !isOpenFor(err, 1) {
				t.Fatalf("round %d, opening %d, restored: %v", round, i+1, err)
			}
			now = now.Add(want)
		}
		answer(circuit.Success)
		if m.State(now) != circuit.Closed {
			t.Fatal(m.State(now))
		}
	}
	for name, s := range map[string]circuit.Snapshot{
		"negative": {State: circuit.Open, Generation: 1, Until: now, Openings: -1},
		"closed":   {Openings: 1},
	} {
		if m.Restore(s) == nil {
			t.Errorf("%s: %+v is taken", name, s)
		}
	}
}

func isOpenFor(err error, d time.Duration) bool {
	var open *circuit.OpenError
	return errors.As(err, &open) && open.RetryAfter == d
}

// The breaker keeps to it on the path without its lock too, and a function that
// panics leaves the breaker as it was, for its caller to see.
func TestBreakerOpenFor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	broken := true
	b, err := circuit.New(circuit.Config{
		FailureThreshold: 1, Timeout: time.Second, Now: func() time.Time { return now },
		OpenFor: func(opening int) time.Duration {
			if broken {
				panic("no such schedule")
			}
			return time.Duration(opening) * time.Minute
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	down := errors.New("down")
	fail := func() (recovered any) {
		defer func() { recovered = recover() }()
		_ = circuit.Do(context.Background(), b, func(context.Context) error { return down })
		return nil
	}
	if fail() != "no such schedule" || b.State() != circuit.Closed {
		t.Errorf("the breaker is %v", b.State())
	}
	broken = false
	for opening := range 3 {
		if fail() != nil || b.State() != circuit.Open {
			t.Fatalf("the breaker is %v", b.State())
		}
		now = now.Add(time.Duration(opening+1)*time.Minute - 1)
		if _, err := b.Acquire(); !isOpenFor(err, 1) {
			t.Errorf("opening %d: %v", opening+1, err)
		}
		now = now.Add(1)
	}
}
