// Package retry brings an operation that may fail for a while to its end.
//
//	policy := retry.Policy{
//		Attempts: 5,
//		Backoff:  backoff.Schedule{Initial: 100 * time.Millisecond, Jitter: backoff.Full},
//		Budget:   time.Minute,
//		RetryOn:  retry.Any(retry.Network, retry.Timeout),
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
// The decisions are made by [Machine], which is pure: no clock, no sleep. Do
// drives it on the real clock, and other drivers may on theirs.
//
// Operations nest, and then their attempts multiply: 3 attempts around 4 are
// 12. Nothing is changed behind the caller's back; retry at one level, and let
// an inner function ask [AttemptFrom] whether it is being retried already.
package retry

import (
	"context"
	"fmt"
	"time"
)

// Func is an operation. It should end soon after its context does.
type Func[T any] = func(context.Context) (T, error)

// Do calls fn as the policy says and returns what the successful attempt
// returned. Otherwise the value is zero and the error an *[Error], or that of
// Policy.Validate, before any attempt, if the policy is not valid.
//
// The context that fn gets ends when fn returns, if the policy has a timeout.
func Do[T any](ctx context.Context, p Policy, fn Func[T]) (T, error) {
	if err := p.Validate(); err != nil {
		var zero T
		return zero, invalid(err)
	}
	if !p.simple() || ctx.Err() != nil {
		kept := p // p itself stays off the heap, for the calls that succeed
		return drive(ctx, &kept, fn, nil)
	}
	began := p.clock()
	v, err := call(ctx, &p, fn)
	if err == nil {
		return v, nil
	}
	kept := p
	return again(ctx, &kept, fn, began, err)
}

// Retrier is a policy that has been checked once, for use many times. It does
// the same as [Do], faster, and is safe for concurrent use.
type Retrier struct {
	policy Policy
	simple bool
	bare   bool // simple, Unguarded and Untimed: a first attempt is a plain call
}

// New returns the retrier of a policy, or the error of Policy.Validate.
func New(p Policy) (*Retrier, error) {
	if err := p.Validate(); err != nil {
		return nil, invalid(err)
	}
	return &Retrier{policy: p, simple: p.simple(), bare: p.simple() && p.Unguarded && p.Untimed}, nil
}

// Policy returns a copy of the retrier's policy.
func (r *Retrier) Policy() Policy { return r.policy }

// Run is [Do] with the policy of r.
func Run[T any](ctx context.Context, r *Retrier, fn Func[T]) (T, error) {
	if r.bare && ctx.Err() == nil {
		v, err := fn(ctx)
		if err == nil {
			return v, nil
		}
		return again(ctx, &r.policy, fn, 0, err)
	}
	if !r.simple || ctx.Err() != nil {
		return drive(ctx, &r.policy, fn, nil)
	}
	began := r.policy.clock()
	v, err := call(ctx, &r.policy, fn)
	if err == nil {
		return v, nil
	}
	return again(ctx, &r.policy, fn, began, err)
}

func invalid(err error) error { return fmt.Errorf("retry: the policy is not valid: %w", err) }

// simple reports whether a first attempt that succeeds leaves nothing to do
// but to return its value.
func (p *Policy) simple() bool {
	return p.Timeout == 0 && p.Breaker == nil && p.Quota == nil && p.Observer == nil && !p.NumberAttempts
}

// clock returns the time since epoch if the policy wants to know it.
func (p *Policy) clock() time.Duration {
	if p.Untimed {
		return 0
	}
	return time.Since(epoch)
}

// call calls fn, guarded unless the policy says otherwise.
func call[T any](ctx context.Context, p *Policy, fn Func[T]) (T, error) {
	if p.Unguarded {
		return fn(ctx)
	}
	return guard(ctx, fn)
}

// guard calls fn and makes an error of a panic.
func guard[T any](ctx context.Context, fn Func[T]) (v T, err error) {
	returned := false
	defer func() {
		if !returned {
			if value := recover(); value != nil { // nil: runtime.Goexit
				err = newPanicError(value)
			}
		}
	}()
	v, err = fn(ctx)
	returned = true
	return v, err
}

// again goes on with a simple operation whose first attempt, begun at began,
// failed. A second attempt that follows at once and succeeds is the common end
// of it, and needs neither clock nor timer nor record.
func again[T any](ctx context.Context, p *Policy, fn Func[T], began time.Duration, failure error) (T, error) {
	if !p.Untimed {
		return drive(ctx, p, fn, &start{began: began, failure: failure})
	}
	if _, bounded := ctx.Deadline(); bounded {
		return drive(ctx, p, fn, &start{failure: failure})
	}
	m := Machine{policy: p}
	d := m.Next(failure, time.Time{})
	var second error
	if d.Action == Retry && d.Delay == 0 && ctx.Err() == nil {
		v, err := call(ctx, p, fn)
		if err == nil {
			return v, nil
		}
		second = err
	}
	return drive(ctx, p, fn, &start{failure: failure, state: m.state, decision: d, second: second})
}

// start is what was done of an operation before [drive] takes it over.
type start struct {
	began   time.Duration // when it began, since epoch
	failure error         // of the first attempt

	// If state counts an attempt, a machine has seen that failure and made the
	// decision. If second is not nil, a second attempt followed at once and
	// failed with it.
	state    State
	decision Decision
	second   error
}

// drive makes the attempts and the waits; s is nil if there was no attempt
// yet.
func drive[T any](ctx context.Context, p *Policy, fn Func[T], s *start) (T, error) {
	var op operation
	more := op.begin(ctx, p, s)
	for more && op.admitted() {
		v, err := attempt(&op, fn)
		if err == nil {
			op.succeeded()
			return v, nil
		}
		more = op.failed(err)
	}
	var zero T
	return zero, op.failure()
}

// attempt makes one attempt. However fn ends, its context is ended and the
// breaker's permit answered.
func attempt[T any](op *operation, fn Func[T]) (v T, err error) {
	ctx := op.open()
	at := preparing
	defer func() {
		if at == calling && !op.policy.Unguarded {
			if value := recover(); value != nil { // nil: runtime.Goexit
				err = newPanicError(value)
			}
		}
		err = op.close(ctx, at, err)
	}()
	op.tellStarted()
	at = calling
	v, err = fn(ctx)
	at = returned
	return v, err
}
