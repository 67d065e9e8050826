package check

import (
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/retry"
)

// What options mean together: those that do nothing alone, and those that
// must be alike for all calls of a module.

// dependencies warns of options that do nothing without another.
func (s *settings) dependencies(w *syntax.WithClause) {
	retries := s.o.Retry.Attempts != 1
	useless := func(k syntax.OptionKind, without string) {
		s.c.warnf(s.place(k, w), fmt.Sprintf("%s-without-%s", kebab(k), without), "'%s' without '%s' has no effect", k, without).
			Suggest("add %q, or remove it", syntax.OptionExample(syntax.OptionByName(without)))
	}
	if s.has(syntax.OptDelay) && !retries {
		useless(syntax.OptDelay, "retry")
	}
	if s.has(syntax.OptBackoff) && !s.has(syntax.OptDelay) {
		useless(syntax.OptBackoff, "delay")
	}
	for _, k := range []syntax.OptionKind{syntax.OptBackoff, syntax.OptRetryOn, syntax.OptAbortOn, syntax.OptBudget} {
		if s.has(k) && !retries {
			useless(k, "retry")
		}
	}
	for _, k := range []syntax.OptionKind{syntax.OptMaxDelay, syntax.OptJitter} {
		if s.has(k) && !s.has(syntax.OptDelay) {
			useless(k, "delay")
		}
	}
	if s.has(syntax.OptCacheBackend) && !s.has(syntax.OptCache) {
		useless(syntax.OptCacheBackend, "cache")
	}
	if s.has(syntax.OptBatchTimeout) && !s.has(syntax.OptBatch) {
		useless(syntax.OptBatchTimeout, "batch")
	}
	if n := s.o.Retry.Attempts - 1; n > 10 {
		s.c.warnf(s.place(syntax.OptRetry, w), "high-retry-count", "High retry count (%d) - consider using a lower value with exponential backoff", n).
			Suggest(`write "budget: 5min", for example, to bound the time that retries may take`)
	}
	if s.has(syntax.OptWindow) && s.has(syntax.OptBatch) {
		s.c.warnf(s.place(syntax.OptBatch, w), "window-and-batch", "'window' and 'batch' are mutually exclusive; 'batch' will be ignored").Suggest("remove one of the two")
	}
	if s.o.Retry.Attempts == retry.Unlimited && s.o.Deadline == 0 {
		s.c.errorf(s.place(syntax.OptRetry, w), "E016", "Invalid value for 'retry': unlimited (nothing bounds the attempts)").Suggest(`add a deadline, for example "deadline: 1h"`)
	}
	if k := syntax.OptBudgetExpires; s.has(k) && !s.has(syntax.OptBudget) {
		useless(k, "budget")
	}
	if first, hopeless := option.Hopeless(&s.o.Retry); hopeless {
		s.c.warnf(s.place(syntax.OptBudget, w), "budget-too-small", "The budget of %s is less than the first delay of %s, so nothing is ever tried again", duration.Format(s.o.Retry.Budget), duration.Format(first)).
			Suggest("raise the budget, or lower the delay")
	}
	s.cutRules(w)
	s.worst(w)
}

// cutRules refuses rules that the options beside them do not let come to pass.
func (s *settings) cutRules(w *syntax.WithClause) {
	p := &s.o.Retry
	for i := range p.Rules {
		rule := &p.Rules[i]
		attempts, budget := option.Cut(p, rule)
		if attempts {
			s.c.errorf(s.place(syntax.OptionByName("rules"), w), "contradiction", "Rule %d has %s, but 'retry: %d' beside the rules bounds it", i+1, diag.Count(rule.Attempts-1, "retry", "retries"), p.Attempts-1).
				Suggest(`write "retry: %d" there, or leave it out: then each rule has its own`, rule.Attempts-1)
		}
		if budget {
			s.c.errorf(s.place(syntax.OptionByName("rules"), w), "contradiction", "Rule %d has a budget of %s, but 'budget: %s' beside the rules bounds it", i+1, duration.Format(rule.Budget), duration.Format(p.Budget)).
				Suggest(`write "budget: %s" there, or leave it out`, duration.Format(rule.Budget))
		}
	}
}

func kebab(k syntax.OptionKind) string { return strings.ReplaceAll(k.String(), "_", "-") }

// place is where an option is in the clause itself, or the clause if it
// comes from a policy.
func (s *settings) place(k syntax.OptionKind, w *syntax.WithClause) syntax.Node {
	if o := w.Get(k); o != nil {
		return o
	}
	return w
}

// worst warns of retries that the deadline will not let happen.
func (s *settings) worst(w *syntax.WithClause) {
	if s.o.Deadline == 0 || s.o.Retry.Attempts == retry.Unlimited {
		return
	}
	free := *s.o.Plain
	free.Deadline = 0
	retries, timeout := free.retries(), free.Retry.Timeout
	known := retries.Cost(bound.Attempt(timeout, bound.Span{}))
	if timeout == 0 {
		known.Time = retries.Waits // and attempts of which nobody knows how long they take
	}
	if total := known.Time.D; total > s.o.Deadline {
		s.c.warnf(s.place(syntax.OptDeadline, w), "deadline-too-short", "In the worst case the call takes %s (%s), which is beyond its deadline of %s",
			duration.Format(total), retries.Text(timeout), duration.Format(s.o.Deadline)).Suggest("the attempts that do not fit are not made")
	}
}

// limits refuses a second rate for one module: there is one limiter.
func (s *settings) limits(w *syntax.WithClause, target *callable) {
	known := s.c.limits[target.full]
	conflict := func(k syntax.OptionKind, first, second any) {
		s.c.here(s.place(k, w), "conflicting-limits", "The module %s has the limit '%s: %v' here, but '%s: %v' above; there is one for all its calls", target.full, k, second, k, first).
			Suggest("give both calls the same limit")
	}
	if r := s.o.Throttle; r.Count > 0 {
		if known.throttle.Count > 0 && known.throttle != r {
			conflict(syntax.OptThrottle, known.throttle, r)
		}
		known.throttle = r
	}
	if n := s.o.Limit; n > 0 {
		if known.concurrency > 0 && known.concurrency != n {
			conflict(syntax.OptConcurrency, known.concurrency, n)
		}
		known.concurrency = n
	}
	s.c.limits[target.full] = known
}
