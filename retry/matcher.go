package retry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/bide-dev/bide/retry/driver"
)

// Matcher reports whether an error is of a kind. It must be safe for
// concurrent use.
//
// The matchers of this package go by structure alone, by the types of errors
// and by what they tell about themselves with the methods that the package comment
// lists. Only [TextPattern] reads the text of errors. All
// but [CircuitOpen] take the refusal of a breaker for none of their own.
type Matcher = driver.Matcher

// The matchers that have a name in retry_on and abort_on.
var (
	// Network accepts dial, DNS and connection errors, and those of net/http whose
	// connection ended before the answer was whole, except of what was cancelled.
	Network Matcher = named("network")

	// Timeout accepts an attempt's own timeout, context.DeadlineExceeded, and
	// an error with a method Timeout() that returns true.
	Timeout Matcher = named("timeout")

	// ServerError accepts the HTTP status 500 to 599.
	ServerError Matcher = named("server_error")

	// RateLimit accepts the HTTP status 429, and an error with a method
	// RateLimited() that returns true.
	RateLimit Matcher = named("rate_limit")

	// Transient accepts what goes away by itself: what Network, Timeout,
	// ServerError and RateLimit accept. Those are errors of DNS and connections,
	// timeouts, and the HTTP status 429 and 500 to 599; no other status, no
	// cancellation, and not the refusal of a breaker.
	Transient = Any(Network, Timeout, ServerError, RateLimit)

	// CircuitOpen accepts the refusal of an attempt by a breaker.
	CircuitOpen Matcher = named("circuit_open")
)

func named(name string) Matcher {
	m, _ := driver.MatcherByName(name)
	return m
}

// Is accepts errors in which errors.Is finds one of the targets.
func Is(targets ...error) Matcher {
	targets = slices.Clone(targets)
	return func(err error) bool {
		for _, target := range targets { // without a closure, which would be an allocation
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

// As accepts errors in which errors.As finds one of type E.
func As[E error]() Matcher {
	return func(err error) bool {
		var target E
		return errors.As(err, &target)
	}
}

// TextPattern accepts errors whose message or output, each by itself, the
// regular expression matches somewhere; output is what a method Output() gives, of
// which the last 64 KiB of stderr and of stdout are read. It is for commands,
// which say in words what they know. The syntax is RE2, case counts unless the
// expression says (?i), and matching takes time in proportion to the text. An
// expression that does not parse is an error, and so is an empty one, which every
// text matches: who means every error uses no matcher.
func TextPattern(re string) (Matcher, error) {
	if re == "" {
		return nil, errors.New("retry: the pattern is empty, which every error matches")
	}
	expression, err := regexp.Compile(re)
	if err != nil {
		return nil, fmt.Errorf("retry: pattern %q: %w", re, err)
	}
	return func(err error) bool {
		return matchText(err, expression.MatchString)
	}, nil
}

// ExitCode accepts the error of a command that ended with one of the statuses:
// an error with a method ExitCode() int, such as *exec.ExitError.
func ExitCode(codes ...int) Matcher {
	codes = slices.Clone(codes)
	return func(err error) bool {
		code, ok := exitCode(err)
		return ok && slices.Contains(codes, code)
	}
}

func exitCode(err error) (code int, ok bool) {
	driver.Visit(err, func(err error) bool {
		if e, is := err.(driver.ExitCoder); is {
			code, ok = e.ExitCode(), true
		}
		return ok
	})
	return code, ok
}

// Any accepts what at least one of the matchers accepts; without matchers it
// accepts nothing. A nil matcher accepts nothing.
func Any(matchers ...Matcher) Matcher {
	matchers = slices.Clone(matchers)
	return func(err error) bool {
		return slices.ContainsFunc(matchers, func(m Matcher) bool { return m != nil && m(err) })
	}
}

// All accepts what every one of the matchers accepts; without matchers it
// accepts everything. A nil matcher accepts nothing.
func All(matchers ...Matcher) Matcher {
	matchers = slices.Clone(matchers)
	return func(err error) bool {
		return !slices.ContainsFunc(matchers, func(m Matcher) bool { return m == nil || !m(err) })
	}
}

// Not accepts what m does not, the refusal of a breaker included. A nil
// matcher accepts nothing, so Not(nil) accepts everything.
func Not(m Matcher) Matcher {
	return func(err error) bool { return m == nil || !m(err) }
}

// matchText reports whether match accepts the message or the output of err.
// nil has no text, and the text of a refusal is ours.
func matchText(err error, match func(string) bool) bool {
	if err == nil || CircuitOpen(err) {
		return false
	}
	if match(err.Error()) {
		return true
	}
	text := output(err)
	return text != "" && match(tail(text))
}

// output returns what the failed command wrote, and "" of any other error.
func output(err error) (text string) {
	driver.Visit(err, func(err error) bool {
		e, ok := err.(driver.Outputter)
		if ok {
			text = e.Output()
		}
		return ok
	})
	return text
}

// maxOutput bounds the output that is searched: 64 KiB each of stderr and of
// stdout.
const maxOutput = 2 * 64 << 10

// tail returns the last maxOutput bytes of text.
func tail(text string) string { return text[max(0, len(text)-maxOutput):] }
