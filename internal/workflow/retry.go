package workflow

import (
	"fmt"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/retry"
)

// Retry is a retry policy as a file gives it, every default filled in.
type Retry struct {
	Pos diag.Pos
	option.Settings
}

// Matcher and Quota are those of the options.
type (
	Matcher = option.Matcher
	Quota   = option.Quota
)

// Policy gives the policy of package retry that a policy of a file stands for.
// A nil Retry is one attempt. Timeout, breaker and quota are left out: they
// belong to who makes the attempts.
func (r *Retry) Policy() retry.Policy {
	if r == nil {
		return retry.Policy{Attempts: 1}
	}
	return r.Settings.Policy()
}

// FallbackAction is what runs in the place of a step whose attempts are
// exhausted; nil where the policy has no fallback, or is nil.
func (r *Retry) FallbackAction() Action {
	if r == nil || r.Fallback == nil {
		return nil
	}
	return commandOrPrompt(r.Fallback.(*template.Text))
}

// retrySpec is a retry policy as it is written. Several are laid over each
// other, option by option, before one is resolved.
type retrySpec struct {
	n   *node
	off bool // retry: false
	option.Settings
}

// over lays s over the defaults in base.
func (s *retrySpec) over(base *retrySpec) *retrySpec {
	switch {
	case base == nil:
		return s
	case s == nil:
		return base
	}
	return &retrySpec{n: s.n, off: s.off, Settings: s.Over(base.Settings)}
}

// retrySpec reads a policy in any form: a map, a number of attempts, true for
// the defaults, false for none.
func (d *decoder) retrySpec(n *node, key string) *retrySpec {
	n = d.resolved(n)
	s := &retrySpec{n: n}
	switch n.kind {
	case boolNode:
		s.off = !isTrue(n)
	case intNode:
		s.attempts(d, n, key)
	case mapNode:
		o, _ := d.object(d.presentPolicy(n), retryTable) // it is a map
		o.options(option.For(option.File), &s.Settings)
		o.close()
		d.checkParameters(o, s)
	default:
		d.wrong(n, key, "a map, or the number of attempts").Suggest("for example: %s: {attempts: 5, backoff: exponential}", key)
		return nil
	}
	return s
}

// attempts reads a number of attempts that is outside a policy.
func (s *retrySpec) attempts(d *decoder, n *node, key string) {
	r := option.ByName("attempts")
	if i, ok := d.count(d.resolved(n), key, r); ok {
		r.Set(&s.Settings, i)
	}
}

// retries reads a number of attempts after the first: a policy of so many and one.
func (s *retrySpec) retries(d *decoder, n *node, key string) (*retrySpec, int) {
	r := option.ByName("attempts")
	most := int(r.Greatest) - 1
	again, p := d.integer(d.resolved(n), key, 0)
	switch {
	case p != nil:
		p.Or("write how often it is tried again, for example: %s: 2", key)
		return nil, 0
	case again > most:
		d.errorf(n, "out-of-range", "%s is %d; it can be at most %d", key, again, most).Suggest("bound the time with retry_budget")
		return nil, 0
	}
	r.Set(&s.Settings, again+1)
	return s, again
}

// UnmetError is an attempt whose result is not what it is to be repeated for.
type UnmetError struct{ Until string }

func (e *UnmetError) Error() string { return fmt.Sprintf("until %s does not hold", e.Until) }

// Class is "until".
func (e *UnmetError) Class() string { return "until" }

// checkParameters warns about parameters that the strategy or the jitter does
// not have. Where no strategy is named, retry_defaults may name it.
func (d *decoder) checkParameters(o *object, s *retrySpec) {
	for _, r := range option.For(option.File) {
		if r.Of == "" || !s.Has(r.Name) {
			continue
		}
		key, named, is := "backoff", s.Has("backoff"), s.Strategy
		if !slices.Contains(option.Strategies, r.Of) {
			key, named, is = "jitter", s.Has("jitter"), s.Jitter.String()
		}
		if named && is != r.Of {
			d.warnf(o.keyNode(r.Name), "no-effect", "%q has no effect: it belongs to %s %s, and this is %s", r.Name, r.Of, key, is).
				Suggest("write %s: %s, or remove %s", key, r.Of, r.Name)
		}
	}
}

// resolve fills in the defaults and checks what only shows when a policy is
// whole. It gives nil where nothing is to be tried again.
func (d *decoder) resolve(s *retrySpec) *Retry {
	if s == nil || s.off {
		return nil
	}
	r := &Retry{Pos: s.n.pos, Settings: s.Resolve(option.File)}
	d.checkRetry(s, r)
	d.checkBounds(s, r)
	return r
}

// checkBounds refuses a policy that contradicts itself.
func (d *decoder) checkBounds(s *retrySpec, r *Retry) {
	if r.Attempts == retry.Unlimited && r.Deadline == 0 {
		d.errorf(s.n, "contradiction", "attempts are unlimited, and nothing bounds them").Suggest("add a deadline, for example: deadline: 1h")
	}
	if r.BudgetExpires && r.Budget == 0 {
		d.warnf(s.n, "no-effect", "retry_budget_expires has no effect without a retry_budget").Suggest("add a retry_budget, or remove it")
	}
	policy := r.Policy()
	for i, rule := range policy.Rules {
		attempts, budget := option.Cut(&policy, &rule)
		if attempts {
			d.errorf(s.n, "contradiction", "rule %d has %d attempts, but the %d attempts of the policy bound it", i+1, rule.Attempts, r.Attempts).
				Suggest("raise the attempts of the policy, or leave them out")
		}
		if budget {
			d.errorf(s.n, "contradiction", "rule %d has a retry_budget of %s, but that of the policy, %s, bounds it", i+1, duration.Format(rule.Budget), duration.Format(r.Budget)).
				Suggest("raise the retry_budget of the policy")
		}
	}
}

// Unmet is the failure of an attempt that went well and whose result the
// policy's condition does not accept; nil where it accepts it or has none. The
// condition sees the result over what r resolves. A nil Retry has no condition.
func (r *Retry) Unmet(scope expr.Resolver, result map[string]any) error {
	if r == nil || r.Until == nil {
		return nil
	}
	ok, err := r.Until.(*expr.Expr).EvalBool(expr.ResolverFunc(func(p expr.Path) (any, bool) {
		if _, own := result[p[0].Name]; own {
			return expr.Walk(result, p)
		}
		return scope.Lookup(p)
	}))
	switch {
	case err != nil:
		return retry.Permanent(fmt.Errorf("until: %w", err))
	case !ok:
		return &UnmetError{Until: r.Until.String()}
	}
	return nil
}

// checkCap warns about delays that are written and never waited for in full.
func (d *decoder) checkCap(s *retrySpec, r *Retry) {
	limit := duration.Format(r.Max)
	if !s.Has("max_delay") {
		limit += " (the default)"
	}
	switch {
	case r.Strategy == "custom" && len(r.Delays) > 0 && slices.Max(r.Delays) > r.Max:
		d.warnf(s.n, "cap-below-delay", "max_delay %s is less than %s of delays, which is cut to it",
			limit, duration.Format(slices.Max(r.Delays))).Suggest("raise max_delay")
	case r.Strategy != "custom" && s.Has("initial_delay") && r.Initial > r.Max:
		d.warnf(s.n, "cap-below-delay", "max_delay %s is less than initial_delay %s, so every delay is %s",
			limit, duration.Format(r.Initial), duration.Format(r.Max)).Suggest("raise max_delay or lower initial_delay")
	}
}

// checkRetry warns about policies that do not do what they seem to.
func (d *decoder) checkRetry(s *retrySpec, r *Retry) {
	for _, o := range option.For(option.File) {
		if s.Has(o.Name) && !s.Has("backoff") && slices.Contains(option.Strategies, o.Of) && o.Of != r.Strategy {
			d.warnf(s.n, "no-effect", "%q has no effect: it belongs to backoff %s, and this is %s", o.Name, o.Of, r.Strategy).Suggest("write backoff: %s", o.Of)
		}
	}
	d.checkCap(s, r)
	p := r.Policy()
	if first, hopeless := option.Hopeless(&p); hopeless {
		d.warnf(s.n, "budget-too-small", "retry_budget %s is less than the first delay %s, so nothing is ever tried again",
			duration.Format(r.Budget), duration.Format(first)).
			Suggest("raise retry_budget above the first delay, or lower initial_delay")
	}
}
