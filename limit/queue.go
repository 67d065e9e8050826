package limit

import (
	"container/heap"
	"context"
	"time"
)

// queue are those who wait at a limit, the first on top.
type queue []*waiter

// waiter is an attempt that waits. It is in one queue at a time and takes
// its key along to the next.
type waiter struct {
	key   int64         // smaller is sooner; in billionths of a point
	began int64         // when it came to the first queue, in nanoseconds since epoch
	seq   uint64        // first come, first served among equals
	ready chan struct{} // gives a value when there is something to see
	at    int           // in the queue; -1: out of it
}

// points are gained by waiting, a second.
const points = 2

func newWaiter(priority int, now int64) *waiter {
	// Whole numbers, so that it does not depend on when the process began who of
	// two is first.
	const most = 1 << 30
	key := points*now - int64(min(max(priority, -most), most))*int64(time.Second)
	return &waiter{key: key, began: now, seq: lastWaiter.Add(1), ready: make(chan struct{}, 1)}
}

func (w *waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default: // it is being woken
	}
}

// before reports whether w is let through sooner.
func (w *waiter) before(other *waiter) bool {
	if w.key != other.key {
		return w.key < other.key
	}
	return w.seq < other.seq
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push is for package heap.
func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.at = len(*q)
	*q = append(*q, w)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	w.at = -1
	*q = old[:len(old)-1]
	return w
}

// next takes the first out of the queue and lets it go.
func (q *queue) next() { heap.Pop(q).(*waiter).wake() }

// take takes one of what the limit gives if there is one now and nobody waits.
func (l *Limit) take() bool {
	switch l.kind {
	case concurrency:
		return l.slots.take()
	case throttled:
		return l.throttle.take(l.now())
	case unmade:
		return false
	}
	return !l.rate.queued.Load() && l.rate.take(l.now()) == 0
}

// untake gives back what was taken for an attempt that did not begin.
func (l *Limit) untake() {
	switch l.kind {
	case concurrency:
		l.release()
		return
	case throttled:
		l.throttle.untake(l.now())
		return
	case unmade:
		return
	}
	l.rate.untake()
	if l.rate.queued.Load() {
		l.mu.Lock()
		l.serve()
		l.mu.Unlock()
	}
}

// release gives back what an attempt that ends no longer needs.
func (l *Limit) release() {
	if l.kind == concurrency && l.slots.free() {
		l.mu.Lock()
		l.dispatch()
		l.mu.Unlock()
	}
}

// wait waits in the queue of the limit and takes one of what it gives. With an
// error nothing is taken.
func (l *Limit) wait(ctx context.Context, w *waiter, r *Request) error {
	if err := l.enter(ctx, w, r); err != nil {
		return err
	}
	for {
		sleep, has := l.look(w)
		if has {
			return nil
		}
		if left, bounded := l.patience(w); bounded {
			if left <= 0 {
				l.leave(w)
				return l.refuse(0, "its turn did not come in %v", l.waited(w))
			}
			if sleep < 0 || left < sleep {
				sleep = left
			}
		}
		if err := l.sleep(ctx, sleep, w.ready); err != nil {
			l.leave(w)
			return err
		}
	}
}

// look reports whether a waiter has what it waits for, or else how long it is
// to sleep before it looks again, less than 0 for until it is woken.
func (l *Limit) look(w *waiter) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kind == rated && w.at == 0 {
		l.rate.first = w
		l.serve()
	}
	switch {
	case w.at < 0:
		return 0, true
	case l.kind == rated && w.at == 0:
		return l.rate.behind(0, l.now()), false
	}
	return -1, false
}

// enter puts a waiter into the queue and tells so, unless that is full or its turn
// would come too late.
func (l *Limit) enter(ctx context.Context, w *waiter, r *Request) error {
	if l.kind == unmade {
		return l.made()
	}
	if l.kind == throttled {
		share := l.throttle.refuse(l.now())
		return l.refuse(0, "the target refuses so many that %.0f of 100 attempts are not made", 100*share)
	}
	turn, err := l.join(ctx, w)
	if err != nil || r.Queued == nil {
		return err
	}
	told := false
	defer func() {
		if !told { // it panics, or ends the goroutine
			l.leave(w)
		}
	}()
	r.Queued(l, turn)
	told = true
	return nil
}

// join puts a waiter into the queue, and returns how long it is until its turn.
func (l *Limit) join(ctx context.Context, w *waiter) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c.Queue != 0 && len(l.waiting) >= max(l.c.Queue, 0) {
		if l.c.Queue == NoQueue {
			return 0, l.refuse(l.after(w), "nobody is to wait")
		}
		return 0, l.refuse(l.after(w), "%d are waiting already", len(l.waiting))
	}
	turn := l.after(w)
	if l.c.MaxWait > 0 && turn > l.c.MaxWait-l.waited(w) {
		return 0, l.refuse(turn, "its turn comes in %v, and nobody waits longer than %v", turn, l.c.MaxWait)
	}
	if deadline, ok := ctx.Deadline(); ok && turn > 0 && int64(turn) >= int64(deadline.Sub(epoch))-l.now() {
		return 0, l.refuse(turn, "its turn comes in %v, after the caller's deadline", turn)
	}
	if len(l.waiting) == 0 {
		l.busy.Store(l.now())
	}
	heap.Push(&l.waiting, w)
	if l.kind == concurrency {
		l.markWaiting()
		l.dispatch() // a slot may have come free before the mark was seen
	} else {
		l.rate.queued.Store(true)
	}
	return turn, nil
}

// waited is how long a waiter has waited, in whatever queues it has been.
func (l *Limit) waited(w *waiter) time.Duration { return time.Duration(l.now() - w.began) }

// shedShare is the part of Config.ShedAfter that is waited in a queue which does
// not drain.
const shedShare = 20

// patience is how much longer a waiter waits as things are, if that has a bound.
func (l *Limit) patience(w *waiter) (left time.Duration, bounded bool) {
	waited := l.waited(w)
	if l.c.MaxWait > 0 {
		left, bounded = l.c.MaxWait-waited, true
	}
	if l.c.ShedAfter > 0 {
		drains := l.c.ShedAfter - time.Duration(l.now()-l.busy.Load())
		if shed := max(l.c.ShedAfter/shedShare-waited, drains); !bounded || shed < left {
			left, bounded = shed, true
		}
	}
	return left, bounded
}

// after is how long a waiter waits for its turn at a rate; 0 for a limit of
// concurrency, of which nobody knows. l.mu is held.
func (l *Limit) after(w *waiter) time.Duration {
	if l.kind == concurrency {
		return 0
	}
	ahead := 0
	for _, other := range l.waiting {
		if other.before(w) {
			ahead++
		}
	}
	return l.rate.behind(ahead, l.now())
}

// leave takes a waiter out of the queue, or gives back what it has just got.
func (l *Limit) leave(w *waiter) {
	l.mu.Lock()
	if w.at < 0 {
		l.mu.Unlock()
		l.untake()
		return
	}
	heap.Remove(&l.waiting, w.at)
	if l.kind == concurrency {
		l.markWaiting()
	} else {
		l.settle()
	}
	l.mu.Unlock()
}
