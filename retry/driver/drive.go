package driver

import (
	"context"
	"errors"
	"time"

	"github.com/bide-dev/bide/circuit"
)

// Operation is an operation as [Drive] takes it: a policy, and what is
// otherwise taken from the surroundings. Only Policy must be set. An Operation
// is for one use.
type Operation struct {
	// Policy is taken to be valid, and not changed.
	Policy *Policy

	// State is what to continue from: the Event.State or Error.State of an
	// interrupted operation under the same policy. The zero State begins again.
	State State

	// Last is the error of the last attempt before State, for the end of an
	// operation that makes no further one; nil if it is not known.
	Last error

	// First is what the first attempt has failed with, if the caller has made
	// that itself, as a fast path may; nil if it is still to be made. Nobody was
	// admitted for it, and the observers are told of its failure alone.
	First error

	// Judge, if not nil, says of the error of an attempt that returned, nil if it
	// succeeded, what it means for its target, in place of End's own rules and of
	// Policy.Breaker's.
	Judge func(error) circuit.Outcome

	// Clock is where the time comes from; nil means the machine's.
	Clock Clock

	// Soft, if not nil, interrupts the operation when it ends: a wait ends at
	// once and no further attempt is begun, but one that runs is let to its end,
	// and counts. The end has the reason [ReasonInterrupted] and the cause of
	// Soft.
	Soft context.Context

	// SoftKnown says that the waits of Admission end by themselves when Soft does.
	// Otherwise they get a context that ends with both.
	SoftKnown bool

	// Admission, if not nil, is asked before each attempt.
	Admission Admission

	// Observer, if not nil, is told what Policy.Observer is told, after it.
	Observer Observer

	// Unguarded lets a panic of the function continue as the caller's own, in place
	// of a failed attempt.
	Unguarded bool
}

// Clock is the time that an operation runs in, and a limit of package limit. It is
// asked only where the time matters, is safe for as many goroutines as use it, and is
// comparable, as a pointer is.
//
// A clock with a method WithTimeout, of the type of context.WithTimeoutCause,
// also makes the contexts that Policy.Timeout and Policy.Deadline end; for any
// other they end in the machine's time.
type Clock interface {
	// Now returns the time, which never goes back.
	Now() time.Time
	// Wait returns nil after d, or as soon as ready gives a value, which it takes,
	// or is closed; or the cause of ctx where that ends first. d less than 0 is no
	// bound, and ready may be nil.
	Wait(ctx context.Context, d time.Duration, ready <-chan struct{}) error
}

// Admission lets the attempts of one operation begin. It is asked and answered
// by that operation alone, in turn, and so may keep what it has taken.
type Admission interface {
	// Admit returns nil when the attempt of that number may begin. It asks what
	// may refuse, such as a breaker, before it waits for anything, and takes all
	// that it takes together. If it is to wait it calls queued first, unless
	// that is nil, with what it waits for and for how long, 0 if that is not
	// known. Its wait ends with ctx.
	//
	// With an error it holds nothing. Unless ctx has ended, the error is a
	// refusal: of a breaker if it carries a *circuit.OpenError, otherwise of a
	// limit.
	Admit(ctx context.Context, attempt int, queued func(Source, time.Duration)) error

	// Done gives back what the last Admit has taken, once, however the attempt
	// ended.
	Done(End)
}

// End is how an attempt ended.
type End struct {
	// Outcome is what the attempt says about its target: Neutral if it was
	// cancelled or never began, and if its error is retry.Permanent.
	Outcome circuit.Outcome
	// Err is its error, nil if it succeeded.
	Err error
	// Took is how long it took, 0 if the operation is not timed.
	Took time.Duration
}

var (
	errNilFunc    = errors.New("retry: the function is nil")
	errNilContext = errors.New("retry: the context is nil")
)

// errTorn stands for a panic that is not recovered, or the end of a goroutine.
var errTorn = errors.New("retry: the attempt panicked, or ended its goroutine")

// Drive brings an operation to its end, as retry.Get does, which is Drive with a
// policy alone ([Run]). fn also gets the number of the attempt, which keeps counting
// after a resume. The error is an *[Error],
// or one that says that ctx or fn is nil.
//
// The order before an attempt is: the operation's own end (ctx, the deadline of
// the policy, Soft), Policy.Breaker, Admission, AttemptStarted. The attempt's
// timeout begins after that.
func Drive[T any](ctx context.Context, o *Operation, fn func(ctx context.Context, attempt int) (T, error)) (T, error) {
	if fn == nil || ctx == nil {
		var zero T
		return zero, notCalled(fn == nil)
	}
	if o.First != nil {
		return drive(ctx, o, fn, &start{failure: o.First})
	}
	if o.plain() && ctx.Err() == nil && (o.Soft == nil || o.Soft.Err() == nil) {
		v, err := callNumbered(ctx, fn)
		if err == nil {
			return v, nil
		}
		return drive(ctx, o, fn, &start{failure: err})
	}
	return drive(ctx, o, fn, nil)
}

// notCalled says why a function is not called: it is nil, or its context is.
func notCalled(isNil bool) error {
	if isNil {
		return errNilFunc
	}
	return errNilContext
}

// plain reports whether a first attempt that succeeds leaves nothing to do but
// to return its value: by way of an operation it takes six times as long (38 ns and
// 225 ns, the least of six).
func (o *Operation) plain() bool {
	return o.Policy.Plain() && !o.Unguarded && o.Admission == nil && o.Observer == nil && o.State.Attempt == 0 && o.State.Began.IsZero()
}

// callNumbered is call for the function of Drive.
func callNumbered[T any](ctx context.Context, fn func(context.Context, int) (T, error)) (v T, err error) {
	returned := false
	defer func() {
		if !returned {
			err = Recovered(recover())
		}
	}()
	v, err = fn(ctx, 1)
	returned = true
	return v, err
}

// drive makes the attempts and the waits; s is nil if there was no attempt
// yet.
func drive[T any](ctx context.Context, o *Operation, fn func(context.Context, int) (T, error), s *start) (T, error) {
	var op operation
	defer op.end()
	more := op.begin(ctx, o, s)
	for more && op.admit() {
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

// attempt makes one attempt. However fn ends, its context is ended and what
// its admission has taken is given back.
func attempt[T any](op *operation, fn func(context.Context, int) (T, error)) (v T, err error) {
	ctx := op.open()
	at := preparing
	defer func() {
		if at == calling {
			if op.Unguarded {
				op.torn(ctx, errTorn)
				return
			}
			value := recover()
			if err = Recovered(value); value == nil {
				op.torn(ctx, err)
				return
			}
			at = returned
		}
		err = op.close(ctx, at, err)
	}()
	op.tellStarted()
	at = calling
	v, err = fn(ctx, op.number())
	at = returned
	if op.Judge != nil {
		op.judged = op.Judge(err)
	}
	return v, err
}
