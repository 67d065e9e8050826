package timeline

import (
	"slices"
	"time"
)

// idleShare and idleLeast say which times without work are folded: those that
// take more than a twelfth of the run, and no less than two seconds.
const (
	idleShare = 12
	idleLeast = 2 * time.Second
	// foldedShare is what a folded time keeps of the axis: a fortieth.
	foldedShare = 40
)

// Axis maps times to places from 0 to 1, in which long times without work are
// folded to a mark.
type Axis struct {
	From, To time.Time
	Folds    []Fold
	parts    []part
}

// Fold is a time without work that takes little place on an axis.
type Fold struct {
	From, To time.Time
	At, End  float64 // its place
}

type part struct {
	from, to time.Time
	at, end  float64
}

// Axis gives the axis of the run up to a time, which is that of the run's last
// event once it has ended. Where fold is false, no time is folded.
func (t *Timeline) Axis(now time.Time, fold bool) *Axis {
	end := t.Latest
	if t.Status == "running" && now.After(end) {
		end = now
	}
	a := &Axis{From: t.Started, To: end}
	total := end.Sub(t.Started)
	if total <= 0 {
		a.To = a.From.Add(time.Millisecond)
		total = time.Millisecond
	}
	var folds []span
	if fold {
		folds = t.idleTimes(a.To, max(total/idleShare, idleLeast))
	}
	a.lay(folds)
	return a
}

// idleTimes are the times of at least a length in which nothing worked.
func (t *Timeline) idleTimes(end time.Time, least time.Duration) []span {
	busy := slices.Clone(t.busy)
	since := func(at time.Time) { busy.add(at, end) }
	if !t.open.IsZero() {
		since(t.open)
	}
	for _, r := range t.rows {
		if a := r.running(); a != nil && r.Kind == Step {
			since(a.From)
		}
	}
	var out []span
	at := t.Started
	for _, b := range append(busy, span{end, end}) {
		if b.from.Sub(at) >= least {
			out = append(out, span{at, b.from})
		}
		if b.to.After(at) {
			at = b.to
		}
	}
	return out
}

// lay gives every time its place: folds a fixed one, the rest in proportion.
func (a *Axis) lay(folds []span) {
	folded := time.Duration(0)
	for _, f := range folds {
		folded += f.to.Sub(f.from)
	}
	live := a.To.Sub(a.From) - folded
	width := 1.0 / foldedShare
	if n := len(folds); n > foldedShare/2 {
		width = 0.5 / float64(n)
	}
	rest := 1 - width*float64(len(folds))
	if live <= 0 && len(folds) > 0 {
		width, rest = 1/float64(len(folds)), 0
	}
	at, from := 0.0, a.From
	add := func(to time.Time, w float64) {
		a.parts = append(a.parts, part{from, to, at, at + w})
		from, at = to, at+w
	}
	share := func(to time.Time) float64 {
		if live <= 0 {
			return 0
		}
		return rest * float64(to.Sub(from)) / float64(live)
	}
	for _, f := range folds {
		add(f.from, share(f.from))
		a.Folds = append(a.Folds, Fold{f.from, f.to, at, at + width})
		add(f.to, width)
	}
	add(a.To, share(a.To))
}

// Place is the place of a time, from 0 to 1; times outside are at the ends.
func (a *Axis) Place(t time.Time) float64 {
	i, _ := slices.BinarySearchFunc(a.parts, t, func(p part, t time.Time) int { return p.to.Compare(t) })
	if i == len(a.parts) {
		return 1
	}
	p := a.parts[i]
	if !t.After(p.from) || !p.to.After(p.from) {
		return p.at
	}
	return p.at + (p.end-p.at)*float64(t.Sub(p.from))/float64(p.to.Sub(p.from))
}

// Tick is a time that an axis names.
type Tick struct {
	At    float64
	Since time.Duration // since the beginning
}

// steps are the distances between the ticks of an axis.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// Apart is the least distance of ticks that read well which is not below one.
func Apart(least time.Duration) time.Duration {
	for _, s := range steps {
		if s >= least {
			return s
		}
	}
	return steps[len(steps)-1]
}

// Ticks gives about n round times, none of them in a fold, and none closer to
// the one before than half of the distance that n of them have.
func (a *Axis) Ticks(n int) []Tick {
	folded := time.Duration(0)
	for _, f := range a.Folds {
		folded += f.To.Sub(f.From)
	}
	step := Apart((a.To.Sub(a.From) - folded) / time.Duration(max(n, 1)))
	var out []Tick
	last := -1.0
	for _, p := range a.parts {
		if slices.ContainsFunc(a.Folds, func(f Fold) bool { return f.From.Equal(p.from) && f.To.Equal(p.to) }) {
			continue
		}
		first := p.from.Sub(a.From).Truncate(step)
		for since := first; !a.From.Add(since).After(p.to); since += step {
			at := a.From.Add(since)
			if at.Before(p.from) {
				continue
			}
			if place := a.Place(at); last < 0 || place-last >= 0.5/float64(max(n, 1)) {
				out, last = append(out, Tick{place, since}), place
			}
		}
	}
	return out
}
