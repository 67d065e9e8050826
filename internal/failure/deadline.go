package failure

import (
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/duration"
)

// DeadlineError is an operation whose deadline is over, and that had nothing else to fail
// of at that moment: its attempt was stopped, or none could begin.
type DeadlineError struct {
	Deadline time.Duration
	Before   error // what the attempt before has failed of; nil: there was none
}

func (e *DeadlineError) Error() string {
	text := fmt.Sprintf("the deadline of %s is over", duration.Format(e.Deadline))
	if e.Before != nil {
		text += fmt.Sprintf("; the attempt before failed: %v", e.Before)
	}
	return text
}

// Timeout is true.
func (e *DeadlineError) Timeout() bool { return true }

// Class is "timeout".
func (e *DeadlineError) Class() string { return "timeout" }
