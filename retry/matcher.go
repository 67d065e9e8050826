package retry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Matcher reports whether an error is of a kind. It must be safe for
// concurrent use.
//
// The matchers of this package go by structure alone, by the types of errors
// and by what they tell about themselves through the interfaces [HTTPStatuser],
// [ExitCoder], [Timeouter], [RateLimiter] and so on; an error that knows more
// says so by implementing them. Only [TextPattern] reads the text of errors. All
// but [CircuitOpen] take the refusal of a breaker for none of their own.
type Matcher func(error) bool

// The matchers that have a name in retry_on and abort_on; see [MatcherByName].
var (
	// Network accepts dial, DNS and connection errors, and those of net/http whose
	// connection ended before the answer was whole, except of what was cancelled.
	Network Matcher = isNetwork

	// Timeout accepts an attempt's own timeout, context.DeadlineExceeded, and
	// an error with a method Timeout() that returns true.
	Timeout Matcher = isTimeout

	// ServerError accepts the HTTP status 500 to 599.
	ServerError Matcher = isServerError

	// RateLimit accepts the HTTP status 429, and an error with a method
	// RateLimited() that returns true.
	RateLimit Matcher = isRateLimited

	// Transient accepts what goes away by itself: what Network, Timeout,
	// ServerError and RateLimit accept.
	Transient = Any(Network, Timeout, ServerError, RateLimit)

	// CircuitOpen accepts the refusal of an attempt by a breaker.
	CircuitOpen Matcher = isRefusal
)

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

// MatcherByName returns the matcher that is called network, timeout,
// server_error, rate_limit or circuit_open.
func MatcherByName(name string) (Matcher, bool) {
	switch name {
	case "network":
		return Network, true
	case "timeout":
		return Timeout, true
	case "server_error":
		return ServerError, true
	case "rate_limit":
		return RateLimit, true
	case "circuit_open":
		return CircuitOpen, true
	}
	return nil, false
}

// MatcherNames returns the names that [MatcherByName] knows.
func MatcherNames() []string {
	return []string{"network", "timeout", "server_error", "rate_limit", "circuit_open"}
}

// TextPattern accepts errors whose message or output, each by itself, the
// regular expression matches somewhere; output is what an [Outputter] gives, of
// which the last 64 KiB of stderr and of stdout are read. It is for commands,
// which say in words what they know. The syntax is RE2, case counts unless the
// expression says (?i), and matching takes time in proportion to the text. An
// expression that does not parse is an error.
func TextPattern(re string) (Matcher, error) {
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
	if err == nil || isRefusal(err) {
		return false
	}
	if match(err.Error()) {
		return true
	}
	text := output(err)
	return text != "" && match(tail(text))
}

// maxOutput bounds the output that is searched: 64 KiB each of stderr and of
// stdout.
const maxOutput = 2 * 64 << 10

// tail returns the last maxOutput bytes of text.
func tail(text string) string { return text[max(0, len(text)-maxOutput):] }
