package workflow

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
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

// strategySpec is a backoff with its parameters, which go together.
type strategySpec struct {
	name      string
	n         *node
	increment *time.Duration
	base      *float64
	delays    []time.Duration
	hasDelays bool
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

// strategyParams reads the parameters of a strategy that stand in a map.
func (o *object) strategyParams(s *strategySpec) {
	set(&s.increment, o.spanOf("increment"))
	if f, ok := o.number(1, 0, "base", "multiplier", "factor"); ok {
		set(&s.base, &f)
	}
	v := o.take("delays")
	if v == nil {
		return
	}
	if v.kind != listNode {
		o.d.wrong(v, "delays", "a list of durations").Suggest("for example: delays: [1s, 3s, 10s]")
		return
	}
	s.hasDelays = true
	s.delays = make([]time.Duration, 0, len(v.items))
	for _, it := range v.items {
		if d, ok := o.d.span(it, "delays", time.Second); ok {
			s.delays = append(s.delays, d)
		}
	}
}

var strategies = []string{"fixed", "linear", "exponential", "fibonacci", "custom"}

func isStrategy(name string) bool { return slices.Contains(strategies, name) }

// backoff reads a strategy in any spelling: a name, {NAME: {…}}, {type: NAME,
// …} or a YAML tag !NAME.
func (d *decoder) backoff(n *node, key string, s *retrySpec) {
	n = d.resolved(n)
	st := &s.strategy
	st.n = n
	switch {
	case n.tag != "":
		if st.name = d.strategyName(n, strings.TrimPrefix(n.tag, "!")); st.name != "" {
			d.strategyValue(n, s)
		}
	case n.kind == mapNode && (n.get("type") != nil || n.get("strategy") != nil):
		o, _ := d.object(n, backoffTable) // it is a map
		st.name = o.choice("", "type", "strategy")
		d.strategyFields(o, s)
	case n.kind == mapNode && len(n.pairs) > 0:
		d.nestedBackoff(n, s)
	case n.scalar() && n.kind != nullNode:
		st.name = d.strategyName(n, n.text)
	default:
		d.wrong(n, key, "a strategy").Suggest("write one of %s, or {exponential: {base: 3}}", strings.Join(strategies, ", "))
	}
}

// nestedBackoff reads {NAME: PARAMETERS}.
func (d *decoder) nestedBackoff(n *node, s *retrySpec) {
	found := false
	for _, p := range n.pairs {
		name := strings.ToLower(p.key.text)
		switch {
		case !isStrategy(name):
			d.strategyName(p.key, p.key.text)
		case found:
			d.errorf(p.key, "bad-value", "a backoff has one strategy; this has %q besides %q", name, s.strategy.name).Suggest("keep one of the two")
		default:
			found = true
			s.strategy.name = name
			d.strategyValue(p.val, s)
		}
	}
}

func (d *decoder) strategyName(n *node, name string) string {
	if isStrategy(strings.ToLower(strings.TrimSpace(name))) {
		return strings.ToLower(strings.TrimSpace(name))
	}
	p := d.errorf(n, "bad-value", "there is no backoff %q", short(name))
	if s := diag.DidYouMean(name, strategies); s != "" {
		p.Suggest("%s (one of %s)", s, strings.Join(strategies, ", "))
	} else {
		p.Suggest("write one of %s", strings.Join(strategies, ", "))
	}
	return ""
}

// strategyValue reads what stands behind a strategy's name: nothing, a map of
// its parameters, or its one natural parameter.
func (d *decoder) strategyValue(n *node, s *retrySpec) {
	st := &s.strategy
	switch {
	case n.kind == nullNode || (n.scalar() && n.text == ""):
	case n.kind == mapNode:
		o, _ := d.object(n, backoffTable) // it is a map
		d.strategyFields(o, s)
	case n.kind == listNode && st.name == "custom":
		st.hasDelays = true
		for _, it := range n.items {
			if v, ok := d.span(it, "custom", time.Second); ok {
				st.delays = append(st.delays, v)
			}
		}
	case n.scalar() && st.name == "exponential":
		if f, p := d.number(d.resolved(n), "exponential", 1, 0); p == nil {
			st.base = &f
		} else if p.Suggestion == "" {
			p.Suggest("write {exponential: {base: 2.0}}")
		}
	case n.scalar() && st.name != "custom":
		if v, ok := d.span(n, st.name, time.Second); ok {
			if st.name == "linear" {
				st.increment = &v
			} else {
				s.initial = &v
			}
		}
	default:
		d.wrong(n, st.name, "a map of its parameters").Suggest("for example: %s: {initial: 1s}", st.name)
	}
}

func (d *decoder) strategyFields(o *object, s *retrySpec) {
	set(&s.initial, o.spanOf("delay", "initial", "initial_delay"))
	set(&s.max, o.spanOf("max", "max_delay"))
	o.strategyParams(&s.strategy)
	o.skip("type", "strategy")
	o.close()
}

// checkStrategy warns about parameters that the strategy does not have.
func (d *decoder) checkStrategy(s *retrySpec) {
	st := &s.strategy
	n := st.n
	if n == nil {
		n = s.n
	}
	name := st.name
	if name == "" {
		return // the name may come from retry_defaults
	}
	warn := func(key, of string) {
		d.warnf(n, "no-effect", "%q has no effect: it belongs to %s backoff, and this is %s", key, of, name).
			Suggest("write backoff: %s, or remove %s", of, key)
	}
	if st.increment != nil && name != "linear" {
		warn("increment", "linear")
	}
	if st.base != nil && name != "exponential" {
		warn("base", "exponential")
	}
	if st.hasDelays && name != "custom" {
		warn("delays", "custom")
	}
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

// matchers reads one matcher or a list of them.
func (d *decoder) matchers(o *object, key string) *[]Matcher {
	n := o.take(key)
	if n == nil {
		return nil
	}
	items := []*node{n}
	if n.kind == listNode {
		items = n.items
	}
	list := make([]Matcher, 0, len(items))
	for _, it := range items {
		list = append(list, d.matcher(it, key)...)
	}
	return &list
}

var matcherNames = []string{"network", "timeout", "server_error", "rate_limit", "circuit_open"}

func (d *decoder) matcher(n *node, key string) []Matcher {
	n = d.resolved(n)
	if n.tag == "!pattern" && n.scalar() {
		return d.patternMatcher(n)
	}
	if n.scalar() && n.kind != nullNode {
		name := snake(n.text)
		if m, ok := retry.MatcherByName(name); ok {
			return []Matcher{{Name: name, Match: m}}
		}
		p := d.errorf(n, "unknown-matcher", "%s has no matcher %q", key, short(n.text))
		if s := diag.DidYouMean(name, matcherNames); s != "" {
			p.Suggest("%s", s)
		} else {
			p.Suggest("write one of %s, {pattern: '…'} or {exit_code: [1]}", strings.Join(matcherNames, ", "))
		}
		return nil
	}
	o, ok := d.object(n, matcherTable)
	if !ok {
		return nil
	}
	defer o.close()
	var list []Matcher
	if v := o.take("pattern"); v != nil {
		list = append(list, d.patternMatcher(v)...)
	}
	if v := o.take("exit_code"); v != nil {
		list = append(list, d.exitMatcher(v)...)
	}
	if len(n.pairs) == 0 {
		d.errorf(n, "unknown-matcher", "an empty matcher matches nothing").Suggest("write {pattern: '…'} or {exit_code: [1]}")
	}
	return list
}

func (d *decoder) patternMatcher(n *node) []Matcher {
	n = d.resolved(n)
	if !n.scalar() {
		d.wrong(n, "pattern", "a regular expression").Suggest("for example: {pattern: 'try again (later|soon)'}")
		return nil
	}
	if _, err := regexp.Compile(n.text); err != nil {
		d.badRegexp(n, "pattern", err)
		return nil
	}
	m, err := retry.Pattern(n.text)
	if err != nil {
		d.badRegexp(n, "pattern", err)
		return nil
	}
	return []Matcher{{Name: "pattern: " + n.text, Match: m}}
}

func (d *decoder) exitMatcher(n *node) []Matcher {
	items := []*node{n}
	if n.kind == listNode {
		items = n.items
	}
	var codes []int
	var words []string
	for _, it := range items {
		c, p := d.integer(d.resolved(it), "exit_code", 0)
		switch {
		case p != nil:
			if p.Suggestion == "" {
				p.Suggest("for example: {exit_code: [75, 111]}")
			}
		case c > 255:
			d.errorf(it, "out-of-range", "exit_code is %d; exit statuses go from 0 to 255", c).Suggest("for example: {exit_code: [75, 111]}")
		default:
			codes = append(codes, c)
			words = append(words, strconv.Itoa(c))
		}
	}
	if len(codes) == 0 {
		return nil
	}
	return []Matcher{{Name: fmt.Sprintf("exit_code: [%s]", strings.Join(words, ", ")), Match: retry.ExitCode(codes...)}}
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

func (s *strategySpec) resolve() backoff.Strategy {
	switch s.name {
	case "fixed":
		return backoff.Fixed{}
	case "linear":
		l := backoff.Linear{}
		if s.increment != nil {
			if l.Increment = *s.increment; l.Increment == 0 {
				l.Increment = backoff.Zero
			}
		}
		return l
	case "fibonacci":
		return backoff.Fibonacci{}
	case "custom":
		return backoff.Custom{Delays: s.delays}
	}
	return backoff.Exponential{Base: orElse(s.base, backoff.DefaultBase)}
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
