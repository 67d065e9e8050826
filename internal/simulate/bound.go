package simulate

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Bound is a greatest span of time. Open says that there is none, as of a
// command without a timeout; D then counts for nothing. It is null in JSON
// where it is open, else nanoseconds.
type Bound struct {
	D    time.Duration
	Open bool
}

// MarshalJSON writes nanoseconds or null.
func (b Bound) MarshalJSON() ([]byte, error) {
	if b.Open {
		return []byte("null"), nil
	}
	return json.Marshal(b.D.Nanoseconds())
}

func (b Bound) plus(c Bound) Bound {
	return Bound{addSaturated(b.D, c.D), b.Open || c.Open}
}

func (b Bound) times(n Count) Bound {
	if b.D == 0 && !b.Open || n.N == 0 && !n.Open {
		return Bound{}
	}
	if n.Open || b.Open {
		return Bound{Open: true}
	}
	return Bound{D: time.Duration(mulSaturated(int64(b.D), n.N))}
}

// within is b cut off at limit, where there is one.
func (b Bound) within(limit time.Duration) Bound {
	if limit > 0 && (b.Open || b.D > limit) {
		return Bound{D: limit}
	}
	return b
}

// Count is how often something happens at most. Open says that nobody knows
// beforehand, as of the rounds of a foreach over a command's output; it is null
// in JSON.
type Count struct {
	N    int64
	Open bool
}

// MarshalJSON writes a number or null.
func (c Count) MarshalJSON() ([]byte, error) {
	if c.Open {
		return []byte("null"), nil
	}
	return json.Marshal(c.N)
}

// String gives the number, or "any number of".
func (c Count) String() string {
	if c.Open {
		return "any number of"
	}
	return strconv.FormatInt(c.N, 10)
}

func (c Count) times(d Count) Count {
	switch {
	case c.Open || d.Open:
		return Count{Open: true}
	default:
		return Count{N: mulSaturated(c.N, d.N)}
	}
}

func count(n int) Count { return Count{N: int64(n)} }

// Cost is what something takes at most: its waits between attempts, and its
// time with them.
type Cost struct {
	Waits Bound `json:"waits_ns"`
	Time  Bound `json:"time_ns"`
	// ending is how long something in it goes on after it was told to end.
	ending Bound
}

func (c Cost) plus(d Cost) Cost {
	return Cost{c.Waits.plus(d.Waits), c.Time.plus(d.Time), longest(c.ending, d.ending)}
}

func (c Cost) times(n Count) Cost { return Cost{c.Waits.times(n), c.Time.times(n), c.ending} }

// within is c cut off at limit, where there is one: what runs then is told to end.
func (c Cost) within(limit time.Duration) Cost {
	if limit == 0 {
		return c
	}
	if cut := (Bound{D: limit}).plus(c.ending); c.Time.Open || c.Time.D > cut.D {
		c.Time = cut
	}
	c.Waits = c.Waits.within(limit)
	return c
}

// commanded is the cost of a command, whose time ends with limit, or never where that is
// 0. It may go on until it is killed.
func commanded(limit time.Duration, grace Bound) Cost {
	if limit == 0 {
		return Cost{Time: Bound{Open: true}, ending: grace}
	}
	return Cost{Time: Bound{D: limit}.plus(grace), ending: grace}
}

// waiting is the cost of nothing but a wait.
func waiting(d time.Duration) Cost { return Cost{Waits: Bound{D: d}, Time: Bound{D: d}} }

// larger takes the greater of each.
func larger(c, d Cost) Cost {
	return Cost{longest(c.Waits, d.Waits), longest(c.Time, d.Time), longest(c.ending, d.ending)}
}

func longest(a, b Bound) Bound { return Bound{max(a.D, b.D), a.Open || b.Open} }

func addSaturated(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a { // a, b ≥ 0
		return sum
	}
	return math.MaxInt64
}

func mulSaturated(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
