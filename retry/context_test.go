package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Lesson: a context that has ended is seen before the first attempt (5 of 8
// peers run the function once).
func TestCancelledBeforeTheFirstAttempt(t *testing.T) {
	cause := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, p := range []retry.Policy{{}, {Timed: true}} {
		s := failing(0)
		_, err := get(ctx, p, s.call)
		e := ended(t, err, driver.ReasonCancelled, 0)
		if len(s.starts) != 0 || e.Last != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("%d attempts, %v", len(s.starts), err)
		}
		if errors.Is(err, retry.ErrExhausted) {
			t.Error("cancelled is not exhausted")
		}
	}
}

// Lesson: cancellation ends a wait at once, and the last error is not lost.
func TestCancelledDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*sec, cancel)
		s := failing(9)
		_, err := get(ctx, retry.Policy{Backoff: doubling(10 * sec)}, s.call)
		e := ended(t, err, driver.ReasonCancelled, 1)
		if e.Last != errFlaky || !errors.Is(err, context.Canceled) || time.Since(s.began) != 3*sec {
			t.Errorf("after %v: %v", time.Since(s.began), err)
		}
	})
}

func TestCancelledDuringTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*sec, cancel)
		s := failing(9)
		s.takes = 10 * sec
		_, err := get(ctx, retry.Policy{}, s.call)
		e := ended(t, err, driver.ReasonCancelled, 1)
		if e.Last != context.Canceled || time.Since(s.began) != 3*sec {
			t.Errorf("after %v: %v", time.Since(s.began), err)
		}
	})
}

// A cancellation between the failure and the next attempt is seen even if
// there is no wait.
func TestNoAttemptAfterCancel(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		s := failing(9)
		_, err := get(ctx, retry.Policy{Observer: func(e retry.Event) {
			if e.Type == retry.WaitScheduled {
				cancel()
			}
		}}, s.call)
		ended(t, err, driver.ReasonCancelled, 1)
	}
}

// Waits heed the context, and there is none after the last attempt.
func TestNoSleepAfterCancelOrTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		_, err := get(ctx, retry.Policy{Backoff: doubling(10 * sec)}, func(context.Context) (int, error) {
			cancel()
			return 0, errFlaky
		})
		ended(t, err, driver.ReasonCancelled, 1)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited %v", waited)
		}
	})
}

// A wait that would last until the deadline is not begun.
func TestDeadlineIsForeseen(t *testing.T) {
	tests := []struct {
		deadline, delay time.Duration
		attempts        int
		end             time.Duration
	}{
		{sec, 10 * sec, 1, 0},
		{10 * sec, 10 * sec, 1, 0}, // at the deadline there is no time left
		{10*sec + 1, 10 * sec, 2, 10 * sec},
		{6 * sec, sec, 3, 3 * sec}, // 1, 3, and not 7
	}
	for _, test := range tests {
		for _, timed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				s := failing(9)
				_, err := get(ctx, retry.Policy{Attempts: 9, Backoff: doubling(test.delay), Timed: timed}, s.call)
				e := ended(t, err, driver.ReasonCallerDeadline, test.attempts)
				if ctx.Err() != nil || time.Since(s.began) != test.end {
					t.Errorf("%+v: it ended after %v", test, time.Since(s.began))
				}
				if e.Last != errFlaky || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%+v: the error is %v", test, err)
				}
			})
		}
	}
}

func TestDeadlineDuringTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		s := failing(9)
		s.takes = time.Minute
		_, err := get(ctx, retry.Policy{}, s.call)
		ended(t, err, driver.ReasonCallerDeadline, 1)
	})
}

func TestTimeoutOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failing(0)
		s.takes = 2 * sec
		_, err := get(t.Context(), retry.Policy{Timeout: sec, If: retry.Timeout}, s.call)
		e := ended(t, err, driver.ReasonAttempts, 3)
		s.check(t, 0, sec, 2*sec)
		var timeout *retry.TimeoutError
		if !errors.As(err, &timeout) || timeout.Limit != sec || e.History[0].Class != "timeout" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, of class %q", err, e.History[0].Class)
		}
	})
}

// A function that returns why its context ended says nothing that the error of the timeout
// does not say.
func TestTimeoutIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := get(t.Context(), retry.Policy{Timeout: sec, Attempts: 1}, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		if e := ended(t, err, driver.ReasonAttempts, 1); e.History[0].Err.Error() != "attempt timed out after 1s" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, after %v", err, e.History[0].Err)
		}
	})
}

// An error that has nothing to do with the timeout is not taken for one, and
// a result that came in time after all is a result.
func TestTimeoutIsNotGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := get(t.Context(), retry.Policy{Timeout: sec, Attempts: 1}, failing(1).call)
		if e := ended(t, err, driver.ReasonAttempts, 1); e.History[0].Class != "error" {
			t.Errorf("class is %q", e.History[0].Class)
		}
		v, err := get(t.Context(), retry.Policy{Timeout: sec}, func(context.Context) (string, error) {
			time.Sleep(2 * sec) // it does not heed its context
			return "late", nil
		})
		if v != "late" || err != nil {
			t.Errorf("the result is %q, %v", v, err)
		}
	})
}

// No goroutine or timer is left behind.
func TestNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*sec, cancel)
		_, err := get(ctx, retry.Policy{Attempts: 9, Backoff: doubling(sec), Timeout: sec}, failing(9).call)
		ended(t, err, driver.ReasonCancelled, 3)
	})
}
