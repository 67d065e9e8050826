package workflow

import (
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/policy"
)

// sameError reads when a map is held: true for the defaults, or a map.
func (d *decoder) sameError(n *node) *policy.SameError {
	c := &policy.SameError{}
	if n.kind == boolNode {
		if isTrue(n) {
			return c
		}
		return nil
	}
	o, ok := d.object(n, sameErrorTable)
	if !ok {
		return nil
	}
	defer o.close()
	sameErrorTable.read(o, c)
	hold := holding{SameError: c}
	sameErrorTable.read(o, &hold)
	for _, p := range o.n.pairs {
		if f, ok := sameErrorTable.field(p.key.text); ok && c.Stop && f.in(&hold) {
			d.warnf(p.key, "no-effect", "%s has no effect with action: stop, which holds nothing: the map stops at once", f.key).Suggest("remove the one or the other")
		}
	}
	if err := (policy.Config{SameError: c}).Validate(); err != nil && !d.full() {
		d.errorf(n, "contradiction", "%s", strings.ReplaceAll(err.Error(), "\n", "; ")).Suggest("for example: same_error: {count: 10, share: 0.9}")
		return nil
	}
	return c
}

// holding is how a map is held, which has no effect where it is stopped at once.
type holding struct{ *policy.SameError }

// maxHold reads how long a hold lasts at most.
func (d *decoder) maxHold(key string, n *node, c *policy.SameError) {
	v, ok := d.span(n, key, time.Second)
	if c.MaxHold = v; ok && v == 0 {
		d.errorf(n, "out-of-range", "%s is 0; it must be more than that", key).Suggest("to stop at once, write action: stop")
	}
}

// checkHeld warns about a map that stops before as many items have failed as would hold it:
// where the first failure of an item is final, all that fail count for both.
func (d *decoder) checkHeld(s policySources, p *ErrorPolicy) {
	if p.SameError == nil || p.ItemRetry() != nil {
		return
	}
	count := p.SameError.Defaults().Count
	const own = "same_error"
	o, key, after := s.find(own), "", 0
	switch {
	case p.OnItemFailure == "stop":
		key, after = "on_item_failure: stop", 1
	case !p.ContinueOnFailure:
		key, after = "continue_on_failure: false", 1
	case p.MaxFailures > 0:
		key, after = fmt.Sprintf("max_failures: %d", p.MaxFailures), p.MaxFailures
	}
	if o == nil || key == "" || after >= count {
		return
	}
	d.warnf(o.keyNode(own), "no-effect", "same_error has no effect: %s stops the map after %s, before %d have failed alike", key, diag.Count(after, "failed item"), count).
		Suggest("lower same_error.count to %d, or have the map stop later", after)
}

// onHold reads the steps that run when the map is held. They are no item's.
func (d *decoder) onHold(n *node, key string) []*Step {
	phase := d.phase
	d.nested++
	d.holds, d.phase = true, 's'
	steps := d.steps(n, key, bareShell)
	d.holds, d.phase = false, phase
	d.nested--
	return steps
}

// probe reads the waits before the probes of a hold.
func (d *decoder) probe(n *node, c *policy.SameError) {
	o, ok := d.object(d.presentPolicy(n), probeTable)
	if !ok {
		return
	}
	s := &retrySpec{n: n}
	o.options(option.For(option.Probe), &s.Settings)
	o.close()
	d.checkParameters(o, s)
	if s.Has("delays") && !s.Has("backoff") {
		option.ByName("backoff").Set(&s.Settings, "custom")
	}
	resolved := s.Resolve(option.File)
	if resolved.Strategy == "custom" && len(s.Delays) == 0 && !d.full() {
		d.errorf(o.n, "missing-key", "the waits before probes are those of delays (backoff: custom), and there is none").Suggest("for example: probe: {delays: [30s, 2m, 10m]}")
		return
	}
	for _, r := range option.For(option.Probe) {
		if s.Has(r.Name) && r.Of != "" && r.Of != resolved.Strategy && !s.Has("backoff") {
			d.warnf(n, "no-effect", "%q has no effect: it belongs to backoff %s, and this is %s", r.Name, r.Of, resolved.Strategy).Suggest("write backoff: %s", r.Of)
		}
	}
	written := *s
	if !s.Has("initial_delay") && !s.Has("delays") {
		option.ByName("initial_delay").Set(&s.Settings, policy.DefaultProbe().Initial)
	}
	if !s.Has("max_delay") {
		option.ByName("max_delay").Set(&s.Settings, policy.DefaultProbe().Max)
	}
	d.checkCap(&written, &Retry{Settings: s.Resolve(option.File)})
	if c.Probe = s.Resolve(option.File).Backoff; c.Probe.Validate() == nil && c.Probe.Jitter == backoff.None && c.Probe.Delay(1, 0, nil) <= 0 && !d.full() {
		at := o.n
		for _, key := range []string{"initial_delay", "delays"} {
			if o.has(key) {
				at = o.keyNode(key)
			}
		}
		d.errorf(at, "out-of-range", "there is no wait before a probe; it would run again at once, as long as the map is held").Suggest("for example: probe: {initial_delay: 30s}")
		c.Probe = policy.DefaultProbe()
	}
}

// canary reads how many items run alone first: a number, or a map.
func (d *decoder) canary(key string, n *node) *policy.Canary {
	c := &policy.Canary{}
	if n.kind == intNode {
		v, p := d.integer(n, key, 1)
		if p != nil {
			p.Or("for example: canary: 3")
			return nil
		}
		c.Items = v
		return d.checkedCanary(n, c)
	}
	o, ok := d.object(n, canaryTable)
	if !ok {
		return nil
	}
	defer o.close()
	canaryTable.read(o, c)
	if o.keyOf(c, &c.Items) == nil {
		d.errorf(n, "missing-key", "canary needs items: how many run alone first").Suggest("for example: canary: {items: 3, need: 2}")
		return nil
	}
	if c.Items == 0 { // told already
		return nil
	}
	return d.checkedCanary(n, c)
}

func (d *decoder) checkedCanary(n *node, c *policy.Canary) *policy.Canary {
	if err := (policy.Config{Canary: c}).Validate(); err != nil && !d.full() {
		d.errorf(n, "out-of-range", "%s", err).Suggest("for example: canary: {items: 3, need: 2}")
		return nil
	}
	return c
}
