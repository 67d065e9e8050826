package circuit

import (
	"context"
	"errors"
)

var errNilFunc = errors.New("circuit: the function is nil")

// Get calls fn through the breaker. It returns an *[OpenError] without calling
// fn, or what fn returns. Config.IgnoreIf and Config.FailureIf say whether an error is
// a failure, except that one that wraps context.Canceled counts as neutral. A panic
// and runtime.Goexit are failures, and continue as if the breaker were not there.
// The breaker does not look at ctx, it only passes it on.
func Get[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	if fn == nil {
		return zero, errNilFunc
	}
	ticket, err := b.driver.Admit()
	if err != nil {
		return zero, err
	}
	outcome, began := Failure, b.start() // Failure: of a panic or Goexit
	defer func() { b.driver.Answer(ticket, outcome, b.since(began)) }()
	v, err := fn(ctx)
	if err != nil && errors.Is(err, context.Canceled) {
		outcome = Neutral
	} else {
		outcome = b.driver.Judge(err)
	}
	return v, err
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, b *Breaker, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}
