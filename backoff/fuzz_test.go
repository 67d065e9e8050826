package backoff_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
)

// FuzzSchedule holds every schedule to what the package promises of any input: no panic,
// a delay from 0 to the cap and within its range, the same for the same random number.
func FuzzSchedule(f *testing.F) {
	for _, d := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, int64(time.Second)} {
		for _, x := range []float64{0, 1, 2, math.NaN(), math.Inf(1), math.Inf(-1), -1, 1 + 0x1p-52, math.MaxFloat64} {
			f.Add(uint8(d&3), uint8(x), d, d/3, x, 1/x, int(d), d, uint64(d))
		}
	}
	f.Fuzz(holds)
}

// TestSchedulesOfAllKinds is the same with numbers that are extreme more often than not.
func TestSchedulesOfAllKinds(t *testing.T) {
	extremes := []int64{0, 1, 2, -1, 92, 93, 1 << 31, 1<<31 - 1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, int64(time.Second), int64(24 * 365 * time.Hour)}
	shares := []float64{0, 1, 1.5, 2, 0.5, -0.5, 1 + 0x1p-52, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64}
	random := rand.New(rand.NewPCG(7, 7))
	whole := func() int64 {
		if random.IntN(3) == 0 {
			return random.Int64N(math.MaxInt64)
		}
		return extremes[random.IntN(len(extremes))]
	}
	share := func() float64 { return shares[random.IntN(len(shares))] }
	for range 40_000 {
		holds(t, uint8(random.IntN(7)), uint8(random.IntN(7)), whole(), whole(), share(), share(), int(whole()), whole(), random.Uint64())
	}
}

func holds(t *testing.T, kind, jitter uint8, initial, limit int64, base, factor float64, n int, prev int64, seed uint64) {
	strategies := []backoff.Strategy{nil, backoff.Fixed{}, backoff.Linear{Increment: time.Duration(prev)}, backoff.Exponential{Base: base}, backoff.Fibonacci{},
		backoff.Custom{Delays: []time.Duration{time.Duration(initial), time.Duration(prev)}}, wild(prev)}
	s := backoff.Schedule{Strategy: strategies[int(kind)%len(strategies)], Initial: time.Duration(initial), Max: time.Duration(limit), Jitter: backoff.Jitter(jitter), JitterFactor: factor}
	_ = s.Validate() // whatever it says
	most := s.Cap()
	if most < 0 {
		t.Fatalf("%+v: the cap is %v", s, most)
	}
	b := s.Base(n)
	least, greatest := s.Range(n, time.Duration(prev))
	d := s.Delay(n, time.Duration(prev), backoff.NewRand(seed))
	if b < 0 || b > most || least < 0 || least > greatest || greatest > most || d < least || d > greatest {
		t.Fatalf("%+v, attempt %d after %v: base %v, range %v to %v, delay %v, cap %v", s, n, time.Duration(prev), b, least, greatest, d, most)
	}
	if again := s.Delay(n, time.Duration(prev), backoff.NewRand(seed)); again != d {
		t.Fatalf("%+v, attempt %d: %v and then %v", s, n, d, again)
	}
	if free := s.Delay(n, time.Duration(prev), nil); free < least || free > greatest {
		t.Fatalf("%+v, attempt %d: without a source %v, range %v to %v", s, n, free, least, greatest)
	}
	if n < 1 && d != 0 {
		t.Fatalf("%+v: %v before the first attempt", s, d)
	}
	// A floor is kept, and no more than the greater of it and what may be is waited.
	floor, ceiling := time.Duration(max(initial, 0)), time.Duration(max(prev, 0))
	if floor > 0 && floor <= ceiling {
		if d := s.DelayAtLeast(floor, ceiling, n, time.Duration(prev), backoff.NewRand(seed)); d < floor || d > max(ceiling, greatest) {
			t.Fatalf("%+v, attempt %d: at least %v and at most %v is %v", s, n, floor, ceiling, d)
		}
	}
}

// wild is a strategy that answers anything.
type wild time.Duration

func (w wild) After(n int, initial, _ time.Duration) time.Duration {
	return time.Duration(w)*time.Duration(n) - initial
}
