package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// The defects that were found by trial, each as it was met. What they have in
// common with other rules is tried beside those too.

// Who says "refused" is no network; what the first attempt died of is not what
// the last did; what nobody can mend opens no breaker.
func TestTheErrorOfTheEnd(t *testing.T) {
	if retry.Network(errors.New("the customer refused the offer")) {
		t.Error("a customer is a network")
	}
	synctest.Test(t, func(t *testing.T) {
		notFound := &statusError{404}
		calls := 0
		_, err := get(t.Context(), retry.Policy{Timeout: sec, If: retry.Transient}, func(ctx context.Context) (int, error) {
			if calls++; calls == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 0, notFound
		})
		e := ended(t, err, driver.ReasonNotRetryable, 2)
		if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, notFound) || e.History[0].Class != "timeout" {
			t.Errorf("%v: %+v", err, e.History)
		}
	})
	b := breaker(t, circuit.Config{FailureThreshold: 3})
	for range 3 {
		_, err := get(t.Context(), retry.Policy{Breaker: b}, func(context.Context) (int, error) { return 0, retry.Permanent(&statusError{404}) })
		ended(t, err, driver.ReasonNotRetryable, 1)
	}
	if b.State() != circuit.Closed || b.Counts().Failures != 0 {
		t.Errorf("three answers 404: %v, %+v", b.State(), b.Counts())
	}
}

// A target that hangs until the caller has no more time opens the breaker.
func TestAHangingTargetOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{})
		for i := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := get(ctx, retry.Policy{Breaker: b}, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
			cancel()
			if want := i >= circuit.DefaultFailureThreshold; errors.Is(err, circuit.ErrOpen) != want {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if b.Counts().Failures != circuit.DefaultFailureThreshold {
			t.Errorf("%+v", b.Counts())
		}
	})
}

// Only the operation's own context ends it, whatever an error wraps; and what is
// a cancellation is no network error.
func TestCancellationsOfOthers(t *testing.T) {
	reset := errors.Join(syscall.ECONNRESET, context.Canceled)
	dialed := &net.OpError{Op: "dial", Err: isCanceled{}} // as net.Dialer has it
	for _, c := range []struct {
		name  string
		err   error
		p     retry.Policy
		calls int
	}{
		{"the group of a function, in its own timeout", fmt.Errorf("group: %w", context.Canceled), retry.Policy{Timeout: sec, If: retry.Timeout}, 3},
		{"a reset beside a cancellation", reset, retry.Policy{If: retry.Network}, 3},
		{"the same, every error", reset, retry.Policy{}, 3},
		{"the same, by name", reset, retry.Policy{If: retry.Is(syscall.ECONNRESET)}, 3},
		{"a dial that was cancelled", dialed, retry.Policy{If: retry.Network}, 1},
		{"the same, transient", dialed, retry.Policy{If: retry.Transient}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, calls := breaker(t, circuit.Config{}), 0
			c.p.Breaker = b
			_, err := get(t.Context(), c.p, func(ctx context.Context) (int, error) {
				calls++
				if c.p.Timeout > 0 {
					<-ctx.Done()
				}
				return 0, c.err
			})
			if calls != c.calls || errors.Is(err, retry.ErrCancelled) || b.Counts().Failures != uint64(calls) {
				t.Errorf("%s: %d calls, %v, %+v", c.name, calls, err, b.Counts())
			}
		})
	}
	if got := driver.Class(reset) + " " + driver.Class(dialed); got != "network cancelled" {
		t.Error(got)
	}
}

// A TimeoutError is a context.DeadlineExceeded, whatever the function returned.
func TestTimeoutErrorIsADeadline(t *testing.T) {
	if err := error(&retry.TimeoutError{Limit: sec, Err: errFlaky}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errFlaky) {
		t.Error(err)
	}
}

// Reading the clock changes no reason: what ends an operation is the same
// whether its attempts are timed or not.
func TestTimedChangesNoReason(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := retry.Policy{
			Attempts: rapid.IntRange(1, 4).Draw(rt, "attempts"),
			Backoff:  doubling(time.Duration(rapid.IntRange(0, 3).Draw(rt, "initial")) * sec),
			Budget:   time.Duration(rapid.IntRange(0, 4).Draw(rt, "budget")) * sec,
			Timeout:  time.Duration(rapid.IntRange(0, 3).Draw(rt, "timeout")) * sec,
		}
		caller := time.Duration(rapid.IntRange(0, 8).Draw(rt, "caller"))*sec + sec/2
		takes := time.Duration(rapid.IntRange(0, 4).Draw(rt, "takes")) * sec
		fails := rapid.IntRange(0, 5).Draw(rt, "fails")
		var ends [2]string
		for i := range ends {
			synctest.Test(t, func(t *testing.T) {
				p := p
				p.Timed = i == 1
				ctx, cancel := context.WithTimeout(t.Context(), caller)
				defer cancel()
				s := failing(fails)
				s.takes = takes
				_, err := get(ctx, p, s.call)
				var e *retry.Error
				if errors.As(err, &e) {
					ends[i] = e.Reason.String()
				}
				ends[i] += fmt.Sprint(s.starts)
			})
		}
		if ends[0] != ends[1] {
			rt.Fatalf("%s, timed %s", ends[0], ends[1])
		}
	})
}

// What the last error asked for is known after a wait that was cancelled too.
func TestTheHintOutlivesACancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(sec, cancel)
		_, err := get(ctx, retry.Policy{}, func(context.Context) (int, error) { return 0, &askedError{after: 7 * sec} })
		if e := ended(t, err, driver.ReasonCancelled, 1); e.RetryAfter != 7*sec || e.History[0].Delay < 7*sec {
			t.Errorf("asked for %v, decided %v", e.RetryAfter, e.History[0].Delay)
		}
	})
}

// askedError asks to wait.
type askedError struct{ after time.Duration }

func (e *askedError) Error() string                     { return "busy" }
func (e *askedError) RetryAfter() (time.Duration, bool) { return e.after, true }

// Of a cancelled operation whose last attempt was an operation that was used up,
// it is not said that it was used up.
func TestACancelledOperationIsNotExhausted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := get(ctx, retry.Policy{}, func(ctx context.Context) (int, error) {
		_, err := get(ctx, retry.Policy{Attempts: 1}, func(context.Context) (int, error) { return 0, errFlaky })
		cancel()
		return 0, err
	})
	e := ended(t, err, driver.ReasonCancelled, 1)
	for _, reason := range []error{retry.ErrExhausted, retry.ErrAttempts, context.DeadlineExceeded} {
		if errors.Is(err, reason) {
			t.Errorf("%v is said of %v", reason, err)
		}
	}
	if !errors.Is(err, errFlaky) || !errors.Is(e.Last, retry.ErrAttempts) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Each operation has one end, however its function ends: it returns, panics in a
// way that continues to the caller, or ends its goroutine.
func TestOneFinishedForEachOperation(t *testing.T) {
	finished := 0
	p := retry.Policy{Attempts: 2, Observer: func(e retry.Event) {
		if e.Type == retry.Finished {
			finished++
		}
	}}
	for name, run := range map[string]func(){
		"success": func() { get(t.Context(), p, failing(0).call) },
		"failure": func() { get(t.Context(), p, failing(9).call) },
		"a panic in an attempt": func() {
			get(t.Context(), p, func(context.Context) (int, error) { panic("x") })
		},
		"a panic that goes on": func() {
			defer func() { recover() }()
			for range loop(t.Context(), p) {
				panic("x")
			}
		},
		"a goroutine that ends in a loop": func() {
			for range loop(t.Context(), p) {
				runtime.Goexit()
			}
		},
		"a goroutine that ends": func() {
			get(t.Context(), p, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		},
		"a loop that is left": func() {
			for range loop(t.Context(), p) {
				break
			}
		},
	} {
		finished = 0
		done := make(chan struct{})
		go func() { defer close(done); run() }()
		<-done
		if finished != 1 {
			t.Errorf("%s: finished %d times", name, finished)
		}
	}
}

// A wait that the history tells of was decided, also if it is the last.
func TestDelayOfTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(sec/2, cancel)
		_, err := get(ctx, retry.Policy{Backoff: doubling(sec)}, failing(9).call)
		if e := ended(t, err, driver.ReasonCancelled, 1); e.History[0].Delay != sec {
			t.Errorf("the wait that was cut short: %v", e.History[0].Delay)
		}
		_, err = get(t.Context(), retry.Policy{Attempts: 2, Backoff: doubling(sec)}, failing(9).call)
		if e := ended(t, err, driver.ReasonAttempts, 2); e.History[0].Delay != sec || e.History[1].Delay != 0 {
			t.Errorf("%+v", e.History)
		}
	})
}

// A retry that was paid for, interrupted, resumed and successful gives its token
// back; an operation that the breaker refuses deposits nothing.
func TestQuotaOverLivesAndRefusals(t *testing.T) {
	q := quota(t, retry.QuotaConfig{Ratio: -1, Initial: 3})
	p := retry.Policy{Quota: q}
	m := driver.NewMachine(&p, time.Now())
	if d := m.Next(errFlaky, time.Now()); d.Action != driver.ActionRetry || q.Balance() != 2 {
		t.Fatalf("%+v, balance %v", d, q.Balance())
	}
	if _, err := driver.Drive(t.Context(), &driver.Operation{Policy: &p, State: m.State()}, func(context.Context, int) (int, error) { return 1, nil }); err != nil || q.Balance() != 3 {
		t.Errorf("%v, balance %v", err, q.Balance())
	}
	p.Quota = quota(t, retry.QuotaConfig{Ratio: 1, Initial: 1})
	p.Breaker = breaker(t, circuit.Config{})
	p.Breaker.Open(true)
	if _, err := get(t.Context(), p, failing(0).call); !errors.Is(err, circuit.ErrOpen) || p.Quota.Balance() != 1 {
		t.Errorf("%v, balance %v", err, p.Quota.Balance())
	}
}

// pointerError panics where it is nil.
type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// What is nil is an error, or a failure: no attempt, no panic.
func TestNothingIsNil(t *testing.T) {
	r, err := retry.New(retry.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []func() (int, error){
		func() (int, error) { return get[int](t.Context(), retry.Policy{Attempts: 3}, nil) },
		func() (int, error) { return get[int](t.Context(), retry.Policy{Timeout: sec}, nil) },
		func() (int, error) { return retry.Get[int](t.Context(), r, nil) },
		func() (int, error) { return 0, retry.Do(t.Context(), r, nil) },
		func() (int, error) {
			return driver.Drive[int](t.Context(), &driver.Operation{Policy: &retry.Policy{}}, nil)
		},
	} {
		var e *retry.Error
		if _, err := run(); err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "the function is nil") {
			t.Errorf("%v (%T)", err, err)
		}
	}
	_, err = get(t.Context(), retry.Policy{Attempts: 2}, func(context.Context) (int, error) { var e *pointerError; return 0, e })
	if e := ended(t, err, driver.ReasonAttempts, 2); !strings.Contains(e.Error(), "nil") || e.History[0].Message == "" {
		t.Errorf("%v", e)
	}
}

// A strategy whose longest delay is negative gives none that is; a date in a
// zone that HTTP does not know is not read as one of another.
func TestNegativeLongestDelayAndForeignZones(t *testing.T) {
	s := backoff.Schedule{Initial: sec, Max: -sec, Strategy: backoff.Custom{Delays: []time.Duration{-sec}}}
	for n := range 4 {
		if d := s.Delay(n, 0, nil); d < 0 {
			t.Errorf("delay %d is %v", n, d)
		}
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for date, want := range map[string]bool{"Fri, 20 Nov 2026 12:00:07 GMT": true, "Fri, 20 Nov 2026 12:00:07 PST": false, "Friday, 20-Nov-26 12:00:07 PST": false} {
		if d, ok := driver.ParseRetryAfter(date, now); ok != want || ok && d != 7*sec {
			t.Errorf("%s: %v, %v", date, d, ok)
		}
	}
}
