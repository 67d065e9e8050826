package retry_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

func TestAttemptsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(ctx context.Context, p retry.Policy, s *script) (v string, numbers []int, err error) {
			for a := range loop(ctx, p) {
				numbers = append(numbers, a.Number())
				if err = a.Context().Err(); err == nil {
					v, err = s.call(a.Context())
				}
				a.End(&err)
			}
			return v, numbers, err
		}
		p := retry.Policy{Attempts: 4, Backoff: doubling(sec), Timeout: time.Minute}
		s := failing(2)
		v, numbers, err := run(t.Context(), p, s)
		if v != "done" || err != nil || !reflect.DeepEqual(numbers, []int{1, 2, 3}) {
			t.Errorf("%q, %v, attempts %v", v, err, numbers)
		}
		s.check(t, 0, sec, 3*sec)
		_, _, err = run(t.Context(), p, failing(9))
		if e := ended(t, err, driver.ReasonAttempts, 4); e.Last != errFlaky {
			t.Error(err)
		}
		// Nothing may be done: the error is there all the same.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, numbers, err = run(ctx, p, failing(0))
		ended(t, err, driver.ReasonCancelled, 0)
		if !reflect.DeepEqual(numbers, []int{0}) {
			t.Errorf("attempts %v", numbers)
		}
	})
}

// Who leaves the loop has what he wanted; a panic is his own, is not retried,
// and is a failure to the breaker.
func TestAttemptsLeft(t *testing.T) {
	b := breaker(t, circuit.Config{FailureThreshold: 1})
	for range loop(t.Context(), retry.Policy{Breaker: b}) {
		break
	}
	if b.Counts().Successes != 1 {
		t.Errorf("%+v", b.Counts())
	}
	for name, body := range map[string]func(){"boom": func() { panic("boom") }, "retry: the body of a Loop did not call End": func() {}} {
		calls := 0
		func() {
			defer func() {
				if got := recover(); got != name || calls != 1 {
					t.Errorf("recovered %v after %d calls, want %s", got, calls, name)
				}
			}()
			for range loop(t.Context(), retry.Policy{}) {
				calls++
				body()
			}
		}()
	}
	func() {
		defer func() { recover() }()
		for range loop(t.Context(), retry.Policy{Breaker: b}) {
			panic("boom")
		}
	}()
	if b.State() != circuit.Open {
		t.Error("the panic is no failure")
	}
}

// A loop over a nil retrier says so in place of what its body says.
func TestALoopOfNil(t *testing.T) {
	var err error
	runs := 0
	for a := range retry.Loop(t.Context(), nil) {
		runs++
		err = a.Context().Err()
		a.End(&err)
	}
	if runs != 1 || err == nil || !strings.Contains(err.Error(), "the retrier is nil") {
		t.Errorf("%d runs, %v", runs, err)
	}
}
