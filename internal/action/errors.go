package action

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/value"
)

// ExitError is a command that ended with a status other than 0, or by a
// signal.
type ExitError struct {
	Code   int    // 128+n for signal n
	Signal string // "" where it ended by itself
	Stderr string // the last 64 KiB
	Stdout string // the last 64 KiB
	// Kind is what the status and the outputs tell; see package classify.
	Kind classify.Verdict
	// NotStarted: the command never ran, and Stderr is why; NoRoom: the system had no
	// room for another process or file.
	NotStarted, NoRoom bool
}

// Shortage reports whether the system had no room to start the command: whoever
// gave it its work is not to blame.
func (e *ExitError) Shortage() bool { return e.NoRoom }

// Class is that of the kind of failure; "" where nothing is known.
func (e *ExitError) Class() string { return e.Kind.Class() }

// Timeout reports whether the command said that something took too long.
func (e *ExitError) Timeout() bool { return e.Kind.Timeout }

// RateLimited reports whether the command said that it met a limit.
func (e *ExitError) RateLimited() bool { return e.Kind.RateLimited }

// RetryAfter is the wait that a header line of the output asks for.
func (e *ExitError) RetryAfter() (time.Duration, bool) {
	return e.Kind.RetryAfter, e.Kind.RetryAfter > 0
}

// Unwrap gives what is known only of some failures.
func (e *ExitError) Unwrap() []error { return e.Kind.Errors() }

// Error does not hold the command: matchers read the text, and a command that
// has the word timeout in it has not timed out.
func (e *ExitError) Error() string {
	if line := cmp.Or(lastLine(e.Stderr), lastLine(e.Stdout)); line != "" {
		return e.Ending() + ": " + line
	}
	return e.Ending()
}

// Ending says how the command ended, without what it printed.
func (e *ExitError) Ending() string {
	if e.Signal != "" {
		return "ended by signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// ExitCode is the command's exit status.
func (e *ExitError) ExitCode() int { return e.Code }

// Output is the text that matchers read beside the message.
func (e *ExitError) Output() string { return failure.Output(e.Stdout, e.Stderr) }

// Tails are the ends of both outputs.
func (e *ExitError) Tails() (stdout, stderr string) { return e.Stdout, e.Stderr }

// TimeoutError is an attempt that was stopped because it took too long.
type TimeoutError struct {
	After  time.Duration
	Stderr string
	Stdout string
	Silent bool // it printed nothing for that long
}

func (e *TimeoutError) Error() string {
	if e.Silent {
		return fmt.Sprintf("printed nothing for %s and was stopped (stall_timeout)", duration.Format(e.After))
	}
	return fmt.Sprintf("timed out after %s and was stopped", duration.Format(e.After))
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Output is the text that matchers read beside the message.
func (e *TimeoutError) Output() string { return failure.Output(e.Stdout, e.Stderr) }

// Tails are the ends of both outputs.
func (e *TimeoutError) Tails() (stdout, stderr string) { return e.Stdout, e.Stderr }

// Class is "timeout".
func (e *TimeoutError) Class() string { return "timeout" }

// HTTPError is an answer whose status was not expected.
type HTTPError struct {
	Method, URL string
	Status      int
	Body        string // the first KiB
	After       time.Duration
	HasAfter    bool
}

func (e *HTTPError) Error() string {
	msg := fmt.Sprintf("%s %s: unexpected status %d", e.Method, e.URL, e.Status)
	if line := lastLine(e.Body); line != "" && len(line) < 300 {
		msg += ": " + line
	}
	return msg
}

// HTTPStatus is the status of the answer.
func (e *HTTPError) HTTPStatus() int { return e.Status }

// RetryAfter is what the server asked for.
func (e *HTTPError) RetryAfter() (time.Duration, bool) { return e.After, e.HasAfter }

// AgentError is an agent that answered with an error.
type AgentError struct {
	Agent   string
	Message string
	Code    int  // exit status of the agent's CLI
	Limited bool // the agent's provider refused for a rate or usage limit
	Until   time.Duration
	HasTime bool
	Stderr  string
	Stdout  string           // of an agent that answers with a text
	Kind    classify.Verdict // what its words tell
}

func (e *AgentError) Error() string {
	msg := e.Agent + ": " + e.Message
	line := cmp.Or(lastLine(e.Stderr), lastLine(e.Stdout))
	if line != "" && !strings.Contains(msg, line) {
		msg += ": " + line
	}
	return msg
}

// ExitCode is the exit status of the agent's CLI.
func (e *AgentError) ExitCode() int { return e.Code }

// RateLimited reports whether a limit of the provider was met.
func (e *AgentError) RateLimited() bool { return e.Limited }

// RetryAfter is when the limit ends, where the agent said so.
func (e *AgentError) RetryAfter() (time.Duration, bool) { return e.Until, e.HasTime }

// Output is the text that matchers read beside the message.
func (e *AgentError) Output() string { return failure.Output(e.Stdout, e.Stderr) }

// Tails are the ends of both outputs.
func (e *AgentError) Tails() (stdout, stderr string) { return e.Stdout, e.Stderr }

// Timeout reports whether the agent said that something took too long.
func (e *AgentError) Timeout() bool { return e.Kind.Timeout }

// Unwrap gives what is known only of some failures.
func (e *AgentError) Unwrap() []error { return e.Kind.Errors() }

// Class is "rate_limit", that of a failed connection or server, or "agent".
func (e *AgentError) Class() string {
	switch kind := e.Kind.Class(); {
	case e.Limited:
		return "rate_limit"
	case kind != "":
		return kind
	}
	return "agent"
}

// InputError is an action that could not begin: a template that names
// nothing, a path outside the directory, a missing program. Another attempt
// would meet the same.
type InputError struct {
	Kind string // "input", "not_found"
	Err  error
}

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InputError) Unwrap() error { return e.Err }

// Input is true.
func (e *InputError) Input() bool { return true }

// Class is the error's class.
func (e *InputError) Class() string {
	if e.Kind == "" {
		return "input"
	}
	return e.Kind
}

// longLine is the length in bytes from which a last line is data and no message.
const longLine = 8 << 10

// lastLine gives the last line of a text that says something. It is never cut:
// half a secret would not be found by the mask.
func lastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	if len(s) > longLine || value.IsBinary(s) {
		return ""
	}
	return strings.TrimSpace(s)
}
