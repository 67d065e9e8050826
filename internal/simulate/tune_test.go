package simulate

import (
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestGainOfFewerSuccesses: what is faster because it gives up is no gain, however
// few the runs are.
func TestGainOfFewerSuccesses(t *testing.T) {
	t.Parallel()
	runs := func(good int, took time.Duration) *Report {
		var list []*Sample
		for i := range 10 {
			s := &Sample{Status: event.Succeeded, Makespan: took, width: Bucket}
			if i >= good {
				s.Status = event.Failed
			}
			list = append(list, s)
		}
		return Summarize(list, false)
	}
	now := runs(10, 10*time.Second)
	for _, goal := range []string{"makespan", "load", "cost"} {
		if g := gain(goal, now, runs(9, time.Second)); g > 0 {
			t.Errorf("%s: one run of ten fails more, and the gain is %v", goal, g)
		}
	}
	if g := gain("makespan", now, runs(10, 5*time.Second)); g != 0.5 {
		t.Errorf("half the time is a gain of %v", g)
	}
}
