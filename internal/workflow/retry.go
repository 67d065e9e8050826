package workflow

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/retry"
)

// The defaults of a retry policy in a workflow file.
const (
	defaultAttempts = 3
	defaultInitial  = time.Second
	defaultMax      = 30 * time.Second
	maxAttempts     = 1_000_000
)

// retrySpec is a retry policy as it is written: nil and "" are what is not.
// Several are laid over each other, field by field, before one is resolved.
type retrySpec struct {
	n        *node
	off      bool // retry: false
	attempts *int
	strategy strategySpec
	initial  *time.Duration
	max      *time.Duration
	jitter   *backoff.Jitter
	factor   *float64
	retryOn  *[]Matcher
	abortOn  *[]Matcher
	budget   *time.Duration
	afterMax *time.Duration
	timeout  *time.Duration
	breaker  *circuit.Config
	failure  string
	fallback *template.Text
	quota    *Quota
}

// over lays s over the defaults in base.
func (s *retrySpec) over(base *retrySpec) *retrySpec {
	if base == nil {
		return s
	}
	if s == nil {
		return base
	}
	out := *s
	out.attempts = either(s.attempts, base.attempts)
	if s.strategy.name == "" {
		st := base.strategy
		st.increment = either(s.strategy.increment, st.increment)
		st.base = either(s.strategy.base, st.base)
		if s.strategy.hasDelays {
			st.delays, st.hasDelays = s.strategy.delays, true
		}
		out.strategy = st
	}
	out.initial = either(s.initial, base.initial)
	out.max = either(s.max, base.max)
	out.jitter = either(s.jitter, base.jitter)
	out.factor = either(s.factor, base.factor)
	out.retryOn = either(s.retryOn, base.retryOn)
	out.abortOn = either(s.abortOn, base.abortOn)
	out.budget = either(s.budget, base.budget)
	out.afterMax = either(s.afterMax, base.afterMax)
	out.timeout = either(s.timeout, base.timeout)
	out.breaker = either(s.breaker, base.breaker)
	out.quota = either(s.quota, base.quota)
	if s.failure == "" {
		out.failure, out.fallback = base.failure, base.fallback
	}
	return &out
}

func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// orElse is *p, or def where p is nil.
func orElse[T any](p *T, def T) T {
	if p != nil {
		return *p
	}
	return def
}

// retrySpec reads a policy in any form: a map, a number of attempts, true for
// the defaults, false for none.
func (d *decoder) retrySpec(n *node, key string) *retrySpec {
	n = d.resolved(n)
	switch n.kind {
	case boolNode:
		return &retrySpec{n: n, off: !strings.EqualFold(n.text, "true")}
	case intNode:
		s := &retrySpec{n: n}
		s.attempts = d.attempts(n, key)
		return s
	case mapNode:
		return d.retryMap(n)
	}
	d.wrong(n, key, "a map, or the number of attempts").Suggest("for example: %s: {attempts: 5, backoff: exponential}", key)
	return nil
}

func (d *decoder) attempts(n *node, key string) *int {
	n = d.resolved(n)
	i, p := d.integer(n, key, 1)
	switch {
	case p != nil:
		if p.Suggestion == "" {
			p.Suggest("it counts all runs: 1 means no retry, 3 means two retries")
		}
		return nil
	case i > maxAttempts:
		d.errorf(n, "out-of-range", "%s is %d; it can be at most %d", key, i, maxAttempts).Suggest("bound the time with retry_budget")
		return nil
	}
	return &i
}

func (d *decoder) retryMap(n *node) *retrySpec {
	o, ok := d.object(n, retryTable)
	if !ok {
		return nil
	}
	defer o.close()
	s := &retrySpec{n: n}
	if key, v := o.first("attempts", "max_attempts"); v != nil {
		s.attempts = d.attempts(v, key)
	}
	if key, v := o.first("backoff"); v != nil {
		d.backoff(v, key, s)
	}
	o.strategyParams(&s.strategy)
	set(&s.initial, o.spanOf("initial_delay", "initial_delay_ms", "initial_delay_secs"))
	set(&s.max, o.spanOf("max_delay", "max_delay_ms", "max_delay_secs"))
	d.jitter(o, s)
	s.retryOn = d.matchers(o, "retry_on")
	s.abortOn = d.matchers(o, "abort_on")
	s.budget = o.positive("retry_budget", "retry_budget_ms", "retry_budget_secs")
	set(&s.afterMax, o.spanOf("retry_after_max"))
	s.timeout = o.positive("timeout", "timeout_ms", "timeout_secs")
	if v := o.take("on_failure"); v != nil {
		d.retryFailure(v, s)
	}
	if v := o.take("circuit_breaker"); v != nil {
		s.breaker = d.breaker(v)
	}
	if v := o.take("quota"); v != nil {
		s.quota = d.quota(v)
	}
	d.checkStrategy(s)
	return s
}

// set keeps an inner spelling of a field that is there already.
func set[T any](p **T, v *T) {
	if *p == nil {
		*p = v
	}
}

func (o *object) spanOf(keys ...string) *time.Duration {
	if v, ok := o.span(time.Second, keys...); ok {
		return &v
	}
	return nil
}

// positive reads a duration that must not be zero.
func (o *object) positive(keys ...string) *time.Duration {
	key, n := o.first(keys...)
	if n == nil {
		return nil
	}
	v, ok := o.d.span(n, key, unitOf(key, time.Second))
	if ok && v == 0 {
		o.d.errorf(n, "out-of-range", "%s is 0; it must be more than that", key).Suggest("remove the key where there is to be no bound")
		return nil
	}
	if !ok {
		return nil
	}
	return &v
}

func (d *decoder) jitter(o *object, s *retrySpec) {
	if n := o.take("jitter"); n != nil {
		n = d.resolved(n)
		var j backoff.Jitter
		if n.kind == boolNode {
			if strings.EqualFold(n.text, "true") {
				j = backoff.Factor
			}
			s.jitter = &j
		} else if parsed, err := backoff.ParseJitter(strings.ToLower(n.text)); err == nil && n.kind == strNode {
			s.jitter = &parsed
		} else {
			names := []string{"none", "factor", "full", "equal", "decorrelated"}
			p := d.errorf(n, "bad-value", "jitter cannot be %q", short(n.text))
			switch hint := diag.DidYouMean(n.text, names); {
			case slices.Contains([]string{"yes", "on", "no", "off"}, n.text):
				p.Suggest("write jitter: %v", n.text == "yes" || n.text == "on")
			case hint != "":
				p.Suggest("%s", hint)
			default:
				p.Suggest("write true, false or one of %s", strings.Join(names, ", "))
			}
		}
	}
	if f, ok := o.number(0, 1, "jitter_factor"); ok {
		s.factor = &f
		if s.jitter != nil && *s.jitter != backoff.Factor {
			d.warnf(o.keyNode("jitter_factor"), "no-effect", "jitter_factor has no effect with jitter %s", s.jitter).
				Suggest("write jitter: true, or remove jitter_factor")
		}
	}
}

// retryFailure reads what happens when a policy is exhausted.
func (d *decoder) retryFailure(n *node, s *retrySpec) {
	n = d.resolved(n)
	switch {
	case n.tag == "!fallback" || (n.kind == mapNode && n.get("fallback") == nil && (n.get("command") != nil || n.get("shell") != nil)):
		d.fallback(n, s)
	case n.kind == mapNode:
		o, _ := d.object(n, fallbackTable) // it is a map
		if v := o.take("fallback"); v != nil {
			d.fallback(v, s)
		} else if !o.has("fallback") {
			d.errorf(n, "bad-value", "a retry's on_failure written as a map is {fallback: …}").Suggest("for example: on_failure: {fallback: {command: echo none}}")
		}
		o.close()
	case n.kind == strNode && (n.text == "stop" || n.text == "continue"):
		s.failure = n.text
	case n.kind == strNode && n.text == "fallback":
		d.errorf(n, "bad-value", "a fallback needs its command").Suggest("write on_failure: {fallback: {command: …}}")
	default:
		p := d.errorf(n, "bad-value", "a retry's on_failure is stop, continue or {fallback: {command: …}}, not %s", n.kind)
		if hint := diag.DidYouMean(n.text, []string{"stop", "continue"}); hint != "" {
			p.Suggest("%s", hint)
		} else {
			p.Suggest("a handler's steps stand in the step's own on_failure, beside retry")
		}
	}
}

func (d *decoder) fallback(n *node, s *retrySpec) {
	if n.scalar() {
		s.fallback = d.text(n, "fallback")
	} else if o, ok := d.object(n, commandTable); ok {
		s.fallback = o.text("command", "shell")
		o.close()
		if s.fallback == nil {
			d.errorf(n, "missing-key", "a fallback needs a command").Suggest("for example: on_failure: {fallback: {command: echo none}}")
		}
	}
	if s.fallback != nil {
		s.failure = "fallback"
	}
}

// breaker reads a circuit breaker; true means its defaults.
func (d *decoder) breaker(n *node) *circuit.Config {
	n = d.resolved(n)
	c := &circuit.Config{
		FailureThreshold: circuit.DefaultFailureThreshold, SuccessThreshold: circuit.DefaultSuccessThreshold,
		Timeout: circuit.DefaultTimeout, HalfOpenRequests: circuit.DefaultHalfOpenRequests,
	}
	if n.kind == boolNode {
		if strings.EqualFold(n.text, "true") {
			return c
		}
		return nil
	}
	o, ok := d.object(n, breakerTable)
	if !ok {
		return nil
	}
	defer o.close()
	for key, to := range map[string]*int{
		"failure_threshold": &c.FailureThreshold, "success_threshold": &c.SuccessThreshold, "half_open_requests": &c.HalfOpenRequests,
	} {
		if v, ok := o.integer(1, key); ok {
			*to = v
		}
	}
	if v := o.positive("timeout", "timeout_ms", "timeout_secs"); v != nil {
		c.Timeout = *v
	}
	return c
}

func (d *decoder) quota(n *node) *Quota {
	o, ok := d.object(n, quotaTable)
	if !ok {
		return nil
	}
	defer o.close()
	q := &Quota{Name: o.str("name"), Ratio: 0.1, Floor: 10}
	if f, ok := o.number(0, 0, "ratio"); ok {
		q.Ratio = f
	}
	if f, ok := o.number(0, 0, "floor"); ok {
		q.Floor = f
	}
	return q
}

// resolve fills in the defaults and checks what only shows when a policy is
// whole. It gives nil where nothing is to be tried again.
func (d *decoder) resolve(s *retrySpec) *Retry {
	if s == nil || s.off {
		return nil
	}
	r := &Retry{
		Pos:      s.n.pos,
		Attempts: orElse(s.attempts, defaultAttempts),
		Backoff: backoff.Schedule{
			Strategy: s.strategy.resolve(),
			Initial:  orElse(s.initial, defaultInitial),
			Max:      orElse(s.max, defaultMax),
			Jitter:   orElse(s.jitter, backoff.None),
		},
		Budget:        orElse(s.budget, 0),
		RetryAfterMax: orElse(s.afterMax, retry.DefaultRetryAfterMax),
		Timeout:       orElse(s.timeout, 0),
		Breaker:       s.breaker,
		OnFailure:     s.failure,
		Fallback:      s.fallback,
		Quota:         s.quota,
		RetryOn:       orElse(s.retryOn, nil),
		AbortOn:       orElse(s.abortOn, nil),
	}
	if r.OnFailure == "" {
		r.OnFailure = "stop"
	}
	if r.Backoff.Max == 0 {
		r.Backoff.Max = backoff.Zero
	}
	r.Backoff.JitterFactor = orElse(s.factor, backoff.DefaultJitterFactor)
	if r.Backoff.JitterFactor == 0 {
		r.Backoff.JitterFactor = -1 // a real zero
	}
	d.checkRetry(s, r)
	return r
}

// checkRetry warns about policies that do not do what they seem to.
func (d *decoder) checkRetry(s *retrySpec, r *Retry) {
	if s.initial != nil && s.max != nil && *s.max < *s.initial {
		d.warnf(s.n, "cap-below-delay", "max_delay %s is less than initial_delay %s, so every delay is %s",
			duration.Format(*s.max), duration.Format(*s.initial), duration.Format(*s.max)).
			Suggest("raise max_delay or lower initial_delay")
	}
	if r.Attempts == 1 {
		return
	}
	first := r.Backoff.Base(1)
	if r.Backoff.Jitter == backoff.Factor {
		first -= time.Duration(float64(first) * math.Max(r.Backoff.JitterFactor, 0))
	}
	fixed := r.Backoff.Jitter == backoff.None || r.Backoff.Jitter == backoff.Factor
	if r.Budget > 0 && fixed && first > r.Budget {
		d.warnf(s.n, "budget-too-small", "retry_budget %s is less than the first delay %s, so nothing is ever tried again",
			duration.Format(r.Budget), duration.Format(first)).
			Suggest("raise retry_budget above the first delay, or lower initial_delay")
	}
}

// FallbackAction is what runs in the place of a step whose attempts are
// exhausted: a prompt where the fallback begins with a slash, as in a handler,
// else a command; nil where the policy has none, or is nil.
func (r *Retry) FallbackAction() Action {
	switch {
	case r == nil || r.Fallback == nil:
		return nil
	case isSlashCommand(r.Fallback.String()):
		return &Claude{Text: r.Fallback}
	}
	return &Shell{Text: r.Fallback}
}
