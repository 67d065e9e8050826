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

func ExampleGet() {
	r := retry.Must(retry.New(retry.Policy{
		Attempts: 5,
		Backoff:  backoff.Schedule{Initial: time.Millisecond, Jitter: backoff.Full},
		If:       retry.Transient,
	}))
	calls := 0
	greeting, err := retry.Get(context.Background(), r, func(context.Context) (string, error) {
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
	r := retry.Must(retry.New(retry.Policy{Attempts: 2}))
	_, err := retry.Get(context.Background(), r, func(context.Context) (int, error) {
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

func ExampleDo() {
	r, err := retry.New(retry.Policy{Attempts: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := 0
	err = retry.Do(context.Background(), r, func(context.Context) error {
		if calls++; calls < 2 {
			return errors.New("busy")
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 2 <nil>
}

// What an attempt returned is looked at as its error is.
func ExampleUntil() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 2}))
	progress := 0
	poll := func(context.Context) (int, error) { progress += 40; return progress, nil }
	_, err := retry.Get(context.Background(), r, retry.Until(poll, func(percent int) bool { return percent >= 100 }))
	fmt.Println(err)
	percent, ok := retry.Unmet[int](err)
	fmt.Println(percent, ok)
	// Output:
	// attempts used up after 2 attempts: the condition is not met by 80
	// 80 true
}

func ExampleLoop() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 3}))
	var err error
	for a := range retry.Loop(context.Background(), r) {
		if a.Number() < 3 {
			err = errors.New("busy")
		} else {
			err = nil
		}
		fmt.Println(a.Number(), err)
		a.End(&err)
	}
	fmt.Println(err)
	// Output:
	// 1 busy
	// 2 busy
	// 3 <nil>
	// <nil>
}

// One quota serves all operations on a target.
func ExampleNewQuota() {
	quota, err := retry.NewQuota(retry.QuotaConfig{Ratio: 0.5, Initial: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := retry.Must(retry.New(retry.Policy{Attempts: 10, Quota: quota}))
	calls := 0
	for range 10 {
		err = retry.Do(context.Background(), r, func(context.Context) error {
			calls++
			return errors.New("down")
		})
	}
	fmt.Println(calls, errors.Is(err, retry.ErrQuota))
	// Output: 16 true
}
