package driver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bide-dev/bide/circuit"
)

// Error says how an operation ended without success. retry.Get returns no other
// kind of error, except for a policy or a function that is not valid.
//
// errors.Is and errors.As find in it the sentinel of its reason ([Reason.Err]),
// [ErrExhausted] if the reason is one of those, what ended the
// operation (Cause), and the last error (Last). They do not find what earlier
// attempts died of; History has that. Of the last error of an operation that
// its caller ended they do not find reasons, context.Canceled and
// context.DeadlineExceeded: those would tell of the attempt, not of the end.
type Error struct {
	Reason Reason
	// Attempts is how many attempts were made, in earlier lives too.
	Attempts int
	// Last is the error of the last attempt, or the refusal of the breaker or
	// limit if there was no attempt. It is nil if the operation was cancelled
	// before the first.
	Last error
	// Cause is what ended the operation if that was not an attempt: the
	// context's error, joined with its cause, or the refusal.
	Cause error
	// History are the failed attempts in order: the first 4 and the last 12, so
	// that it does not grow without end. Those of
	// earlier lives are not in it.
	History []Attempt
	// Slept is the sum of the delays that were decided, in earlier lives too.
	Slept time.Duration
	// Elapsed is the time from the first reading of the clock to the end: from
	// the beginning if the operation is timed, otherwise from the first failure
	// (see Policy.Timed).
	Elapsed time.Duration
	// RetryAfter is the wait that the last error asked for, 0 if none,
	// negative if it asked for no retry.
	RetryAfter time.Duration
	// State is what to resume from, if the operation was interrupted.
	State State
}

// How many attempts Error.History keeps at most.
const (
	historyFirst = 4
	historyLast  = 12
)

// Attempt is one failed attempt.
type Attempt struct {
	// Number counts from 1.
	Number int
	// Start is when it began, and Duration how long it took; both are zero for
	// the first attempt of an operation that is not timed (see Policy.Timed).
	Start    time.Time
	Duration time.Duration
	// Delay is the wait that was decided after it, whether or not it came to
	// its end; 0 if none was.
	Delay time.Duration
	// Class is [Class] of the error, and Message its text.
	Class   string
	Message string
	Err     error
}

// Error says why the operation ended, after how many attempts, and with what
// last error; of one that its caller ended also the caller's cause.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Reason.text())
	if e.Attempts == 1 {
		text.WriteString(" after 1 attempt")
	} else {
		fmt.Fprintf(&text, " after %d attempts", e.Attempts)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&text, " (asked to retry after %v)", e.RetryAfter)
	}
	last := ""
	if e.Last != nil {
		last = message(e.Last)
	}
	for _, why := range []string{e.because(), last} {
		if why != "" {
			text.WriteString(": ")
			text.WriteString(why)
		}
	}
	return text.String()
}

// because is the caller's own word for why it ended the operation, if it gave
// one.
func (e *Error) because() string {
	if !e.Reason.byCaller() {
		return ""
	}
	joined, ok := e.Cause.(*ended)
	if !ok {
		return ""
	}
	return message(joined.cause)
}

// Is reports whether target is [ErrExhausted] and the reason is such an end.
func (e *Error) Is(target error) bool {
	return target == ErrExhausted && e.Reason.Exhausted()
}

// Unwrap returns the reason's sentinel, the cause, and the last error.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 3)
	for _, err := range []error{e.Reason.Err(), e.Cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	switch {
	case e.Last == nil:
	case e.Reason.byCaller():
		all = append(all, lastError{e.Last})
	default:
		all = append(all, e.Last)
	}
	return all
}

// lastError is the last error of an operation that its caller ended. What it
// says about the end of an attempt, or of an operation within, is not said of
// this one.
type lastError struct{ err error }

func (e lastError) Error() string { return message(e.err) }

// As finds what errors.As finds in the error.
func (e lastError) As(target any) bool { return errors.As(e.err, target) }

// Is finds what errors.Is finds in the error, except ends.
func (e lastError) Is(target error) bool {
	if target == ErrExhausted || target == context.Canceled || target == context.DeadlineExceeded {
		return false
	}
	for _, r := range reasons {
		if target == r.sentinel && target != circuit.ErrOpen {
			return false
		}
	}
	return errors.Is(e.err, target)
}

// ended is the end of a context with a cause of its own.
type ended struct{ err, cause error }

func (e *ended) Error() string   { return e.err.Error() + ": " + message(e.cause) }
func (e *ended) Unwrap() []error { return []error{e.err, e.cause} }

// endOf returns the error of a context that has ended, with its cause.
func endOf(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return &ended{err, cause}
	}
	return err
}

// message is the text of an error, and of one whose Error method panics, as
// that of a nil pointer may, what fmt makes of it: fmt would copy each of them.
func message(err error) (text string) {
	returned := false
	defer func() {
		if !returned && recover() != nil {
			text = fmt.Sprint(err)
		}
	}()
	if err == nil {
		text = "<nil>"
	} else {
		text = err.Error()
	}
	returned = true
	return text
}

// GoexitError is an attempt that ended its goroutine with runtime.Goexit, as
// the FailNow of a test does. It is told to breakers and observers as a
// failure; nobody can keep the goroutine, and with it the operation, from
// ending.
type GoexitError struct {
	// Stack is the stack of the goroutine at the call.
	Stack []byte
}

// Error says what happened, without the stack.
func (e *GoexitError) Error() string { return "the attempt called runtime.Goexit" }

// PanicError is a panic in an attempt, which counts as its failure.
type PanicError struct {
	// Value is what the function panicked with.
	Value any
	// Stack is the stack of the goroutine at the panic.
	Stack []byte
}

// Recovered returns the error of what recover gave to a function that was to
// return and did not: a *[PanicError], or a *[GoexitError] where there was no
// panic. It is called where recover was, so that the stack is that of the panic.
func Recovered(value any) error {
	if value == nil {
		return &GoexitError{Stack: debug.Stack()}
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// Error says what the function panicked with, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError is the failure of an attempt that exceeded Policy.Timeout, or of
// one that was an operation of its own and saw that it would.
// errors.Is finds context.DeadlineExceeded in it, and what the function
// returned.
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
	if inner, ok := e.Err.(*Error); ok && inner.Reason == ReasonCallerDeadline {
		return fmt.Sprintf("attempt would take longer than its timeout of %v: %s", e.Limit, message(e.Err))
	}
	return fmt.Sprintf("attempt timed out after %v: %s", e.Limit, message(e.Err))
}

// Is reports whether target is context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Unwrap returns what the function returned.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }
