package retry

import (
	"context"
	"errors"
)

// DoFallback is [Do] with something to do instead if the operation fails in
// the end ([Reason.Exhausted]): fallback is called once, with the error of the
// operation, and degraded reports that its value took the operation's place.
//
// If the fallback fails too, or panics, the error is both errors, the
// operation's first. After a cancellation, and at the deadline of ctx, there is
// no fallback.
//
// Of the three things a workflow may do on failure this is `fallback`. The
// other two, `stop` and `continue`, are for the caller of Do to choose: to
// return its error, or to note it and go on.
func DoFallback[T any](ctx context.Context, p Policy, fn Func[T], fallback func(context.Context, error) (T, error)) (v T, degraded bool, err error) {
	v, err = Do(ctx, p, fn)
	return WithFallback(ctx, v, err, fallback)
}

// WithFallback is the second half of [DoFallback], for what [Do] or [Run] has
// returned. Only an [Error] whose reason is [Reason.Exhausted] calls the
// fallback.
func WithFallback[T any](ctx context.Context, v T, err error, fallback func(context.Context, error) (T, error)) (result T, degraded bool, _ error) {
	var ended *Error // the outermost: an attempt may have failed with one too
	if !errors.As(err, &ended) || !ended.Reason.Exhausted() || ctx.Err() != nil {
		return v, false, err
	}
	result, failure := call(ctx, func(ctx context.Context) (T, error) { return fallback(ctx, err) })
	if failure != nil {
		var zero T
		return zero, false, errors.Join(err, failure)
	}
	return result, true, nil
}
