package retry

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// Error says how an operation ended without success. [Do] returns no other
// kind of error, except for a policy that is not valid.
//
// errors.Is and errors.As find in it the sentinel of its reason ([ErrAttempts],
// [ErrBudget], …), [ErrExhausted] if the reason is one of those, the last
// error, the error of every attempt in History, the refusal by a breaker, and
// on cancellation the error and the cause of the context.
type Error struct {
	Reason Reason
	// Attempts is how many attempts were made.
	Attempts int
	// Last is the error of the last attempt, or the refusal of the breaker if
	// there was no attempt. It is nil if the operation was cancelled before
	// the first.
	Last error
	// Cause is what ended the operation if that was not an attempt: the
	// context's error, joined with its cause, or the refusal of the breaker.
	Cause error
	// History are the failed attempts in order: the first [HistoryFirst] and
	// the last [HistoryLast], so that it does not grow without end.
	History []Attempt
	// Slept is the sum of the delays that were decided.
	Slept time.Duration
	// Elapsed is the time from the beginning to the end; 0 if the policy is
	// Untimed.
	Elapsed time.Duration
	// RetryAfter is the wait that the last error asked for, 0 if none,
	// negative if it asked for no retry.
	RetryAfter time.Duration
}

// How many attempts [Error].History keeps at most.
const (
	HistoryFirst = 4
	HistoryLast  = 12
)

// Attempt is one failed attempt.
type Attempt struct {
	// Number counts from 1.
	Number int
	// Start is when it began, and Duration how long it took; both are zero if
	// the policy is Untimed.
	Start    time.Time
	Duration time.Duration
	// Delay is the wait that was decided after it, 0 after the last.
	Delay time.Duration
	// Class is [Class] of the error, and Message its text.
	Class   string
	Message string
	Err     error
}

// Error says why the operation ended, after how many attempts, and with what
// last error.
func (e *Error) Error() string {
	var text strings.Builder
	switch {
	case e.Reason.Err() != nil:
		text.WriteString(e.Reason.Err().Error())
	default:
		text.WriteString(e.Reason.String())
	}
	if e.Attempts == 1 {
		text.WriteString(" after 1 attempt")
	} else {
		fmt.Fprintf(&text, " after %d attempts", e.Attempts)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&text, " (asked to retry after %v)", e.RetryAfter)
	}
	if e.Last != nil {
		text.WriteString(": ")
		text.WriteString(e.Last.Error())
	}
	return text.String()
}

// Is reports whether target is [ErrExhausted] and the reason is such an end.
func (e *Error) Is(target error) bool {
	return target == ErrExhausted && e.Reason.Exhausted()
}

// Unwrap returns the reason's sentinel, the last error, the cause, and the
// errors of the attempts in History.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 3+len(e.History))
	for _, err := range []error{e.Reason.Err(), e.Last, e.Cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	for i := range e.History {
		if err := e.History[i].Err; err != nil {
			all = append(all, err)
		}
	}
	return all
}

// PanicError is a panic in an attempt, which counts as its failure.
type PanicError struct {
	// Value is what the function panicked with.
	Value any
	// Stack is the stack of the goroutine at the panic.
	Stack []byte
}

func newPanicError(value any) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// Error says what the function panicked with, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError is the failure of an attempt that exceeded Policy.Timeout. It is
// also a context.DeadlineExceeded.
type TimeoutError struct {
	// Limit is the timeout.
	Limit time.Duration
	// Err is what the function returned.
	Err error
}

// Error says how long the attempt was allowed to take.
func (e *TimeoutError) Error() string {
	if e.Err == nil || e.Err == context.DeadlineExceeded { // which says nothing more
		return fmt.Sprintf("attempt timed out after %v", e.Limit)
	}
	return fmt.Sprintf("attempt timed out after %v: %v", e.Limit, e.Err)
}

// Unwrap returns what the function returned.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }
