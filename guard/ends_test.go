package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// The table "How a call ends" of docs/library.md: what errors.Is and errors.As find, and
// whether there is a fallback.
func TestHowACallEnds(t *testing.T) {
	fails := func(context.Context) (int, error) { return 0, errFlaky }
	hangs := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	open := func() *circuit.Breaker {
		b := circuit.Must(circuit.New(circuit.Config{}))
		b.Open(true)
		return b
	}
	full := func() *limit.Limit {
		l := limit.Must(limit.New(limit.Config{Concurrency: 1, Queue: limit.NoQueue}))
		s, err := limit.Join(l)
		if err != nil || !s.Try() {
			t.Fatal("no slot")
		}
		return l
	}
	for _, c := range []struct {
		name     string
		layers   []guard.Layer
		fn       func(context.Context) (int, error)
		is       []error
		not      []error
		fallback bool
	}{
		{"attempts used up", []guard.Layer{retry.Policy{}}, fails, []error{retry.ErrExhausted, retry.ErrAttempts, errFlaky}, nil, true},
		{"not to be retried", []guard.Layer{retry.Policy{If: retry.Network}}, fails, []error{retry.ErrExhausted, retry.ErrNotRetryable, errFlaky}, []error{retry.ErrAttempts}, true},
		{"aborted", []guard.Layer{retry.Policy{AbortOn: retry.Is(errFlaky)}}, fails, []error{retry.ErrExhausted, retry.ErrAborted, errFlaky}, nil, true},
		{"budget", []guard.Layer{retry.Policy{Budget: 1, Backoff: backoff.Schedule{Initial: 2}}}, fails, []error{retry.ErrExhausted, retry.ErrBudget, errFlaky}, nil, true},
		{"deadline of the policy", []guard.Layer{retry.Policy{Deadline: time.Second}}, hangs, []error{retry.ErrExhausted, retry.ErrDeadline, context.DeadlineExceeded}, nil, true},
		{"retry-after", []guard.Layer{retry.Policy{}}, func(context.Context) (int, error) { return 0, retry.After(time.Hour, errFlaky) }, []error{retry.ErrExhausted, retry.ErrRetryAfter, errFlaky}, nil, true},
		{"breaker", []guard.Layer{retry.Policy{}, open()}, fails, []error{retry.ErrExhausted, circuit.ErrOpen}, []error{errFlaky}, true},
		{"breaker, no retry", []guard.Layer{open()}, fails, []error{circuit.ErrOpen}, []error{errFlaky, retry.ErrExhausted}, true},
		{"limit", []guard.Layer{retry.Policy{}, full()}, fails, []error{retry.ErrExhausted, retry.ErrLimit, limit.ErrRefused}, []error{errFlaky}, true},
		{"limit, no retry", []guard.Layer{full()}, fails, []error{limit.ErrRefused}, []error{errFlaky, retry.ErrExhausted}, true},
		{"timeout", []guard.Layer{guard.Timeout(time.Second)}, hangs, []error{context.DeadlineExceeded}, []error{retry.ErrExhausted}, true},
		{"the function's own", nil, fails, []error{errFlaky}, []error{retry.ErrExhausted}, true},
		{"the caller's cancellation", []guard.Layer{retry.Policy{}}, nil, []error{retry.ErrCancelled, context.Canceled}, []error{retry.ErrExhausted}, false},
		{"the caller's deadline", []guard.Layer{retry.Policy{Backoff: backoff.Schedule{Initial: time.Hour, Max: time.Hour}}}, fails, []error{retry.ErrCallerDeadline, context.DeadlineExceeded, errFlaky}, []error{retry.ErrExhausted}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if c.fn == nil {
				c.fn = func(ctx context.Context) (int, error) { cancel(); return 0, ctx.Err() }
			}
			g := guard.Must(guard.New(c.layers...))
			fallen := false
			var err error
			_, _ = guard.Or(ctx, g, c.fn, func(_ context.Context, e error) (int, error) { fallen, err = true, e; return 0, nil })
			if fallen != c.fallback {
				t.Errorf("%s: a fallback: %v", c.name, fallen)
			}
			if !fallen {
				again, cancelAgain := context.WithTimeout(t.Context(), time.Minute)
				defer cancelAgain()
				fn := c.fn
				if c.name == "the caller's cancellation" {
					fn = func(context.Context) (int, error) { cancelAgain(); return 0, errFlaky }
				}
				_, err = guard.Get(again, g, fn)
			}
			for _, want := range c.is {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v is not in %v", c.name, want, err)
				}
			}
			for _, not := range c.not {
				if errors.Is(err, not) {
					t.Errorf("%s: %v is in %v", c.name, not, err)
				}
			}
		})
	}
	timedOut := guard.Do(t.Context(), guard.Must(guard.New(guard.Timeout(1))), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if !errors.As(timedOut, new(*retry.TimeoutError)) {
		t.Errorf("a timeout is %v", timedOut)
	}
	panicked := guard.Do(t.Context(), guard.Must(guard.New(retry.Policy{})), func(context.Context) error { panic("boom") })
	if !errors.As(panicked, new(*retry.PanicError)) || !errors.As(panicked, new(*retry.Error)) {
		t.Errorf("a panic is %v", panicked)
	}
}
