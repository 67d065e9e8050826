package driver

import (
	"bytes"
	"slices"
	"time"
)

// buckets are the parts in which a window of time is counted.
const buckets = 10

// Window is what a [Machine] with rates remembers of calls, for JSON. One of a
// number of calls has Calls, one of a time has Buckets.
type Window struct {
	// Calls are the last calls, the oldest first: 0 went well, 1 failed, 2 was
	// slow, 3 both.
	Calls []byte `json:"calls,omitempty"`
	// Buckets are the tenths of the window of time.
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket counts the calls that ended in a tenth of a window of time.
type Bucket struct {
	Start    time.Time `json:"start"`
	Calls    int       `json:"calls"`
	Failures int       `json:"failures,omitempty"`
	Slow     int       `json:"slow,omitempty"`
}

const (
	callFailed = 1 << iota
	callSlow
)

// window counts calls. Its sums are kept, so that a call costs the same
// whatever the size.
type window struct {
	ring    []byte // of a window of calls
	at      int    // where the next goes once the ring is full
	buckets []Bucket
	sum     Bucket
}

func (w *window) clear() {
	w.ring, w.at, w.buckets, w.sum = w.ring[:0], 0, w.buckets[:0], Bucket{}
}

// add counts a call that ended.
func (w *window) add(c *Config, mark byte, now time.Time) {
	if c.WindowTime > 0 {
		w.addToBucket(c, mark, now)
		return
	}
	if len(w.ring) < c.Window {
		w.ring = append(w.ring, mark)
	} else {
		w.count(w.ring[w.at], -1)
		w.ring[w.at] = mark
		w.at = (w.at + 1) % c.Window
	}
	w.count(mark, 1)
}

func (w *window) count(mark byte, n int) {
	w.sum.Calls += n
	if mark&callFailed != 0 {
		w.sum.Failures += n
	}
	if mark&callSlow != 0 {
		w.sum.Slow += n
	}
}

func (w *window) addToBucket(c *Config, mark byte, now time.Time) {
	w.expire(c, now)
	length := c.WindowTime / buckets
	if n := len(w.buckets); n == 0 || now.Sub(w.buckets[n-1].Start) >= length || now.Before(w.buckets[n-1].Start) {
		start := now
		if n > 0 && now.After(w.buckets[n-1].Start) { // on the grid of the one before
			start = w.buckets[n-1].Start.Add(now.Sub(w.buckets[n-1].Start) / length * length)
		}
		w.buckets = append(w.buckets, Bucket{Start: start})
	}
	w.count(mark, 1)
	last := &w.buckets[len(w.buckets)-1]
	last.Calls++
	if mark&callFailed != 0 {
		last.Failures++
	}
	if mark&callSlow != 0 {
		last.Slow++
	}
}

// expire drops the buckets that began a window ago, or in a future that was
// taken back.
func (w *window) expire(c *Config, now time.Time) {
	kept := w.buckets[:0]
	for _, b := range w.buckets {
		if age := now.Sub(b.Start); age >= c.WindowTime || age < -c.WindowTime {
			w.sum.Calls -= b.Calls
			w.sum.Failures -= b.Failures
			w.sum.Slow -= b.Slow
			continue
		}
		kept = append(kept, b)
	}
	w.buckets = kept
}

// over reports whether a rate is reached. The shares are compared as they are,
// without rounding.
func (w *window) over(c *Config) bool {
	if w.sum.Calls < c.MinCalls {
		return false
	}
	calls := float64(w.sum.Calls)
	return c.FailureRate > 0 && float64(w.sum.Failures)/calls >= c.FailureRate ||
		c.SlowRate > 0 && float64(w.sum.Slow)/calls >= c.SlowRate
}

// snapshot returns a copy, or nil if there is nothing in it.
func (w *window) snapshot() *Window {
	if w.sum.Calls == 0 {
		return nil
	}
	s := &Window{Buckets: append([]Bucket(nil), w.buckets...)}
	if n := len(w.ring); n > 0 {
		s.Calls = append(append(make([]byte, 0, n), w.ring[w.at:]...), w.ring[:w.at]...)
	}
	return s
}

// restore takes a snapshot that was found valid. What does not fit the window
// of the configuration is dropped, the oldest first.
func (w *window) restore(c *Config, s *Window) {
	w.clear()
	if s == nil || !c.rated() {
		return
	}
	if c.WindowTime > 0 {
		w.buckets = append(w.buckets, s.Buckets...)
		for _, b := range s.Buckets {
			w.sum.Calls += b.Calls
			w.sum.Failures += b.Failures
			w.sum.Slow += b.Slow
		}
		return
	}
	for _, mark := range s.Calls[max(0, len(s.Calls)-c.Window):] {
		w.ring = append(w.ring, mark)
		w.count(mark, 1)
	}
}

// equal reports whether two snapshots count the same calls.
func (s *Window) equal(other *Window) bool {
	if s == nil || other == nil {
		return s == other
	}
	return bytes.Equal(s.Calls, other.Calls) && slices.Equal(s.Buckets, other.Buckets)
}

// problem says what is wrong with a snapshot, or "".
func (s *Window) problem() string {
	for _, mark := range s.Calls {
		if mark > callFailed|callSlow {
			return "a call of an unknown kind"
		}
	}
	for i, b := range s.Buckets {
		if b.Failures < 0 || b.Slow < 0 || b.Calls < max(b.Failures, b.Slow) || b.Calls == 0 {
			return "counts of calls that cannot be"
		}
		if i > buckets || i > 0 && b.Start.Equal(s.Buckets[i-1].Start) {
			return "more parts than a window has"
		}
	}
	return ""
}
