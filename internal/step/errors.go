package step

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

// Error is a step that failed for good.
type Error struct {
	Step     string // its path
	Label    string
	At       diag.Pos
	Attempts int
	Reason   driver.Reason
	Err      error
}

func (e *Error) Error() string {
	msg := fmt.Sprintf("step %q failed", e.Label)
	if e.Attempts > 1 {
		msg += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	switch e.Reason {
	case driver.ReasonNone, driver.ReasonAttempts:
	case driver.ReasonNotRetryable:
		if !limited(e.Err) { // which says how long it lasts, and that a resume tries again
			msg += " (" + e.Reason.String() + ")"
		}
	default:
		msg += " (" + e.Reason.String() + asked(e) + ")"
	}
	msg += ": " + e.Err.Error()
	if at := e.At.String(); at != "" {
		msg = at + ": " + msg
	}
	return msg
}

// asked is the wait that was asked for, where it was too long to be obeyed.
func asked(e *Error) string {
	var hint interface{ RetryAfter() (time.Duration, bool) }
	if e.Reason != driver.ReasonRetryAfter || !errors.As(e.Err, &hint) {
		return ""
	}
	d, ok := hint.RetryAfter()
	if !ok {
		return ""
	}
	return fmt.Sprintf(": a wait of %s is asked for, longer than retry_after_max", duration.Format(d.Round(time.Second)))
}

// Unwrap gives the last error.
func (e *Error) Unwrap() error { return e.Err }

// Cause takes the steps off an error, for the matchers of a retry policy: they
// read its text, and the label of a step says nothing about what went wrong.
func Cause(err error) error {
	for {
		se, is := errors.AsType[*Error](err)
		if !is {
			return err
		}
		err = se.Err
	}
}

// TimeoutError is a workflow, a phase, an agent or a step made of steps that
// took too long and was stopped.
type TimeoutError struct {
	What  string
	After time.Duration
	// Budget says that the attempts at an item have run for all of its item_budget.time.
	Budget bool
}

func (e *TimeoutError) Error() string {
	if e.Budget {
		return fmt.Sprintf("%s has used all of its item_budget.time %s and was stopped", e.What, duration.Format(e.After))
	}
	return fmt.Sprintf("%s timed out after %s and was stopped", e.What, duration.Format(e.After))
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Class is "timeout", or "budget".
func (e *TimeoutError) Class() string {
	if e.Budget {
		return "budget"
	}
	return "timeout"
}

// IncompleteError is a score that was missed or could not be read.
type IncompleteError struct {
	Score, Threshold float64
	Attempts         int
	What             string
	// Unread is why there is no score; nil where there is one.
	Unread error
}

func (e *IncompleteError) Error() string {
	rounds := "rounds"
	if e.Attempts == 1 {
		rounds = "round"
	}
	if e.Unread != nil {
		return fmt.Sprintf("%s after %d %s: %v", e.What, e.Attempts, rounds, e.Unread)
	}
	return fmt.Sprintf("%s: %.4g of at least %.4g percent after %d %s", e.What, e.Score, e.Threshold, e.Attempts, rounds)
}

// Class is "validation".
func (e *IncompleteError) Class() string { return "validation" }

// SchemaError is a result that does not fit its schema.
type SchemaError struct{ Err error }

func (e *SchemaError) Error() string {
	return "the result does not fit expected_schema: " + e.Err.Error()
}

// Class is "validation".
func (e *SchemaError) Class() string { return "validation" }

func inputError(format string, args ...any) error {
	return &action.InputError{Err: fmt.Errorf(format, args...)}
}

func agentName(a workflow.Action) string {
	c, ok := a.(*workflow.Claude)
	if !ok {
		return ""
	}
	return action.AgentName(c)
}
