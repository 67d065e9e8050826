package retry

import (
	"context"
	"errors"
	"iter"
)

// Try is one attempt of the loop of [Attempts].
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

// Attempts is [Do] without a closure: a loop whose body is an attempt.
//
//	var page Page
//	var err error
//	for a := range retry.Attempts(ctx, policy) {
//		page, err = fetch(a.Context(), url)
//		a.End(&err)
//	}
//	if err != nil {
//		return err // an *Error
//	}
//
// The body calls [Try.End] each time, or leaves the loop, which is success. A
// panic in it is the caller's own and not retried. If no attempt may be made at
// all, since ctx has ended or the policy is not valid, the body runs once with a
// context that has ended already, so that err is not nil after the loop. A
// policy's Until cannot be asked about a loop and is an error.
func Attempts(ctx context.Context, p Policy) iter.Seq[*Try] {
	return func(yield func(*Try) bool) {
		err := p.Validate()
		if err == nil && p.Until != nil {
			err = errors.New("retry: a loop has no value for Until")
		}
		var last *Try
		left := false
		if err != nil {
			err = invalid(err)
		} else {
			o := Operation{Policy: &p, unguarded: true}
			_, err = Drive(ctx, &o, func(ctx context.Context, number int) (struct{}, error) {
				last = &Try{ctx: ctx, number: number}
				if !yield(last) {
					left = true
					return struct{}{}, nil
				}
				if !last.ended {
					panic("retry: the body of a loop over Attempts did not call End")
				}
				return struct{}{}, last.err
			})
		}
		if err == nil || left {
			return
		}
		if last == nil {
			over, end := context.WithCancelCause(ctx)
			end(err)
			last = &Try{ctx: over}
			if !yield(last) {
				return
			}
		}
		if last.result != nil {
			*last.result = err
		}
	}
}
