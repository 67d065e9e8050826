// Package retry brings an operation that may fail for a while to its end.
//
//	policy := retry.Policy{
//		Attempts: 5,
//		Backoff:  backoff.Schedule{Initial: 100 * time.Millisecond, Jitter: backoff.Full},
//		Budget:   time.Minute,
//		If:       retry.Transient,
//	}
//	page, err := retry.Do(ctx, policy, func(ctx context.Context) (Page, error) {
//		return fetch(ctx, url)
//	})
//
// [Do] calls the function until it succeeds or something says stop: the
// attempts, the time budget, an error that is not to be retried, a circuit
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
// [Drive] is the one driver of it. Do is Drive with a policy alone; whoever
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

// Func is an operation. It should end soon after its context does.
type Func[T any] = func(context.Context) (T, error)

// Do calls fn as the policy says and returns what the successful attempt
// returned. Otherwise the value is zero and the error an *[Error], or, before
// any attempt, that of Policy.Validate if the policy is not valid, or one that
// says that fn is nil.
//
// The context that fn gets ends when fn returns, if the policy has a timeout or
// a deadline.
func Do[T any](ctx context.Context, p Policy, fn Func[T]) (T, error) {
	if err := p.Validate(); err != nil {
		var zero T
		return zero, invalid(err)
	}
	if !p.Plain() || fn == nil || ctx.Err() != nil {
		kept := p // p itself stays off the heap, for the calls that succeed
		return driveFunc(ctx, &kept, fn, nil)
	}
	v, err := call(ctx, fn)
	if err == nil {
		return v, nil
	}
	kept := p
	return again(ctx, &kept, fn, err)
}

// Retrier is a policy that has been checked once, for use many times. It does
// the same as [Do], faster, and is safe for concurrent use.
type Retrier struct {
	policy Policy
	simple bool
}

// New returns the retrier of a policy, or the error of Policy.Validate.
func New(p Policy) (*Retrier, error) {
	if err := p.Validate(); err != nil {
		return nil, invalid(err)
	}
	return &Retrier{policy: p, simple: p.Plain()}, nil
}

// Policy returns a copy of the retrier's policy.
func (r *Retrier) Policy() Policy { return r.policy }

// Run is [Do] with the policy of r.
func Run[T any](ctx context.Context, r *Retrier, fn Func[T]) (T, error) {
	if !r.simple || fn == nil || ctx.Err() != nil {
		return driveFunc(ctx, &r.policy, fn, nil)
	}
	v, err := call(ctx, fn)
	if err == nil {
		return v, nil
	}
	return again(ctx, &r.policy, fn, err)
}

func invalid(err error) error { return fmt.Errorf("retry: the policy is not valid: %w", err) }

var errNilFunc = errors.New("retry: the function is nil")

// Plain reports whether a first attempt that succeeds leaves nothing to do but to
// return its value, so that a driver need not begin an operation for it.
func (p *Policy) Plain() bool {
	return p.Timeout == 0 && p.Deadline == 0 && p.Breaker == nil && p.Quota == nil && p.Observer == nil &&
		p.Until == nil && !p.Timed && !p.NumberAttempts
}

// call calls fn and makes an error of a panic.
func call[T any](ctx context.Context, fn Func[T]) (v T, err error) {
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
func again[T any](ctx context.Context, p *Policy, fn Func[T], failure error) (T, error) {
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

func driveFunc[T any](ctx context.Context, p *Policy, fn Func[T], s *start) (T, error) {
	if fn == nil {
		var zero T
		return zero, errNilFunc
	}
	o := Operation{Policy: p}
	return drive(ctx, &o, func(ctx context.Context, _ int) (T, error) { return fn(ctx) }, s)
}
