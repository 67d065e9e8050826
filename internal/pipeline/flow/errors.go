package flow

import (
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/retry"
)

// Error is a run that failed. Each failure is there once, however much needed
// what failed.
type Error struct {
	Failures []error // *CallError or *NodeError
}

func (e *Error) Error() string {
	texts := make([]string, len(e.Failures))
	for i, f := range e.Failures {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "\n")
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
	what := e.Callee
	if e.Name != e.Callee {
		what = e.Name + " = " + e.Callee
	}
	s := fmt.Sprintf("%s: %s: %v", e.Pos, what, e.Err)
	if e.Fallback != nil {
		s += fmt.Sprintf("; the fallback failed too: %v", e.Fallback)
	}
	return s
}

// Unwrap gives what the call failed with.
func (e *CallError) Unwrap() []error {
	if e.Fallback == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Fallback}
}

// Class is the class of what it failed with.
func (e *CallError) Class() string { return retry.Class(e.last()) }

// last is the error of the last attempt.
func (e *CallError) last() error {
	if re, ok := e.Err.(*retry.Error); ok && re.Last != nil {
		return re.Last
	}
	return e.Err
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
	src := e.Source
	if r := []rune(src); len(r) > 60 {
		src = string(r[:57]) + "..."
	}
	return fmt.Sprintf("%s: %s: %v", e.Pos, strings.Join(strings.Fields(src), " "), e.Err)
}

// Unwrap gives the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// Class is "value".
func (e *NodeError) Class() string { return "value" }

// InterruptedError is what did not come to its end because the run was stopped.
// The run can go on later.
type InterruptedError struct{ Cause error }

func (e *InterruptedError) Error() string { return fmt.Sprintf("interrupted: %v", e.Cause) }

// Unwrap gives the reason.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// DeadlineError is a call that had no more time.
type DeadlineError struct{ Deadline time.Duration }

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("the deadline of %s for the call is over", duration.Format(e.Deadline))
}

// Timeout is true.
func (e *DeadlineError) Timeout() bool { return true }

// Class is "timeout".
func (e *DeadlineError) Class() string { return "timeout" }

// ElementsError is an application of which some elements failed.
type ElementsError struct {
	Total, Failed int
	First         int // the index of the first that failed, from 0
	Err           error
}

func (e *ElementsError) Error() string {
	if e.Failed == 1 {
		return fmt.Sprintf("element %d of %d: %v", e.First+1, e.Total, e.Err)
	}
	return fmt.Sprintf("%d of %d elements failed, the first is element %d: %v", e.Failed, e.Total, e.First+1, e.Err)
}

// Unwrap gives the error of the first.
func (e *ElementsError) Unwrap() error { return e.Err }
