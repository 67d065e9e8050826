package backoff

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Strategy gives base delays. After returns the delay after failed attempt
// n ≥ 1 for a first delay of initial ≥ 0, already capped at limit and saturating
// instead of overflowing. It must be a pure function and safe for concurrent
// use. [Schedule] forces what it returns into [0, limit].
type Strategy interface {
	After(n int, initial, limit time.Duration) time.Duration
}

// Fixed waits the initial delay each time.
type Fixed struct{}

// After returns min(initial, limit).
func (Fixed) After(n int, initial, limit time.Duration) time.Duration {
	return within(n, initial, limit)
}

// Linear adds Increment each time: initial + (n−1)·Increment.
type Linear struct {
	// Increment is what each further attempt adds. 0 means the initial delay,
	// so that the delays are initial·n; a negative value means that nothing is
	// added.
	Increment time.Duration
}

// After returns min(initial + (n−1)·Increment, limit).
func (l Linear) After(n int, initial, limit time.Duration) time.Duration {
	increment := l.Increment
	switch {
	case increment == 0:
		increment = initial
	case increment < 0:
		increment = 0
	}
	if n <= 1 || initial >= limit {
		return within(n, initial, limit)
	}
	high, added := bits.Mul64(uint64(n-1), uint64(increment))
	if high != 0 || added >= uint64(limit-initial) {
		return limit
	}
	return initial + time.Duration(added)
}

// Exponential multiplies by Base each time: initial·Base^(n−1).
type Exponential struct {
	// Base is what each further attempt multiplies by, ≥ 1 and finite. 0
	// means [DefaultBase].
	Base float64
}

// After returns min(initial·Base^(n−1), limit), rounded to the nearest
// nanosecond. A Base below 1 counts as 1.
func (e Exponential) After(n int, initial, limit time.Duration) time.Duration {
	if n <= 1 || initial >= limit || initial <= 0 {
		return within(n, initial, limit)
	}
	base := e.Base
	switch {
	case base == 0 || base == 2:
		return doubled(n, initial, limit)
	case base > maxFactor: // also +Inf
		return limit
	case base > 1:
		return power(n-1, base, initial, limit)
	default: // 1, below 1, or not a number
		return initial
	}
}

// Fibonacci multiplies the initial delay by the Fibonacci numbers 1, 1, 2, 3,
// 5, 8, …
type Fibonacci struct{}

// After returns min(initial·fib(n), limit), where fib(1) = fib(2) = 1. It takes
// at most 92 steps: no larger Fibonacci number fits a duration.
func (Fibonacci) After(n int, initial, limit time.Duration) time.Duration {
	if n <= 2 || initial >= limit || initial <= 0 {
		return within(n, initial, limit)
	}
	largest := limit / initial // of the numbers that do not reach past limit
	previous, number := time.Duration(1), time.Duration(1)
	for i := 2; i < n; i++ {
		if number > largest-previous { // the sum would exceed it
			return limit
		}
		previous, number = number, previous+number
	}
	return initial * number
}

// Custom waits the listed delays one after the other.
type Custom struct {
	// Delays are the delays after attempt 1, 2, …, each ≥ 0. Past the end of
	// the list, and with an empty list, the delay is the schedule's cap.
	Delays []time.Duration
}

// After returns min(Delays[n−1], limit), or limit past the end of the list.
// initial is not used.
func (c Custom) After(n int, _, limit time.Duration) time.Duration {
	switch {
	case n < 1 || limit < 0:
		return 0
	case n > len(c.Delays):
		return limit
	default:
		return within(n, c.Delays[n-1], limit)
	}
}

// within returns d forced into [0, limit], and 0 before the first attempt.
func within(n int, d, limit time.Duration) time.Duration {
	if n < 1 || d < 0 || limit < 0 {
		return 0
	}
	return min(d, limit)
}

// doubled returns min(initial·2^(n−1), limit) for n ≥ 1.
func doubled(n int, initial, limit time.Duration) time.Duration {
	if initial <= 0 {
		return 0
	}
	if n > bits.LeadingZeros64(uint64(initial)) { // the shift would reach bit 63
		return limit
	}
	return min(initial<<((n-1)&63), limit)
}

// maxFactor is above every base that does not reach any cap in one step.
const maxFactor = 1 << 63

// maxPower bounds the exponent so that the error of power stays far below the
// step from one delay to the next. No base above 1 needs as many steps, except
// the few next to 1 whose delays then stop growing.
const maxPower = 1 << 40

// power returns min(initial·base^n, limit) for n ≥ 1, base > 1 and
// 0 < initial < limit, in O(log n) steps.
//
// The product is kept in twice the precision of a float64. That is what makes
// the delays monotone: a base above 1 is at least 1+2^-52, and the error, at
// most about n·2^-100, is too small to reorder neighbours. It also makes them
// those of rational arithmetic: with math.Pow the delay 145 of 1.5 s and base 1.05
// (28 min) is a nanosecond less.
func power(n int, base float64, initial, limit time.Duration) time.Duration {
	product := fromDuration(initial)
	factor := double{high: base}
	for n = min(n, maxPower); ; {
		if n&1 == 1 {
			product = product.times(factor)
		}
		n >>= 1
		if product.high >= float64(limit) || n > 0 && factor.high >= maxFactor {
			return capped(product, n, limit)
		}
		if n == 0 {
			return min(product.round(), limit)
		}
		factor = factor.times(factor)
	}
}

// capped ends power early: what is left to multiply only makes it larger.
func capped(product double, n int, limit time.Duration) time.Duration {
	if n > 0 || product.high > math.MaxInt64 {
		return limit
	}
	return min(product.round(), limit)
}

// double is an unevaluated sum high+low, where low is below half a unit in the
// last place of high: some 106 bits of precision.
type double struct{ high, low float64 }

func fromDuration(d time.Duration) double {
	low := d & (1<<20 - 1)
	return sum(float64(d-low), float64(low))
}

// sum is exact for |a| ≥ |b| (T. J. Dekker, 1971).
func sum(a, b float64) double {
	high := a + b
	return double{high, b - (high - a)}
}

func (x double) times(y double) double {
	high := x.high * y.high
	if math.IsInf(high, 0) {
		return double{high: high}
	}
	low := math.FMA(x.high, y.high, -high) + (x.high*y.low + x.low*y.high)
	return sum(high, low)
}

// round returns the nearest whole number, saturating.
func (x double) round() time.Duration {
	floor := math.Floor(x.high)
	rest := time.Duration(math.Floor(x.high - floor + x.low + 0.5)) // may be negative
	if floor >= math.MaxInt64 {                                     // 2^63, since the callers stop there
		return math.MaxInt64 + min(rest+1, 0)
	}
	whole := time.Duration(floor)
	if rest > math.MaxInt64-whole {
		return math.MaxInt64
	}
	return whole + rest
}

func validateStrategy(s Strategy) error {
	switch s := s.(type) {
	case *Fixed, *Linear, *Exponential, *Fibonacci, *Custom:
		return validatePointer(s)
	case Exponential:
		if s.Base != 0 && !(s.Base >= 1) || math.IsInf(s.Base, 0) {
			return fmt.Errorf("backoff: Base is %v; it must be a finite number of 1.0 or more", s.Base)
		}
	case Custom:
		var problems []error
		for i, d := range s.Delays {
			if d < 0 {
				problems = append(problems, fmt.Errorf("backoff: Delays[%d] is %v; it must be 0 or more", i, d))
			}
		}
		return errors.Join(problems...)
	}
	return nil
}

// validatePointer is validateStrategy for a pointer to a strategy of this
// package.
func validatePointer(s Strategy) error {
	var value Strategy
	switch s := s.(type) {
	case *Fixed:
		if s != nil {
			value = *s
		}
	case *Linear:
		if s != nil {
			value = *s
		}
	case *Exponential:
		if s != nil {
			value = *s
		}
	case *Fibonacci:
		if s != nil {
			value = *s
		}
	case *Custom:
		if s != nil {
			value = *s
		}
	}
	if value == nil {
		return fmt.Errorf("backoff: Strategy is a nil %T; it must be a value or a pointer to one", s)
	}
	return validateStrategy(value)
}
