package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/retry"
)

// When there is a fallback after a retry, and what it gets.
func TestOrAfterARetry(t *testing.T) {
	broken := errors.New("fallback broken")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	hour := retry.Policy{Backoff: backoff.Schedule{Initial: time.Hour, Max: time.Hour}, RetryAfterMax: time.Hour}
	tests := []struct {
		name     string
		ctx      context.Context
		p        retry.Policy
		err      error // of every attempt
		fallback error
		want     string // "": an error
		called   bool
	}{
		{"success", t.Context(), retry.Policy{}, nil, nil, "done", false},
		{"attempts used up", t.Context(), retry.Policy{Attempts: 1}, errFlaky, nil, "fallback", true},
		{"not retryable", t.Context(), retry.Policy{}, retry.Permanent(errFlaky), nil, "fallback", true},
		{"fallback fails", t.Context(), retry.Policy{Attempts: 1}, errFlaky, broken, "", true},
		{"cancelled", cancelled, retry.Policy{}, nil, nil, "", false},
		{"cancelled within", t.Context(), retry.Policy{Attempts: 1}, context.Canceled, nil, "fallback", true},
		{"no time left for another attempt", soon, hour, retry.After(time.Hour, errFlaky), nil, "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			called := 0
			call := func(context.Context) (string, error) {
				if test.err != nil {
					return "", test.err
				}
				return "done", nil
			}
			v, err := guard.Or(test.ctx, newGuard(t, test.p), call, func(_ context.Context, err error) (string, error) {
				called++
				if !errors.As(err, new(*retry.Error)) {
					t.Errorf("the fallback got %v", err)
				}
				return "fallback", test.fallback
			})
			if v != test.want || (err == nil) != (test.want != "") || (called == 1) != test.called || called > 1 {
				t.Errorf("%q, %v, after %d fallbacks", v, err, called)
			}
			if test.fallback != nil && (!errors.Is(err, broken) || !errors.Is(err, errFlaky)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	_, err := guard.Or(t.Context(), newGuard(t, retry.Policy{Attempts: 1}), failing(1).call, func(context.Context, error) (string, error) { panic("boom") })
	if !errors.As(err, new(*retry.PanicError)) || !errors.Is(err, errFlaky) {
		t.Errorf("a fallback that panics: %v", err)
	}
}
