// Package permanent has the marks of errors after which no attempt follows, which
// retries and breakers know.
package permanent

import "errors"

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

// Neutral reports whether an error by itself, without those that it wraps, is marked
// as one that says nothing about its target.
func Neutral(err error) bool {
	e, ok := err.(*Error)
	return ok && !e.Counts
}

// In reports whether Neutral holds for an error or one that it wraps.
func In(err error) bool {
	for {
		var e *Error
		if !errors.As(err, &e) {
			return false
		}
		if !e.Counts {
			return true
		}
		err = e.Err
	}
}
