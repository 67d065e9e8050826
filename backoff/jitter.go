package backoff

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// Jitter is the way a base delay d is spread so that clients which failed
// together do not come back together. Every kind stays within [0, Max].
type Jitter uint8

// The kinds of jitter. Full, Equal and Decorrelated are those of Marc Brooker,
// "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
const (
	// None waits exactly d.
	None Jitter = iota
	// Factor is uniform in [d·(1−f), min(d·(1+f), Max)], where f is
	// Schedule.JitterFactor.
	Factor
	// Full is uniform in [0, d]. It needs the least total work of the five
	// when many clients contend.
	Full
	// Equal is uniform in [d/2, d]: a wait that is never short.
	Equal
	// Decorrelated is uniform in [Initial, min(Max, 3·previous)], where
	// previous starts at Initial. It replaces the strategy.
	Decorrelated
)

var jitterNames = [...]string{"none", "factor", "full", "equal", "decorrelated"}

// String returns the name that [ParseJitter] reads.
func (j Jitter) String() string {
	if int(j) < len(jitterNames) {
		return jitterNames[j]
	}
	return fmt.Sprintf("Jitter(%d)", uint8(j))
}

// ParseJitter returns the kind of that name: none, factor, full, equal or
// decorrelated, in lower case. Any other text is an error that lists them.
func ParseJitter(name string) (Jitter, error) {
	for i, known := range jitterNames {
		if name == known {
			return Jitter(i), nil
		}
	}
	return None, fmt.Errorf("backoff: unknown jitter %q; use one of %s", name, strings.Join(jitterNames[:], ", "))
}

// jitterRange returns the range of [Factor] about d.
func (s Schedule) jitterRange(d time.Duration) (least, greatest time.Duration) {
	spread := share(d, s.factor())
	return d - spread, min(addSaturated(d, spread), s.Cap())
}

func (s Schedule) factor() float64 {
	f := s.JitterFactor
	switch {
	case f == 0:
		return DefaultJitterFactor
	case f > 0:
		return min(f, 1)
	default: // negative, or not a number
		return 0
	}
}

func (s Schedule) decorrelated(n int, prev time.Duration) (least, greatest time.Duration) {
	if n < 1 {
		return 0, 0
	}
	limit := s.Cap()
	least = min(max(s.Initial, 0), limit)
	prev = max(prev, least)
	greatest = limit
	if prev <= limit/3 { // so 3·prev does not overflow
		greatest = 3 * prev
	}
	return least, greatest
}

// share returns f·d for f in [0, 1], never more than d. The comparison is in
// floating point because float64(d) may round up to 2^63.
func share(d time.Duration, f float64) time.Duration {
	part := float64(d) * f
	if f >= 1 || part >= math.MaxInt64 {
		return d
	}
	return min(time.Duration(part), d)
}

func addSaturated(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a { // a, b ≥ 0
		return sum
	}
	return math.MaxInt64
}

// NewRand returns a source that gives the same numbers for the same seed and
// is safe for use by several goroutines at once, which then share its
// sequence. It is SplitMix64 (Steele, Lea, Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014): good for spreading delays, not for
// secrets.
func NewRand(seed uint64) Rand {
	r := new(splitMix)
	r.state.Store(seed)
	return r
}

type splitMix struct{ state atomic.Uint64 }

func (r *splitMix) Uint64() uint64 {
	z := r.state.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
