package workflow

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/option"
)

// This file turns old spellings into the present one, so that what reads the
// trees knows one spelling.

// as is a scalar with another text in the place of n.
func (n *node) as(text string) *node {
	return &node{kind: strNode, text: text, pos: n.pos, end: n.end, src: n.src}
}

// presentPolicy is a retry policy whose backoff is a name, with its parameters
// beside it: of {backoff: {linear: {initial: 1s}}}, {backoff: {type: linear,
// initial: 1s}} and {backoff: !linear {initial: 1s}} it makes {backoff: linear,
// initial_delay: 1s}. What is inside the backoff wins.
func (d *decoder) presentPolicy(n *node) *node {
	b := n.get("backoff")
	if b == nil {
		return n
	}
	if b = d.resolved(b); b.tag == "" && b.kind != mapNode {
		return n
	}
	name, value := strategyParts(b)
	if name == nil || !slices.Contains(option.Strategies, strings.ToLower(name.text)) {
		return n
	}
	inner := d.strategyParameters(name, value)
	d.liftBackoff(n, name, value, inner)
	out := *n
	out.pairs = inner
	for _, p := range n.pairs {
		switch {
		case p.val == n.get("backoff"):
			out.pairs = append(out.pairs, pair{p.key, name})
		case !slices.ContainsFunc(inner, func(q pair) bool { return sameOption(p.key.text, q.key.text) }):
			out.pairs = append(out.pairs, p)
		}
	}
	return &out
}

// liftBackoff has the parameters of a strategy written beside its name.
func (d *decoder) liftBackoff(n, name, value *node, inner []pair) {
	if d.migration == nil {
		return
	}
	l := lift{val: n.get("backoff"), head: "backoff: " + strings.ToLower(name.text), pairs: inner}
	what, present := "the strategy's parameters stand inside backoff", l.head+", with the parameters beside it"
	lost := 0 // keys without effect, which continue to be told
	for _, p := range value.pairs {
		var named strategyNamed
		if backoffTable.look(&node{pairs: []pair{p}}, &named); !named.there() {
			lost++
		}
	}
	if value.kind == mapNode {
		lost -= len(inner)
	}
	for _, p := range n.pairs {
		if p.key.text == "backoff" {
			l.key = p.key
		} else if slices.ContainsFunc(inner, func(q pair) bool { return sameOption(p.key.text, q.key.text) }) {
			lost++
		}
	}
	if lost > 0 {
		d.migration.leave(l.val, what, present)
		return
	}
	d.migration.lift(l, what, present)
}

// sameOption reports whether a key is a spelling of an option.
func sameOption(key, name string) bool {
	return slices.Contains(option.ByName(name).Spellings(), key)
}

// strategyParts gives the name of a strategy and what is written behind it;
// nil where the value has no such form.
func strategyParts(b *node) (name, value *node) {
	var named strategyNamed
	switch backoffTable.look(b, &named); {
	case b.tag != "":
		return b.as(strings.TrimPrefix(b.tag, "!")), b
	case named.there():
		return b.get(named.key.text), b
	case len(b.pairs) == 1:
		return b.pairs[0].key, b.pairs[0].val
	}
	return nil, b
}

// strategyNamed is the name of a strategy, among its parameters.
type strategyNamed struct{ written }

// strategyParameters gives what is behind a strategy's name as options of a
// policy: nothing, a map of its parameters, or its one natural parameter.
func (d *decoder) strategyParameters(name, v *node) (out []pair) {
	one := func(option string) []pair { return []pair{{name.as(option), v}} }
	strategy := strings.ToLower(name.text)
	switch {
	case v.kind == nullNode || v.scalar() && v.text == "":
		return nil
	case v.kind == mapNode:
		o, _ := d.object(v, backoffTable) // it is a map
		defer o.close()
		backoffTable.skip(o, &strategyNamed{})
		for _, f := range backoffTable.fields() {
			if f.as != "" || f.in(&strategyNamed{}) {
				continue
			}
			if key, val := o.spelled(f.spellings); val != nil {
				out = append(out, pair{o.keyNode(key).as(f.key), val})
			}
		}
		return out
	}
	// What is alone is the one parameter that only this strategy has, else the delay.
	natural := option.ByName("initial_delay")
	for _, r := range option.For(option.File) {
		if r.Of == strategy {
			natural = r
		}
	}
	if is := natural.Kind == option.Spans; is && v.kind == listNode || !is && v.scalar() {
		return one(natural.Name)
	}
	d.wrong(v, strategy, "a map of its parameters").Suggest("for example: %s: {initial: 1s}", strategy)
	return nil
}
