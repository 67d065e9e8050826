package limit

import (
	"context"
	"errors"
	"time"

	"github.com/bide-dev/bide/retry"
)

var (
	errNilFunc    = errors.New("limit: the function is nil")
	errNilContext = errors.New("limit: the context is nil")
	errUnmade     = errors.New("limit: a limit is nil or was not made; make it with New")
)

// Get waits until the limit lets it begin, calls fn, and returns what fn returns.
// The error is an *[Error] if the limit refuses, or the cause of ctx if that has ended
// or ends while it waits; fn is not called then. What fn holds is given back however it
// ends, by a panic too. For more than one limit at once there is guard.Get, which
// takes them together. A nil ctx, l or fn is an error.
func Get[T any](ctx context.Context, l *Limit, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	if fn == nil {
		return zero, errNilFunc
	}
	if err := l.acquire(ctx); err != nil {
		return zero, err
	}
	if l.learns() {
		return timed(ctx, l, fn)
	}
	defer l.release()
	return fn(ctx)
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, l *Limit, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

func (l *Limit) acquire(ctx context.Context) error {
	if err := l.made(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l.take() {
		return nil
	}
	return Set{l}.Acquire(ctx, Request{Priority: PriorityFrom(ctx)})
}

// timed calls fn and tells a limit that learns how it went.
func timed[T any](ctx context.Context, l *Limit, fn func(context.Context) (T, error)) (T, error) {
	began := l.now()
	result := Result{Ignore: true} // of a panic or Goexit
	defer func() { l.learn(result) }()
	v, err := fn(ctx)
	result = Result{
		Took:   time.Duration(l.now() - began),
		Err:    err,
		Ignore: ctx.Err() == context.Canceled || retry.IsPermanent(err),
	}
	return v, err
}

type priorityKey struct{}

// WithPriority returns a context whose calls are let through by limits before
// those of a smaller number, which is 0 for all others.
func WithPriority(ctx context.Context, priority int) context.Context {
	return context.WithValue(ctx, priorityKey{}, priority)
}

// PriorityFrom returns the priority of the calls of a context.
func PriorityFrom(ctx context.Context) int {
	p, _ := ctx.Value(priorityKey{}).(int)
	return p
}
