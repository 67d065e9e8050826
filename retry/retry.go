// Package retry brings an operation that may fail for a while to its end.
//
//	r, err := retry.New(retry.Policy{
//		Attempts: 5,
//		Backoff:  backoff.Schedule{Initial: 100 * time.Millisecond, Jitter: backoff.Full},
//		Budget:   time.Minute,
//		If:       retry.Transient,
//	})
//	...
//	page, err := retry.Get(ctx, r, func(ctx context.Context) (Page, error) {
//		return fetch(ctx, url)
//	})
//
// [Get], and [Do] for a function without a value, call the function until it
// succeeds or something says stop: the attempts, the time budget, an error that is not to be retried, a circuit
// breaker, the quota of the target, a server that asks for too long a wait, the
// deadline, or cancellation. The [Error] says which, and carries the last real
// error and a record of every attempt.
//
// The context is looked at before the first attempt and after every wait, and
// ends a wait at once. A wait that would last until the context's deadline is
// not begun: the caller learns of the failure at once and not at the deadline.
// A panic in an attempt is a failed attempt.
//
// Only the operation's own context ends it: an error that wraps
// context.Canceled, of a group or of a connection, is a failure like any other.
// What the function returned counts, a success after its timeout too.
//
// An error tells what it knows by methods, which matchers, breakers and logs read:
//
//	HTTPStatus() int                      429 is a rate limit, 500 to 599 a server error
//	RetryAfter() (time.Duration, bool)    how long to wait; negative: no retry
//	RateLimited() bool
//	Timeout() bool                        as net.Error has
//	ExitCode() int                        as *exec.ExitError has
//	Output() string                       what a command printed, for [TextPattern]
//	Class() string                        one word for logs and histories
//
// Package retry/driver is what this package is made of: the decisions without a
// clock, the driver with one, for those who resume operations or simulate them.
//
// Operations nest, and then their attempts multiply: 3 attempts around 4 are
// 12. Nothing is changed behind the caller's back; retry at one level, and let
// an inner function ask [AttemptFrom] whether it is being retried already.
package retry

import (
	"context"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/retry/driver"
)

// Retrier is a [Policy] that has been checked. It serves any number of
// operations and goroutines at once. The zero Retrier is that of the zero Policy.
type Retrier struct {
	policy Policy
	// plain: a first attempt that succeeds needs no driver, by which it takes ten times as
	// long (41 ns and 478 ns, the least of five).
	plain bool
}

// New returns the retrier of a policy, or the error of Policy.Validate.
func New(p Policy) (*Retrier, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retry: the policy is not valid: %w", err)
	}
	return &Retrier{policy: p, plain: p.Plain()}, nil
}

// Must returns the retrier, or panics if there is an error: for variables of a
// package.
func Must(r *Retrier, err error) *Retrier {
	if err != nil {
		panic(err)
	}
	return r
}

// Policy returns a copy of the retrier's policy.
func (r *Retrier) Policy() Policy { return r.policy }

// Get calls fn as the policy says and returns what the successful attempt
// returned. Otherwise the value is zero and the error an *[Error], or one that
// says that ctx, r or fn is nil. fn should end soon after its context does, which ends when
// fn returns, if the policy has a timeout or a deadline.
func Get[T any](ctx context.Context, r *Retrier, fn func(context.Context) (T, error)) (T, error) {
	if r == nil || ctx == nil {
		var zero T
		return zero, notCalled(r)
	}
	if !r.plain || fn == nil || ctx.Err() != nil {
		return driver.Run(ctx, &r.policy, nil, fn)
	}
	v, err := driver.Call(ctx, fn)
	if err == nil {
		return v, nil
	}
	return driver.Run(ctx, &r.policy, err, fn)
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, r *Retrier, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// notCalled says why a function is not called: without a retrier, or without a context.
func notCalled(r *Retrier) error {
	if r == nil {
		return errNilRetrier
	}
	return errNilContext
}

var (
	errNilFunc    = errors.New("retry: the function is nil")
	errNilContext = errors.New("retry: the context is nil")
	errNilRetrier = errors.New("retry: the retrier is nil; make it with New")
)
