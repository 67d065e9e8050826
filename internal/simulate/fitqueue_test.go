package simulate

import (
	"math"
	"testing"
	"time"
)

// arrivals are attempts that begin at random, each taking as long as it is told.
func arrivals(n int, every time.Duration, takes func(now time.Duration, l *luck) time.Duration) (list []*recorded) {
	l, now := luck(7), time.Duration(0)
	for range n {
		now += l.exponential(every)
		list = append(list, &recorded{from: now, took: takes(now, &l)})
	}
	return list
}

// TestFitQueue: a queue is found again in what was recorded of it, and none where
// latencies do not depend on how many there are at once.
func TestFitQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []int{1, 4, 10} {
		x := &live{Target: &Target{Latency: Latency{Capacity: c, Service: 50 * time.Millisecond}}}
		x.begin(1)
		got := fit(arrivals(20_000, time.Duration(float64(50*time.Millisecond)/(0.9*float64(c))), x.takes)).Latency
		if math.Abs(float64(got.Capacity-c)) > math.Ceil(0.2*float64(c)) || math.Abs(got.Service.Seconds()-0.05) > 0.01 {
			t.Errorf("of %d at once and 50ms it fits %d and %v", c, got.Capacity, got.Service)
		}
	}
	for name, lat := range map[string]Latency{
		"lognormal": {LogNormal: [2]time.Duration{50 * time.Millisecond, time.Second}},
		"uniform":   {Uniform: [2]time.Duration{0, 100 * time.Millisecond}},
		"constant":  {Constant: 50 * time.Millisecond},
	} {
		got := fit(arrivals(20_000, 10*time.Millisecond, func(_ time.Duration, l *luck) time.Duration { return lat.draw(l) })).Latency
		if got.Capacity != 0 || len(got.Empirical) == 0 {
			t.Errorf("%s: it fits a queue of %d, %v", name, got.Capacity, got.Service)
		}
	}
}
