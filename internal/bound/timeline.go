package bound

import (
	"math"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Wait is the delay after one failed attempt.
type Wait struct {
	// After is the number of the failed attempt, from 1.
	After int
	// Delay is what the machine decided.
	Delay time.Duration
	// Least and Greatest bound the delay, given those before it. They are
	// equal without jitter.
	Least, Greatest time.Duration
	// Sum is that of the delays so far, this one included.
	Sum time.Duration
}

// Timeline is what a retry policy does when every attempt fails.
type Timeline struct {
	// Attempts is how many attempts are made.
	Attempts int
	// Waits are the delays between them, the first of them if there are more
	// than were asked for.
	Waits []Wait
	// Total is the sum of all delays; it saturates at about 292 years.
	Total time.Duration
	// Reason is what ends it: driver.ReasonAttempts, ReasonBudget or
	// ReasonDeadline.
	Reason driver.Reason
}

// Failures gives the timeline of a policy under which every attempt fails with
// an error that is retried and asks for no wait of its own. It keeps at most
// keep waits (negative: all); the rest counts in Attempts and Total. It takes
// time in proportion to the attempts.
//
// Matchers, rules, breaker, quota and timeout of the policy are left out, and an
// attempt takes no time. Its Rand is used up as by a real operation. Of
// unlimited attempts those are listed that the deadline leaves room for, at most
// a million.
func Failures(p retry.Policy, keep int) Timeline {
	t, _ := failures(p, keep, math.MaxInt)
	return t
}

// failures is Failures of at most so many attempts; all says that there are no more.
func failures(p retry.Policy, keep, most int) (t Timeline, all bool) {
	p.If, p.AbortOn, p.Rules, p.Breaker, p.Quota = nil, nil, nil, nil, nil
	if p.Attempts == retry.Unlimited {
		p.Attempts = option.MaxAttempts
	}
	began := time.Unix(0, 0)
	m := driver.NewMachine(&p, began)
	for t.Attempts < most {
		prev := m.State().Prev
		d := m.Next(errFailed, began.Add(m.State().Slept))
		t.Attempts, t.Total = m.State().Attempt, m.State().Slept
		if d.Action != driver.ActionRetry {
			t.Reason = d.Reason
			return t, true
		}
		if keep < 0 || len(t.Waits) < keep {
			least, greatest := p.Backoff.Range(t.Attempts, prev)
			t.Waits = append(t.Waits, Wait{After: t.Attempts, Delay: d.Delay, Least: least, Greatest: greatest, Sum: m.State().Slept})
		}
	}
	return t, false
}

// Bounds gives the timelines in which the jitter draws the shortest and the
// longest delay each time.
func Bounds(p retry.Policy, keep int) (shortest, longest Timeline) {
	p.Rand = constant(0)
	shortest = Failures(p, keep)
	p.Rand = constant(math.MaxUint64)
	return shortest, Failures(p, keep)
}

// constant is a source of randomness that always gives one end of the range.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

var _ backoff.Rand = constant(0)
