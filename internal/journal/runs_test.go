package journal

import (
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// The clock of the machine is set forward by a day, or back by one, while a run goes on:
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
