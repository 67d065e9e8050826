package retry

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
)

const (
	// DefaultAttempts is the number of attempts of a [Policy] whose Attempts
	// is 0.
	DefaultAttempts = 3

	// DefaultRetryAfterMax is the longest hint that a [Policy] whose
	// RetryAfterMax is 0 obeys.
	DefaultRetryAfterMax = 5 * time.Minute
)

// Policy says how an operation is retried. The zero value makes up to 3
// attempts without a wait between them.
//
// A Policy is not changed by its use and serves any number of operations and
// goroutines at once, provided that Rand does.
type Policy struct {
	// Attempts is the greatest number of executions in all, the first
	// included: 1 means no retry, 0 means [DefaultAttempts].
	Attempts int

	// Backoff gives the delays. A zero Backoff.Initial means that retries
	// follow at once.
	Backoff backoff.Schedule

	// Budget bounds the sum of the delays of one operation, in which the time
	// of the attempts does not count. A delay that would exceed it is not
	// begun. 0 means no budget.
	Budget time.Duration

	// Timeout bounds each attempt: its context ends after so long. A function
	// that does not heed its context is not cut short. 0 means no timeout.
	Timeout time.Duration

	// RetryOn accepts the errors that are retried; nil accepts every error,
	// except the refusal of an open breaker.
	RetryOn Matcher

	// AbortOn names errors that are never retried; it wins over RetryOn. nil
	// names none.
	AbortOn Matcher

	// RetryAfterMax is the longest wait that a server may ask for with
	// Retry-After; a longer one ends the operation. 0 means
	// [DefaultRetryAfterMax].
	RetryAfterMax time.Duration

	// Breaker, if not nil, is asked before each attempt and told how each
	// ended. When it refuses, the operation ends at once, without a wait and
	// without an attempt used, unless RetryOn accepts [CircuitOpen]: then the
	// refusal is a failed attempt, and the wait lasts at least until the
	// breaker lets a probe through.
	Breaker *circuit.Breaker

	// Quota, if not nil, is asked for leave before each retry. It is shared
	// by all operations on one target.
	Quota *Quota

	// Observer, if not nil, is told of every attempt, wait, refusal and end,
	// in the goroutine of the operation.
	Observer Observer

	// Rand is the source of the jitter; nil means the generator of
	// math/rand/v2. It must be safe for concurrent use if the policy is used
	// so; see [backoff.NewRand].
	Rand backoff.Rand

	// NumberAttempts puts the number of the attempt into its context, where
	// [AttemptFrom] finds it. It costs one allocation an attempt.
	NumberAttempts bool

	// Unguarded lets a panic in an attempt pass through to the caller, as it
	// does from a plain call, where otherwise it is a failed attempt. Standing
	// by to recover takes longer than all the rest of a call that succeeds.
	Unguarded bool

	// Untimed leaves out the readings of the clock around each attempt. The
	// times and durations in errors and events are then zero; delays, budget,
	// timeout and deadline are kept as ever. Reading the clock takes longer
	// than all the rest of a call that succeeds.
	Untimed bool
}

// Validate reports every field that is out of its range, joined into one
// error, or nil.
func (p *Policy) Validate() error {
	var problems []error
	if p.Attempts < 0 {
		problems = append(problems, fmt.Errorf("retry: attempts is %d; it must be 1 or more, or 0 for the default of %d", p.Attempts, DefaultAttempts))
	}
	if p.Budget < 0 {
		problems = append(problems, fmt.Errorf("retry: budget is %v; it must be positive, or 0 for none", p.Budget))
	}
	if p.Timeout < 0 {
		problems = append(problems, fmt.Errorf("retry: timeout is %v; it must be positive, or 0 for none", p.Timeout))
	}
	if p.RetryAfterMax < 0 {
		problems = append(problems, fmt.Errorf("retry: longest retry-after is %v; it must be positive, or 0 for the default of %v", p.RetryAfterMax, DefaultRetryAfterMax))
	}
	if err := p.Backoff.Validate(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (p *Policy) attempts() int {
	if p.Attempts == 0 {
		return DefaultAttempts
	}
	return p.Attempts
}

func (p *Policy) retryAfterMax() time.Duration {
	if p.RetryAfterMax == 0 {
		return DefaultRetryAfterMax
	}
	return p.RetryAfterMax
}
