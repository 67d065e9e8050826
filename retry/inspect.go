package retry

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/bide-dev/bide/circuit"
)

// What an error may tell about itself. Each is looked for in the whole tree of
// wrapped errors, the outermost first; an error implements what it knows.
type (
	exitCoder    interface{ ExitCode() int }
	httpStatuser interface{ HTTPStatus() int }
	retryAfterer interface {
		RetryAfter() (time.Duration, bool)
	}
	rateLimiter interface{ RateLimited() bool }
	outputter   interface{ Output() string }
	timeouter   interface{ Timeout() bool }
	classer     interface{ Class() string }
)

// maxDepth ends the walk through an error that wraps itself.
const maxDepth = 100

// visit calls f with err and the errors it wraps, depth first, until f returns
// true, and reports whether it did. Of an [Error] it sees how the operation
// ended, not the attempts before.
func visit(err error, f func(error) bool) bool { return visitTo(maxDepth, err, f) }

func visitTo(depth int, err error, f func(error) bool) bool {
	for ; err != nil && depth > 0; depth-- {
		if f(err) {
			return true
		}
		switch wrapper := err.(type) {
		case *Error:
			return visitTo(depth-1, wrapper.Last, f) || visitTo(depth-1, wrapper.Cause, f)
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			for _, wrapped := range wrapper.Unwrap() {
				if visitTo(depth-1, wrapped, f) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// traits are what [Machine.Next] needs to know of an error, found in one walk.
// Two words, so that they travel in registers.
type traits struct {
	flags trait
	hint  time.Duration // 0: none; negative: do not retry
}

type trait uint8

const (
	permanent trait = 1 << iota
	cancelled
	refused // by a breaker
	hinted
)

func (t traits) has(flag trait) bool { return t.flags&flag != 0 }

func inspect(err error) traits {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }, retryAfterer, *circuit.OpenError:
		return inspectAll(err)
	}
	// Most errors are one plain value.
	if err == context.Canceled {
		return traits{flags: cancelled}
	}
	return traits{}
}

func inspectAll(err error) (t traits) {
	visit(err, func(err error) bool {
		t.add(err)
		return false
	})
	return t
}

func (t *traits) add(err error) {
	switch err := err.(type) {
	case *permanentError:
		t.flags |= permanent
	case *circuit.OpenError:
		t.flags |= refused
		if err.State == circuit.Open {
			t.offer(err.RetryAfter)
		}
	case *Error:
		if err.RetryAfter != 0 {
			t.offer(err.RetryAfter)
		}
	case retryAfterer:
		if hint, ok := err.RetryAfter(); ok {
			t.offer(hint)
		}
	}
	if err == context.Canceled {
		t.flags |= cancelled
	}
}

// offer takes the first hint.
func (t *traits) offer(hint time.Duration) {
	if !t.has(hinted) {
		t.hint = hint
		t.flags |= hinted
	}
}

// Class returns the one word for an error that events and summaries show. It
// goes by structure alone, never by text, and the first of these that fits
// counts:
//
//	what the error's own method Class() string returns, if not ""
//	cancelled     context.Canceled
//	circuit_open  a *circuit.OpenError
//	panic         a *PanicError
//	rate_limit    HTTP status 429, or a method RateLimited() that returns true
//	server_error  an HTTP status from 500 to 599
//	timeout       context.DeadlineExceeded, or a method Timeout() that returns true
//	network       a dial, DNS or connection error
//	exit          a method ExitCode() int: a command that ended with a status
//	error         anything else
//
// It returns "" for nil.
func Class(err error) string {
	if err == nil {
		return ""
	}
	class := ""
	if visit(err, func(err error) bool {
		if c, ok := err.(classer); ok {
			class = c.Class()
		}
		return class != ""
	}) {
		return class
	}
	switch {
	case isCancelled(err):
		return "cancelled"
	case isRefusal(err):
		return "circuit_open"
	case visit(err, func(err error) bool { _, ok := err.(*PanicError); return ok }):
		return "panic"
	case isRateLimited(err):
		return "rate_limit"
	case isServerError(err):
		return "server_error"
	case isTimeout(err):
		return "timeout"
	case isNetwork(err):
		return "network"
	}
	if _, ok := exitCode(err); ok {
		return "exit"
	}
	return "error"
}

func isCancelled(err error) bool {
	return visit(err, func(err error) bool { return err == context.Canceled })
}

func isRefusal(err error) bool {
	return visit(err, func(err error) bool { _, ok := err.(*circuit.OpenError); return ok })
}

func isRateLimited(err error) bool {
	return visit(err, func(err error) bool {
		if e, ok := err.(rateLimiter); ok && e.RateLimited() {
			return true
		}
		e, ok := err.(httpStatuser)
		return ok && e.HTTPStatus() == 429
	})
}

func isServerError(err error) bool {
	status, ok := httpStatus(err)
	return ok && status >= 500 && status <= 599
}

func isTimeout(err error) bool {
	return visit(err, func(err error) bool {
		if err == context.DeadlineExceeded {
			return true
		}
		e, ok := err.(timeouter)
		return ok && e.Timeout()
	})
}

// isNetwork reports whether err comes from a name that does not resolve, a
// host that is not reached, or a connection that is refused or broken.
func isNetwork(err error) bool {
	return visit(err, func(err error) bool {
		switch err := err.(type) {
		case *net.OpError, *net.DNSError, *net.AddrError, net.UnknownNetworkError:
			return true
		case syscall.Errno:
			return isNetworkErrno(err)
		}
		return err == net.ErrClosed || err == io.ErrUnexpectedEOF
	})
}

func isNetworkErrno(errno syscall.Errno) bool {
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.ENETRESET, syscall.ENOTCONN:
		return true
	}
	return false
}

func httpStatus(err error) (status int, ok bool) {
	visit(err, func(err error) bool {
		if e, is := err.(httpStatuser); is {
			status, ok = e.HTTPStatus(), true
		}
		return ok
	})
	return status, ok
}

func exitCode(err error) (code int, ok bool) {
	visit(err, func(err error) bool {
		if e, is := err.(exitCoder); is {
			code, ok = e.ExitCode(), true
		}
		return ok
	})
	return code, ok
}

// output returns what the failed command wrote, and "" of any other error.
func output(err error) (text string) {
	visit(err, func(err error) bool {
		e, ok := err.(outputter)
		if ok {
			text = e.Output()
		}
		return ok
	})
	return text
}

// permanentError marks an error that is never retried.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err so that it is never retried, whatever the policy. The
// mark is seen however deep it is wrapped, does not change the text, and
// errors.Is and errors.As look through it. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err carries the mark of [Permanent].
func IsPermanent(err error) bool {
	var mark *permanentError
	return errors.As(err, &mark)
}
