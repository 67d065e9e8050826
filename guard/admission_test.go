package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// An open breaker refuses before anything is waited for, and also who waited
// while it opened; a refusal takes neither slot nor token.
func TestTheBreakerIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		br, err := circuit.New(circuit.Config{FailureThreshold: 1, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		slots, rate := limit.Concurrency(1), limit.Rate(1, time.Second)
		s, err := limit.Join(slots, rate)
		if err != nil {
			t.Fatal(err)
		}
		run := func(takes time.Duration, failure error) error {
			_, err := driver.Drive(t.Context(), &driver.Operation{Policy: &retry.Policy{Attempts: 1}, Admission: &guard.Admission{Breaker: br, Limits: s}},
				func(context.Context, int) (int, error) { time.Sleep(takes); return 0, failure })
			return err
		}
		began := time.Now()
		first, waited := make(chan error), make(chan error)
		go func() { first <- run(5*time.Second, errors.New("down")) }()
		synctest.Wait()
		go func() { waited <- run(0, nil) }()
		if err := <-first; !errors.Is(err, retry.ErrAttempts) {
			t.Errorf("the first ends with %v", err)
		}
		if err := <-waited; !errors.Is(err, circuit.ErrOpen) || time.Since(began) != 5*time.Second {
			t.Errorf("who waited ends with %v after %v", err, time.Since(began))
		}
		if err := run(0, nil); !errors.Is(err, circuit.ErrOpen) || time.Since(began) != 5*time.Second {
			t.Errorf("with %v after %v", err, time.Since(began))
		}
		if slots.InUse() != 0 || !s.Try() {
			t.Error("a refusal has taken something")
		}
	})
}
