package simulate

import (
	"math"
	"slices"
	"time"
)

// Where a target serves c attempts at once, each for a time around s, one that
// begins as the kth at once takes s on the average while k is at most c, and
// s·k/c beyond that. A queue is fitted where the recording has so many different
// numbers at once that this can be told from latencies that do not depend on them.

const (
	fewestAtLevel = 20  // attempts with as many at once
	fewestLevels  = 4   // different numbers at once
	slowdown      = 1.5 // of the highest level over the lowest
	explained     = 0.8 // of what the means of the levels differ
)

// level is the attempts that began as the kth at once.
type level struct {
	k         int
	n         float64
	sum, sum2 float64 // of their times in nanoseconds
}

func (l *level) mean() float64 { return l.sum / l.n }

// levels sorts the attempts by how many ran at once when they began, those that
// ended in a timeout or were cut short and answers 429 left out.
func levels(e *evidence, weights []float64) (out []*level) {
	by := map[int]*level{}
	var ends []time.Duration // of those that run
	for i, a := range e.list {
		ends = slices.DeleteFunc(ends, func(end time.Duration) bool { return end <= a.from })
		ends = append(ends, a.from+a.took)
		if class := classOf(a); class == "rate_limit" || class == "timeout" || a.cut {
			continue
		}
		l := by[len(ends)]
		if l == nil {
			l = &level{k: len(ends)}
			by[l.k] = l
		}
		took := float64(a.took)
		w := weightOf(weights, e.units[i])
		l.n, l.sum, l.sum2 = l.n+w, l.sum+w*took, l.sum2+w*took*took
	}
	for _, l := range by {
		if l.n >= fewestAtLevel {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *level) int { return a.k - b.k })
	return out
}

// fitQueue gives the capacity and the mean time of service of a queue; 0 where the
// recording does not show one.
func fitQueue(e *evidence, weights []float64) (capacity int, service time.Duration) {
	all := levels(e, weights)
	if len(all) < fewestLevels || all[len(all)-1].mean() < slowdown*all[0].mean() {
		return 0, 0
	}
	flat, _ := misfit(all, math.MaxInt32)
	best := flat
	for c := 1; c < all[len(all)-1].k; c++ {
		if miss, s := misfit(all, c); miss < best {
			best, capacity, service = miss, c, time.Duration(s)
		}
	}
	if best > (1-explained)*flat || !exponential(all, capacity) {
		return 0, 0
	}
	return capacity, service
}

// misfit is by how much the means of the levels differ from those of a queue of a
// capacity, whose time of service s is the one that fits best.
func misfit(all []*level, capacity int) (miss, s float64) {
	factor := func(l *level) float64 { return math.Max(1, float64(l.k)/float64(capacity)) }
	up, down := 0.0, 0.0
	for _, l := range all {
		f := factor(l)
		up, down = up+l.sum*f, down+l.n*f*f
	}
	s = up / down
	for _, l := range all {
		d := l.mean() - s*factor(l)
		miss += l.n * d * d
	}
	return miss, s
}

// exponential reports whether those who did not wait took times that are spread as
// those of a queue are, which a model has: by about their mean.
func exponential(all []*level, capacity int) bool {
	n, sum, sum2 := 0.0, 0.0, 0.0
	for _, l := range all {
		if l.k <= capacity {
			n, sum, sum2 = n+l.n, sum+l.sum, sum2+l.sum2
		}
	}
	if n < fewestAtLevel {
		return false
	}
	mean := sum / n
	spread := math.Sqrt(math.Max(0, sum2/n-mean*mean)) / mean
	return spread > 0.6 && spread < 1.5
}

// queues reports whether it is known of all targets how load lengthens latencies.
func (m *Model) queues() bool {
	for _, t := range m.Steps {
		if t.Latency.Capacity == 0 {
			return false
		}
	}
	return len(m.Steps) > 0
}
