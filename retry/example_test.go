package retry_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/retry"
)

func ExampleDo() {
	policy := retry.Policy{
		Attempts: 5,
		Backoff:  backoff.Schedule{Initial: time.Millisecond, Jitter: backoff.Full},
		If:       retry.Transient,
	}
	calls := 0
	greeting, err := retry.Do(context.Background(), policy, func(context.Context) (string, error) {
		if calls++; calls < 3 {
			return "", syscall.ECONNRESET
		}
		return "hello", nil
	})
	fmt.Println(greeting, err, calls)
	// Output: hello <nil> 3
}

// The error says why the operation ended, and knows every attempt.
func ExampleError() {
	policy := retry.Policy{Attempts: 2}
	_, err := retry.Do(context.Background(), policy, func(context.Context) (int, error) {
		return 0, errors.New("HTTP 503")
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, retry.ErrAttempts))
	var e *retry.Error
	if errors.As(err, &e) {
		for _, a := range e.History {
			fmt.Println(a.Number, a.Class, a.Message)
		}
	}
	// Output:
	// attempts used up after 2 attempts: HTTP 503
	// true
	// 1 error HTTP 503
	// 2 error HTTP 503
}

func ExampleDoFallback() {
	fetch := func(context.Context) (string, error) { return "", errors.New("timed out") }
	cached := func(context.Context, error) (string, error) { return "yesterday's", nil }
	v, degraded, err := retry.DoFallback(context.Background(), retry.Policy{}, fetch, cached)
	fmt.Println(v, degraded, err)
	// Output: yesterday's true <nil>
}

// A machine makes the decisions in any time, here in none.
func ExampleMachine() {
	policy := retry.Policy{Attempts: 9, Backoff: backoff.Schedule{Initial: time.Second}, Budget: 5 * time.Second}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := retry.NewMachine(&policy, now)
	for {
		d := m.Next(errors.New("busy"), now)
		if d.Action != retry.ActionRetry {
			fmt.Println(d.Action, d.Reason)
			return
		}
		fmt.Println(d.Action, d.Delay)
		now = now.Add(d.Delay)
	}
	// Output:
	// retry 1s
	// retry 2s
	// stop budget
}

// One quota serves all operations on a target.
func ExampleQuota() {
	quota, err := retry.NewQuota(retry.QuotaConfig{Ratio: 0.5, Floor: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := retry.Policy{Attempts: 10, Quota: quota}
	calls := 0
	for range 10 {
		_, err = retry.Do(context.Background(), policy, func(context.Context) (int, error) {
			calls++
			return 0, errors.New("down")
		})
	}
	fmt.Println(calls, errors.Is(err, retry.ErrQuota))
	// Output: 16 true
}
