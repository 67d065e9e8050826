package driver

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
)

const (
	// DefaultAttempts is the number of attempts of a [Policy] whose Attempts
	// is 0.
	DefaultAttempts = 3

	// Unlimited as Policy.Attempts sets no bound on the number of attempts.
	// It needs a Policy.Deadline.
	Unlimited = -1

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
	// included: 1 means no retry, [Unlimited] any number within Deadline, and
	// 0 means [DefaultAttempts], or the most that one of the Rules allows if
	// that is more.
	Attempts int

	// Backoff gives the delays. A zero Backoff.Initial means that retries
	// follow at once.
	Backoff backoff.Schedule

	// Budget bounds the sum of the delays of one operation over all its lives,
	// in which neither the time of the attempts counts nor that in which nobody
	// ran it. A delay that would exceed it is not begun. 0 means no budget.
	Budget time.Duration

	// BudgetExpires makes the budget a bound on the wall clock too when an
	// operation is resumed: it ends at once with [ReasonExpired] if its first
	// failure is as long ago as Budget, or longer.
	BudgetExpires bool

	// Deadline bounds the whole operation on the wall clock, from the beginning
	// of its first attempt to its end: attempts, waits, and the time between
	// its lives. The context of an attempt ends with it, and a wait that would
	// last until then is not begun. 0 means none.
	Deadline time.Duration

	// Timeout bounds each attempt: its context ends after so long. A function
	// that does not heed its context is not cut short. 0 means no timeout.
	Timeout time.Duration

	// If accepts the errors that are retried; nil accepts every error, except
	// the refusal of an open breaker or of a limit.
	If Matcher

	// AbortOn names errors that are never retried; it wins over If and over
	// Rules. nil names none.
	AbortOn Matcher

	// Rules give errors of a kind a policy of their own. The first rule whose
	// On accepts the error decides about it, in place of If and Backoff.
	// Failed attempts of a rule are counted apart, and Attempts, Budget and
	// Deadline bound them all together.
	Rules []Rule

	// RetryAfterMax is the longest wait that a server may ask for with
	// Retry-After; a longer one ends the operation. 0 means
	// [DefaultRetryAfterMax].
	RetryAfterMax time.Duration

	// Breaker, if not nil, is asked before each attempt and told how each
	// ended: an attempt that the caller cancelled, and an error marked with
	// retry.Permanent, say nothing about its target; one that the caller's deadline
	// ended is a failure. When it refuses, the operation ends at once, without
	// a wait and without an attempt used, unless If or a rule accepts
	// retry.CircuitOpen: then the refusal is a failed attempt, and the wait lasts
	// at least until the breaker lets a probe through.
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
	// retry.AttemptFrom finds it. It costs one allocation an attempt.
	NumberAttempts bool

	// Timed has the duration of each attempt measured. Without it, without an
	// observer and without a Deadline, the clock is first read at the first
	// failure, so that the start and duration of the first attempt are zero.
	Timed bool
}

// Plain reports whether a first attempt that succeeds leaves nothing to do but to
// return its value, so that a driver need not begin an operation for it.
func (p *Policy) Plain() bool {
	return p.Timeout == 0 && p.Deadline == 0 && p.Breaker == nil && p.Quota == nil && p.Observer == nil &&
		!p.Timed && !p.NumberAttempts
}

// GuardLayer marks what guard.New takes; it does nothing.
func (Policy) GuardLayer() {}

// Validate reports every field that is out of its range, joined into one
// error, or nil.
func (p *Policy) Validate() error {
	var problems []error
	switch {
	case p.Attempts < Unlimited:
		problems = append(problems, fmt.Errorf("retry: Attempts is %d; it must be 1 or more, Unlimited, or 0 for the default of %d", p.Attempts, DefaultAttempts))
	case p.Attempts == Unlimited && p.Deadline <= 0:
		problems = append(problems, errors.New("retry: Attempts is Unlimited and there is no Deadline; set one"))
	}
	if p.Deadline < 0 {
		problems = append(problems, fmt.Errorf("retry: Deadline is %v; it must be positive, or 0 for none", p.Deadline))
	}
	if p.BudgetExpires && p.Budget == 0 {
		problems = append(problems, errors.New("retry: BudgetExpires is set and there is no Budget; set one"))
	}
	if p.Budget < 0 {
		problems = append(problems, fmt.Errorf("retry: Budget is %v; it must be positive, or 0 for none", p.Budget))
	}
	if p.Timeout < 0 {
		problems = append(problems, fmt.Errorf("retry: Timeout is %v; it must be positive, or 0 for none", p.Timeout))
	}
	if p.RetryAfterMax < 0 {
		problems = append(problems, fmt.Errorf("retry: RetryAfterMax is %v; it must be positive, or 0 for the default of %v", p.RetryAfterMax, DefaultRetryAfterMax))
	}
	if p.Breaker != nil && p.Breaker.Driver() == nil {
		problems = append(problems, errors.New("retry: Breaker was not made; make it with circuit.New"))
	}
	if p.Quota != nil && p.Quota.capacity == 0 {
		problems = append(problems, errors.New("retry: Quota was not made; make it with NewQuota"))
	}
	if err := p.Backoff.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("retry: Backoff: %w", err))
	}
	for i := range p.Rules {
		if err := p.Rules[i].validate(p, i); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// attempts is how many there may be in all.
func (p *Policy) attempts() int {
	switch p.Attempts {
	case Unlimited:
		return math.MaxInt
	case 0:
		most := DefaultAttempts
		for i := range p.Rules {
			most = max(most, p.Rules[i].Attempts)
		}
		return most
	}
	return p.Attempts
}

func (p *Policy) retryAfterMax() time.Duration {
	if p.RetryAfterMax == 0 {
		return DefaultRetryAfterMax
	}
	return p.RetryAfterMax
}
