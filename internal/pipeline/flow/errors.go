package flow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Error is a run that failed. Each failure is there once, however much needed
// what failed.
type Error struct {
	Failures []error // *CallError or *NodeError
}

func (e *Error) Error() string {
	return strings.Join(value.Map(e.Failures, error.Error), "\n")
}

// Unwrap gives the failures.
func (e *Error) Unwrap() []error { return e.Failures }

// CallError is a call that failed for good: its retries are exhausted, and
// neither fallback nor on_error had an answer.
type CallError struct {
	Path     string // of the call in the run
	Name     string // the variable that it is assigned to, or what it calls
	Callee   string
	Pos      diag.Pos
	Attempts int
	Err      error // a *retry.Error with every attempt, or what kept it from one
	Fallback error // why the fallback failed too; nil if there is none
}

func (e *CallError) Error() string {
	s := fmt.Sprintf("%s: %s: ", e.Pos, e.Label())
	if e.Attempts > 1 {
		s += fmt.Sprintf("failed after %d attempts: ", e.Attempts)
	}
	return s + Reason(e)
}

// Label is the call for a person.
func (e *CallError) Label() string { return label(e.Path, e.Callee) }

// Reason says why a call failed, without which call it was and how often it was
// tried: the error of the last attempt and, where there could have been another
// one, why there was none.
func Reason(err error) string {
	if e, ok := err.(*CallError); ok {
		s := Reason(e.Err)
		if e.Fallback != nil {
			s += fmt.Sprintf("; the fallback failed too: %v", e.Fallback)
		}
		return s
	}
	e, ok := err.(*retry.Error)
	if !ok {
		return err.Error()
	}
	_, own := e.Last.(*failure.DeadlineError)
	_, refused := e.Last.(*circuit.OpenError)
	switch {
	case e.Last == nil:
		return e.Error()
	case e.Reason == driver.ReasonAttempts, own, refused:
		return e.Last.Error()
	case e.Reason == driver.ReasonNotRetryable:
		return fmt.Sprintf("not retryable: %v", e.Last)
	case e.Reason == driver.ReasonDeadline:
		return fmt.Sprintf("no time left for a further attempt: %v", e.Last)
	case e.RetryAfter > 0:
		return fmt.Sprintf("%v (it is asked to wait %s): %v", e.Reason.Err(), duration.Format(duration.Round(e.RetryAfter)), e.Last)
	}
	return fmt.Sprintf("%v: %v", e.Reason.Err(), e.Last)
}

// Unwrap gives what the call failed with.
func (e *CallError) Unwrap() []error {
	if e.Fallback == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Fallback}
}

// Class is the class of what it failed with.
func (e *CallError) Class() string { return driver.Class(e.last()) }

// last is the error of the last attempt.
func (e *CallError) last() error {
	return lastOf(e.Err)
}

// lastOf is what ended a call: the error of its last attempt, or the refusal of
// a breaker or limit to make another.
func lastOf(err error) error {
	e, ok := err.(*retry.Error)
	switch {
	case !ok:
		return err
	case e.Cause != nil && (e.Reason == driver.ReasonCircuitOpen || e.Reason == driver.ReasonLimit):
		return e.Cause
	case e.Last != nil:
		return e.Last
	}
	return err
}

// NodeError is a computation that failed: a division by zero, a number that is
// too large.
type NodeError struct {
	Label  string
	Pos    diag.Pos
	Source string
	Err    error
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Pos, strings.Join(strings.Fields(diag.Clip(e.Source, 60)), " "), e.Err)
}

// Unwrap gives the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// Class is "value".
func (e *NodeError) Class() string { return "value" }

// InterruptedError is what did not end because the run was stopped.
// The run can continue later.
type InterruptedError struct {
	Cause error

	run *exec
}

func (e *InterruptedError) Error() string { return fmt.Sprintf("interrupted: %v", e.Cause) }

// Unwrap gives the reason.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// ofRun is the target by which the interruptions of one run are told from those
// of the runs inside it.
type ofRun struct{ *exec }

func (ofRun) Error() string { return "interrupted" }

// Is reports whether target is the run that was stopped.
func (e *InterruptedError) Is(target error) bool {
	run, ok := target.(ofRun)
	return ok && run.exec == e.run
}

// ElementsError is an application of which some elements failed.
type ElementsError struct {
	Total, Failed int
	First         int // the index of the first that failed, from 0
	Err           error
}

func (e *ElementsError) Error() string {
	if e.Failed > 1 {
		return fmt.Sprintf("%v (%d of %d elements failed, this is the first)", e.Err, e.Failed, e.Total)
	}
	if errors.As(e.Err, new(*CallError)) {
		return e.Err.Error() // which says which element
	}
	return fmt.Sprintf("%v (element %d of %d)", e.Err, e.First+1, e.Total)
}

// Unwrap gives the error of the first.
func (e *ElementsError) Unwrap() error { return e.Err }
