package retry

import (
	"fmt"
	"regexp"
	"slices"
)

// Matcher reports whether an error is of a kind. It must be safe for
// concurrent use.
//
// The matchers of this package go by structure first, by what the error says
// through its type and methods, and then by text: the error's message, and of
// a command the last 64 KiB of stderr and of stdout, which the error gives
// with a method Output() string. Words are found in any case, numbers only as
// whole numbers. An error with an HTTP status is judged by that where a status
// decides, and not by its text. All but [CircuitOpen] take the refusal of a
// breaker for none of their own.
type Matcher func(error) bool

// The matchers that have a name in retry_on and abort_on; see [MatcherByName].
var (
	// Network accepts dial, DNS and connection errors, and the words network,
	// connection, refused and unreachable.
	Network Matcher = network

	// Timeout accepts an attempt's own timeout, context.DeadlineExceeded, an
	// error with a method Timeout() that returns true, and the words timeout
	// and timed out.
	Timeout Matcher = timeout

	// ServerError accepts the HTTP status 500 to 599, the numbers 500, 502,
	// 503 and 504, and the words server error.
	ServerError Matcher = serverError

	// RateLimit accepts the HTTP status 429, an error with a method
	// RateLimited() that returns true, the number 429, and the words rate
	// limit and too many requests.
	RateLimit Matcher = rateLimit

	// CircuitOpen accepts the refusal of an attempt by a breaker.
	CircuitOpen Matcher = isRefusal
)

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

// Pattern accepts errors whose message or output, each by itself, the regular
// expression matches somewhere. The syntax is RE2, case counts unless the
// expression says (?i), and matching takes time in proportion to the text. An
// expression that does not parse is an error.
func Pattern(re string) (Matcher, error) {
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

func network(err error) bool {
	return isNetwork(err) || matchWords(err, "network", "connection", "refused", "unreachable")
}

func timeout(err error) bool {
	return isTimeout(err) || matchWords(err, "timeout", "timed out")
}

func serverError(err error) bool {
	if _, ok := httpStatus(err); ok {
		return isServerError(err)
	}
	return matchNumbers(err, "500", "502", "503", "504") || matchWords(err, "server error")
}

func rateLimit(err error) bool {
	if isRateLimited(err) {
		return true
	}
	if _, ok := httpStatus(err); ok {
		return false
	}
	return matchNumbers(err, "429") || matchWords(err, "rate limit", "too many requests")
}

func matchWords(err error, words ...string) bool {
	return matchText(err, func(text string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return containsFold(text, word) })
	})
}

func matchNumbers(err error, numbers ...string) bool {
	return matchText(err, func(text string) bool {
		return slices.ContainsFunc(numbers, func(number string) bool { return containsNumber(text, number) })
	})
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
