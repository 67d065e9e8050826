package circuit

import (
	"context"
	"errors"
)

var (
	errNilFunc    = errors.New("circuit: the function is nil")
	errNilContext = errors.New("circuit: the context is nil")
	errUnmade     = errors.New("circuit: the breaker is nil or was not made; make it with New")
)

// Get calls fn through the breaker. It returns an *[OpenError] without calling
// fn, or what fn returns. Config.IgnoreIf and Config.FailureIf say whether an error is
// a failure; without them every error is one that is not marked with retry.Permanent.
// A call that its caller cancels says nothing about the target. A panic and
// runtime.Goexit are failures, and continue as if the breaker were not there. If ctx
// has ended before the call, fn is not called, and the error is the cause of ctx. A nil
// ctx, b or fn is an error too.
func Get[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	if !b.made() || fn == nil || ctx == nil || ctx.Err() != nil {
		return zero, notCalled(ctx, b, fn == nil)
	}
	ticket, err := b.driver.Admit()
	if err != nil {
		return zero, err
	}
	outcome, began := Failure, b.start() // Failure: of a panic or Goexit
	defer func() { b.driver.Answer(ticket, outcome, b.since(began)) }()
	v, err := fn(ctx)
	if err != nil && ctx.Err() == context.Canceled {
		outcome = Neutral
	} else {
		outcome = b.driver.Judge(err)
	}
	return v, err
}

// notCalled says why a function is not called.
func notCalled(ctx context.Context, b *Breaker, isNil bool) error {
	switch {
	case isNil:
		return errNilFunc
	case !b.made():
		return errUnmade
	case ctx == nil:
		return errNilContext
	}
	return context.Cause(ctx)
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, b *Breaker, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}
