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
// The decisions are made by [Machine], which is pure: no clock, no sleep.
// [Drive] is the one driver of it. Get is Drive with a policy alone; whoever
// resumes operations, waits for limits, or has a clock of his own says so with
// an [Operation].
//
// Operations nest, and then their attempts multiply: 3 attempts around 4 are
// 12. Nothing is changed behind the caller's back; retry at one level, and let
// an inner function ask [AttemptFrom] whether it is being retried already.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/backoff"
)

// Retrier is a [Policy] that has been checked. It serves any number of
// operations and goroutines at once.
type Retrier struct {
	policy Policy
	simple bool
}

// New returns the retrier of a policy, or the error of Policy.Validate.
func New(p Policy) (*Retrier, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retry: the policy is not valid: %w", err)
	}
	return &Retrier{policy: p, simple: p.Plain()}, nil
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
// says that fn is nil. fn should end soon after its context does, which ends when
// fn returns, if the policy has a timeout or a deadline.
func Get[T any](ctx context.Context, r *Retrier, fn func(context.Context) (T, error)) (T, error) {
	if !r.simple || fn == nil || ctx.Err() != nil {
		return driveFunc(ctx, &r.policy, fn, nil)
	}
	v, err := call(ctx, fn)
	if err == nil {
		return v, nil
	}
	return again(ctx, &r.policy, fn, err)
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, r *Retrier, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// Until returns fn as one that fails, with an *[UnmetError], when ok does not
// accept its value. Whatever looks at errors then looks at values too: whether to
// retry, what a breaker counts, when a fallback is due.
//
//	job, err := retry.Get(ctx, r, retry.Until(poll, func(j Job) bool { return j.Done }))
func Until[T any](fn func(context.Context) (T, error), ok func(T) bool) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		v, err := fn(ctx)
		if err == nil && !ok(v) {
			err = &UnmetError{Value: v}
		}
		return v, err
	}
}

// Unmet returns the value that [Until] did not accept last, if it is how a call
// ended: for a caller who takes it after all.
func Unmet[T any](err error) (v T, ok bool) {
	visit(err, func(err error) bool {
		if unmet, is := err.(*UnmetError); is {
			v, ok = unmet.Value.(T)
		}
		return ok
	})
	return v, ok
}

var errNilFunc = errors.New("retry: the function is nil")

// Plain reports whether a first attempt that succeeds leaves nothing to do but to
// return its value, so that a driver need not begin an operation for it.
func (p *Policy) Plain() bool {
	return p.Timeout == 0 && p.Deadline == 0 && p.Breaker == nil && p.Quota == nil && p.Observer == nil &&
		!p.Timed && !p.NumberAttempts
}

// call calls fn and makes an error of a panic.
func call[T any](ctx context.Context, fn func(context.Context) (T, error)) (v T, err error) {
	returned := false
	defer func() {
		if !returned {
			err = recovered(recover())
		}
	}()
	v, err = fn(ctx)
	returned = true
	return v, err
}

// recovered is the error of a panic, or nil after runtime.Goexit, which
// nothing stops.
func recovered(value any) error {
	if value == nil {
		return nil
	}
	return newPanicError(value)
}

// again goes on with a simple operation whose first attempt failed. A second
// attempt that follows at once and succeeds is the common end of it, and needs
// neither clock nor timer nor record.
func again[T any](ctx context.Context, p *Policy, fn func(context.Context) (T, error), failure error) (T, error) {
	if _, bounded := ctx.Deadline(); bounded {
		return driveFunc(ctx, p, fn, &start{failure: failure})
	}
	var second error
	if p.atOnce() && inspect(failure) == (traits{}) && ctx.Err() == nil {
		// What the machine would say is known.
		v, err := call(ctx, fn)
		if err == nil {
			return v, nil
		}
		second = err
	}
	m := Machine{policy: p}
	d := m.Next(failure, time.Time{})
	if second == nil && d.Action == ActionRetry && d.Delay == 0 && ctx.Err() == nil {
		v, err := call(ctx, fn)
		if err == nil {
			return v, nil
		}
		second = err
	}
	return driveFunc(ctx, p, fn, &start{failure: failure, state: m.state, decision: d, second: second})
}

// atOnce reports whether the policy retries every first failure that says
// nothing about itself at once.
func (p *Policy) atOnce() bool {
	b := &p.Backoff
	return p.Attempts != 1 && p.If == nil && p.AbortOn == nil && p.Rules == nil &&
		b.Initial == 0 && b.Strategy == nil && b.Jitter == backoff.None
}

// start is what was done of an operation before [drive] takes it over.
type start struct {
	failure error // of the first attempt

	// If state counts an attempt, a machine has seen that failure and made the
	// decision. If second is not nil, a second attempt followed at once and
	// failed with it.
	state    State
	decision Decision
	second   error
}

func driveFunc[T any](ctx context.Context, p *Policy, fn func(context.Context) (T, error), s *start) (T, error) {
	if fn == nil {
		var zero T
		return zero, errNilFunc
	}
	o := Operation{Policy: p}
	return drive(ctx, &o, func(ctx context.Context, _ int) (T, error) { return fn(ctx) }, s)
}
