package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
)

// TestFitCorrelation: what the attempts of items have in common is found again in
// a recording, and nothing where there is nothing.
func TestFitCorrelation(t *testing.T) {
	t.Parallel()
	for _, want := range []float64{0, 0.4, 0.7, 1} {
		r := &Recording{attempts: map[attemptKey]*recorded{}, static: static}
		for item := 1; item <= 4000; item++ {
			common := luck(mix(uint64(item)))
			of := common.unit()
			for n := 1; n <= 3; n++ {
				l := luck(mix(uint64(item)<<8 | uint64(n)))
				u := l.unit()
				if l.unit() < want {
					u = of
				}
				a := &recorded{from: time.Duration(l.unit() * float64(time.Hour))}
				r.attempts[attemptKey{0, item, 1, "map.agent_template[0]", n, 0}] = a
				if u >= 0.3 {
					break
				}
				a.failure = &failure.Failure{Class: "network"}
			}
		}
		m := r.Fit()
		if got := m.Correlation; math.Abs(got-want) > 0.1 {
			t.Errorf("fitted %v, and it is %v", got, want)
		}
		if f := m.Steps["map.agent_template[0]"].Failures; len(f) != 1 || math.Abs(f[0].P-0.3) > 0.03 {
			t.Errorf("what attempts have in common is %v, and they fail with %v, not 0.3", want, f)
		}
	}
	few := &Recording{attempts: map[attemptKey]*recorded{{0, 1, 1, "x", 1, 0}: {failure: &failure.Failure{}}, {0, 1, 1, "x", 2, 0}: {failure: &failure.Failure{}}, {0, 2, 1, "x", 1, 0}: {}}, static: static}
	if got := few.Fit().Correlation; got != 0 {
		t.Errorf("fitted %v to two items", got)
	}
}
