package action

import (
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
)

// ExitError is a command that ended with a status other than 0, or by a
// signal.
type ExitError struct {
	Command string // what was run, shortened for people
	Code    int    // 128+n for signal n
	Signal  string // "" where it ended by itself
	Stderr  string // the last 64 KiB
	Stdout  string // the last 64 KiB
}

// Error does not hold the command: matchers read the text, and a command that
// has the word timeout in it has not timed out.
func (e *ExitError) Error() string {
	msg := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		msg = "ended by signal " + e.Signal
	}
	if line := lastLine(e.Stderr); line != "" {
		msg += ": " + line
	} else if line := lastLine(e.Stdout); line != "" {
		msg += ": " + line
	}
	return msg
}

// ExitCode is the command's exit status.
func (e *ExitError) ExitCode() int { return e.Code }

// Output is the text that matchers read beside the message.
func (e *ExitError) Output() string { return e.Stderr + "\n" + e.Stdout }

// TimeoutError is an attempt that was stopped because it took too long.
type TimeoutError struct {
	Command string
	After   time.Duration
	Stderr  string
	Stdout  string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %s and was stopped", duration.Format(e.After))
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Output is the text that matchers read beside the message.
func (e *TimeoutError) Output() string { return e.Stderr + "\n" + e.Stdout }

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
}

func (e *AgentError) Error() string {
	msg := e.Agent + ": " + e.Message
	if line := lastLine(e.Stderr); line != "" && !strings.Contains(msg, line) {
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
func (e *AgentError) Output() string { return e.Stderr }

// Class is "rate_limit" or "agent".
func (e *AgentError) Class() string {
	if e.Limited {
		return "rate_limit"
	}
	return "agent"
}

// InputError is an action that could not begin: a template that names
// nothing, a path outside the directory, a missing program. Another attempt
// would meet the same.
type InputError struct {
	Class_ string // "input", "not_found"
	Err    error
}

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InputError) Unwrap() error { return e.Err }

// Class is the error's class.
func (e *InputError) Class() string {
	if e.Class_ == "" {
		return "input"
	}
	return e.Class_
}

// longLine is the length in bytes from which a last line is data and no
// message.
const longLine = 8 << 10

// lastLine gives the last line of a text that says something. It is never cut:
// half a secret would not be found by the mask.
func lastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	if len(s) > longLine {
		return ""
	}
	return strings.TrimSpace(s)
}

// short gives the beginning of a command's text, on one line.
func short(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i] + " ..."
	}
	if r := []rune(s); len(r) > 80 {
		s = string(r[:77]) + "..."
	}
	return s
}
