package simulate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// shownWaits is how many delays of a policy a plan lists.
const shownWaits = 100

// retryOf works out the delays of a policy and reports what it says in vain.
func (b *builder) retryOf(rt *workflow.Retry, what string) *Retry {
	if rt == nil {
		return nil
	}
	pol := rt.Policy()
	shortest, longest := Bounds(pol, shownWaits)
	r := describe(pol)
	r.RetryOn, r.AbortOn = matcherNames(rt.RetryOn), matcherNames(rt.AbortOn)
	r.Breaker, r.OnFailure = breaker(rt.Breaker), rt.OnFailure
	if rt.Fallback != nil {
		r.Fallback = rt.Fallback.String()
	}
	r.delays(pol, shortest, longest, b.asked)
	r.rules(rt, b.asked)
	if rt.Until != nil {
		r.Until = rt.Until.String()
	}
	if r.Breaker != nil {
		r.MostWaits = max(r.MostWaits, policy.Refused(pol, r.Breaker.Timeout))
	}
	b.vain(rt, pol, shortest, r, what)
	return r
}

// rules adds the rules. Each waits as its own policy says, and the waits of all
// are bounded together.
func (r *Retry) rules(rt *workflow.Retry, asked bool) {
	for _, rule := range rt.Rules {
		pol := rule.Policy()
		if pol.Attempts == 0 { // those of the policy bound it
			pol.Attempts = rt.Attempts
		}
		pol.Deadline = rt.Deadline
		shortest, longest := Bounds(pol, shownWaits)
		one := describe(pol)
		one.delays(pol, shortest, longest, asked)
		one.RetryOn, one.RetryAfterMax = nil, 0
		r.Rules = append(r.Rules, Rule{matcherNames(rule.On), one})
		r.MostWaits = addSaturated(r.MostWaits, one.MostWaits)
	}
	for _, bound := range []time.Duration{rt.Budget, rt.Deadline} {
		if bound > 0 {
			r.MostWaits = min(r.MostWaits, bound)
		}
	}
}

// describe fills in what a policy says, its special values resolved.
func describe(pol retry.Policy) *Retry {
	s := pol.Backoff
	r := &Retry{Attempts: pol.Attempts, Backoff: strategyText(s), Initial: s.Initial, Max: s.Cap(), Jitter: s.Jitter.String(),
		Budget: pol.Budget, BudgetExpires: pol.BudgetExpires, Deadline: pol.Deadline, RetryOn: []string{}, RetryAfterMax: pol.RetryAfterMax, Waits: []Delay{}}
	r.RetryAfterMax = cmp.Or(r.RetryAfterMax, retry.DefaultRetryAfterMax)
	if s.Jitter == backoff.Factor {
		if r.JitterFactor = s.JitterFactor; r.JitterFactor == 0 {
			r.JitterFactor = backoff.DefaultJitterFactor
		}
		r.JitterFactor = max(r.JitterFactor, 0)
	}
	return r
}

// delays are those of a policy; asked says that each is as long as a server may ask for.
func (r *Retry) delays(pol retry.Policy, shortest, longest Timeline, asked bool) {
	for i, w := range shortest.Waits {
		d := Delay{After: w.After, Least: w.Delay, Greatest: w.Delay}
		if i < len(longest.Waits) {
			d.Greatest = longest.Waits[i].Delay
		} else if w.Greatest > d.Greatest {
			d.Greatest = w.Greatest
		}
		r.Waits = append(r.Waits, d)
	}
	r.MostAttempts, r.MostWaits = Most(pol, shortest, longest)
	if !asked {
		return
	}
	r.MostWaits = 0
	known := max(min(len(r.Waits), r.MostAttempts-1), 0)
	for _, w := range r.Waits[:known] {
		r.MostWaits = addSaturated(r.MostWaits, max(w.Greatest, r.RetryAfterMax))
	}
	more := max(int64(r.MostAttempts-1-known), 0)
	r.MostWaits = addSaturated(r.MostWaits, time.Duration(mulSaturated(int64(max(r.Max, r.RetryAfterMax)), more)))
	if r.Unlimited() {
		r.MostWaits = pol.Deadline
	}
}

// strategyText says a strategy with its parameters.
func strategyText(s backoff.Schedule) string {
	switch st := s.Strategy.(type) {
	case nil:
		return "exponential ×2"
	case backoff.Exponential:
		base := cmp.Or(st.Base, backoff.DefaultBase)
		return fmt.Sprintf("exponential ×%v", base)
	case backoff.Linear:
		increment := cmp.Or(st.Increment, s.Initial)
		return "linear +" + duration.Format(max(increment, 0))
	case backoff.Custom:
		return "custom [" + strings.Join(value.Map(st.Delays, duration.Format), " ") + "]"
	case backoff.Fibonacci:
		return "fibonacci"
	case backoff.Fixed:
		return "fixed"
	}
	return fmt.Sprintf("%T", s.Strategy)
}

func matcherNames(list []workflow.Matcher) []string {
	out := []string{}
	for _, m := range list {
		out = append(out, m.Name)
	}
	return out
}

// vain reports what a policy can never come to.
func (b *builder) vain(rt *workflow.Retry, pol retry.Policy, shortest Timeline, r *Retry, what string) {
	if pol.Budget > 0 {
		free := pol
		free.Budget, free.BudgetExpires = 0, false
		_, longest := Bounds(free, 0)
		switch {
		case len(pol.Rules) > 0 || r.Unlimited():
		case longest.Total <= pol.Budget:
			b.find(rt.Pos, "budget-unreachable", "%s: the retry_budget of %s is never reached: %d attempts wait at most %s in all",
				what, duration.Format(pol.Budget), pol.Attempts, duration.Format(longest.Total)).
				Suggest("leave it out, or make it less than %s", duration.Format(longest.Total))
		case shortest.Reason == driver.ReasonBudget:
			b.find(rt.Pos, "attempts-unreachable", "%s: the retry_budget of %s allows at most %d of the %d attempts",
				what, duration.Format(pol.Budget), r.MostAttempts, pol.Attempts).
				Suggest("make the budget more, the delays shorter, or attempts %d", r.MostAttempts)
		}
	}
	if br := r.Breaker; br != nil && br.FailureThreshold > 0 && br.FailureThreshold < r.MostAttempts && policy.Refused(pol, 1) == 0 {
		b.find(rt.Pos, "attempts-unreachable", "%s: its circuit breaker opens after %d failures in a row, so that attempt %d of %d is refused and ends the operation",
			what, br.FailureThreshold, br.FailureThreshold+1, r.MostAttempts).
			Suggest("make failure_threshold at least %d, or name circuit_open in retry_on to wait for the breaker", r.MostAttempts)
	}
}

func (b *builder) find(pos diag.Pos, code, format string, args ...any) *diag.Problem {
	return b.plan.Findings.Warnf(pos, code, format, args...)
}

// within cuts a cost off at a timeout and reports one that is too short for
// what is inside it.
func (b *builder) within(c Cost, l Limit, pos diag.Pos, what string) Cost {
	if l.D == 0 {
		return c
	}
	switch {
	case !c.Waits.Open && c.Waits.D >= l.D:
		b.find(pos, "timeout-below-waits", "%s has a timeout of %s, and the waits inside it alone can take %s", what, duration.Format(l.D), duration.Format(c.Waits.D)).
			Suggest("make the timeout longer, or the retries inside it fewer or faster")
	case !c.Time.Open && c.Time.D > l.D:
		b.find(pos, "timeout-below-attempts", "%s has a timeout of %s, and the attempts and waits inside it can take %s", what, duration.Format(l.D), duration.Format(c.Time.D)).
			Suggest("expect it to end what is inside; or make it longer")
	}
	return c.within(l.D)
}

// least is the shortest of several timeouts, of which 0 is none. Where the only
// ones are variables, it is such a one.
func least(limits ...Limit) Limit {
	var out Limit
	for _, l := range limits {
		switch {
		case l.D > 0 && (out.D == 0 || l.D < out.D):
			out = Limit{D: l.D}
		case l.Text != "" && out == Limit{}:
			out = l
		}
	}
	return out
}

func (r *Retry) cost(attempt Cost) Cost {
	if r == nil {
		return attempt
	}
	return attempt.times(r.attempts()).plus(waiting(r.MostWaits)).within(r.Deadline)
}

func (r *Retry) attempts() Count {
	switch {
	case r == nil:
		return count(1)
	case r.Unlimited():
		return Count{Open: true}
	}
	return count(r.MostAttempts)
}

func totalWaits(d time.Duration, times int) Cost {
	return waiting(d).times(count(max(times, 0)))
}
