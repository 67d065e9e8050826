package limit

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// rate is a bucket of tokens: full at first, refilled evenly. What it keeps is
// when it would be full again if no more were taken, so that there is nothing
// to refill.
type rate struct {
	interval int64 // between two tokens, in nanoseconds
	depth    int64 // interval × burst
	full     atomic.Int64
	queued   atomic.Bool // somebody waits
	first    *waiter     // of those who wait, as far as it knows that it is
}

func (r *rate) set(n int, per time.Duration, burst int) error {
	r.interval = (int64(per)-1)/int64(n) + 1
	if r.interval > math.MaxInt64/4/int64(burst) {
		return fmt.Errorf("limit: Burst is %d at a Rate of %d in %v, which is more than can be counted; make it smaller", burst, n, per)
	}
	r.depth = r.interval * int64(burst)
	r.full.Store(math.MinInt64)
	return nil
}

// take takes a token, or returns how long it is until there is one.
func (r *rate) take(now int64) time.Duration {
	for {
		full := r.full.Load()
		after := max(full, now) + r.interval
		if rest := after - now - r.depth; rest > 0 {
			return time.Duration(rest)
		}
		if r.full.CompareAndSwap(full, after) {
			return 0
		}
	}
}

// untake gives a token back that was not used.
func (r *rate) untake() { r.full.Add(-r.interval) }

// behind is how long it takes until n tokens and one more are there.
func (r *rate) behind(n int, now int64) time.Duration {
	if r.interval > math.MaxInt64/4/int64(n+1) {
		return math.MaxInt64 / 4 // in 73 years, or later
	}
	return time.Duration(max(max(r.full.Load(), now)+r.interval*int64(n+1)-now-r.depth, 0))
}

// serve gives the tokens that are there to those who wait first. l.mu is held.
func (l *Limit) serve() {
	now := l.now()
	for len(l.waiting) > 0 && l.rate.take(now) == 0 {
		l.waiting.next()
	}
	l.settle()
}

// settle notes whether somebody waits for a token, and tells the first of them
// that it is: it sleeps until its token is there, the others until they are told.
// l.mu is held.
func (l *Limit) settle() {
	l.rate.queued.Store(len(l.waiting) > 0)
	var first *waiter
	if len(l.waiting) > 0 {
		first = l.waiting[0]
	}
	if first != l.rate.first {
		if l.rate.first = first; first != nil {
			first.wake()
		}
	}
}
