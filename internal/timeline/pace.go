package timeline

import (
	"math"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Pace is how fast the items of a map end, and how long the rest of them takes. It counts
// the time in which the map runs: not the time before it, between two processes of the
// run, or in a pause. The zero Pace has measured nothing.
type Pace struct {
	marks  []paceMark // one a second, the oldest first; the first is the beginning
	ended  int        // items since then
	paused time.Time  // since when; zero where the run is not paused
}

// paceMark is how many items had ended at a moment.
type paceMark struct {
	at    time.Time
	ended int
}

// paceOver is the time over which the rest is foretold, and paceLeast how many items must
// have ended in it: it becomes longer until they have.
const (
	paceOver  = 10 * time.Minute
	paceLeast = 5
)

// Apply takes an event of the run itself.
func (p *Pace) Apply(e event.Event) {
	switch {
	case e.Type == event.RunResumed, e.Type == event.ItemsCompared, e.Type == event.PhaseStarted && e.Phase == "map":
		*p = Pace{marks: append(p.marks[:0], paceMark{at: e.Time})}
	case e.Type == event.RunControlled && e.Label == journal.Pause && p.paused.IsZero():
		p.paused = e.Time
	case e.Type == event.RunControlled && e.Label == journal.Continue && !p.paused.IsZero():
		p.skip(p.paused, e.Time)
		p.paused = time.Time{}
	}
}

// skip leaves a time out.
func (p *Pace) skip(from, to time.Time) {
	for i := range p.marks {
		m := &p.marks[i]
		switch {
		case !to.After(m.at):
		case m.at.After(from):
			m.at = to
		default:
			m.at = m.at.Add(to.Sub(from))
		}
	}
}

// End takes the end of an item for which something was done.
func (p *Pace) End(at time.Time) {
	p.ended++
	n := len(p.marks)
	if n > 0 && at.Sub(p.marks[n-1].at) < time.Second {
		return
	}
	p.marks = append(p.marks, paceMark{at, p.ended})
	for len(p.marks) > 2 && at.Sub(p.marks[1].at) > paceOver && p.ended-p.marks[1].ended >= paceLeast {
		p.marks = p.marks[1:]
	}
}

// over is how many items ended in a time before now, and how long it was: longer than
// asked for where fewer than least have ended in it.
func (p *Pace) over(now time.Time, wanted time.Duration, least int) (ended int, took time.Duration) {
	if !p.paused.IsZero() && p.paused.Before(now) {
		now = p.paused
	}
	for i := len(p.marks) - 1; i >= 0; i-- {
		ended, took = p.ended-p.marks[i].ended, max(now.Sub(p.marks[i].at), 100*time.Millisecond)
		if took >= wanted && ended >= least {
			break
		}
	}
	return ended, took
}

// Rate is how many items ended in a second, over about such a time before now.
func (p *Pace) Rate(now time.Time, over time.Duration) float64 {
	n, took := p.over(now, over, 1)
	if n == 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// Rest is how long items take that have not ended, at the pace of the last minutes.
type Rest struct {
	About, Least, Most time.Duration
	Sure               bool // as many items have ended as the bounds need
}

// Rest foretells it: the bounds are those within which the pace may be by chance. Zero:
// nothing is known, nothing is left, or the run is paused.
func (p *Pace) Rest(now time.Time, items int) Rest {
	ended, took := p.over(now, paceOver, paceLeast)
	if items <= 0 || ended == 0 || !p.paused.IsZero() {
		return Rest{}
	}
	at := func(n float64) time.Duration {
		return time.Duration(min(float64(items)/n*float64(took), math.MaxInt64/2))
	}
	// So many items ended by chance in that time: n give or take twice its root.
	n := float64(ended)
	spread := 2 * math.Sqrt(n)
	return Rest{at(n), at(n + spread), at(max(n-spread, n/8)), ended >= paceLeast}
}
