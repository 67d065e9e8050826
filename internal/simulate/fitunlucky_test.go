package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
)

// TestFitUnlucky: what the attempts of items have in common is found again in
// a recording, and nothing where there is nothing.
func TestFitUnlucky(t *testing.T) {
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
		// an item takes its own luck with the probability want, which is bad for 0.3 of them
		x := r.Fit().Steps["map.agent_template[0]"]
		of := func(list []Failure) float64 {
			if len(list) == 0 {
				return 0
			}
			return list[0].P
		}
		first, common := of(x.Failures), 0.0
		if u := x.unlucky; u != nil {
			common = of(u.failures) - of(x.Failures)
			first = u.share*of(u.failures) + (1-u.share)*of(x.Failures)
		}
		if math.Abs(common-want) > 0.1 {
			t.Errorf("fitted %v, and it is %v", common, want)
		}
		if math.Abs(first-0.3) > 0.03 {
			t.Errorf("what attempts have in common is %v, and first attempts fail with %v, not 0.3", want, first)
		}
	}
	few := &Recording{attempts: map[attemptKey]*recorded{{0, 1, 1, "x", 1, 0}: {failure: &failure.Failure{}}, {0, 1, 1, "x", 2, 0}: {failure: &failure.Failure{}}, {0, 2, 1, "x", 1, 0}: {}}, static: static}
	if got := few.Fit().Steps["x"].unlucky; got != nil {
		t.Errorf("fitted %v to two items", got)
	}
}
