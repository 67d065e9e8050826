package retry_test

import (
	"context"
	"iter"

	"github.com/bide-dev/bide/retry"
)

// get is retry.Get with a policy that is checked for this call.
func get[T any](ctx context.Context, p retry.Policy, fn func(context.Context) (T, error)) (T, error) {
	r, err := retry.New(p)
	if err != nil {
		var zero T
		return zero, err
	}
	return retry.Get(ctx, r, fn)
}

// loop is retry.Loop with a policy that is valid.
func loop(ctx context.Context, p retry.Policy) iter.Seq[*retry.Try] {
	return retry.Loop(ctx, retry.Must(retry.New(p)))
}
