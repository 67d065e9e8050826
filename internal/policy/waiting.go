package policy

import (
	"math"
	"slices"
	"time"

	"github.com/bide-dev/bide/retry/driver"
)

// instant is a point in time as nanoseconds since 1970, saturating, so that
// the records of waiting items stay small and have no pointers.
type instant int64

const (
	longAgo instant = math.MinInt64
	never   instant = math.MaxInt64
)

func instantOf(t time.Time) instant {
	// The span of UnixNano, as seconds.
	const lo, hi = math.MinInt64 / int64(time.Second), math.MaxInt64 / int64(time.Second)
	switch s := t.Unix(); {
	case s <= lo:
		return longAgo
	case s >= hi:
		return never
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time {
	if i == longAgo {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}

func (i instant) add(d time.Duration) instant {
	s := i + instant(d)
	if d > 0 && s < i {
		return never
	}
	return s
}

// record is what must be known of an item that has started at least once and
// is not finished.
type record struct {
	item       uint32
	failed     uint32 // failed attempts
	recoveries uint32
	tried      uint32 // driver.State.Attempt
	slept      time.Duration
	prev       time.Duration
	began      instant // the first attempt
	first      instant // first failure
	notBefore  instant
	rules      *[]driver.RuleState // of a policy with rules
}

func (r *record) state() driver.State {
	if r.tried == 0 {
		return driver.State{Began: r.began.time()}
	}
	s := driver.State{Attempt: int(r.tried), Slept: r.slept, Prev: r.prev, Began: r.began.time(), FirstFailure: r.first.time()}
	if r.rules != nil {
		s.Rules = *r.rules
	}
	return s
}

func (r *record) setState(s driver.State) {
	r.tried = clamp32(s.Attempt)
	r.slept, r.prev, r.first = s.Slept, s.Prev, instantOf(s.FirstFailure)
	if !s.Began.IsZero() {
		r.began = instantOf(s.Began)
	}
	if r.rules = nil; len(s.Rules) > 0 {
		r.rules = &s.Rules
	}
}

func clamp32(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

// waiting is a heap of the items that wait for their next attempt, the one
// that is due first on top; of those that are due at once, the one with the
// lowest index, so that the order does not depend on how they came in.
type waiting []record

func (w waiting) less(i, j int) bool {
	if w[i].notBefore != w[j].notBefore {
		return w[i].notBefore < w[j].notBefore
	}
	return w[i].item < w[j].item
}

func (w *waiting) push(r record) {
	*w = append(*w, r)
	w.up(len(*w) - 1)
}

// pop takes the top off; the heap must not be empty.
func (w *waiting) pop() record { return w.remove(0) }

// remove takes out the record at a place.
func (w *waiting) remove(i int) record {
	h := *w
	r := h[i]
	last := len(h) - 1
	h[i] = h[last]
	*w = h[:last]
	if i < last {
		w.down(i)
		w.up(i)
	}
	return r
}

// up lets a record rise to its place.
func (w waiting) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !w.less(i, parent) {
			return
		}
		w[i], w[parent] = w[parent], w[i]
		i = parent
	}
}

// down lets a record sink to its place.
func (w waiting) down(i int) {
	for {
		least := i
		if l := 2*i + 1; l < len(w) && w.less(l, least) {
			least = l
		}
		if r := 2*i + 2; r < len(w) && w.less(r, least) {
			least = r
		}
		if least == i {
			return
		}
		w[i], w[least] = w[least], w[i]
		i = least
	}
}

// find gives the place of an item, -1 where it does not wait.
func (w waiting) find(item int) int {
	return slices.IndexFunc(w, func(r record) bool { return int(r.item) == item })
}

// bitset marks the items, of n from 1 on, that a resume found already begun or finished.
type bitset []uint64

func (b bitset) has(i int) bool {
	w := i / 64
	return w < len(b) && b[w]&(1<<(i%64)) != 0
}

func (b *bitset) set(i, n int) {
	if *b == nil {
		*b = make(bitset, n/64+1)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// nextClear gives the first unmarked index from i on, at most end. Full words
// are passed over whole.
func (b bitset) nextClear(i, end int) int {
	for i < end && b.has(i) {
		if i%64 == 0 && b[i/64] == math.MaxUint64 {
			i += 64
			continue
		}
		i++
	}
	return min(i, end)
}
