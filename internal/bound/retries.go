package bound

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Retries is what a retry policy leads to at most, whatever its jitter draws and
// whichever errors come.
type Retries struct {
	Attempts Count
	Waits    Span          // all delays between them together
	Deadline time.Duration // ends all of it; 0: none
}

// Asked says which waits others ask for.
type Asked struct {
	// Breaker is how long a breaker that opens refuses attempts; 0: there is none.
	Breaker time.Duration
	// Servers says that each retry is asked to wait as long as the policy obeys
	// (Retry-After).
	Servers bool
}

// Of gives the retries of a policy. It takes no longer for a million attempts than for
// some thousands.
func Of(p retry.Policy, by Asked) Retries {
	p.Breaker, p.Quota = nil, nil
	most := cmp.Or(p.RetryAfterMax, retry.DefaultRetryAfterMax)
	wait := time.Duration(0)
	if by.Servers {
		wait = most
	}
	out := Retries{Attempts: attempts(p), Deadline: p.Deadline}
	each := wait
	if by.Breaker > 0 && retriesRefusals(p) { // any of them may be that of a refusal
		each = max(each, by.Breaker)
	}
	out.Waits = delays(p.Backoff, out.Attempts, each, most)
	for _, r := range p.Rules { // each waits as its own schedule says
		one := retry.Policy{Attempts: cmp.Or(r.Attempts, p.Attempts), Backoff: p.Backoff, Budget: r.Budget, Deadline: p.Deadline}
		if r.Backoff != nil {
			one.Backoff = *r.Backoff
		}
		out.Waits = out.Waits.Plus(delays(one.Backoff, attempts(one), wait, most).Within(one.Budget))
	}
	out.Waits = out.Waits.Within(p.Budget).Within(p.Deadline)
	return out
}

// Cost is that of an operation each of whose attempts costs so much.
func (r Retries) Cost(attempt Cost) Cost {
	waits := Cost{Waits: r.Waits, Time: r.Waits}
	return attempt.Times(r.Attempts).Plus(waits).Within(r.Deadline)
}

// Text says how the time of attempts with a timeout (0: none) comes about: "4 × 5s + 7s
// of delays".
func (r Retries) Text(timeout time.Duration) string {
	each, n := "unbounded", r.Attempts.String()
	if timeout > 0 {
		each = duration.Format(timeout)
	}
	if r.Attempts.Open {
		n = "any number"
	}
	text := fmt.Sprintf("%s × %s", n, each)
	if r.Waits.D > 0 && !r.Waits.Open {
		text += " + " + duration.Format(r.Waits.D) + " of delays"
	}
	return text
}

// summed is how many delays are worked out one by one; all further ones are taken as
// long as the longest of them may be.
const summed = 10_000

// attempts are the most that a policy makes. A budget and a deadline leave room for
// fewer, where all delays are those of its own schedule: rules may wait less.
func attempts(p retry.Policy) Count {
	switch {
	case p.Attempts == retry.Unlimited:
		return Count{Open: true}
	case p.Budget == 0 && p.Deadline == 0 || len(p.Rules) > 0:
		return Number(max(p.Attempts, 1))
	}
	p.Rand = constant(0)
	t, all := failures(p, 0, summed)
	if !all {
		return Number(p.Attempts)
	}
	return Number(t.Attempts)
}

// delays is the sum of the delays between n attempts, each as long as can be where each
// failure asks for a wait (0: none does) that is obeyed up to most.
func delays(s backoff.Schedule, n Count, wait, most time.Duration) Span {
	if n.Open {
		return Span{Open: true}
	}
	listed := 1 // delays that may be followed by longer ones although they are alike
	if list, ok := s.Strategy.(backoff.Custom); ok {
		listed = len(list.Delays)
	}
	longest := func(i int, prev time.Duration) (drawn, d time.Duration) {
		_, drawn = s.Range(i, prev)
		if wait == 0 {
			return drawn, drawn
		}
		return drawn, max(drawn, s.DelayAtLeast(wait, most, i, prev, constant(math.MaxUint64)))
	}
	var total, prev, before time.Duration // before is what was drawn for prev
	for i := 1; i < int(n.N); i++ {
		drawn, d := longest(i, prev)
		if i > listed && (drawn == before && (drawn == s.Cap() || i > 2) || i > summed) {
			_, last := longest(int(n.N)-1, max(d, prev))
			rest := Span{D: max(d, last)}.Times(Number(int(n.N) - i))
			return Span{D: total}.Plus(rest)
		}
		total, prev, before = Sum(total, d), d, drawn
	}
	return Span{D: total}
}

// Refused is the longest that an operation waits whose attempts a breaker refuses
// that stays open for a time; 0 where a refusal is its end.
func Refused(p retry.Policy, open time.Duration) Span {
	p.Breaker, p.Quota = nil, nil
	return refused(p, open)
}

func refused(p retry.Policy, open time.Duration) Span {
	unlimited := p.Attempts == retry.Unlimited
	p.Rand = constant(math.MaxUint64)
	began := time.Unix(0, 0)
	m := driver.NewMachine(&p, began)
	for range summed {
		d := m.Next(&circuit.OpenError{State: circuit.Open, RetryAfter: open}, began.Add(m.State().Slept))
		if d.Action != driver.ActionRetry {
			return Span{D: m.State().Slept}
		}
	}
	if unlimited {
		return Span{Open: true}.Within(p.Budget).Within(p.Deadline)
	}
	last := max(p.Backoff.Cap(), open, m.State().Prev)
	rest := Span{D: last}.Times(Number(p.Attempts - m.State().Attempt))
	return Span{D: m.State().Slept}.Plus(rest).Within(p.Budget).Within(p.Deadline)
}

// retriesRefusals says whether an attempt that a breaker refuses is followed by another.
func retriesRefusals(p retry.Policy) bool {
	p.Budget, p.Deadline, p.Rules = 0, 0, nil
	m := driver.NewMachine(&p, time.Unix(0, 0))
	return m.Next(&circuit.OpenError{State: circuit.Open, RetryAfter: 1}, time.Unix(0, 0)).Action == driver.ActionRetry
}

// errFailed is how every attempt of a simulation ends.
var errFailed = errors.New("the attempt failed")
