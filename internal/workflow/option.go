package workflow

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// This file reads the values of the options of a policy, by the rows of
// package option. What is written is checked against its row.

// options reads those of some options that are written into to, which is a
// *option.Settings or a *circuit.Config.
func (o *object) options(rows []*option.Row, to any) {
	for _, r := range rows {
		key, n := o.spelled(r.Spellings())
		if n == nil {
			continue
		}
		if v, ok := o.d.optionValue(o, r, key, o.d.resolved(n)); ok {
			r.Set(to, v)
		}
	}
}

// optionValue reads a value of the kind that the option has.
func (d *decoder) optionValue(o *object, r *option.Row, key string, n *node) (any, bool) {
	switch r.Kind {
	case option.Count:
		return d.count(n, key, r)
	case option.Number:
		f, p := d.number(n, key, interval{least: r.Least, greatest: r.Greatest})
		o.hint(p, key)
		return f, p == nil
	case option.Span:
		return d.optionSpan(n, key, r)
	case option.Spans:
		return d.spans(n, key)
	case option.Flag:
		return d.flag(o, n, key)
	case option.Jitter:
		return d.jitter(n, key)
	case option.Strategy:
		return d.strategy(n, key)
	case option.Matchers:
		return d.matchers(n, key), true
	case option.Condition:
		return d.until(n, key)
	case option.Rules:
		return d.rules(n, key)
	case option.Breaker:
		c := d.breaker(n)
		return c, c != nil
	case option.Exhausted:
		return d.ending(n)
	case option.Shared:
		q := d.quota(n)
		return q, q != nil
	}
	panic(fmt.Sprintf("workflow: the option %s has a kind that files have no value for", r.Name))
}

// count reads a whole number within the bounds of its row, or its word.
func (d *decoder) count(n *node, key string, r *option.Row) (int, bool) {
	if n.kind == strNode && !n.quoted && slices.Contains(r.Words, n.text) {
		return retry.Unlimited, true // the one word that there is
	}
	i, p := d.integer(n, key, int(r.Least))
	switch {
	case p != nil && r.Name == "attempts" && slices.Contains([]string{"infinite", "infinity", "inf", "forever", "always", "-1"}, strings.ToLower(n.text)):
		p.Suggest("write attempts: unlimited, deadline: 1h: something bounds them")
	case p != nil && r.Name == "attempts":
		p.Or("it counts all runs: 1 means no retry, 3 means two retries")
	case p != nil:
		p.Or("for example: %s: %s", key, r.Example)
	case r.Greatest > 0 && i > int(r.Greatest):
		d.errorf(n, "out-of-range", "%s is %d; it can be at most %d", key, i, int(r.Greatest)).Suggest("bound the time with retry_budget")
		return 0, false
	}
	return i, p == nil
}

func (d *decoder) optionSpan(n *node, key string, r *option.Row) (time.Duration, bool) {
	v, ok := d.span(n, key, option.Unit(key))
	if ok && slices.Contains([]string{"initial_delay", "max_delay", "increment"}, r.Name) {
		d.bareDelay(n, key, v)
	}
	if ok && v == 0 && r.Positive {
		d.boundOfZero(n, key, r.Default)
		return 0, false
	}
	return v, ok
}

// bareDelay warns of a delay that is a number alone: it is in seconds here, and in
// milliseconds in many programs.
func (d *decoder) bareDelay(n *node, key string, v time.Duration) {
	n = d.resolved(n)
	if n.kind != intNode && n.kind != floatNode || v == 0 || strings.HasSuffix(key, "_ms") || strings.HasSuffix(key, "_secs") {
		return
	}
	d.warnf(n, "bare-delay", "%s: %s is read as %s", key, n.text, duration.Format(v)).Suggest("write %sms or %ss, whichever is meant", n.text, n.text)
}

func (d *decoder) spans(n *node, key string) ([]time.Duration, bool) {
	if n.kind != listNode {
		d.wrong(n, key, "a list of durations").Suggest("for example: delays: [1s, 3s, 10s]")
		return nil, false
	}
	list := make([]time.Duration, 0, len(n.items))
	for _, it := range n.items {
		if v, ok := d.span(it, key, time.Second); ok {
			d.bareDelay(it, key, v)
			list = append(list, v)
		}
	}
	return list, true
}

// percentage is a number of percent, as in 20%, as a share of one; "" for any other text.
func percentage(text string) string {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || n < 0 || n > 100 {
		return ""
	}
	return strconv.FormatFloat(n/100, 'g', -1, 64)
}

func (d *decoder) jitter(n *node, key string) (backoff.Jitter, bool) {
	if n.kind == boolNode {
		return map[bool]backoff.Jitter{true: backoff.Factor}[isTrue(n)], true
	}
	if j, err := backoff.ParseJitter(strings.ToLower(n.text)); err == nil && n.kind == strNode {
		return j, true
	}
	p := d.errorf(n, "bad-value", "%s cannot be %q", key, short(n.text))
	switch hint := diag.DidYouMean(n.text, option.Jitters); {
	case n.kind == floatNode || n.kind == intNode && n.text == "1":
		p.Suggest("write jitter: factor, jitter_factor: %s", n.text)
	case percentage(n.text) != "":
		p.Suggest("write jitter: factor, jitter_factor: %s", percentage(n.text))
	case slices.Contains([]string{"yes", "on", "no", "off"}, n.text):
		p.Suggest("write %v, or one of %s", n.text == "yes" || n.text == "on", strings.Join(option.Jitters, ", "))
	case hint != "":
		p.Suggest("%s (one of %s)", hint, strings.Join(option.Jitters, ", "))
	default:
		p.Suggest("write true, false or one of %s", strings.Join(option.Jitters, ", "))
	}
	return 0, false
}

// strategy reads the name of a strategy; its parameters are in keys of their
// own, whichever way they were written.
func (d *decoder) strategy(n *node, key string) (string, bool) {
	name, _ := strategyParts(n)
	switch {
	case name != nil:
		n = name
	case n.kind == mapNode && len(n.pairs) > 0:
		return d.severalStrategies(n)
	case !n.scalar() || n.kind == nullNode:
		d.wrong(n, key, "a strategy").Suggest("write one of %s, or {exponential: {base: 3}}", strings.Join(option.Strategies, ", "))
		return "", false
	}
	return d.strategyName(n)
}

func (d *decoder) strategyName(n *node) (string, bool) {
	name := strings.ToLower(strings.TrimSpace(n.text))
	if slices.Contains(option.Strategies, name) {
		return name, true
	}
	p := d.errorf(n, "bad-value", "there is no backoff %q", short(n.text))
	switch value, err := strconv.ParseFloat(name, 64); {
	case name == "constant" || name == "none" || name == "false":
		p.Suggest("write backoff: fixed")
	case name == "true":
		p.Suggest("write backoff: exponential")
	case err == nil && value >= 1:
		p.Suggest("write backoff: exponential, base: %s", name)
	default:
		suggestOneOf(p, n.text, option.Strategies)
	}
	return "", false
}

// severalStrategies reports a map that does not name one strategy.
func (d *decoder) severalStrategies(n *node) (string, bool) {
	var parts []string
	for _, p := range n.pairs {
		if text, ok := strings.CutPrefix(writtenFor(backoffTable, p.key.text, p.val, false), "write "); ok {
			parts = append(parts, text)
		}
	}
	if len(parts) == len(n.pairs) {
		d.errorf(n, "bad-value", "a backoff has no %q", short(n.pairs[0].key.text)).Suggest("write backoff: exponential, and beside it %s", strings.Join(parts, ", "))
		return "", false
	}
	first := ""
	for _, p := range n.pairs {
		name, ok := d.strategyName(p.key)
		switch {
		case ok && first != "":
			d.errorf(p.key, "bad-value", "a backoff has one strategy; this has %q besides %q", name, first).Suggest("keep one of the two")
		case ok:
			first = name
		}
	}
	return "", false
}

// resultNames are what a condition on an attempt may be about beside the
// variables of the step.
var resultNames = []string{"result", "output", "stderr", "exit_code", "status"}

// until reads a condition on what an attempt gave.
func (d *decoder) until(n *node, key string) (option.Text, bool) {
	if !n.scalar() {
		d.wrong(n, key, "a condition").Suggest("for example: %s: %s", key, option.ByName("until").Example)
		return nil, false
	}
	d.judging++
	e := d.expr(n, key)
	d.judging--
	return e, e != nil
}

// rules reads a list of policies with the errors that each is for.
func (d *decoder) rules(n *node, key string) ([]option.Rule, bool) {
	rules := []option.Rule{}
	for _, it := range n.each() {
		o, ok := d.object(it, ruleTable)
		if !ok {
			continue
		}
		o.n = d.presentPolicy(it)
		o.used = make([]bool, len(o.n.pairs))
		var r option.Rule
		ruleTable.read(o, &r)
		s := &retrySpec{n: it}
		o.options(option.For(option.InRule), &s.Settings)
		o.close()
		d.checkParameters(o, s)
		if r.Settings = s.Settings; len(r.On) == 0 {
			d.errorf(it, "missing-key", "a rule needs on: with the errors that it is for").Suggest("for example: %s: %s", key, option.ByName("rules").Example)
			continue
		}
		if r.Attempts == retry.Unlimited {
			d.errorf(o.peek(option.ByName("attempts").Name), "bad-value", "a rule cannot have unlimited attempts").Suggest("leave its attempts out: those of the policy bound it then")
			continue
		}
		rules = append(rules, r)
	}
	return rules, len(rules) > 0
}

// breaker reads a circuit breaker; true means its defaults.
func (d *decoder) breaker(n *node) *circuit.Config {
	c := &circuit.Config{
		FailureThreshold: circuit.DefaultFailureThreshold, SuccessThreshold: circuit.DefaultSuccessThreshold,
		Timeout: circuit.DefaultTimeout, HalfOpenRequests: circuit.DefaultHalfOpenRequests,
	}
	if n.kind == boolNode {
		if isTrue(n) {
			return c
		}
		return nil
	}
	o, ok := d.object(n, breakerTable)
	if !ok {
		return nil
	}
	defer o.close()
	c.FailureThreshold = 0
	if o.options(option.BreakerTable(), c); c.FailureThreshold == 0 && c.FailureRate == 0 {
		c.FailureThreshold = circuit.DefaultFailureThreshold
	}
	if err := c.Validate(); err != nil {
		d.errorf(n, "contradiction", "%s", inKeys(strings.ReplaceAll(err.Error(), "\n", "; "), c)).Suggest("for example: circuit_breaker: {failure_rate: 0.5, window: 20, timeout: 30s}")
		return nil
	}
	return c
}

// fieldName is the name of a field in the text of an error.
var fieldName = pattern.Lazy(`\b[A-Z][a-z]+[A-Za-z]*\b`)

// inKeys names the keys of a file where an error names the fields of a configuration.
func inKeys(text string, of *circuit.Config) string {
	fields := reflect.TypeOf(of).Elem()
	return fieldName().ReplaceAllStringFunc(text, func(name string) string {
		if f, ok := fields.FieldByName(name); ok {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "-" {
				return key
			}
		}
		return name
	})
}

func (d *decoder) quota(n *node) *Quota {
	o, ok := d.object(n, quotaTable)
	if !ok {
		return nil
	}
	defer o.close()
	q := &Quota{Ratio: 0.1, Initial: 10}
	quotaTable.read(o, q)
	if first, known := d.quotas[q.Name]; !known {
		value.Put(&d.quotas, q.Name, *q)
	} else if first != *q {
		d.errorf(n, "conflicting-quotas", "the quota %q has the ratio %v and begins with %v here, and %v and %v above; there is one for all that name it", q.Name, q.Ratio, q.Initial, first.Ratio, first.Initial).Suggest("write the same in both places, or another name")
	}
	return q
}

// ending reads what happens when a policy is exhausted.
func (d *decoder) ending(n *node) (option.Ending, bool) {
	var f fallbackOf
	var command commandText
	fallbackTable.look(n, &f)
	commandTable.look(n, &command)
	switch {
	case n.tag == "!fallback" || command.there() && !f.there():
		return d.fallback(n)
	case n.kind == mapNode:
		o, _ := d.object(n, fallbackTable) // it is a map
		defer o.close()
		f = fallbackOf{}
		if fallbackTable.read(o, &f); f.val != nil {
			return d.fallback(f.val)
		}
		if !f.there() {
			d.errorf(n, "bad-value", "a retry's on_failure written as a map is {fallback: …}").Suggest("for example: on_failure: {fallback: {command: echo none}}")
		}
	case n.kind == strNode && (n.text == "stop" || n.text == "continue"):
		return option.Ending{OnFailure: n.text}, true
	case n.kind == strNode && n.text == "fallback":
		d.errorf(n, "bad-value", "a fallback needs its command").Suggest("write on_failure: {fallback: {command: …}}")
	default:
		p := d.errorf(n, "bad-value", "a retry's on_failure is stop, continue or {fallback: {command: …}}, not %s", n.kind)
		p.Near(n.text, []string{"stop", "continue"}).Or("a handler's steps stand in the step's own on_failure, beside retry")
	}
	return option.Ending{}, false
}

// fallbackOf is what runs in the place of a step whose attempts are exhausted.
type fallbackOf struct{ written }

func (d *decoder) fallback(n *node) (end option.Ending, ok bool) {
	d.handlersOpen++
	defer func() { d.handlersOpen-- }()
	end.OnFailure = "fallback"
	if n.scalar() {
		t := d.text(n, end.OnFailure)
		end.Fallback = t
		return end, t != nil
	}
	o, ok := d.object(n, commandTable)
	if !ok {
		return end, false
	}
	defer o.close()
	var command commandText
	commandTable.read(o, &command)
	t := command.text(d)
	if t == nil {
		d.errorf(n, "missing-key", "a fallback needs a command").Suggest("for example: on_failure: {fallback: {command: echo none}}")
	}
	end.Fallback = t
	return end, t != nil
}
