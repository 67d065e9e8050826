package driver

import "context"

// numbered is the context of an attempt that knows its number.
type numbered struct {
	context.Context
	attempt int
}

type numberedKey struct{}

func (c *numbered) Value(key any) any {
	if key == (numberedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// WithAttempt returns a context in which [AttemptFrom] finds the number: for who
// makes attempts of a kind of his own inside of one, or without [Drive].
func WithAttempt(ctx context.Context, number int) context.Context {
	return &numbered{ctx, number}
}

// AttemptFrom returns the number of the attempt that the context belongs to,
// from 1, or 0 if it belongs to none of a policy with NumberAttempts and nobody
// has given it one with [WithAttempt]. Of nested
// operations it is the innermost.
func AttemptFrom(ctx context.Context) int {
	if c, ok := ctx.Value(numberedKey{}).(*numbered); ok {
		return c.attempt
	}
	return 0
}
