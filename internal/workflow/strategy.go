package workflow

import (
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/diag"
)

// strategySpec is a backoff with its parameters, which go together.
type strategySpec struct {
	name      string
	n         *node
	increment *time.Duration
	base      *float64
	delays    []time.Duration
	hasDelays bool
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
