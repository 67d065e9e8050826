package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
)

// What succeeds at once, or on the second attempt, allocates nothing.
func TestAllocations(t *testing.T) {
	ctx := t.Context()
	calls := 0
	succeed := func(context.Context) (int, error) { return 1, nil }
	everyOther := func(context.Context) (int, error) {
		if calls++; calls&1 == 1 {
			return 0, errFlaky
		}
		return 1, nil
	}
	b := breaker(t, circuit.Config{FailureThreshold: 3})
	tests := []struct {
		name string
		p    retry.Policy
		fn   func(context.Context) (int, error)
	}{
		{"success", retry.Policy{Backoff: doubling(time.Second)}, succeed},
		{"success, timed", retry.Policy{Timed: true}, succeed},
		{"success, with breaker, quota and observer", retry.Policy{Breaker: b, Quota: quota(t, retry.QuotaConfig{}), Observer: func(retry.Event) {}}, succeed},
		{"one failure", retry.Policy{}, everyOther},
		{"one failure, timed", retry.Policy{Timed: true}, everyOther},
		{"one failure, with breaker and quota", retry.Policy{Breaker: b, Quota: quota(t, retry.QuotaConfig{})}, everyOther},
	}
	for _, test := range tests {
		r, err := retry.New(test.p)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := retry.Get(ctx, r, test.fn); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
	// Nor does a closure that is made for the call and captures something.
	r := retry.Must(retry.New(retry.Policy{Backoff: doubling(time.Second)}))
	sum := 0
	if n := testing.AllocsPerRun(1000, func() {
		added := 0
		if err := retry.Do(ctx, r, func(context.Context) error { added++; return nil }); err != nil {
			t.Error(err)
		}
		sum += added
	}); n != 0 || sum == 0 {
		t.Errorf("a closure: %v allocations, %d calls", n, sum)
	}
	good := func(v int) bool { return v >= 0 }
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := retry.Get(ctx, r, retry.Until(succeed, good)); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("Until: %v allocations", n)
	}
}
