package retry

import (
	"context"
	"iter"

	"github.com/bide-dev/bide/retry/driver"
)

// Try is one attempt of a [Loop].
type Try struct {
	ctx    context.Context
	number int
	ended  bool
	err    error
	result *error
}

// Context returns the context of the attempt. It ends with the attempt.
func (t *Try) Context() context.Context { return t.ctx }

// Number returns the number of the attempt, from 1; 0 if none may be made.
func (t *Try) Number() int { return t.number }

// End says what the attempt came to: nil is success, and anything else its
// failure. If no further attempt follows, *err becomes the *[Error] of the
// operation when the loop ends.
func (t *Try) End(err *error) { t.ended, t.err, t.result = true, *err, err }

// Loop is [Do] without a closure: a loop whose body is an attempt.
//
//	var page Page
//	var err error
//	for a := range retry.Loop(ctx, r) {
//		page, err = fetch(a.Context(), url)
//		a.End(&err)
//	}
//	if err != nil {
//		return err // an *Error
//	}
//
// The body calls [Try.End] each time, or leaves the loop, which is success. A
// panic in it is the caller's own and not retried. If no attempt may be made at
// all, since ctx has ended, a breaker refuses, or ctx or r is nil, the body runs once with a
// context that has ended already, so that err is not nil after the loop.
func Loop(ctx context.Context, r *Retrier) iter.Seq[*Try] {
	return func(yield func(*Try) bool) {
		if r == nil || ctx == nil {
			instead(context.Background(), notCalled(r), yield)
			return
		}
		var last *Try
		left := false
		o := driver.Operation{Policy: &r.policy, Unguarded: true}
		_, err := driver.Drive(ctx, &o, func(ctx context.Context, number int) (struct{}, error) {
			last = &Try{ctx: ctx, number: number}
			if !yield(last) {
				left = true
				return struct{}{}, nil
			}
			if !last.ended {
				panic("retry: the body of a Loop did not call End")
			}
			return struct{}{}, last.err
		})
		if err == nil || left {
			return
		}
		if last == nil {
			instead(ctx, err, yield)
		} else if last.result != nil {
			*last.result = err
		}
	}
}

// instead runs the body in place of a first attempt that may not be made.
func instead(ctx context.Context, err error, yield func(*Try) bool) {
	over, end := context.WithCancelCause(ctx)
	end(err)
	t := &Try{ctx: over}
	if yield(t) && t.result != nil {
		*t.result = err
	}
}
