package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/permanent"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

func breaker(t testing.TB, c circuit.Config) *circuit.Breaker {
	t.Helper()
	b, err := circuit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Lesson: the breaker is inside the retry and sees each attempt.
func TestBreakerSeesEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{FailureThreshold: 2})
		s := failing(9)
		_, err := get(t.Context(), retry.Policy{Attempts: 5, Backoff: doubling(sec), Breaker: b}, s.call)
		e := ended(t, err, driver.ReasonCircuitOpen, 2) // the refusal uses no attempt
		s.check(t, 0, sec)
		if e.Last != errFlaky || len(e.History) != 2 || e.RetryAfter != 28*sec || !errors.Is(err, circuit.ErrOpen) {
			t.Errorf("the error is %+v", e)
		}
		if time.Since(s.began) != 3*sec { // found out after the wait for attempt 3
			t.Errorf("it ended after %v", time.Since(s.began))
		}
		_, err = get(t.Context(), retry.Policy{Attempts: 5, Backoff: doubling(sec), Breaker: b}, s.call)
		e = ended(t, err, driver.ReasonCircuitOpen, 0)
		var refusal *circuit.OpenError
		if !errors.As(e.Last, &refusal) || time.Since(s.began) != 3*sec {
			t.Errorf("after %v: %v", time.Since(s.began), err)
		}
	})
}

// Only circuit_open by name makes a refusal retried; words and patterns that
// would match its text do not.
func TestRefusalIsRetriedByNameOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{FailureThreshold: 1, Name: "connection timeout 503 429"})
		if err := circuit.Do(context.Background(), b, func(context.Context) error { return errFlaky }); err == nil {
			t.Fatal("no error")
		}
		for _, m := range []retry.Matcher{nil, retry.Network, retry.Timeout, retry.ServerError, retry.RateLimit, retry.Pattern0("."), retry.ExitCode(0)} {
			_, err := get(t.Context(), retry.Policy{Breaker: b, If: m}, failing(0).call)
			ended(t, err, driver.ReasonCircuitOpen, 0)
		}
		s := failing(0)
		v, err := get(t.Context(), retry.Policy{Breaker: b, If: retry.CircuitOpen}, s.call)
		if v != "done" || err != nil {
			t.Fatal(err)
		}
		s.check(t, 30*sec)
	})
}

// Refusals that are retried use attempts: it is no loop without end.
func TestRefusalsUseUpAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{FailureThreshold: 1, HalfOpenRequests: 1, Lease: time.Hour})
		if err := circuit.Do(context.Background(), b, func(context.Context) error { return errFlaky }); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(30 * sec)
		if _, err := b.Acquire(); err != nil { // the one probe hangs
			t.Fatal(err)
		}
		s := failing(0)
		_, err := get(t.Context(), retry.Policy{Attempts: 4, Backoff: doubling(sec), Breaker: b, If: retry.CircuitOpen}, s.call)
		e := ended(t, err, driver.ReasonAttempts, 4)
		if len(s.starts) != 0 || e.History[0].Class != "circuit_open" || e.Slept != 7*sec {
			t.Errorf("%d calls, %+v", len(s.starts), e)
		}
		if !errors.Is(err, circuit.ErrOpen) || e.Last == nil {
			t.Errorf("the last error is %v", e.Last)
		}
	})
}

// A cancelled attempt says nothing about the target, a failed one does.
func TestBreakerOutcomes(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	tests := []struct {
		name string
		fn   func(context.Context) (int, error)
		want circuit.State
	}{
		{"success", func(context.Context) (int, error) { return 1, nil }, circuit.Closed},
		{"failure", func(context.Context) (int, error) { return 0, errFlaky }, circuit.Open},
		{"panic", func(context.Context) (int, error) { panic("boom") }, circuit.Open},
		{"cancelled within", func(context.Context) (int, error) { return 0, context.Canceled }, circuit.Open},
		{"permanent", func(context.Context) (int, error) { return 0, retry.Permanent(errFlaky) }, circuit.Closed},
		{"cancelled from outside", func(context.Context) (int, error) { cancel(); return 0, errFlaky }, circuit.Closed},
	}
	for _, test := range tests {
		b := breaker(t, circuit.Config{FailureThreshold: 1})
		_, err := get(cancelled, retry.Policy{Attempts: 1, Breaker: b}, test.fn)
		if (err == nil) != (test.name == "success") {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := b.State(); got != test.want {
			t.Errorf("%s: the breaker is %v, want %v", test.name, got, test.want)
		}
	}
}

// What must not be done twice ends with its first failure, which the breaker of the
// target counts, whereas it does not count what says nothing about the target.
func TestFinalIsAFailureOfTheTarget(t *testing.T) {
	for mark, want := range map[string]circuit.State{"final": circuit.Open, "permanent": circuit.Closed, "final within permanent": circuit.Closed} {
		b := circuit.Must(circuit.New(circuit.Config{FailureThreshold: 1}))
		r := retry.Must(retry.New(retry.Policy{Attempts: 5, Breaker: b}))
		calls := 0
		err := retry.Do(t.Context(), r, func(context.Context) error {
			calls++
			switch mark {
			case "final":
				return permanent.Final(errFlaky)
			case "permanent":
				return fmt.Errorf("wrapped: %w", retry.Permanent(errFlaky))
			}
			return retry.Permanent(permanent.Final(errFlaky))
		})
		if calls != 1 || !errors.Is(err, errFlaky) || b.State() != want {
			t.Errorf("%s: %d calls, %v, the breaker is %v", mark, calls, err, b.State())
		}
	}
}
