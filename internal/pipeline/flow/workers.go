package flow

import (
	"sync"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// workers are the goroutines that compute what may have to wait in a frame. What is
// ready is in a queue, by priority and then in the order of the source. A goroutine takes
// the first of it, and before that can wait it starts a spare, which takes the
// next. So a call that takes no time costs no goroutine, one that waits costs
// one, and all begin in order.
//
// A call that has to go through a limit is held until it has its place there, and a
// list of them until all have, or as many as are in work at once: until then nobody takes
// another, so that who stands first in the queue is first at the limit too.
type workers struct {
	waiting atomic.Int32 // how long the queue is

	mu    sync.Mutex
	queue []int32
	next  int   // the first of the queue that nobody has taken
	held  int32 // the call on its way to a limit, from 1; 0: none
	spare bool  // a goroutine was started that has not taken anything yet
}

// take adds nodes to the queue and takes the first of it. It gives nothing where
// somebody else is going to.
func (fr *frame) take(more []int32) (i int32, ok bool) {
	c := &fr.workers
	if len(more) == 1 && c.waiting.Load() == 0 && !fr.ordered(more[0]) {
		return more[0], true
	}
	if len(more) == 0 && c.waiting.Load() == 0 {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range more {
		fr.enqueue(i)
	}
	if c.held != 0 || c.next == len(c.queue) {
		return 0, false
	}
	i = c.queue[c.next]
	if c.next++; c.next == len(c.queue) {
		c.queue, c.next = c.queue[:0], 0
	}
	c.waiting.Add(-1)
	if fr.ordered(i) {
		c.held = i + 1
	} else {
		fr.relay()
	}
	return i, true
}

// enqueue puts a node behind all of its priority.
func (fr *frame) enqueue(i int32) {
	c := &fr.workers
	c.queue = append(c.queue, i)
	c.waiting.Add(1)
	p := fr.priority(i)
	for k := len(c.queue) - 1; k > c.next && fr.priority(c.queue[k-1]) < p; k-- {
		c.queue[k-1], c.queue[k] = c.queue[k], c.queue[k-1]
	}
}

// relay starts a spare if there is something for it to take.
func (fr *frame) relay() {
	c := &fr.workers
	if c.next == len(c.queue) || c.spare || c.held != 0 {
		return
	}
	c.spare = true
	fr.spawn(func() {
		c.mu.Lock()
		c.spare = false
		c.mu.Unlock()
		fr.work(nil)
	})
}

// start has the calls among some nodes made, by others than who asks.
func (fr *frame) start(nodes ...int32) {
	fr.workers.mu.Lock()
	defer fr.workers.mu.Unlock()
	for _, i := range nodes {
		fr.enqueue(i)
	}
	fr.relay()
}

// pass says that a call has its place at its limits, or needs none any more:
// the next may be taken.
func (fr *frame) pass(i int32) {
	fr.release(i)
	fr.yield()
}

// release has the next taken after a node.
func (fr *frame) release(i int32) {
	c := &fr.workers
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == i+1 {
		c.held = 0
		fr.relay()
	}
}

// yield says that an element may have to wait now: the next may begin. What is ready
// in the element begins before that, and the elements of a list in it.
func (fr *frame) yield() {
	for f := fr; f != nil && f.app != nil; f = f.app.fr {
		if f.workers.waiting.Load() > 0 || f.app.pass(f.element) {
			return
		}
		f.app.fr.release(f.app.at)
	}
}

// ordered reports whether a node is a call that goes through a limit, or a list of such.
func (fr *frame) ordered(i int32) bool {
	s := fr.fn.sites[i]
	return s != nil && (s.limited() || s.node.Op == plan.Apply && fr.x.f.funcs[s.node.Call.Fn].ordered)
}

func (fr *frame) priority(i int32) int {
	if s := fr.fn.sites[i]; s != nil {
		return s.rank
	}
	return noOptions.Priority
}
