package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Where a target serves c attempts at once, in the order in which they come, it follows
// from c when each was begun to be served: when it came, or when the first of the c before
// it had ended. The rest of its time is that of its service. If c is too small, attempts
// end before they are served; if c is wrong at all, the services of attempts depend on how
// long they have waited. So the c is taken under which they depend least.

const (
	queueAttempts = 5000 // that are looked at for the capacity, from the first
	mostServers   = 256
	fewestServed  = 50
	early         = 0.005                // of the attempts may seem to end before they are served
	earlyBy       = 3 * time.Millisecond // or more is not by chance
	waiting       = 0.3                  // of a service is waited, in the mean, or no queue is seen
	depending     = 0.35                 // of a wait more or less in a service is not by chance
)

// queued is a queue that was found: its capacity, and for how long each attempt was
// served. Attempts that do not count have -1.
type queued struct {
	capacity int
	served   []time.Duration
	mean     time.Duration
}

// isServed reports whether the time of an attempt is that of a visit to a queue.
func (e *evidence) isServed(i int) bool {
	class := classOf(e.list[i])
	return class != "rate_limit" && class != "timeout" && !e.list[i].cut && !e.inside[i]
}

// findQueue finds the queue that a recording shows; nil where it shows none.
func findQueue(e *evidence) *queued {
	n := min(len(e.list), queueAttempts)
	for c := range min(atOnce(e.list[:n])-1, mostServers) {
		if q, slope := e.queueOf(c+1, n); q != nil && math.Abs(slope) < depending {
			q, _ = e.queueOf(c+1, len(e.list))
			return q
		}
	}
	return nil
}

// atOnce is the most attempts that ran at once.
func atOnce(list []*recorded) (most int) {
	var ends []time.Duration
	for _, a := range list {
		ends = slices.DeleteFunc(ends, func(end time.Duration) bool { return end <= a.from })
		ends = append(ends, a.from+a.took)
		most = max(most, len(ends))
	}
	return most
}

// queueOf gives the queue of a capacity in which the first attempts were, so many, and by
// how much a service is longer for each second that is waited; nil where there is no such
// queue.
func (e *evidence) queueOf(capacity, first int) (*queued, float64) {
	q := &queued{capacity: capacity, served: make([]time.Duration, first)}
	free := make([]time.Duration, capacity) // when each server is, sorted
	n, wrong := 0.0, 0
	var wait, serve, square, both float64 // sums, in seconds
	for i, a := range e.list[:first] {
		if q.served[i] = -1; !e.isServed(i) {
			continue
		}
		start, end := max(a.from, free[0]), a.from+a.took
		if end < start-earlyBy {
			if wrong++; float64(wrong) > early*float64(first) {
				return nil, 0
			}
		}
		q.served[i] = max(end-start, 0)
		at, _ := slices.BinarySearch(free[1:], end)
		copy(free, free[1:at+1])
		free[at] = end
		w, s := (start - a.from).Seconds(), q.served[i].Seconds()
		n, wait, serve, square, both = n+1, wait+w, serve+s, square+w*w, both+w*s
	}
	spread := square - wait*wait/n
	if n < fewestServed || serve == 0 || wait < waiting*serve || spread/n < math.Pow(0.1*serve/n, 2) {
		return nil, 0
	}
	q.mean = time.Duration(serve / n * float64(time.Second))
	return q, (both - wait*serve/n) / spread
}

// latency is that of the queue, the services of each unit counted as often as it weighs.
func (q *queued) latency(e *evidence, weights []float64, most int) Latency {
	var list []weighed
	for i, d := range q.served {
		if d >= 0 {
			list = append(list, weighed{d, weightOf(weights, e.units[i])})
		}
	}
	slices.SortFunc(list, func(a, b weighed) int { return cmp.Compare(a.value, b.value) })
	return Latency{Capacity: q.capacity, Service: q.mean, Empirical: quantiles(list, most)}
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
