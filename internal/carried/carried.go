// Package carried is what travels in the context of an attempt: its number, and how
// many retries all that is done with the context may still make.
package carried

import (
	"context"
	"sync/atomic"
)

// numbered is the context of an attempt that knows its number.
type numbered struct {
	context.Context
	number int
}

type numberKey struct{}

func (c *numbered) Value(key any) any {
	if key == (numberKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// WithNumber returns a context in which [Number] finds the number of the attempt.
func WithNumber(ctx context.Context, number int) context.Context { return &numbered{ctx, number} }

// Number returns the number of the innermost attempt that the context belongs to, or 0.
func Number(ctx context.Context) int {
	if c, ok := ctx.Value(numberKey{}).(*numbered); ok {
		return c.number
	}
	return 0
}

// Retries are how many retries may still be made.
type Retries struct {
	left  atomic.Int64
	outer *Retries // those of the context around it, which are used up too; or nil
}

type retriesKey struct{}

// WithRetries returns a context under which all operations together make at most n
// retries, which count among those of ctx if that has a bound.
func WithRetries(ctx context.Context, n int) context.Context {
	r := &Retries{outer: RetriesOf(ctx)}
	r.left.Store(int64(max(n, 0)))
	return context.WithValue(ctx, retriesKey{}, r)
}

// RetriesOf returns the retries of a context, or nil if it does not bound them.
func RetriesOf(ctx context.Context) *Retries {
	r, _ := ctx.Value(retriesKey{}).(*Retries)
	return r
}

// Left returns how many there are.
func (r *Retries) Left() int {
	left := r.left.Load()
	for outer := r.outer; outer != nil; outer = outer.outer {
		left = min(left, outer.left.Load())
	}
	return int(left)
}

// Take takes one of each bound, if all have one.
func (r *Retries) Take() bool {
	if !r.take() {
		return false
	}
	if r.outer != nil && !r.outer.Take() {
		r.left.Add(1)
		return false
	}
	return true
}

func (r *Retries) take() bool {
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
