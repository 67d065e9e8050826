package journal

import (
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// A pause for a rate limit lasts no longer than was decided where the clock is set back
// between two lives of a run.
func TestPauseAfterTheClockWasSetBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var s State
	data := []byte(`{"until":"2026-01-02T03:30:00Z","since":"2026-01-02T02:50:00Z","streak":2}`)
	if err := s.Apply(event.Event{Type: event.RunPaused, Seq: 1, Time: at, DelayMS: 30 * 60_000, Data: data}); err != nil {
		t.Fatal(err)
	}
	for back, want := range map[time.Duration]time.Duration{-10 * time.Minute: 20 * time.Minute, 0: 30 * time.Minute, 5 * time.Minute: 30 * time.Minute, 72 * time.Hour: 30 * time.Minute} {
		now := at.Add(-back)
		p := s.Pause.Resumed(now)
		if got := p.Until.Sub(now); got != want {
			t.Errorf("set back by %s: it lasts %s, want %s", back, got, want)
		}
		if got := p.Until.Sub(p.Since); got != 40*time.Minute {
			t.Errorf("set back by %s: the series is %s long", back, got)
		}
	}
}

// The clock of the machine is set forward by a day, or back by one, while a run is running:
// it took as long as its processes counted.
func TestTookIsNotByTheClock(t *testing.T) {
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		s := newStore(t)
		j, err := s.Create(header())
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		took := func() time.Duration {
			t.Helper()
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := s.Read("")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			sum, err := r.Summary(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return sum.Took
		}
		add(t, j, event.Event{Type: event.RunStarted, Time: at}, event.Event{Type: event.RunFinished, Status: event.Interrupted, Time: at.Add(jump), DurationMS: 1500})
		if got := took(); got != 1500*time.Millisecond {
			t.Errorf("one life, a jump of %s: %s", jump, got)
		}
		if j, err = s.Open(""); err != nil {
			t.Fatal(err)
		}
		add(t, j, event.Event{Type: event.RunResumed, Time: at.Add(jump)}, event.Event{Type: event.RunFinished, Status: event.Succeeded, Time: at.Add(3 * jump), DurationMS: 2500})
		if got := took(); got != 4*time.Second {
			t.Errorf("two lives, a jump of %s: %s", jump, got)
		}
	}
}
