package backoff_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/backoff"
)

// constant is a source that always gives the same number.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

const (
	lowest  = constant(0)
	highest = constant(math.MaxUint64)
)

func TestJitterRanges(t *testing.T) {
	s := func(j backoff.Jitter, f float64) backoff.Schedule {
		return backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 10 * time.Second, Max: 12 * time.Second, Jitter: j, JitterFactor: f}
	}
	tests := []struct {
		name            string
		s               backoff.Schedule
		prev            time.Duration
		least, greatest time.Duration
	}{
		{"none", s(backoff.None, .5), 0, 10 * time.Second, 10 * time.Second},
		{"factor .1", s(backoff.Factor, .1), 0, 9 * time.Second, 11 * time.Second},
		{"factor .5 is cut by the cap, not clamped", s(backoff.Factor, .5), 0, 5 * time.Second, 12 * time.Second},
		{"factor by default", s(backoff.Factor, 0), 0, 7 * time.Second, 12 * time.Second},
		{"factor zero", s(backoff.Factor, -1), 0, 10 * time.Second, 10 * time.Second},
		{"factor 1", s(backoff.Factor, 1), 0, 0, 12 * time.Second},
		{"full", s(backoff.Full, 0), 0, 0, 10 * time.Second},
		{"equal", s(backoff.Equal, 0), 0, 5 * time.Second, 10 * time.Second},
		{"decorrelated, first", s(backoff.Decorrelated, 0), 0, 10 * time.Second, 12 * time.Second},
		{"decorrelated", backoff.Schedule{Initial: time.Second, Jitter: backoff.Decorrelated}, 4 * time.Second, time.Second, 12 * time.Second},
		{"decorrelated at the cap", backoff.Schedule{Initial: time.Second, Jitter: backoff.Decorrelated}, 29 * time.Second, time.Second, 30 * time.Second},
		{"decorrelated, initial beyond the cap", backoff.Schedule{Initial: time.Minute, Jitter: backoff.Decorrelated}, 0, 30 * time.Second, 30 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.s.Delay(1, test.prev, lowest); got != test.least {
				t.Errorf("least delay is %v, want %v", got, test.least)
			}
			if got := test.s.Delay(1, test.prev, highest); got != test.greatest {
				t.Errorf("greatest delay is %v, want %v", got, test.greatest)
			}
		})
	}
}

// At the cap, jitter neither exceeds it nor collapses onto it.
func TestJitterSurvivesTheCap(t *testing.T) {
	for _, jitter := range []backoff.Jitter{backoff.Factor, backoff.Full, backoff.Equal, backoff.Decorrelated} {
		s := backoff.Schedule{Initial: time.Second, Max: 2 * time.Second, Jitter: jitter, JitterFactor: .5}
		r := rand.New(rand.NewPCG(1, 2))
		distinct, atCap := map[time.Duration]bool{}, 0
		prev := time.Duration(0)
		for range 1000 {
			d := s.Delay(50, prev, r)
			prev = d
			if d > s.Max {
				t.Fatalf("%v: delay %v beyond the cap", jitter, d)
			}
			if d == s.Max {
				atCap++
			}
			distinct[d] = true
		}
		if len(distinct) < 900 || atCap > 5 {
			t.Errorf("%v: %d distinct delays of 1000, %d of them the cap", jitter, len(distinct), atCap)
		}
	}
}

// Jitter greater than the delay is refused, and no share of the delays is
// cut off to zero.
func TestJitterGreaterThanDelay(t *testing.T) {
	s := backoff.Schedule{Strategy: backoff.Fixed{}, Initial: time.Second, Jitter: backoff.Factor, JitterFactor: 5}
	if s.Validate() == nil {
		t.Error("a jitter factor of 5 is accepted")
	}
	zeros := 0
	for range 2000 {
		if s.Delay(1, 0, nil) == 0 {
			zeros++
		}
	}
	if zeros > 1 {
		t.Errorf("%d of 2000 delays are 0", zeros)
	}
}

// A range that begins at zero is a range.
func TestJitterFromZero(t *testing.T) {
	s := backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 100 * ms, Jitter: backoff.Full}
	r, sum := rand.New(rand.NewPCG(3, 4)), time.Duration(0)
	for range 1000 {
		sum += s.Delay(1, 0, r)
	}
	if mean := sum / 1000; mean < 45*ms || mean > 55*ms {
		t.Errorf("the mean of delays in [0, 100ms] is %v", mean)
	}
}

// No overflow, no negative delay, no panic next to the
// greatest duration.
func TestNoOverflow(t *testing.T) {
	strategies := []backoff.Strategy{nil, backoff.Fixed{}, backoff.Linear{}, backoff.Linear{Increment: math.MaxInt64},
		backoff.Exponential{Base: 1.5}, backoff.Exponential{Base: 1e300}, backoff.Fibonacci{}, backoff.Custom{Delays: []time.Duration{math.MaxInt64}}}
	for _, strategy := range strategies {
		for jitter := backoff.None; jitter <= backoff.Decorrelated; jitter++ {
			for _, limit := range []time.Duration{100 * ms, math.MaxInt64 - 1, math.MaxInt64} {
				for _, initial := range []time.Duration{70, time.Second, math.MaxInt64} {
					s := backoff.Schedule{Strategy: strategy, Initial: initial, Max: limit, Jitter: jitter, JitterFactor: 1}
					for _, n := range []int{1, 2, 33, 34, 38, 63, 64, 65, 99, 1024, 2000, math.MaxInt32} {
						for _, r := range []backoff.Rand{lowest, highest, nil} {
							if d := s.Delay(n, limit, r); d < 0 || d > limit {
								t.Fatalf("%+v: delay %d is %d", s, n, d)
							}
						}
					}
				}
			}
		}
	}
}

// The first delay is that of the first failed attempt.
func TestOneNumbering(t *testing.T) {
	s := backoff.Schedule{Initial: time.Second, Jitter: backoff.Full}
	if d := s.Delay(1, 0, highest); d != time.Second {
		t.Errorf("the greatest first delay is %v, want 1s", d)
	}
	if d := s.Delay(2, 0, highest); d != 2*time.Second {
		t.Errorf("the greatest second delay is %v, want 2s", d)
	}
}

// What cannot be meant is refused when the schedule is checked, and does
// not panic when it is not.
func TestNegativeJitterDoesNotPanic(t *testing.T) {
	s := backoff.Schedule{Strategy: backoff.Fixed{}, Initial: time.Second, Jitter: backoff.Factor, JitterFactor: math.Inf(-1)}
	if d := s.Delay(1, 0, nil); d != time.Second {
		t.Errorf("delay is %v, want 1s", d)
	}
}

// A schedule has no state, so operations that share it do not disturb
// each other, and the same seed gives the same delays.
func TestSameSeedSameDelays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, seed := anySchedule(t), rapid.Uint64().Draw(t, "seed")
		draw := func() (delays [20]time.Duration) {
			r, prev := backoff.NewRand(seed), time.Duration(0)
			for i := range delays {
				prev = s.Delay(i+1, prev, r)
				delays[i] = prev
			}
			return delays
		}
		if a, b := draw(), draw(); a != b {
			t.Fatalf("delays differ: %v, %v", a, b)
		}
	})
}

func TestDelayAtLeast(t *testing.T) {
	fixed := func(j backoff.Jitter) backoff.Schedule {
		return backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 10 * time.Second, Max: 30 * time.Second, Jitter: j}
	}
	const limit = 5 * time.Minute
	tests := []struct {
		name            string
		s               backoff.Schedule
		floor           time.Duration
		least, greatest time.Duration
	}{
		{"floor below the delay", fixed(backoff.None), 5 * time.Second, 10 * time.Second, 10 * time.Second},
		{"floor above the delay", fixed(backoff.None), 20 * time.Second, 20 * time.Second, 20 * time.Second},
		{"floor beyond the cap", fixed(backoff.None), time.Minute, time.Minute, time.Minute},
		{"jitter begins at the floor", fixed(backoff.Full), 5 * time.Second, 5 * time.Second, 15 * time.Second},
		{"and stays within the cap", fixed(backoff.Full), 25 * time.Second, 25 * time.Second, 30 * time.Second},
		{"unless the floor is beyond it", fixed(backoff.Full), time.Minute, time.Minute, 70 * time.Second},
		{"and never beyond the limit", fixed(backoff.Full), limit - time.Second, limit - time.Second, limit},
		{"at the limit", fixed(backoff.Full), limit, limit, limit},
		{"beyond the limit", fixed(backoff.Full), limit + 1, limit + 1, limit + 1},
		{"factor goes upwards only", fixed(backoff.Factor), 20 * time.Second, 20 * time.Second, 26 * time.Second},
	}
	for _, draw := range []backoff.Rand{lowest, highest} { // a limit below the floor
		if got := fixed(backoff.Full).DelayAtLeast(5*time.Second, 2*time.Second, 1, 0, draw); got != 5*time.Second {
			t.Errorf("the delay is %v, want the floor of 5s", got)
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.s.DelayAtLeast(test.floor, limit, 1, 0, lowest); got != test.least {
				t.Errorf("least delay is %v, want %v", got, test.least)
			}
			if got := test.s.DelayAtLeast(test.floor, limit, 1, 0, highest); got != test.greatest {
				t.Errorf("greatest delay is %v, want %v", got, test.greatest)
			}
		})
	}
}

func TestParseJitter(t *testing.T) {
	for j := backoff.None; j <= backoff.Decorrelated; j++ {
		if got, err := backoff.ParseJitter(j.String()); err != nil || got != j {
			t.Errorf("ParseJitter(%q) is %v, %v", j, got, err)
		}
	}
	for _, name := range []string{"", "Full", "true", "half"} {
		if got, err := backoff.ParseJitter(name); err == nil {
			t.Errorf("ParseJitter(%q) is %v and no error", name, got)
		}
	}
}

func FuzzParseJitter(f *testing.F) {
	f.Add("full")
	f.Fuzz(func(t *testing.T, name string) {
		if j, err := backoff.ParseJitter(name); err == nil && j.String() != name {
			t.Errorf("%q is read as %v", name, j)
		}
	})
}

// The source is shared safely: together the goroutines draw exactly the
// numbers that one would.
func TestNewRandIsShared(t *testing.T) {
	const goroutines, each = 4, 1000
	want := map[uint64]int{}
	alone := backoff.NewRand(9)
	for range goroutines * each {
		want[alone.Uint64()]++
	}
	shared := backoff.NewRand(9)
	drawn := make([][]uint64, goroutines)
	var wait sync.WaitGroup
	for i := range drawn {
		wait.Go(func() {
			for range each {
				drawn[i] = append(drawn[i], shared.Uint64())
			}
		})
	}
	wait.Wait()
	for _, numbers := range drawn {
		for _, n := range numbers {
			want[n]--
		}
	}
	for n, left := range want {
		if left != 0 {
			t.Fatalf("number %d was drawn %d times too few", n, left)
		}
	}
}
