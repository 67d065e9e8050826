// Package width finds how many may run at once before a target whose capacity nobody
// knows. It has the one controller of adaptive limits (package limit) and of adaptive maps
// (package policy), which is pure: it is told how each of those that run ends, and says how
// many may run.
//
// The width grows while all of it is used and ends take no longer than in an unloaded
// target, and goes down when they do or when one is refused. It looks at a window of ends,
// as many as the width, at least four. What it takes for the unloaded time is that of the
// fastest window; every hundred windows it halves the width for two, to see that time anew.
// (After AIMD, Vegas as in Netflix concurrency-limits, and BIC for what follows a refusal.)
package width

import (
	"math"
	"time"
)

// Config is how a [Machine] decides. All of it is set by whoever makes one.
type Config struct {
	// Initial is where it begins, and Min and Max bound it.
	Initial, Min, Max int
	// Tolerance is how many times the unloaded time ends may take.
	Tolerance float64
	// Least and Most bound what the width is multiplied by when ends take longer: by as
	// much as they do.
	Least, Most float64
	// Halve has a refusal halve the width at once, at most once in the time of an end, and
	// then return to just below where it was refused before it grows as always. What began
	// before the width went down tells nothing of it then. Else a refusal counts as ends
	// that take longer.
	Halve bool
	// Alike is the coefficient of variation of the times of ends from which on they do not
	// count; 0: they always do. Where it is set, so is how far the mean of a window may be off.
	Alike float64
	// Hasten, if not 0, has the width grow by one more each time after that many growths
	// in a row.
	Hasten int
}

// State is what a [Machine] has learned, as it is recorded.
type State struct {
	Width    float64 `json:"width"`
	Before   float64 `json:"before,omitempty"`   // the width that was halved to see the unloaded time
	Unloaded float64 `json:"unloaded,omitempty"` // nanoseconds, of the fastest window
	Of       int     `json:"of,omitempty"`       // the ends in it
	Last     float64 `json:"last,omitempty"`     // of the last window
	Windows  int     `json:"windows,omitempty"`  // since the unloaded time was looked for
	Spread   float64 `json:"spread,omitempty"`   // the square of the coefficient of variation of times
	Grown    int     `json:"grown,omitempty"`    // growths in a row
	Refused  int     `json:"refused,omitempty"`  // the width at which one was refused last
	Stays    int     `json:"stays,omitempty"`    // windows for which it stays just below that
	Cut      int64   `json:"cut,omitempty"`      // when it last went down, in nanoseconds
}

// End is how one of those that run ended.
type End struct {
	Took time.Duration
	// Refused says that the target has too much to do.
	Refused bool
	// InUse is how many ran until then, this one too.
	InUse int
	// At is when it ended, in nanoseconds since any moment; only Halve looks at it.
	At int64
}

// Why is why the width has changed.
type Why string

// The reasons.
const (
	Free    Why = "free"    // all of it was used, and ends took no longer
	Slower  Why = "slower"  // ends took longer
	Refused Why = "refused" // one was refused
	Looking Why = "looking" // it is halved to see how long an end takes in an unloaded target
	Looked  Why = "looked"  // and is as before
)

// Machine is the controller. It is not safe for use by several goroutines at once.
type Machine struct {
	c Config
	s State

	// of the window
	sum, squares float64
	count        int
	most         int // that were in use at once
	refused      bool
}

// New gives the machine of a configuration that is valid.
func New(c Config) *Machine { return &Machine{c: c, s: State{Width: float64(c.Initial)}} }

// Width is how many may run at once.
func (m *Machine) Width() int { return int(m.s.Width) }

// State gives what has been learned.
func (m *Machine) State() State { return m.s }

// Restore puts the machine where it stood, within its bounds.
func (m *Machine) Restore(s State) {
	m.s = s
	m.s.Width = m.bounded(s.Width)
}

func (m *Machine) bounded(w float64) float64 {
	return min(max(w, float64(m.c.Min)), float64(m.c.Max))
}

// Differ reports whether the times of ends differ too much to count.
func (m *Machine) Differ() bool {
	return m.c.Alike > 0 && m.s.Spread >= m.c.Alike*m.c.Alike
}

// Ended takes an end, and says why the width has changed; "" where it has not.
func (m *Machine) Ended(e End) Why {
	before := m.Width()
	why := m.ended(e)
	if m.Width() == before {
		return ""
	}
	return why
}

func (m *Machine) ended(e End) Why {
	if m.c.Halve {
		if e.Refused {
			return m.halve(e.At)
		}
		// Those that end first of what began after it are the short ones.
		if e.At-int64(e.Took) < m.s.Cut || e.At-m.s.Cut < int64(m.s.Unloaded) {
			return ""
		}
	}
	m.count++
	m.sum += float64(e.Took)
	m.squares += float64(e.Took) * float64(e.Took)
	m.most = max(m.most, e.InUse)
	m.refused = m.refused || e.Refused
	if m.count < max(m.Width(), 4) {
		return ""
	}
	mean := m.sum / float64(m.count)
	m.spread(mean)
	why := m.decide(mean, e.At)
	m.s.Last = mean
	m.clear()
	return why
}

func (m *Machine) clear() { m.sum, m.squares, m.count, m.most, m.refused = 0, 0, 0, 0, false }

// spread takes in how much the times of a window differ, a tenth of what is known.
func (m *Machine) spread(mean float64) {
	if m.c.Alike == 0 || mean <= 0 {
		return
	}
	n := float64(m.count)
	cv2 := max(0, (m.squares-n*mean*mean)/(n-1)) / (mean * mean)
	if m.s.Last == 0 {
		m.s.Spread = cv2
		return
	}
	m.s.Spread += (cv2 - m.s.Spread) / 10
}

// decide takes the average time of a window.
func (m *Machine) decide(took float64, at int64) Why {
	if m.Differ() {
		m.s.Unloaded, m.s.Windows = 0, 0
		return m.grow()
	}
	why := Why("")
	m.s.Windows++
	switch m.s.Windows {
	case looking:
		m.s.Before, m.s.Width = m.s.Width, m.bounded(m.s.Width/2)
		return Looking
	case looking + 1:
		return ""
	case looking + 2:
		m.s.Windows, m.s.Width, m.s.Unloaded = 0, m.s.Before, 0
		why = Looked
	}
	if m.s.Unloaded == 0 || took*m.off(m.count) < m.s.Unloaded*m.off(m.s.Of) {
		m.s.Unloaded, m.s.Of = took, m.count
	}
	switch slow := m.s.Unloaded * m.off(m.s.Of) * m.c.Tolerance; {
	case m.refused, took > slow*m.off(m.count):
		factor := max(m.c.Least, min(m.c.Most, slow/took))
		m.s.Width = max(m.s.Width*factor, float64(m.c.Min))
		m.s.Grown, m.s.Refused, m.s.Stays, m.s.Cut = 0, 0, 0, at
		if m.refused {
			return Refused
		}
		return Slower
	}
	if grown := m.grow(); grown != "" {
		return grown
	}
	return why
}

// off is by what the mean of some ends may be off, as their times differ.
func (m *Machine) off(ends int) float64 { return 1 + 2*math.Sqrt(m.s.Spread/float64(ends)) }

// looking is after how many windows the unloaded time is looked for, for two windows: what
// the first has still began under the higher width.
const looking = 100

// grow lets more run, where all that may have run.
func (m *Machine) grow() Why {
	if m.most < m.Width() { // a width that is not met teaches nothing
		return ""
	}
	step := 1.0
	if m.c.Hasten > 0 {
		step += float64(m.s.Grown / m.c.Hasten)
	}
	if below := float64(m.s.Refused - 1); m.s.Refused > 0 {
		switch left := below - m.s.Width; {
		case left >= 1:
			step = max(1, math.Floor(left/2))
		case m.s.Stays > 0:
			m.s.Stays--
			return ""
		default:
			m.s.Refused = 0
		}
	} else {
		m.s.Grown++
	}
	m.s.Width = m.bounded(m.s.Width + step)
	return Free
}

// stays is for how many windows the width stays just below one that was refused.
const stays = 4

// halve is what a refusal does.
func (m *Machine) halve(at int64) Why {
	if m.s.Cut != 0 && at-m.s.Cut < int64(m.s.Last) {
		return ""
	}
	m.s.Refused, m.s.Stays, m.s.Grown, m.s.Cut = m.Width(), stays, 0, at
	m.s.Width = m.bounded(math.Floor(m.s.Width / 2))
	m.clear()
	return Refused
}

// Refuse tells of a refusal that was no end, and says whether the width has changed.
func (m *Machine) Refuse(at int64) Why {
	return m.Ended(End{Refused: true, At: at})
}
