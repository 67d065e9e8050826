// Package failure holds what is known of something that failed as one value
// that can be written down.
//
// An error lives in one process. A [Failure] has the same to say and outlives
// it: the journal keeps it, a dead letter shows it, another machine sends it.
// Matchers, handlers and breakers see a failure exactly as they saw the error
// that it was made from, whether it has been through a record or not.
//
// [From] makes a failure of any error, by the small methods through which
// errors tell about themselves: Class, ExitCode, HTTPStatus, RetryAfter,
// RateLimited, Timeout, Output, Tails. A failure gives them back: errors.As
// finds each of them in it, and only those that the error had, because it
// means something to a matcher that an error has an exit status at all.
package failure

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Failure is why an attempt failed. It is an error; its JSON text has all of
// it. It is not changed after it was made, and so is safe for concurrent use.
type Failure struct {
	// Class is the one word for it, as driver.Class has it; never "".
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
	// Exit is the exit status of a command, 128+n for signal n; 0: there is none.
	Exit int `json:"exit,omitempty"`
	// Status is that of an HTTP answer; 0: there is none.
	Status int `json:"status,omitempty"`
	// RetryAfter is the wait that the other side asked for, in nanoseconds in
	// JSON; 0: none, negative: it asked for no retry.
	RetryAfter  time.Duration `json:"retry_after_ns,omitempty"`
	RateLimited bool          `json:"rate_limited,omitempty"`
	Timeout     bool          `json:"timeout,omitempty"`
	Network     bool          `json:"network,omitempty"`   // no connection, or one that broke
	Permanent   bool          `json:"permanent,omitempty"` // another attempt would meet the same
	Cancelled   bool          `json:"cancelled,omitempty"`
	Refused     bool          `json:"refused,omitempty"`  // a breaker let no attempt through
	Input       bool          `json:"input,omitempty"`    // it could not begin, as it could not the next time
	Shortage    bool          `json:"shortage,omitempty"` // the system had no room to start it
	// Stdout and Stderr are the ends of what was printed.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Stack is that of a panic.
	Stack string `json:"stack,omitempty"`

	parts *[]error // of Prepare
}

// Prepare makes what the failure tells about itself once and for all, for one
// that is met many times. It is called before anybody else has the failure.
func (f *Failure) Prepare() *Failure {
	parts := f.Unwrap()
	f.parts = &parts
	return f
}

// From gives the failure that an error is; nil for nil. An error that is a
// failure already is given back as it is.
func From(err error) *Failure {
	if err == nil {
		return nil
	}
	if f, ok := err.(*Failure); ok {
		return f
	}
	f := &Failure{
		Class: driver.Class(err), Message: err.Error(), Permanent: retry.IsPermanent(err),
		Cancelled: errors.Is(err, context.Canceled),
		// Asked about the structure alone: the text is kept, and matched again.
		Network: retry.Network(untold{err}), Timeout: retry.Timeout(untold{err}), RateLimited: retry.RateLimit(untold{err}),
	}
	f.Exit, _ = ExitCode(err)
	f.Input, f.Shortage = Input(err), Shortage(err)
	var status interface{ HTTPStatus() int }
	if errors.As(err, &status) {
		f.Status = status.HTTPStatus()
	}
	var hint interface{ RetryAfter() (time.Duration, bool) }
	if errors.As(err, &hint) {
		if d, ok := hint.RetryAfter(); ok {
			f.RetryAfter = d
		}
	}
	if open, ok := errors.AsType[*circuit.OpenError](err); ok {
		f.Refused, f.RetryAfter = true, open.RetryAfter
	}
	f.Stdout, f.Stderr = Tails(err)
	if panicked, ok := errors.AsType[*retry.PanicError](err); ok {
		f.Stack = string(panicked.Stack)
	}
	return f
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap gives what the failure tells about itself, each as an error with one
// method, for errors.As.
func (f *Failure) Unwrap() []error {
	if f.parts != nil {
		return *f.parts
	}
	parts := make([]error, 0, 4)
	add := func(has bool, part error) {
		if has {
			parts = append(parts, part)
		}
	}
	add(true, class(f.Class))
	add(f.Exit != 0, exit(f.Exit))
	add(f.Status != 0, status(f.Status))
	add(f.RetryAfter != 0 && !f.Refused, retryAfter(f.RetryAfter))
	add(f.RateLimited, rateLimited{})
	add(f.Timeout, timeout{})
	add(f.Network, network{})
	add(f.Permanent, retry.Permanent(silent{}))
	add(f.Cancelled, context.Canceled)
	add(f.Refused, &circuit.OpenError{State: circuit.Open, RetryAfter: f.RetryAfter})
	add(f.Input, input{})
	add(f.Shortage, noRoom{})
	add(f.Stdout != "" || f.Stderr != "", printed{f.Stdout, f.Stderr})
	add(f.Stack != "", &retry.PanicError{Value: f.Message, Stack: []byte(f.Stack)})
	return parts
}

// Beside is the failure for a record that has its class and message beside it,
// and what was printed, unless output says that it has to have that itself.
func (f *Failure) Beside(output bool) *Failure {
	short := *f
	short.Class, short.Message = "", ""
	if !output {
		short.Stdout, short.Stderr, short.parts = "", "", nil
	}
	return &short
}

// ExitCode gives the exit status that an error tells of.
func ExitCode(err error) (int, bool) {
	type exited interface {
		error
		ExitCode() int
	}
	if e, ok := errors.AsType[exited](err); ok {
		return e.ExitCode(), true
	}
	return 0, false
}

// Unrunnable reports whether a command is not there or cannot be run, as a shell says
// with the exit statuses 127 and 126, and that is not for want of room.
func Unrunnable(err error) bool {
	code, ok := ExitCode(err)
	return ok && (code == 126 || code == 127) && !Shortage(err)
}

// Under marks an error so that a policy does not retry it, where it is [Unrunnable] and
// the policy does not say itself which errors are retried: that gets better by no wait.
func Under(p *retry.Policy, err error) error {
	if p.If != nil || !Unrunnable(err) {
		return err
	}
	for _, r := range p.Rules {
		if r.On(err) {
			return err
		}
	}
	return retry.Permanent(err)
}

// Input reports whether an attempt could not begin, as it could not the next
// time: by the method Input of an error.
func Input(err error) bool {
	type unbegun interface {
		error
		Input() bool
	}
	e, ok := errors.AsType[unbegun](err)
	return ok && e.Input()
}

// Shortage reports whether the system had no room for a file or a process of
// ours, for which nobody's attempt is to blame: by the method Shortage of an
// error, or because no file could be opened.
func Shortage(err error) bool {
	type short interface {
		error
		Shortage() bool
	}
	e, ok := errors.AsType[short](err)
	return ok && e.Shortage() || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Tails gives the ends of what a failed attempt printed, "" of any other
// error. What cannot be told apart counts as stderr.
func Tails(err error) (stdout, stderr string) {
	var both interface {
		Tails() (stdout, stderr string)
	}
	if errors.As(err, &both) {
		return both.Tails()
	}
	var one interface{ Output() string }
	if errors.As(err, &one) {
		return "", one.Output()
	}
	return "", ""
}

// Plain is a text of a failure for those who read it, a person or a repair: without NUL
// bytes, which no argument and no environment of a program can have.
func Plain(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// Output joins the ends of both outputs to the text that matchers search.
func Output(stdout, stderr string) string {
	if stdout == "" || stderr == "" {
		return stderr + stdout
	}
	return stderr + "\n" + stdout
}
