// Package permanent has the marks of errors after which no attempt follows, which
// retries and breakers know.
package permanent

import "reflect"

// Error marks an error, without a change of its text.
type Error struct {
	Err    error
	Counts bool // as a failure of the target, which its breaker counts
}

// Error is that of the marked one.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the marked one.
func (e *Error) Unwrap() error { return e.Err }

// Mark marks what says nothing about its target: another attempt would be answered
// alike. Mark(nil) is nil.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Err: err}
}

// Final marks what must not be done twice, and is a failure of its target. Final(nil)
// is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Err: err, Counts: true}
}

// In reports whether an error, or one that it wraps, is marked as one that says nothing
// about its target.
func In(err error) bool {
	left := maxNodes
	return in(err, &left)
}

// maxNodes ends the walk through an error that wraps itself.
const maxNodes = 1000

func in(err error, left *int) bool {
	for ; err != nil && *left > 0; *left-- {
		if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
			return false // its methods may panic
		}
		switch e := err.(type) {
		case *Error:
			if !e.Counts {
				return true
			}
			err = e.Err
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				*left--
				if in(err, left) {
					return true
				}
			}
			return false
		case interface{ As(any) bool }: // one that shows what it wraps in no other way
			var marked *Error
			if !e.As(&marked) {
				return false
			}
			err = marked
		default:
			return false
		}
	}
	return false
}
