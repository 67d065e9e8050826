package timeline

import (
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestPaceCountsTheTimeInWhichTheMapRan: what a kill, a night, a resume and a pause take is
// no part of it, nor what passes before the map.
func TestPaceCountsTheTimeInWhichTheMapRan(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	var p Pace
	say := func(kind event.Type, what string, s float64) {
		p.Apply(event.Event{Type: kind, Phase: what, Label: what, Time: at(s)})
	}
	want := func(what string, s float64, items int, about time.Duration, sure bool) {
		t.Helper()
		got := p.Rest(at(s), items)
		if got.About.Round(time.Second) != about || got.Sure != sure || about > 0 && (got.Least >= about || got.Most <= about) {
			t.Errorf("%s: %+v, want %s, sure %v", what, got, about, sure)
		}
	}
	say(event.RunStarted, "", 0)
	want("no map", 1, 40, 0, false)
	say(event.PhaseStarted, "map", 300)
	for i := range 10 { // two a second
		p.End(at(300 + float64(i+1)/2))
	}
	want("a map", 305, 30, 15*time.Second, true)
	const night = 8 * 3600
	say(event.RunResumed, "", night)
	want("a resume", night+1, 30, 0, false)
	say(event.PhaseStarted, "map", night+10)
	for i := range 10 {
		p.End(at(night + 10 + float64(i+1)/2))
	}
	want("a map that was resumed", night+15, 20, 10*time.Second, true)
	say(event.RunControlled, journal.Pause, night+15)
	want("a pause", night+500, 20, 0, false)
	if got := p.Rate(at(night+500), 15*time.Second); got != 2 {
		t.Errorf("in a pause the rate is %g", got)
	}
	p.End(at(night + 15.5)) // what ran when it was paused
	say(event.RunControlled, journal.Continue, night+1015)
	for i := range 9 {
		p.End(at(night + 1015 + float64(i+1)/2))
	}
	want("after the pause", night+1020, 10, 5*time.Second, true)
}

// TestPaceOfSlowMaps: an item every ten minutes is measured over as long as it takes, and
// what is kept of a long map stays small.
func TestPaceOfSlowMaps(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	var p Pace
	p.Apply(event.Event{Type: event.PhaseStarted, Phase: "map", Time: start})
	for i := 1; i <= 3; i++ {
		p.End(start.Add(time.Duration(i) * 10 * time.Minute))
	}
	if got := p.Rest(start.Add(30*time.Minute), 2); got.About != 20*time.Minute || got.Sure {
		t.Errorf("three items give %+v", got)
	}
	for i := 4; i <= 30; i++ {
		p.End(start.Add(time.Duration(i) * 10 * time.Minute))
	}
	if got := p.Rest(start.Add(300*time.Minute), 6); got.About != time.Hour || !got.Sure || len(p.marks) > 20 {
		t.Errorf("thirty items give %+v, with %d marks", got, len(p.marks))
	}
	for i := range 20_000 {
		p.End(start.Add(300*time.Minute + time.Duration(i)*time.Second))
	}
	if got := p.Rate(start.Add(300*time.Minute+20_000*time.Second), time.Minute); got < 0.9 || got > 1.1 || len(p.marks) > 700 {
		t.Errorf("%g items a second, with %d marks", got, len(p.marks))
	}
}
