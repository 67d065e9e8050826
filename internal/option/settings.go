package option

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// MaxAttempts is the greatest number of attempts that may be written.
const MaxAttempts = 1_000_000

// Settings are the options of one policy. A field that is not written holds
// nothing until [Settings.Resolve] gives it its default.
type Settings struct {
	written uint64 // the rows that are written, by their place in the table

	Attempts     int
	Strategy     string
	Initial, Max time.Duration
	Increment    time.Duration
	Base         float64
	Delays       []time.Duration
	Jitter       backoff.Jitter
	JitterFactor float64

	RetryOn, AbortOn []Matcher // RetryOn empty: every error
	Budget           time.Duration
	BudgetExpires    bool
	RetryAfterMax    time.Duration
	Deadline         time.Duration
	Timeout          time.Duration   // of one attempt
	Until            Text            // a condition on what an attempt gave; nil: none
	Rules            []Rule          // resolved: what a rule leaves out is there
	Breaker          *circuit.Config // shared by all that run the same; nil: none
	Ending                           // when it is exhausted
	Quota            *Quota

	Backoff backoff.Schedule // made by Resolve
}

// Matcher is an error matcher with its spelling.
type Matcher struct {
	Name  string // "network", "pattern: RE", "exit_code: [75]"
	Match retry.Matcher
}

// Rule is a policy for errors of some kinds.
type Rule struct {
	On []Matcher
	Settings
}

// Quota is a budget of retries shared by all operations on one target.
type Quota struct {
	Name    string
	Ratio   float64
	Initial float64
}

// Text is a text of the file, which the one who reads it understands.
type Text interface{ String() string }

// BreakerText says a breaker in the form of a pipeline: "5/30s", or of a rate
// "0.5/20/30s".
func BreakerText(c *circuit.Config) string {
	if c.FailureRate > 0 {
		return fmt.Sprintf("%v/%d/%s", c.FailureRate, cmp.Or(c.Window, circuit.DefaultWindow), duration.Format(c.Timeout))
	}
	return fmt.Sprintf("%d/%s", c.FailureThreshold, duration.Format(c.Timeout))
}

// Ending is what happens when a policy is exhausted.
type Ending struct {
	OnFailure string // stop, continue, fallback
	Fallback  Text   // of fallback, else nil
}

// Has reports whether an option is written.
func (s *Settings) Has(name string) bool { return s.written&ByName(name).bit() != 0 }

// Over lays s over base: what s does not say, base does. The parameters of a
// strategy go with it.
func (s Settings) Over(base Settings) Settings {
	named := s.Has("backoff")
	for _, r := range Table() {
		if r.field == nil || s.written&r.bit() != 0 || base.written&r.bit() == 0 || named && slices.Contains(Strategies, r.Of) {
			continue
		}
		r.copy(&s, &base)
	}
	return s
}

// Resolve gives the settings with their defaults: those of a pipeline, or those of
// everywhere else.
func (s *Settings) Resolve(in Layer) Settings {
	out := standard(in)
	for left := s.written; left != 0; left &= left - 1 {
		Table()[bits.TrailingZeros64(left)].copy(&out, s)
	}
	out.Backoff = out.schedule(in)
	out.Rules = slices.Clone(out.Rules)
	for i := range out.Rules {
		r := &out.Rules[i]
		if !out.Has("attempts") {
			out.Attempts = max(out.Attempts, r.Attempts)
		}
		r.Settings = r.within(out, in)
	}
	return out
}

// standard is what holds where nothing is written.
func standard(in Layer) Settings {
	s := Settings{Attempts: 3, Strategy: "exponential", Initial: time.Second, Max: 30 * time.Second, Base: backoff.DefaultBase,
		JitterFactor: backoff.DefaultJitterFactor, RetryAfterMax: retry.DefaultRetryAfterMax, Ending: Ending{OnFailure: "stop"}}
	if in == Call {
		s.Attempts, s.Strategy, s.Initial = 1, "fixed", 0
	}
	return s
}

// within fills in what a rule leaves out: how its delays grow is the policy's.
// Its attempts and its budget are its own or none.
func (r *Rule) within(s Settings, in Layer) Settings {
	attempts, budget := r.Attempts, r.Budget
	s.Rules, s.written = nil, s.written&^ByName("rules").bit()
	own := r.Over(s)
	out := own.Resolve(in)
	out.Attempts, out.Budget = attempts, budget
	return out
}

// copy takes a field over, and whether it is written.
func (r *Row) copy(to, from *Settings) {
	r.field.copy(to, from)
	to.written |= from.written & r.bit()
}

// schedule makes the delays. Where a pipeline says no cap, a fixed delay has
// none: it is what the author wrote, and the cap is for those that grow.
func (s *Settings) schedule(in Layer) backoff.Schedule {
	b := backoff.Schedule{Strategy: s.strategy(), Initial: s.Initial, Max: s.Max, Jitter: s.Jitter, JitterFactor: s.JitterFactor}
	switch {
	case in == Call && !s.Has("max_delay") && s.Strategy == "fixed" && s.Jitter != backoff.Decorrelated:
		b.Max = backoff.Unlimited
	case b.Max == 0:
		b.Max = -1 // a real zero
	}
	if b.JitterFactor == 0 {
		b.JitterFactor = -1 // a real zero
	}
	return b
}

func (s *Settings) strategy() backoff.Strategy {
	switch s.Strategy {
	case "fixed":
		return backoff.Fixed{}
	case "linear":
		if s.Has("increment") && s.Increment == 0 {
			return backoff.Linear{Increment: -1} // a real zero
		}
		return backoff.Linear{Increment: s.Increment}
	case "exponential":
		return backoff.Exponential{Base: s.Base}
	case "fibonacci":
		return backoff.Fibonacci{}
	case "custom":
		return backoff.Custom{Delays: s.Delays}
	}
	panic(fmt.Sprintf("option: there is no strategy %q", s.Strategy)) // its reader lets none else through
}

// Policy is what resolved settings mean to package retry: the one place in
// which options become a policy. Timeout, breaker, quota and what happens in
// the end are left out; they belong to the one who makes the attempts.
func (s *Settings) Policy() retry.Policy {
	p := retry.Policy{Attempts: s.Attempts, Backoff: s.Backoff, Budget: s.Budget, BudgetExpires: s.BudgetExpires, Deadline: s.Deadline,
		RetryAfterMax: s.RetryAfterMax, If: anyOf(s.RetryOn), AbortOn: anyOf(s.AbortOn)}
	for _, r := range s.Rules {
		p.Rules = append(p.Rules, retry.Rule{On: anyOf(r.On), Attempts: r.Attempts, Backoff: &r.Backoff, Budget: r.Budget})
	}
	return p
}

// Cut reports what of a rule never comes to pass, because the policy around it allows less:
// its attempts, its budget.
func Cut(p *retry.Policy, rule *retry.Rule) (attempts, budget bool) {
	return p.Attempts != retry.Unlimited && rule.Attempts > p.Attempts, p.Budget > 0 && rule.Budget > p.Budget
}

// Hopeless reports whether the budget of a policy is less than the delay that comes first, so
// that nothing is ever tried again, and gives the least that this delay can be.
func Hopeless(p *retry.Policy) (first time.Duration, hopeless bool) {
	if p.Attempts == 1 || p.Budget <= 0 || len(p.Rules) > 0 {
		return 0, false // a rule may have shorter delays
	}
	first = p.Backoff.Base(1)
	switch p.Backoff.Jitter {
	case backoff.None:
	case backoff.Factor:
		first -= time.Duration(float64(first) * math.Max(p.Backoff.JitterFactor, 0))
	default:
		return 0, false
	}
	return first, first > p.Budget
}

func anyOf(list []Matcher) retry.Matcher {
	if len(list) == 0 {
		return nil
	}
	return retry.Any(value.Map(list, func(m Matcher) retry.Matcher { return m.Match })...)
}
