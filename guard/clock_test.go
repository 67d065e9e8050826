package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Waits, timeouts, limits and breakers take the time of a simulation, and none of
// the machine's.
func TestClock(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := virtual.NewClock(start)
	b := newBreaker(t, circuit.Config{FailureThreshold: 4, Timeout: time.Hour, SuccessThreshold: 1, Now: clock.Now})
	g := newGuard(t, guard.Clock(clock), fixed(2, 10*sec), b,
		limitOf(limit.Config{Rate: 1, Per: sec, Clock: clock}), limitOf(limit.Config{Concurrency: 1, Clock: clock}), guard.Timeout(3*sec))
	var began []string
	note := func(what string) { began = append(began, fmt.Sprint(what, "@", clock.Now().Sub(start))) }
	real := time.Now()
	clock.Run(func() {
		clock.Together(2, func(i int) {
			err := guard.Do(t.Context(), g, func(ctx context.Context) error {
				note(fmt.Sprint(i))
				return clock.Wait(ctx, time.Minute, nil) // until its timeout
			})
			if !errors.Is(err, retry.ErrAttempts) || driver.Class(err) != "timeout" {
				t.Error(err)
			}
		})
		if err := guard.Do(t.Context(), g, func(context.Context) error { return nil }); !errors.Is(err, circuit.ErrOpen) {
			t.Errorf("after four timeouts: %v", err)
		}
		if err := clock.Wait(t.Context(), time.Hour, nil); err != nil {
			t.Error(err)
		}
		if err := guard.Do(t.Context(), g, func(context.Context) error { note("probe"); return nil }); err != nil || b.State() != circuit.Closed {
			t.Error(err, b.State())
		}
	})
	if want := []string{"0@0s", "1@3s", "0@13s", "1@16s", "probe@1h0m19s"}; !slices.Equal(began, want) {
		t.Errorf("began %v, want %v", began, want)
	}
	if took := time.Since(real); took > 10*sec {
		t.Errorf("it took %v of the machine's time", took)
	}
	if _, err := guard.New(guard.Clock(nil)); err == nil {
		t.Error("a nil clock is taken")
	}
}
