// Package bound says how long an operation takes at most: the arithmetic of greatest
// spans, counts and costs, and what a retry policy adds to one attempt. `bide explain`
// adds up workflow files and pipelines with it, and the checker of pipelines warns by it.
package bound

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Span is a greatest span of time. Open says that there is none, as of a
// command without a timeout; D then counts for nothing. It is null in JSON
// where it is open, else nanoseconds.
type Span struct {
	D    time.Duration
	Open bool
}

// MarshalJSON writes nanoseconds or null.
func (s Span) MarshalJSON() ([]byte, error) {
	if s.Open {
		return []byte("null"), nil
	}
	return json.Marshal(s.D.Nanoseconds())
}

// Plus is both, one after the other.
func (s Span) Plus(t Span) Span {
	return Span{Sum(s.D, t.D), s.Open || t.Open}
}

// Times is n of them, one after the other.
func (s Span) Times(n Count) Span {
	if s.D == 0 && !s.Open || n.N == 0 && !n.Open {
		return Span{}
	}
	if n.Open || s.Open {
		return Span{Open: true}
	}
	return Span{D: time.Duration(product(int64(s.D), n.N))}
}

// Within is s cut off at limit, where there is one; 0 is none.
func (s Span) Within(limit time.Duration) Span {
	if limit > 0 && (s.Open || s.D > limit) {
		return Span{D: limit}
	}
	return s
}

// Count is how often something happens at most. Open says that nobody knows
// beforehand, as of the rounds of a foreach over a command's output; it is null
// in JSON.
type Count struct {
	N    int64
	Open bool
}

// Number is a count that is known.
func Number(n int) Count { return Count{N: int64(n)} }

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

// Times is c as often as d says.
func (c Count) Times(d Count) Count {
	if c.Open || d.Open {
		return Count{Open: true}
	}
	return Count{N: product(c.N, d.N)}
}

// Cost is what something takes at most: its waits between attempts, and its
// time with them.
type Cost struct {
	Waits Span `json:"waits_ns"`
	Time  Span `json:"time_ns"`
	// Ending is how long something in it continues after it was told to end.
	Ending Span `json:"-"`
}

// Plus is both, one after the other.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Waits.Plus(d.Waits), c.Time.Plus(d.Time), longer(c.Ending, d.Ending)}
}

// Times is n of them, one after the other.
func (c Cost) Times(n Count) Cost { return Cost{c.Waits.Times(n), c.Time.Times(n), c.Ending} }

// Within is c cut off at limit, where there is one (0 is none): what runs then is told
// to end.
func (c Cost) Within(limit time.Duration) Cost {
	if limit == 0 {
		return c
	}
	if cut := (Span{D: limit}).Plus(c.Ending); c.Time.Open || c.Time.D > cut.D {
		c.Time = cut
	}
	c.Waits = c.Waits.Within(limit)
	return c
}

// Attempt is the cost of one attempt, whose time ends with limit, or never where that is
// 0. It may continue for grace after it was told to end.
func Attempt(limit time.Duration, grace Span) Cost {
	if limit == 0 {
		return Cost{Time: Span{Open: true}, Ending: grace}
	}
	return Cost{Time: Span{D: limit}.Plus(grace), Ending: grace}
}

// Unknown is the cost of something of which nothing is known.
func Unknown() Cost { return Cost{Waits: Span{Open: true}, Time: Span{Open: true}} }

// Waiting is the cost of nothing but a wait.
func Waiting(d time.Duration) Cost { return Cost{Waits: Span{D: d}, Time: Span{D: d}} }

// Larger takes the greater of each.
func Larger(c, d Cost) Cost {
	return Cost{longer(c.Waits, d.Waits), longer(c.Time, d.Time), longer(c.Ending, d.Ending)}
}

func longer(a, b Span) Span { return Span{max(a.D, b.D), a.Open || b.Open} }

// Sum is a + b, of which neither is negative, or the longest span there is.
func Sum(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}

func product(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
