package backoff_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/backoff"
)

const ms = time.Millisecond

func seconds(values ...float64) []time.Duration {
	delays := make([]time.Duration, len(values))
	for i, v := range values {
		delays[i] = time.Duration(v * float64(time.Second))
	}
	return delays
}

func TestWorkedRows(t *testing.T) {
	tests := []struct {
		name string
		s    backoff.Schedule
		want []time.Duration
	}{
		{"fixed 2s", backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 2 * time.Second}, seconds(2, 2, 2)},
		{"linear 1s + 2s", backoff.Schedule{Strategy: backoff.Linear{Increment: 2 * time.Second}, Initial: time.Second}, seconds(1, 3, 5, 7)},
		{"linear, increment by default", backoff.Schedule{Strategy: backoff.Linear{}, Initial: 2 * time.Second}, seconds(2, 4, 6, 8, 10)},
		{"linear, increment zero", backoff.Schedule{Strategy: backoff.Linear{Increment: -1}, Initial: 2 * time.Second}, seconds(2, 2, 2)},
		{"linear reaches the cap", backoff.Schedule{Strategy: backoff.Linear{}, Initial: 10 * time.Second}, seconds(10, 20, 30, 30)},
		{"zero value strategy", backoff.Schedule{Initial: time.Second}, seconds(1, 2, 4, 8, 16, 30, 30)},
		{"exponential 1s", backoff.Schedule{Strategy: backoff.Exponential{}, Initial: time.Second}, seconds(1, 2, 4, 8, 16, 30, 30, 30, 30, 30)},
		{"exponential 500ms", backoff.Schedule{Strategy: backoff.Exponential{Base: 2}, Initial: 500 * ms}, seconds(.5, 1, 2, 4, 8)},
		{"exponential base 3 cap 60s", backoff.Schedule{Strategy: backoff.Exponential{Base: 3}, Initial: time.Second, Max: time.Minute}, seconds(1, 3, 9, 27, 60)},
		{"exponential base 1.5", backoff.Schedule{Strategy: backoff.Exponential{Base: 1.5}, Initial: time.Second}, seconds(1, 1.5, 2.25, 3.375)},
		{"exponential base 1.7", backoff.Schedule{Strategy: backoff.Exponential{Base: 1.7}, Initial: time.Second}, seconds(1, 1.7, 2.89)},
		{"exponential base 1", backoff.Schedule{Strategy: backoff.Exponential{Base: 1}, Initial: time.Second}, seconds(1, 1, 1)},
		{"fibonacci 1s", backoff.Schedule{Strategy: backoff.Fibonacci{}, Initial: time.Second}, seconds(1, 1, 2, 3, 5, 8, 13, 21, 30)},
		{"custom, cap 60s", backoff.Schedule{Strategy: backoff.Custom{Delays: seconds(1, 3, 7, 15)}, Max: time.Minute}, seconds(1, 3, 7, 15, 60)},
		{"custom", backoff.Schedule{Strategy: backoff.Custom{Delays: seconds(.5, 1, 2, 5, 10)}}, seconds(.5, 1, 2, 5, 10, 30)},
		{"custom, beyond the cap", backoff.Schedule{Strategy: backoff.Custom{Delays: seconds(40, 1)}}, seconds(30, 1, 30)},
		{"custom, empty", backoff.Schedule{Strategy: backoff.Custom{}}, seconds(30, 30, 30)},
		{"no wait", backoff.Schedule{}, seconds(0, 0, 0)},
		{"cap zero", backoff.Schedule{Initial: time.Second, Max: -1}, seconds(0, 0)},
		{"no cap", backoff.Schedule{Initial: time.Minute, Max: backoff.Unlimited}, seconds(60, 120, 240)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i, want := range test.want {
				if got := test.s.Delay(i+1, 0, nil); got != want {
					t.Errorf("delay %d is %v, want %v", i+1, got, want)
				}
			}
			if got := test.s.Delay(0, 0, nil); got != 0 {
				t.Errorf("delay before the first attempt is %v", got)
			}
			if got := test.s.Delay(-1<<31, 0, nil); got != 0 {
				t.Errorf("delay of a negative attempt is %v", got)
			}
		})
	}
}

// anyStrategy draws one of the five with any legal parameters.
func anyStrategy(t *rapid.T) backoff.Strategy {
	duration := rapid.OneOf(
		rapid.Int64Range(0, int64(time.Hour)),
		rapid.Int64Range(0, math.MaxInt64),
		rapid.SampledFrom([]int64{0, 1, math.MaxInt64}),
	)
	switch rapid.IntRange(0, 5).Draw(t, "strategy") {
	case 0:
		return backoff.Fixed{}
	case 1:
		return backoff.Linear{Increment: time.Duration(rapid.OneOf(duration, rapid.Just(int64(-1))).Draw(t, "increment"))}
	case 2:
		return backoff.Exponential{Base: rapid.OneOf(
			rapid.Float64Range(1, 10),
			rapid.Float64Range(1, 1+1e-9),
			rapid.Float64Range(1, math.MaxFloat64),
			rapid.SampledFrom([]float64{0, 1, math.Nextafter(1, 2), 1.5, 2, 3, 10, 1 << 62, 1 << 63, 1 << 64}),
		).Draw(t, "base")}
	case 3:
		return backoff.Fibonacci{}
	case 4:
		var delays []time.Duration
		for _, d := range rapid.SliceOfN(duration, 0, 5).Draw(t, "delays") {
			delays = append(delays, time.Duration(d))
		}
		return backoff.Custom{Delays: delays}
	}
	return nil
}

func anySchedule(t *rapid.T) backoff.Schedule {
	duration := rapid.OneOf(
		rapid.Int64Range(0, int64(time.Hour)),
		rapid.Int64Range(0, math.MaxInt64),
		rapid.SampledFrom([]int64{0, 1, math.MaxInt64 - 1, math.MaxInt64}),
	)
	return backoff.Schedule{
		Strategy:     anyStrategy(t),
		Initial:      time.Duration(duration.Draw(t, "initial")),
		Max:          time.Duration(rapid.OneOf(duration, rapid.Just(int64(-1))).Draw(t, "max")),
		Jitter:       backoff.Jitter(rapid.IntRange(0, 4).Draw(t, "jitter")),
		JitterFactor: rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{-1, 0, 1})).Draw(t, "factor"),
	}
}

var attempts = rapid.OneOf(
	rapid.IntRange(1, 100),
	rapid.IntRange(1, math.MaxInt32),
	rapid.SampledFrom([]int{1, 2, 33, 34, 62, 63, 64, 65, 92, 93, 94, 1023, 1024, 10_000, math.MaxInt32, math.MaxInt}),
)

// naive computes the base delay with rational numbers and as many steps as it
// takes. ok is false where that is too many.
func naive(s backoff.Schedule, n int) (time.Duration, bool) {
	limit := big.NewRat(int64(s.Cap()), 1)
	initial := big.NewRat(int64(s.Initial), 1)
	result := new(big.Rat)
	switch strategy := s.Strategy.(type) {
	case backoff.Fixed:
		result = initial
	case backoff.Linear:
		increment := strategy.Increment
		if increment == 0 {
			increment = s.Initial
		}
		result.Mul(big.NewRat(int64(n-1), 1), big.NewRat(int64(max(increment, 0)), 1))
		result.Add(result, initial)
	case backoff.Fibonacci:
		a, b := big.NewRat(0, 1), big.NewRat(1, 1)
		for i := 1; i < n && b.Cmp(limit) <= 0; i++ {
			a, b = b, new(big.Rat).Add(a, b)
		}
		result.Mul(initial, b)
	case backoff.Custom:
		if n > len(strategy.Delays) {
			return s.Cap(), true
		}
		result.SetInt64(int64(strategy.Delays[n-1]))
	default:
		base := 2.0
		if e, ok := s.Strategy.(backoff.Exponential); ok && e.Base != 0 {
			base = e.Base
		}
		factor := new(big.Rat).SetFloat64(base)
		result.Set(initial)
		for i := 1; i < n && result.Sign() > 0 && result.Cmp(limit) < 0; i++ {
			if i > 40 && base != 2 { // the fractions grow by 53 bits each
				return 0, false
			}
			result.Mul(result, factor)
		}
	}
	if result.Cmp(limit) >= 0 {
		return s.Cap(), true
	}
	result.Add(result, big.NewRat(1, 2)) // to the nearest nanosecond
	return time.Duration(new(big.Int).Div(result.Num(), result.Denom()).Int64()), true
}

func TestBaseAgainstRationalArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := anySchedule(t), attempts.Draw(t, "n")
		want, ok := naive(s, n)
		if !ok {
			return
		}
		if got := s.Base(n); (got - want).Abs() > 1 {
			t.Fatalf("base delay %d is %d, want %d", n, got, want)
		}
	})
}

// The delay is within [0, max] for every attempt up to 2^31-1 and beyond, for
// every legal schedule, every previous delay and every number drawn.
func TestDelayStaysWithinCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := anySchedule(t), attempts.Draw(t, "n")
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		prev := time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(s.Cap())), rapid.Int64()).Draw(t, "prev"))
		r := constant(rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, math.MaxUint64})).Draw(t, "random"))
		least, greatest := s.Range(n, prev)
		for _, d := range []time.Duration{s.Delay(n, prev, r), s.Delay(n, prev, nil)} {
			if d < 0 || d > s.Cap() || d < least || d > greatest {
				t.Fatalf("delay %d is %d, outside [%d, %d] or the cap %d", n, d, least, greatest, s.Cap())
			}
		}
	})
}

// Without jitter delays never shrink, except along a custom list.
func TestBaseIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := anySchedule(t), rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, math.MaxInt32-1)).Draw(t, "n")
		if custom, ok := s.Strategy.(backoff.Custom); ok {
			n += len(custom.Delays)
		}
		if a, b := s.Base(n), s.Base(n+1); a > b {
			t.Fatalf("delay %d is %d, delay %d is %d", n, a, n+1, b)
		}
	})
}

// Small steps from one delay to the next are where rounding would show.
func TestExponentialIsMonotoneNextToOne(t *testing.T) {
	for _, base := range []float64{math.Nextafter(1, 2), 1 + 1e-15, 1 + 1e-12, 1.0000001, 1.01} {
		s := backoff.Schedule{Strategy: backoff.Exponential{Base: base}, Initial: 1 << 60, Max: backoff.Unlimited}
		for _, from := range []int{1, 1000, 1 << 20, 1 << 31, 1<<40 - 5000} {
			last := time.Duration(0)
			for n := from; n < from+5000; n++ {
				d := s.Base(n)
				if d < last {
					t.Fatalf("base %v: delay %d is %d, after %d", base, n, d, last)
				}
				last = d
			}
		}
	}
}

// Illegal parameters are reported, and taken as the nearest legal ones.
func TestValidateNamesEveryProblem(t *testing.T) {
	tests := []struct {
		s     backoff.Schedule
		wants int
	}{
		{backoff.Schedule{}, 0},
		{backoff.Schedule{Initial: -1}, 1},
		{backoff.Schedule{Jitter: 9, JitterFactor: 1.01, Initial: -1}, 3},
		{backoff.Schedule{JitterFactor: math.NaN()}, 1},
		{backoff.Schedule{JitterFactor: -1}, 0},
		{backoff.Schedule{Strategy: backoff.Exponential{Base: .5}}, 1},
		{backoff.Schedule{Strategy: backoff.Exponential{Base: math.NaN()}}, 1},
		{backoff.Schedule{Strategy: backoff.Exponential{Base: math.Inf(1)}}, 1},
		{backoff.Schedule{Strategy: backoff.Exponential{Base: -2}}, 1},
		{backoff.Schedule{Strategy: backoff.Custom{Delays: []time.Duration{1, -1, -2}}}, 2},
		{backoff.Schedule{Strategy: &backoff.Exponential{Base: .5}}, 1},
		{backoff.Schedule{Strategy: &backoff.Custom{Delays: []time.Duration{-1}}}, 1},
		{backoff.Schedule{Strategy: &backoff.Linear{}}, 0},
	}
	for _, test := range tests {
		got := 0
		if err := test.s.Validate(); err != nil {
			got = countLines(err.Error())
		}
		if got != test.wants {
			t.Errorf("%+v: %d problems, want %d: %v", test.s, got, test.wants, test.s.Validate())
		}
		for _, n := range []int{1, 2, 3, 100, math.MaxInt32} {
			if d := test.s.Delay(n, -5, nil); d < 0 || d > test.s.Cap() {
				t.Errorf("%+v: delay %d is %v", test.s, n, d)
			}
		}
	}
}

func countLines(s string) int {
	lines := 1
	for _, c := range s {
		if c == '\n' {
			lines++
		}
	}
	return lines
}

// reckless is a strategy of somebody else's.
type reckless time.Duration

func (r reckless) After(int, time.Duration, time.Duration) time.Duration { return time.Duration(r) }

// A custom strategy that answers nonsense.
func TestForeignStrategyIsForcedIntoRange(t *testing.T) {
	for _, answer := range []time.Duration{-time.Second, math.MinInt64, math.MaxInt64} {
		for _, jitter := range []backoff.Jitter{backoff.None, backoff.Factor, backoff.Full, backoff.Equal} {
			s := backoff.Schedule{Strategy: reckless(answer), Max: time.Second, Jitter: jitter}
			if d := s.Delay(1, 0, nil); d < 0 || d > time.Second {
				t.Errorf("%v, %v: delay is %v", answer, jitter, d)
			}
		}
	}
}

func TestDelayAllocatesNothing(t *testing.T) {
	for _, strategy := range []backoff.Strategy{nil, backoff.Fixed{}, backoff.Linear{}, backoff.Exponential{Base: 1.5}, backoff.Fibonacci{}, backoff.Custom{}} {
		for jitter := backoff.None; jitter <= backoff.Decorrelated; jitter++ {
			s := backoff.Schedule{Strategy: strategy, Initial: time.Second, Jitter: jitter}
			if n := testing.AllocsPerRun(100, func() { s.Delay(5, time.Second, nil) }); n != 0 {
				t.Errorf("%T %v: %v allocations", strategy, jitter, n)
			}
		}
	}
}

func ExampleSchedule() {
	s := backoff.Schedule{
		Strategy: backoff.Exponential{Base: 3},
		Initial:  time.Second,
		Max:      time.Minute,
	}
	for n := 1; n <= 5; n++ {
		fmt.Print(s.Delay(n, 0, nil), " ")
	}
	// Output: 1s 3s 9s 27s 1m0s
}

func ExampleSchedule_jitter() {
	s := backoff.Schedule{Initial: time.Second, Jitter: backoff.Decorrelated}
	r := backoff.NewRand(7) // the same seed, the same delays
	var d time.Duration
	for n := 1; n <= 4; n++ {
		least, greatest := s.Range(n, d)
		d = s.Delay(n, d, r)
		fmt.Println(least <= d && d <= greatest, d <= 30*time.Second)
	}
	// Output:
	// true true
	// true true
	// true true
	// true true
}

// No maximum makes a delay negative, and Validate looks through pointers.
func TestEdgesOfStrategies(t *testing.T) {
	for _, s := range []backoff.Strategy{backoff.Fixed{}, backoff.Linear{}, backoff.Exponential{}, backoff.Exponential{Base: 3}, backoff.Fibonacci{}, backoff.Custom{}, backoff.Custom{Delays: []time.Duration{5, -1}}} {
		for n := range 6 {
			if d := s.After(n, time.Second, -time.Second); d < 0 {
				t.Errorf("%T after %d: %v", s, n, d)
			}
		}
	}
	for _, s := range []backoff.Strategy{&backoff.Exponential{Base: 0.5}, &backoff.Custom{Delays: []time.Duration{-1}}, (*backoff.Fixed)(nil)} {
		if (backoff.Schedule{Strategy: s}).Validate() == nil {
			t.Errorf("%#v is taken", s)
		}
	}
	if err := (backoff.Schedule{Strategy: &backoff.Linear{}}).Validate(); err != nil {
		t.Error(err)
	}
	for range 1000 {
		s := backoff.Schedule{Initial: 10 * time.Second, Jitter: backoff.Factor}
		if d := s.DelayAtLeast(5*time.Second, 2*time.Second, 1, 0, nil); d > 13*time.Second || d < 5*time.Second {
			t.Fatalf("at least 5s of 7s to 13s is %v", d)
		}
		if d := (backoff.Schedule{Initial: 10 * time.Second, Jitter: backoff.Full}).DelayAtLeast(5*time.Second, 6*time.Second, 1, 0, nil); d > 6*time.Second {
			t.Fatalf("within a limit of 6s it is %v", d)
		}
	}
}

// TestPowersAreExact are delays that come out wrong in the precision of a float64.
func TestPowersAreExact(t *testing.T) {
	for _, c := range []struct {
		base    float64
		initial time.Duration
		n       int
		want    time.Duration
	}{
		{1.05, 1500 * time.Millisecond, 145, 1687914038005},
		{1.05, 100 * time.Millisecond, 215, 3423812719180},
		{1.05, time.Millisecond, 368, 59768555339569},
	} {
		s := backoff.Schedule{Strategy: backoff.Exponential{Base: c.base}, Initial: c.initial, Max: 1000 * time.Hour}
		if got := s.Base(c.n); got != c.want {
			t.Errorf("base %v, initial %v: delay %d is %d, want %d", c.base, c.initial, c.n, got, c.want)
		}
	}
}
