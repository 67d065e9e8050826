package driver

import (
	"context"
	"io"
	"net"
	"reflect"
	"syscall"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/permanent"
)

// What an error may tell about itself. An error implements what it knows; each
// is looked for in the whole tree of wrapped errors, the outermost first.
type (
	// HTTPStatuser knows the status of an HTTP answer, 100 to 599: 429 is a
	// rate limit, 500 to 599 a server error.
	HTTPStatuser interface{ HTTPStatus() int }

	// ExitCoder knows the exit status of a command, as *exec.ExitError does.
	ExitCoder interface{ ExitCode() int }

	// RetryAfterer knows how long the other side asks to wait before the next
	// attempt, if it does; a negative duration asks for no retry.
	RetryAfterer interface {
		RetryAfter() (time.Duration, bool)
	}

	// RateLimiter knows whether the other side refused since there were too
	// many requests.
	RateLimiter interface{ RateLimited() bool }

	// Timeouter knows whether something took too long, as net.Error does.
	Timeouter interface{ Timeout() bool }

	// Outputter has what a failed command printed.
	Outputter interface{ Output() string }

	// Classer has the one word for itself that [Class] returns, "" if it does
	// not know.
	Classer interface{ Class() string }
)

// What ends the walk through an error that wraps itself, once or many times.
const (
	maxDepth = 100
	maxNodes = 10_000
)

// Visit calls f with err and the errors it wraps, depth first, until f returns
// true, and reports whether it did. Of an [Error] it sees how the operation
// ended, not the attempts before.
func Visit(err error, f func(error) bool) bool {
	left := maxNodes
	return visitTo(maxDepth, &left, err, f)
}

func visitTo(depth int, left *int, err error, f func(error) bool) bool {
	for ; err != nil && depth > 0 && *left > 0 && !isNilPointer(err); depth-- {
		*left--
		if f(err) {
			return true
		}
		switch wrapper := err.(type) {
		case *Error:
			return visitTo(depth-1, left, wrapper.Last, f) || visitTo(depth-1, left, wrapper.Cause, f)
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			for _, wrapped := range wrapper.Unwrap() {
				if visitTo(depth-1, left, wrapped, f) {
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

// isNilPointer reports whether an error is a nil pointer, whose methods may
// panic: it is an error, and knows nothing.
func isNilPointer(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// traits are what [Machine.Next] needs to know of an error, found in one walk.
// Two words, so that they travel in registers.
type traits struct {
	flags trait
	hint  time.Duration // 0: none; negative: do not retry
}

type trait uint8

const (
	final   trait = 1 << iota // no attempt is to follow
	refused                   // by a breaker
	hinted
)

func (t traits) has(flag trait) bool { return t.flags&flag != 0 }

func inspect(err error) traits {
	switch err.(type) { // most errors are one plain value
	case interface{ Unwrap() error }, interface{ Unwrap() []error }, RetryAfterer, *circuit.OpenError:
		return inspectAll(err)
	}
	return traits{}
}

func inspectAll(err error) (t traits) {
	Visit(err, func(err error) bool {
		t.add(err)
		return false
	})
	return t
}

func (t *traits) add(err error) {
	switch err := err.(type) {
	case *permanent.Error:
		t.flags |= final
	case *circuit.OpenError:
		t.flags |= refused
		if err.State == circuit.Open {
			t.offer(err.RetryAfter)
		}
	case *Error:
		if err.RetryAfter != 0 {
			t.offer(err.RetryAfter)
		}
	case RetryAfterer:
		if hint, ok := err.RetryAfter(); ok {
			t.offer(hint)
		}
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
//	timeout       a *TimeoutError: the attempt's own timeout
//	cancelled     context.Canceled, unless a network error is beside it
//	circuit_open  a *circuit.OpenError
//	panic         a *PanicError or *GoexitError
//	rate_limit    HTTP status 429, or a method RateLimited() that returns true
//	server_error  an HTTP status from 500 to 599
//	timeout       context.DeadlineExceeded, or a method Timeout() that returns true
//	network       a dial, DNS or connection error, and what net/http and HTTP/2
//	              say of an answer that did not come, or broke off
//	exit          a method ExitCode() int: a command that ended with a status
//	error         anything else
//
// It returns "" for nil.
func Class(err error) string {
	if err == nil {
		return ""
	}
	var k knowledge
	Visit(err, k.add)
	switch {
	case k.class != "":
		return k.class
	case k.ownTimeout:
		return "timeout"
	case k.cancelled && !k.network:
		return "cancelled"
	case k.refusal:
		return "circuit_open"
	case k.panicked:
		return "panic"
	case k.rateLimited:
		return "rate_limit"
	case k.status >= 500 && k.status <= 599:
		return "server_error"
	case k.timeout:
		return "timeout"
	case k.network:
		return "network"
	case k.exited:
		return "exit"
	}
	return "error"
}

// knowledge is what [Class] looks for, all of it in one walk.
type knowledge struct {
	class                                                          string
	ownTimeout, cancelled, refusal, panicked, rateLimited, timeout bool
	network, exited, answered                                      bool
	status                                                         int // the first that is known
}

// add takes one error of the tree, and reports whether it gives its own class.
func (k *knowledge) add(err error) bool {
	if c, ok := err.(Classer); ok {
		if k.class = c.Class(); k.class != "" {
			return true
		}
	}
	switch err.(type) {
	case *TimeoutError:
		k.ownTimeout = true
	case *circuit.OpenError:
		k.refusal = true
	case *PanicError, *GoexitError:
		k.panicked = true
	}
	if e, ok := err.(HTTPStatuser); ok && !k.answered {
		k.status, k.answered = e.HTTPStatus(), true
	}
	_, exited := err.(ExitCoder)
	k.exited = k.exited || exited
	k.cancelled = k.cancelled || ofCancel(err)
	k.rateLimited = k.rateLimited || ofRateLimit(err)
	k.timeout = k.timeout || ofTimeout(err)
	k.network = k.network || ofNetwork(err) && !isCancelled(err)
	return false
}

func isCancelled(err error) bool { return Visit(err, ofCancel) }

// ofCancel also takes an error that says so by its method Is alone, as that of a
// dial does.
func ofCancel(err error) bool {
	if err == context.Canceled {
		return true
	}
	e, ok := err.(interface{ Is(error) bool })
	return ok && e.Is(context.Canceled)
}

func isRefusal(err error) bool {
	return Visit(err, func(err error) bool { _, ok := err.(*circuit.OpenError); return ok })
}

func isRateLimited(err error) bool { return Visit(err, ofRateLimit) }

func ofRateLimit(err error) bool {
	if e, ok := err.(RateLimiter); ok && e.RateLimited() {
		return true
	}
	e, ok := err.(HTTPStatuser)
	return ok && e.HTTPStatus() == 429
}

func isServerError(err error) bool {
	status, ok := httpStatus(err)
	return ok && status >= 500 && status <= 599
}

func isTimeout(err error) bool { return Visit(err, ofTimeout) }

func ofTimeout(err error) bool {
	if err == context.DeadlineExceeded {
		return true
	}
	e, ok := err.(Timeouter)
	return ok && e.Timeout()
}

// isNetwork reports whether err comes from a name that does not resolve, a
// host that is not reached, or a connection that is refused or broken. An error
// of a connection that was called off is none; a cancellation beside one changes
// nothing.
func isNetwork(err error) bool {
	return Visit(err, func(err error) bool { return ofNetwork(err) && !isCancelled(err) })
}

// ofNetwork reports whether an error, by itself, is one of the network.
func ofNetwork(err error) bool {
	switch err := err.(type) {
	case *net.OpError, *net.DNSError, *net.AddrError, net.UnknownNetworkError:
		return true
	case syscall.Errno:
		return isNetworkErrno(err)
	}
	return err == net.ErrClosed || err == io.ErrUnexpectedEOF || ofHTTP(err)
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
	Visit(err, func(err error) bool {
		if e, is := err.(HTTPStatuser); is {
			status, ok = e.HTTPStatus(), true
		}
		return ok
	})
	return status, ok
}

// isPermanent reports whether err carries the mark of retry.Permanent.
func isPermanent(err error) bool { return permanent.In(err) }
