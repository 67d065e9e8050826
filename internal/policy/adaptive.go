package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/width"
)

// Adaptive has a map find how many of its agents may run at once, by the controller of
// adaptive limits.
type Adaptive struct {
	// Min and Max bound the number; 0 means 1 and MaxWidth.
	Min int `json:"min"`
	Max int `json:"max"`
	// Initial is where it begins; 0 means Min.
	Initial int `json:"initial"`
}

// MaxWidth is Adaptive.Max where it is 0, and MostWidth the greatest that it may be.
const (
	MaxWidth  = 64
	MostWidth = 10_000
)

// Defaults gives the configuration with its defaults in place of what is zero.
func (c Adaptive) Defaults() Adaptive {
	if c.Min == 0 {
		c.Min = 1
	}
	if c.Max == 0 {
		c.Max = max(MaxWidth, c.Min)
	}
	if c.Initial == 0 {
		c.Initial = c.Min
	}
	c.Initial = min(max(c.Initial, c.Min), c.Max)
	return c
}

// Validate says what is wrong with the bounds.
func (c Adaptive) Validate() error {
	switch {
	case c.Min < 0 || c.Min > MostWidth:
		return fmt.Errorf("min is %d; it must be from 1 to %d", c.Min, MostWidth)
	case c.Max < 0 || c.Max > MostWidth:
		return fmt.Errorf("max is %d; it must be from 1 to %d", c.Max, MostWidth)
	case c.Max != 0 && c.Max < c.Min:
		return fmt.Errorf("max is %d, and min is %d; max must not be less", c.Max, c.Min)
	}
	return nil
}

// On is the configuration on a machine with some processors: as many run to begin with,
// where Min does not say how many.
func (c Adaptive) On(processors int) Adaptive {
	if c.Min == 0 {
		c.Initial = processors
	}
	return c
}

// Finder finds how many of something may run at once: items of a map, or values of a
// foreach. It belongs to one goroutine at a time.
type Finder struct {
	m    *width.Machine
	why  width.Why // of the last change
	told int       // what Change told last
}

// NewFinder gives the controller of a configuration that is valid. Items are few and take
// long, so that it is quicker than that of a limit: it goes down by as much as items are
// slower, and grows faster the longer it has grown. Times that differ too much do not count.
func NewFinder(c Adaptive) *Finder {
	c = c.Defaults()
	return &Finder{m: width.New(width.Config{Initial: c.Initial, Min: c.Min, Max: c.Max, Tolerance: tolerance,
		Least: 0.5, Most: 0.9, Halve: true, Alike: alike, Hasten: 4})}
}

// AtOnce is how many may run now.
func (f *Finder) AtOnce() int { return f.m.Width() }

// Ended takes how one ended that was one of busy.
func (f *Finder) Ended(o Outcome, busy int, now time.Time) {
	switch {
	case o.Shortage:
		f.changed(f.m.Refuse(int64(instantOf(now))))
	case o.OK && !o.Cancelled && o.Took > 0:
		f.changed(f.m.Ended(width.End{Took: o.Took, InUse: busy, At: int64(instantOf(now))}))
	}
}

// Refused takes that a rate limit turned one away.
func (f *Finder) Refused(now time.Time) { f.changed(f.m.Refuse(int64(instantOf(now)))) }

func (f *Finder) changed(why width.Why) {
	if why != "" {
		f.why = why
	}
}

// Change says how many may run, and why; ok is false where that is as it was when it was
// last asked.
func (f *Finder) Change() (c WidthChange, ok bool) {
	if f.AtOnce() == f.told {
		return c, false
	}
	c = WidthChange{From: f.told, To: f.AtOnce(), Why: f.why, State: f.m.State(), Differ: f.m.Differ()}
	f.told = c.To
	return c, true
}

// Restore puts it where it stood.
func (f *Finder) Restore(s width.State) {
	f.m.Restore(s)
	f.told = f.AtOnce()
}

// alike stands for a coefficient of variation of 1: in windows of a few ends it comes out
// as less.
const alike = 0.8

// tolerance is how many times the unloaded time items may take.
const tolerance = 1.3

// WidthChange is that another number of agents may run at once.
type WidthChange struct {
	From, To int
	Why      width.Why
	State    width.State
	// Differ says that times do not count, as they differ too much.
	Differ bool
}

// String says in a sentence how many run at once, and why.
func (c WidthChange) String() string {
	last, unloaded := shortTime(c.State.Last), shortTime(c.State.Unloaded)
	why := ""
	switch c.Why {
	case width.Free:
		why = fmt.Sprintf("all %d were used, and items take no longer than before (%s)", c.From, last)
		if c.Differ {
			why = fmt.Sprintf("all %d were used, and nothing was refused; the times of items differ too much to tell whether they are slower", c.From)
		}
	case width.Slower:
		why = fmt.Sprintf("items take %s, and %s where fewer run", last, unloaded)
	case width.Refused:
		why = "a rate limit, or a lack of room in the system, refused one"
	case width.Looking:
		why = "for a moment, to see how long items take where fewer run"
	case width.Looked:
		why = fmt.Sprintf("as before; where fewer run, items take %s", unloaded)
	default:
		return fmt.Sprintf("at most %s at once to begin with", diag.Count(c.To, "item"))
	}
	return fmt.Sprintf("%s at once, %d before: %s", diag.Count(c.To, "item"), c.From, why)
}

// shortTime is a number of nanoseconds for a person, in two digits.
func shortTime(ns float64) string {
	d := time.Duration(ns)
	if d <= 0 {
		return "0s"
	}
	unit := time.Duration(math.Pow10(int(math.Log10(float64(d))) - 1))
	return duration.Format(d.Round(max(unit, 1)))
}

// WidthFact is the data of width_changed.
type WidthFact struct {
	width.State
	Why width.Why `json:"why,omitempty"`
	// Differ says that the times of items do not count, as they differ too much.
	Differ bool `json:"differ,omitempty"`
}

// Fact is what is recorded of a change.
func (c WidthChange) Fact() WidthFact { return WidthFact{State: c.State, Why: c.Why, Differ: c.Differ} }

// measure tells the finder how an agent ended that was one of busy.
func (m *Machine) measure(o Outcome, busy int, now time.Time) {
	if m.finder != nil {
		m.finder.Ended(o, busy, now)
		m.cfg.MaxParallel = m.finder.AtOnce()
	}
}

// refused tells the finder that a rate limit turned an agent away.
func (m *Machine) refused(now time.Time) {
	if m.finder != nil {
		m.finder.Refused(now)
		m.cfg.MaxParallel = m.finder.AtOnce()
	}
}

// Parallel is how many agents may run at once.
func (m *Machine) Parallel() int { return m.cfg.MaxParallel }

// Width gives how many agents may run at once, of a map that finds that out; ok is false
// where it has not changed since this was last asked, or the number is given.
func (m *Machine) Width() (c WidthChange, ok bool) {
	if m.finder == nil {
		return c, false
	}
	return m.finder.Change()
}

// RestoreWidth puts the number of agents at once where it stood when the run went down.
func (m *Machine) RestoreWidth(s width.State) error {
	switch {
	case m.started:
		return errStarted
	case m.finder == nil: // it is given by now
		return nil
	}
	m.finder.Restore(s)
	m.cfg.MaxParallel = m.finder.AtOnce()
	return nil
}
