package retry_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// storm is the experiment of "Exponential Backoff and Jitter" (Marc Brooker,
// AWS Architecture Blog, 2015), built again: clients that all want to change
// one row read it, then write it, and the write fails if the row has changed
// meanwhile. Each way through the network takes about 10ms. It runs in virtual
// time, driven by the retry machine.
type storm struct {
	events  events
	random  *rand.Rand
	version int
	writes  int
	end     time.Duration
	queued  int
}

type happening struct {
	at  time.Duration
	seq int // equal times keep their order
	do  func(now time.Duration)
}

type events []happening

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(happening)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *storm) after(now, delay time.Duration, do func(time.Duration)) {
	s.queued++
	heap.Push(&s.events, happening{now + delay, s.queued, do})
}

// way is how long a message takes.
func (s *storm) way() time.Duration {
	return time.Duration(math.Abs(10+2*s.random.NormFloat64()) * float64(time.Millisecond))
}

// client reads, writes, and begins again as the machine says.
func (s *storm) client(p *retry.Policy) {
	m := driver.NewMachine(p, noon)
	var read func(time.Duration)
	read = func(now time.Duration) {
		s.after(now, s.way(), func(now time.Duration) { // the row is read
			seen := s.version
			s.after(now, s.way()+s.way(), func(now time.Duration) { // the write has come
				s.writes++
				var err error = errFlaky
				if seen == s.version {
					s.version++
					err = nil
				}
				s.after(now, s.way(), func(now time.Duration) { // the answer has come
					switch d := m.Next(err, noon.Add(now)); d.Action {
					case driver.ActionRetry:
						s.after(now, d.Delay, read)
					case driver.ActionDone:
						s.end = now
					}
				})
			})
		})
	}
	read(0)
}

// runStorm returns the mean time until all clients are done, and the mean number
// of writes.
func runStorm(t *testing.T, clients, runs int, schedule backoff.Schedule) (time.Duration, int) {
	t.Helper()
	var total time.Duration
	writes := 0
	for run := range runs {
		random := rand.New(rand.NewPCG(1, uint64(run)))
		s := &storm{random: random}
		p := &retry.Policy{Attempts: math.MaxInt, Backoff: schedule, Rand: random}
		for range clients {
			s.client(p)
		}
		for s.events.Len() > 0 {
			next := heap.Pop(&s.events).(happening)
			next.do(next.at)
		}
		if s.version != clients {
			t.Fatalf("%d of %d clients are done", s.version, clients)
		}
		total += s.end
		writes += s.writes
	}
	return total / time.Duration(runs), writes / runs
}

func TestStorm(t *testing.T) {
	schedule := func(j backoff.Jitter) backoff.Schedule {
		return backoff.Schedule{Initial: 5 * time.Millisecond, Max: 2 * time.Second, Jitter: j}
	}
	const clients, runs = 100, 20
	none, noneWrites := runStorm(t, clients, runs, schedule(backoff.None))
	full, fullWrites := runStorm(t, clients, runs, schedule(backoff.Full))
	equal, equalWrites := runStorm(t, clients, runs, schedule(backoff.Equal))
	decorrelated, decorrelatedWrites := runStorm(t, clients, runs, schedule(backoff.Decorrelated))
	factor, factorWrites := runStorm(t, clients, runs, schedule(backoff.Factor))
	t.Logf("mean time until %d clients are done, and writes: none %v %d, full %v %d, equal %v %d, decorrelated %v %d, factor .3 %v %d",
		clients, none, noneWrites, full, fullWrites, equal, equalWrites, decorrelated, decorrelatedWrites, factor, factorWrites)
	if full*10 > none {
		t.Errorf("full jitter (%v) is not ten times as fast as none (%v)", full, none)
	}
	if float64(full) > .85*float64(equal) {
		t.Errorf("full jitter (%v) is not clearly faster than equal (%v)", full, equal)
	}
	if fullWrites*2 > noneWrites {
		t.Errorf("full jitter takes %d writes, none takes %d", fullWrites, noneWrites)
	}
	if decorrelated > equal || factor < full || factor > none {
		t.Errorf("out of order: decorrelated %v, equal %v, factor %v, full %v, none %v", decorrelated, equal, factor, full, none)
	}
	if again, _ := runStorm(t, clients, runs, schedule(backoff.Full)); again != full {
		t.Errorf("the same seed gives %v and %v", full, again)
	}
}
