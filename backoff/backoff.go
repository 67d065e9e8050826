// Package backoff says how long to wait before the next attempt.
//
// A [Schedule] is a value: a strategy that gives the base delay after the nth
// failed attempt, a cap, and a kind of jitter that spreads the delay. Asking
// for a delay changes nothing, so one Schedule serves any number of
// goroutines, and the same source of randomness gives the same delays:
//
//	s := backoff.Schedule{
//		Initial: 100 * time.Millisecond,
//		Max:     10 * time.Second,
//		Jitter:  backoff.Full,
//	}
//	d := s.Delay(1, 0, nil) // after the first failed attempt: 0 to 100ms
//	d = s.Delay(2, d, nil)  // after the second: 0 to 200ms
//
// The order is always strategy, cap, jitter, and the jitter is drawn inside
// the cap. A value that was drawn first and cut off afterwards would make all
// clients wait alike once they reach the cap, which is when they most need to
// be apart.
//
// Arithmetic saturates. Attempt 2,147,483,647 of any strategy is answered in a
// bounded number of steps, and no input makes a delay negative, larger than
// the cap, or a panic.
//
// The package sleeps nowhere and reads no clock; package retry does that.
package backoff

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

const (
	// DefaultMax is the cap of a [Schedule] whose Max is 0.
	DefaultMax = 30 * time.Second

	// Unlimited as Schedule.Max sets no cap. Delays then saturate at about
	// 292 years.
	Unlimited = time.Duration(math.MaxInt64)

	// DefaultBase is the base of an [Exponential] whose Base is 0.
	DefaultBase = 2.0

	// DefaultJitterFactor is the factor of a [Schedule] whose JitterFactor is 0.
	DefaultJitterFactor = 0.3
)

// Rand is a source of random 64-bit numbers. *rand.Rand, *rand.PCG and
// *rand.ChaCha8 of math/rand/v2 are such sources; they are not safe for use by
// several goroutines at once, [NewRand] gives one that is.
type Rand interface {
	Uint64() uint64
}

// Schedule is a strategy with its cap and its jitter. The zero value is the
// exponential strategy with an Initial of 0, which waits not at all.
//
// A Schedule is never changed by its methods and is safe for concurrent use.
type Schedule struct {
	// Strategy gives the base delay; nil means Exponential{Base: 2}.
	Strategy Strategy

	// Initial is the delay after the first failed attempt, ≥ 0.
	Initial time.Duration

	// Max caps every delay, jitter included: 0 means [DefaultMax],
	// [Unlimited] means no cap, and a negative value a cap of zero: no delay.
	Max time.Duration

	// Jitter is how the base delay is spread; the zero value is None.
	Jitter Jitter

	// JitterFactor is the share of the base delay by which [Factor] goes up
	// and down, at most 1: 0 means [DefaultJitterFactor], a negative value
	// means a real zero. The other kinds do not use it.
	JitterFactor float64
}

// Validate reports every field that is out of its range, joined into one
// error, or nil. A schedule that fails it still gives delays within
// [0, Max]: the offending value is taken as the nearest legal one.
func (s Schedule) Validate() error {
	var problems []error
	if s.Initial < 0 {
		problems = append(problems, fmt.Errorf("backoff: Initial is %v; it must be 0 or more", s.Initial))
	}
	if s.Jitter > Decorrelated {
		problems = append(problems, fmt.Errorf("backoff: Jitter is %d; it must be one of None, Factor, Full, Equal or Decorrelated", s.Jitter))
	}
	if math.IsNaN(s.JitterFactor) || s.JitterFactor > 1 {
		problems = append(problems, fmt.Errorf("backoff: JitterFactor is %v; it must be from 0.0 to 1.0", s.JitterFactor))
	}
	if err := validateStrategy(s.Strategy); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Cap returns the cap in force: Max with its special values resolved.
func (s Schedule) Cap() time.Duration { return capOf(s.Max) }

// capOf is Cap for callers that count nanoseconds: it takes no copy of a
// schedule.
func capOf(limit time.Duration) time.Duration {
	switch {
	case limit > 0:
		return limit
	case limit == 0:
		return DefaultMax
	default:
		return 0
	}
}

// Base returns the delay after failed attempt n before jitter: what the
// strategy gives, capped. It is 0 for n < 1.
func (s Schedule) Base(n int) time.Duration {
	limit := s.Cap()
	switch {
	case n < 1:
		return 0
	case s.Strategy == nil:
		return doubled(n, s.Initial, limit)
	default: // one from outside this package may answer anything
		return min(max(s.Strategy.After(n, max(s.Initial, 0), limit), 0), limit)
	}
}

// Range returns the least and the greatest delay that [Schedule.Delay] can
// give for the same n and prev. They are equal without jitter.
func (s Schedule) Range(n int, prev time.Duration) (least, greatest time.Duration) {
	d := s.Base(n)
	switch s.Jitter {
	case Full:
		return 0, d
	case Equal:
		return d / 2, d
	case Factor:
		return s.jitterRange(d)
	case Decorrelated:
		return s.decorrelated(n, prev)
	default:
		return d, d
	}
}

// Delay returns how long to wait after failed attempt n, counted from 1, and
// before attempt n+1. It is uniform in [Schedule.Range], takes at most one
// number from r, and allocates nothing.
//
// prev is the delay that was returned before, 0 at first; only [Decorrelated]
// uses it. A nil r draws from the generator of math/rand/v2, which is safe for
// concurrent use; otherwise r must be as safe as its use is.
func (s Schedule) Delay(n int, prev time.Duration, r Rand) time.Duration {
	// What most schedules are is answered here, without the calls that the
	// rest takes: in half the time.
	if s.Strategy == nil && n > 0 {
		if s.Jitter == Full && r == nil {
			return scale(rand.Uint64(), doubled(n, s.Initial, capOf(s.Max)))
		}
		if s.Jitter == None {
			return doubled(n, s.Initial, capOf(s.Max))
		}
	}
	return s.delay(n, prev, r)
}

func (s Schedule) delay(n int, prev time.Duration, r Rand) time.Duration {
	least, greatest := s.Range(n, prev)
	width := greatest - least
	switch {
	case width == 0:
		return least
	case r == nil:
		return least + upTo(width)
	default:
		return least + scale(r.Uint64(), width)
	}
}

// DelayAtLeast returns a delay of at least floor, as a server asks for with
// Retry-After, spread by the schedule's own jitter moved upwards so that it
// begins at floor. The result exceeds neither limit nor, unless floor does, the
// schedule's cap; limit must be at least floor, or floor is returned. A floor that the schedule's range begins at or above changes
// nothing.
func (s Schedule) DelayAtLeast(floor, limit time.Duration, n int, prev time.Duration, r Rand) time.Duration {
	least, greatest := s.Range(n, prev)
	width := greatest - least
	if floor > least {
		if ceiling := s.Cap(); floor < ceiling {
			limit = min(limit, ceiling)
		}
		width = min(width, max(limit-floor, 0))
		least = floor
	}
	switch {
	case width == 0:
		return least
	case r == nil:
		return least + upTo(width)
	default:
		return least + scale(r.Uint64(), width)
	}
}

// upTo gives a uniform duration in [0, width] from the generator of
// math/rand/v2.
func upTo(width time.Duration) time.Duration { return scale(rand.Uint64(), width) }

// scale makes of a uniform 64-bit number a uniform duration in [0, width],
// width ≥ 0: the high half of number·(width+1), which needs no division and no
// loop.
func scale(number uint64, width time.Duration) time.Duration {
	high, _ := bits.Mul64(number, uint64(width)+1)
	return time.Duration(high)
}

// Default returns the schedule to take when nothing speaks for another:
// exponential from 100 ms to 10 s with full jitter.
func Default() Schedule {
	return Schedule{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: Full}
}
