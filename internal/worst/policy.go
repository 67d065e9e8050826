package worst

import (
	"cmp"
	"fmt"
	"github.com/bide-dev/bide/internal/bound"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
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
	r := describe(pol)
	r.RetryOn, r.AbortOn = matcherNames(rt.RetryOn), matcherNames(rt.AbortOn)
	r.Breaker, r.OnFailure = breaker(rt.Breaker), rt.OnFailure
	if rt.Fallback != nil {
		r.Fallback = rt.Fallback.String()
	}
	by := bound.Asked{Servers: b.asked}
	if r.Breaker != nil {
		by.Breaker = r.Breaker.Timeout
	}
	r.delays(pol, by)
	for _, rule := range rt.Rules {
		one := rule.Policy()
		one.Attempts = cmp.Or(one.Attempts, rt.Attempts) // those of the policy bound it
		one.Deadline = rt.Deadline
		x := describe(one)
		x.delays(one, bound.Asked{Servers: b.asked})
		x.RetryOn, x.RetryAfterMax = nil, 0
		r.Rules = append(r.Rules, Rule{matcherNames(rule.On), x})
	}
	if rt.Until != nil {
		r.Until = rt.Until.String()
	}
	b.vain(rt, pol, r, what)
	return r
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

// delays lists the first delays of a policy, and bounds the attempts and all delays.
func (r *Retry) delays(pol retry.Policy, by bound.Asked) {
	shortest, longest := bound.Bounds(pol, shownWaits)
	for i, w := range shortest.Waits {
		d := Delay{After: w.After, Least: w.Delay, Greatest: w.Delay}
		if i < len(longest.Waits) {
			d.Greatest = longest.Waits[i].Delay
		} else if w.Greatest > d.Greatest {
			d.Greatest = w.Greatest
		}
		r.Waits = append(r.Waits, d)
	}
	r.most = bound.Of(pol, by)
	r.MostAttempts, r.MostWaits = r.most.Attempts, r.most.Waits
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
func (b *builder) vain(rt *workflow.Retry, pol retry.Policy, r *Retry, what string) {
	if pol.Budget > 0 && len(pol.Rules) == 0 && !r.Unlimited() {
		free := pol
		free.Budget, free.BudgetExpires = 0, false
		waits := bound.Of(free, bound.Asked{}).Waits.D
		shortest, _ := bound.Bounds(pol, 0)
		switch {
		case waits <= pol.Budget:
			b.find(rt.Pos, "budget-unreachable", "%s: the retry_budget of %s is never reached: %d attempts wait at most %s in all",
				what, duration.Format(pol.Budget), pol.Attempts, duration.Format(waits)).
				Suggest("leave it out, or make it less than %s", duration.Format(waits))
		case shortest.Reason == driver.ReasonBudget:
			b.find(rt.Pos, "attempts-unreachable", "%s: the retry_budget of %s allows at most %s of the %d attempts",
				what, duration.Format(pol.Budget), r.MostAttempts, pol.Attempts).
				Suggest("make the budget more, the delays shorter, or attempts %s", r.MostAttempts)
		}
	}
	if br := r.Breaker; br != nil && br.FailureThreshold > 0 && (r.MostAttempts.Open || int64(br.FailureThreshold) < r.MostAttempts.N) && bound.Refused(pol, 1) == (bound.Span{}) {
		b.find(rt.Pos, "attempts-unreachable", "%s: its circuit breaker opens after %d failures in a row, so that attempt %d of %s is refused and ends the operation",
			what, br.FailureThreshold, br.FailureThreshold+1, r.MostAttempts).
			Suggest("make failure_threshold at least %s, or name circuit_open in retry_on to wait for the breaker", r.MostAttempts)
	}
}

func (b *builder) find(pos diag.Pos, code, format string, args ...any) *diag.Problem {
	return b.plan.Findings.Warnf(pos, code, format, args...)
}

// within cuts a cost off at a timeout and reports one that is too short for
// what is inside it.
func (b *builder) within(c bound.Cost, l Limit, pos diag.Pos, what string) bound.Cost {
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
	return c.Within(l.D)
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

// refusals lengthens the waits to those for a breaker that opens for a time.
func (r *Retry) refusals(pol retry.Policy, open time.Duration) {
	if w := bound.Refused(pol, open); w.Open || w.D > r.most.Waits.D {
		r.most.Waits, r.MostWaits = w, w
	}
}

func (r *Retry) cost(attempt bound.Cost) bound.Cost {
	if r == nil {
		return attempt
	}
	return r.most.Cost(attempt)
}

func (r *Retry) attempts() bound.Count {
	if r == nil {
		return bound.Number(1)
	}
	return r.most.Attempts
}

func totalWaits(d time.Duration, times int) bound.Cost {
	return bound.Waiting(d).Times(bound.Number(max(times, 0)))
}
