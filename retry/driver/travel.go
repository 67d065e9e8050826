package driver

import (
	"context"
	"sync/atomic"
)

// retries are how many retries the operations under a context may still make.
type retries struct{ left atomic.Int64 }

type retriesKey struct{}

// WithRetries returns a context under which all operations together make at most
// n retries. A retry that would be one too many ends its operation with
// [ReasonQuota].
func WithRetries(ctx context.Context, n int) context.Context {
	r := new(retries)
	r.left.Store(int64(max(n, 0)))
	return context.WithValue(ctx, retriesKey{}, r)
}

// RetriesLeft returns how many retries the operations under ctx may still make,
// and whether [WithRetries] has bounded them.
func RetriesLeft(ctx context.Context) (n int, bounded bool) {
	r := retriesOf(ctx)
	if r == nil {
		return 0, false
	}
	return int(max(r.left.Load(), 0)), true
}

func retriesOf(ctx context.Context) *retries {
	r, _ := ctx.Value(retriesKey{}).(*retries)
	return r
}

// take takes one retry, if there is one.
func (r *retries) take() bool {
	for {
		left := r.left.Load()
		if left <= 0 {
			return false
		}
		if r.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}
