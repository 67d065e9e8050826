package policy

import (
	"errors"
	"fmt"
	"time"
)

// Canaries are the first items of a map: they run alone, and the others start when enough
// of them have succeeded. When it is clear that too few succeed, the map is held as by
// [SameError], and stops where there is none.

// Canary is how many items run before all others.
type Canary struct {
	// Items is how many run alone, from 1 to MaxCanaries.
	Items int
	// Need is how many of them must succeed before others start; 0 means all.
	Need int
}

// MaxCanaries is the greatest number of canaries.
const MaxCanaries = 1000

func (c Canary) validate() error {
	switch {
	case c.Items < 1 || c.Items > MaxCanaries:
		return fmt.Errorf("canary: items: %d: must be from 1 to %d", c.Items, MaxCanaries)
	case c.Need < 0 || c.Need > c.Items:
		return fmt.Errorf("canary: need: %d of %d items: must be from 1 to %d", c.Need, c.Items, c.Items)
	}
	return nil
}

// CanaryEnd is that the canaries are judged, part of a [Verdict].
type CanaryEnd struct {
	Items     int  `json:"items"`
	Need      int  `json:"need"`
	Succeeded int  `json:"succeeded"`
	Failed    int  `json:"failed"`
	Passed    bool `json:"passed"` // the other items start
}

// canaries is the state of [Machine] for its canaries.
type canaries struct {
	Canary
	passed bool
	// succeeded and failed are how many items had ended when somebody asked to continue
	// after the map had stopped: they are no canaries of this life.
	succeeded, failed int
}

func newCanaries(c Canary) *canaries {
	if c.Need == 0 {
		c.Need = c.Items
	}
	return &canaries{Canary: c}
}

// end counts the canaries that have ended.
func (c *canaries) end(n Counts) CanaryEnd {
	return CanaryEnd{Items: c.Items, Need: c.Need, Succeeded: n.Succeeded - c.succeeded, Failed: n.FailedForGood - c.failed, Passed: c.passed}
}

// canariesFull reports whether no other item may begin yet: all canaries have begun, and are not
// judged. What a hold probes is none of theirs.
func (m *Machine) canariesFull() bool {
	c := m.canary
	if c == nil || c.passed || m.hold != nil && m.hold.on != nil {
		return false
	}
	e := c.end(m.counts)
	return m.counts.Running+m.counts.Retrying+e.Succeeded+e.Failed >= c.Items
}

// judgeCanaries decides after an item has ended.
func (m *Machine) judgeCanaries(v *Verdict, o Outcome, now time.Time) {
	c := m.canary
	if c == nil || c.passed || m.stop != NotStopped || m.hold != nil && m.hold.on != nil {
		return
	}
	switch e := c.end(m.counts); {
	case e.Succeeded >= c.Need:
		c.passed, e.Passed = true, true
		v.Canary = &e
	case e.Failed <= c.Items-c.Need:
	case m.hold == nil || m.hold.cfg.Stop:
		v.Canary = &e
		m.Halt(ByCanary)
		v.Stop = m.stop
	default:
		v.Canary = &e
		m.holdForCanaries(v, o, now)
	}
}

// holdForCanaries holds the map because too many of its canaries failed. Those that are
// dead letters are given back.
func (m *Machine) holdForCanaries(v *Verdict, o Outcome, now time.Time) {
	h := m.hold
	h.begin(o.sign(), o, now)
	h.on.Canary = true
	change := HoldChange{Kind: HoldStarted}
	for _, w := range h.recent {
		if !w.fate.FailedForGood() {
			continue
		}
		h.seen[w.item] = struct{}{}
		h.on.Attempts += w.tries
		if g, ok := m.giveBack(w, h.place(), now); ok {
			change.Given = append(change.Given, g)
			h.on.First = append(h.on.First, w.item)
		}
	}
	h.on.Items = len(h.seen)
	h.recent = nil
	change.State = h.state()
	v.Holds = append(v.Holds, change)
}

// resumeCanaries judges the canaries as of the restored counts.
func (m *Machine) resumeCanaries(goOn bool) {
	c := m.canary
	if c == nil || c.passed || m.hold != nil && m.hold.on != nil {
		return
	}
	if goOn {
		c.succeeded, c.failed = m.counts.Succeeded, m.counts.FailedForGood
		return
	}
	e := c.end(m.counts)
	c.passed = e.Succeeded >= c.Need
	if !c.passed && e.Failed > c.Items-c.Need {
		m.Halt(ByCanary)
	}
}

// RestoreCanary tells the machine that its canaries had passed before the run went down.
// It is called before Resume.
func (m *Machine) RestoreCanary() error {
	if m.started {
		return errStarted
	}
	if m.canary != nil {
		m.canary.passed = true
	}
	return nil
}

// Canaries gives how the canaries did so far; ok is false in a map that has none.
func (m *Machine) Canaries() (e CanaryEnd, ok bool) {
	if m.canary == nil {
		return e, false
	}
	return m.canary.end(m.counts), true
}

// errCanaryStop: with on_item_failure stop, the first failure ends the map.
var errCanaryStop = errors.New("canary: need: with on_item_failure: stop the map ends with the first item that fails, so that all canaries must succeed")
