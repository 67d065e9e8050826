package circuit_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/circuit/driver"
)

// call is one call to a breaker, with what it answered and when, in the order
// of a counter that all goroutines share.
type call struct {
	acquire  bool
	ticket   driver.Ticket
	refused  bool
	outcome  circuit.Outcome
	from, to int64
}

// linearizable reports whether the calls can be put in an order that respects
// time and in which a Machine gives the same answers. An open breaker with a
// timeout of one nanosecond lets a probe through at once, so that the time of
// a call does not matter.
func linearizable(config driver.Config, calls []call) bool {
	m, err := driver.NewMachine(config)
	if err != nil {
		return false
	}
	return search(m, calls, make([]bool, len(calls)), 0)
}

func search(m *driver.Machine, calls []call, done []bool, count int) bool {
	if count == len(calls) {
		return true
	}
	first := int64(1) << 62 // the earliest end: what begins later cannot be next
	for i, c := range calls {
		if !done[i] {
			first = min(first, c.to)
		}
	}
	before := m.Snapshot()
	now := time.Unix(int64(count), 0)
	for i, c := range calls {
		if done[i] || c.from > first {
			continue
		}
		done[i] = true
		if agrees(m, c, now) && search(m, calls, done, count+1) {
			return true
		}
		done[i] = false
		if err := m.Restore(before); err != nil {
			panic(err)
		}
	}
	return false
}

func agrees(m *driver.Machine, c call, now time.Time) bool {
	if !c.acquire {
		m.Done(c.ticket, c.outcome, now)
		return true
	}
	ticket, err := m.Acquire(now)
	return (err != nil) == c.refused && ticket == c.ticket
}

func TestBreakerIsLinearizable(t *testing.T) {
	config := driver.Config{FailureThreshold: 2, SuccessThreshold: 2, HalfOpenRequests: 1, Timeout: time.Nanosecond, Lease: time.Hour}
	for round := range 1500 {
		b, err := driver.New(config)
		if err != nil {
			t.Fatal(err)
		}
		var counter atomic.Int64
		histories := make([][]call, 3)
		var wait sync.WaitGroup
		for g := range histories {
			random := rand.New(rand.NewPCG(uint64(round), uint64(g)))
			wait.Go(func() {
				for range 4 {
					c := call{acquire: true, from: counter.Add(1)}
					ticket, err := b.Admit()
					c.to, c.ticket, c.refused = counter.Add(1), ticket, err != nil
					histories[g] = append(histories[g], c)
					if c.refused {
						continue
					}
					d := call{ticket: ticket, outcome: circuit.Outcome(random.IntN(3)), from: counter.Add(1)}
					b.Answer(ticket, d.outcome, 0)
					d.to = counter.Add(1)
					histories[g] = append(histories[g], d)
				}
			})
		}
		wait.Wait()
		var calls []call
		for _, h := range histories {
			calls = append(calls, h...)
		}
		if !linearizable(config, calls) {
			t.Fatalf("round %d: no order explains %+v", round, calls)
		}
	}
}

// A wrong history is found out.
func TestLinearizableRejects(t *testing.T) {
	config := driver.Config{FailureThreshold: 1, Timeout: time.Hour}
	calls := []call{
		{acquire: true, from: 1, to: 2},
		{outcome: circuit.Failure, from: 3, to: 4},
		{acquire: true, from: 5, to: 6}, // let in after the failure that opened it
	}
	if linearizable(config, calls) {
		t.Error("a call through an open breaker is explained")
	}
}

// Many goroutines, many changes: the permits that are out in half-open never
// exceed the limit, and every change is told once and follows from the one
// before.
func TestBreakerUnderContention(t *testing.T) {
	const limit, goroutines, each = 2, 8, 20_000
	last, changes := circuit.Closed, 0
	config := driver.Config{FailureThreshold: 3, SuccessThreshold: 2, HalfOpenRequests: limit, Timeout: time.Microsecond, Lease: time.Hour,
		OnChange: func(c circuit.Change) { // never two at a time
			if c.From != last {
				t.Errorf("told %v → %v after a change to %v", c.From, c.To, last)
			}
			last = c.To
			changes++
		}}
	b, err := driver.New(config)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	out := map[uint64]int{} // probes by generation
	var acquired, answered atomic.Int64
	var wait sync.WaitGroup
	for g := range goroutines {
		random := rand.New(rand.NewPCG(1, uint64(g)))
		wait.Go(func() {
			for range each {
				ticket, err := b.Admit()
				if err != nil {
					continue
				}
				acquired.Add(1)
				if ticket.Probe > 0 {
					mu.Lock()
					out[ticket.Generation]++
					if n := out[ticket.Generation]; n > limit {
						t.Errorf("%d probes are out", n)
					}
					mu.Unlock()
				}
				outcome := circuit.Outcome(random.IntN(3))
				if ticket.Probe > 0 { // counted as back before it is
					mu.Lock()
					out[ticket.Generation]--
					mu.Unlock()
				}
				b.Answer(ticket, outcome, 0)
				if outcome != circuit.Neutral {
					answered.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if got := b.Counts(); got.Successes+got.Failures != uint64(answered.Load()) {
		t.Errorf("%+v of %d answers were counted", got, answered.Load())
	}
	if changes < 100 || acquired.Load() < 100 {
		t.Errorf("only %d changes and %d calls: no contention", changes, acquired.Load())
	}
	if final := b.Snapshot(); len(final.Probes) != 0 || final.State != last {
		t.Errorf("at the end %+v, told %v", final, last)
	}
}
