package virtual

import (
	"container/heap"
	"context"
	"iter"
	"time"

	"github.com/bide-dev/bide/internal/clock"
)

// Clock is a clock on which time passes only while everybody waits. What runs
// on it is started with [Clock.Run], [Clock.Together] or [Clock.Go] and blocks in
// the clock alone. One task runs at a time; the others continue in the order in which they
// became ready. Tasks are coroutines, so that a switch from one to the next
// asks no scheduler and is the same each time. A clock is for one Run at a
// time, and for nobody outside of it.
type Clock struct {
	// Later, if not nil, is asked when a context of WithTimeout is due whether it lasts
	// longer, and until which turn is over. [Within] says which others are inside it.
	Later func(context.Context) (turn Turn, longer bool)

	now    time.Time
	run    *task   // the one that runs
	pick   *task   // the one that runs next, where that is known
	ready  queue   // to continue, in order
	polled []*task // waiting for a channel of their own, in order
	ends   ends    // the ends of contexts that tasks wait for
	timers timers
	spare  []*timer
	count  uint64 // orders timers of the same moment
	root   bool   // Run is under way
}

// Turn is a place in the order of what happens: a time, and a number among the turns of
// that time. The turns of a time come after all else that is due then.
type Turn struct {
	At     time.Time
	Number uint64 // less than a quarter of the greatest
}

// NewClock makes a clock that begins at a time.
func NewClock(start time.Time) *Clock { return &Clock{now: start} }

// task is a coroutine on the clock.
type task struct {
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	ready  <-chan struct{} // which it waits for; may be nil
	until  [2]*end         // of contexts, which end its wait; may be nil
	turn   uint64          // orders those whose waits end at once
	timer  *timer          // which ends its wait; may be nil
	over   bool            // the wait is over, whatever it was for
}

// timer is something that is due: the end of a wait, or of a context.
type timer struct {
	at    time.Time
	order uint64
	place int // in the heap; -1: not in it
	task  *task
	end   func()
}

// Now is the present time.
func (c *Clock) Now() time.Time { return c.now }

// Run runs f on the clock and returns when it has returned. What f started with
// Together has ended by then. A panic in f is one of Run.
func (c *Clock) Run(f func()) {
	if c.root {
		panic("virtual: Run inside Run")
	}
	c.root = true
	defer func() { c.root = false }()
	done := false
	c.start(func() { f(); done = true })
	c.pick = c.next()
	for !done {
		c.run, c.pick = c.pick, nil
		c.run.resume()
		if c.pick == nil && !done { // it has ended
			c.pick = c.next()
		}
	}
	c.run = nil
}

// start makes a task that is ready to run f.
func (c *Clock) start(f func()) {
	t := &task{over: true}
	t.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		f()
	})
	c.ready.push(t)
}

// Wait waits as step.Clock says.
func (c *Clock) Wait(ctx context.Context, d time.Duration, ready <-chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d == 0 || taken(ready) {
		return nil
	}
	c.count++
	turn := c.count
	if d < 0 {
		return c.wait(ctx, turn, nil, ready)
	}
	c.count++
	return c.wait(ctx, turn, c.schedule(c.now.Add(d), c.count, nil, nil), ready)
}

// WaitTurn waits for a turn, or until ctx ends.
func (c *Clock) WaitTurn(ctx context.Context, turn Turn) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.count++
	return c.wait(ctx, c.count, c.atTurn(turn, 0, nil), nil)
}

// wait waits for a timer, a channel or the end of ctx; turn orders those whose waits end
// at once.
func (c *Clock) wait(ctx context.Context, turn uint64, due *timer, ready <-chan struct{}) error {
	t := c.run
	if t == nil {
		panic("virtual: who waits does not run on the clock")
	}
	if t.ready, t.timer, t.turn, t.over = ready, due, turn, false; due != nil {
		due.task = t
	}
	if ready != nil {
		c.polled = append(c.polled, t)
	}
	if e, both := ctx.(clock.Either); both {
		t.until = [2]*end{c.ends.add(e.Context.Done(), t), c.ends.add(e.Soft.Done(), t)}
	} else {
		t.until[0] = c.ends.add(ctx.Done(), t)
	}
	c.rest(t)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// WithTimeout is ctx, ended after d of this clock.
func (c *Clock) WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	t := &timed{Context: inner, outer: ctx, deadline: c.now.Add(d)}
	if d <= 0 {
		t.over = true
		cancel(cause)
		return t, func() {}
	}
	var stop func()
	var due func()
	var after Turn // it was put off until that was over
	due = func() {
		if c.Later != nil && inner.Err() == nil {
			if turn, longer := c.Later(t); longer && turn != after {
				after = turn
				stop = c.stopping(c.atTurn(turn, 1, due))
				return
			}
		}
		t.over = inner.Err() == nil
		cancel(cause)
	}
	stop = c.after(d, due)
	return t, func() {
		stop()
		cancel(nil)
	}
}

// timed is a context with a deadline of a virtual clock.
type timed struct {
	context.Context
	outer    context.Context
	deadline time.Time
	over     bool // it ended because of the deadline
}

// Within reports whether a context is one of WithTimeout, or inside it.
func Within(ctx, timed context.Context) bool { return ctx.Value(within{timed}) != nil }

// within asks contexts for one that they are inside of.
type within struct{ context.Context }

// Value knows the context itself.
func (t *timed) Value(key any) any {
	if w, is := key.(within); is && w.Context == context.Context(t) {
		return t
	}
	return t.Context.Value(key)
}

// Deadline is the earlier of its own and the one around.
func (t *timed) Deadline() (time.Time, bool) {
	if d, ok := t.outer.Deadline(); ok && d.Before(t.deadline) {
		return d, true
	}
	return t.deadline, true
}

// Err is that of a context with a deadline.
func (t *timed) Err() error {
	err := t.Context.Err()
	if err == nil {
		return nil
	}
	if t.over {
		return context.DeadlineExceeded
	}
	if outer := t.outer.Err(); outer != nil && context.Cause(t.outer) == context.Cause(t.Context) {
		return outer
	}
	return err
}

// After calls f once d is over and all else that was due by then has happened. f waits
// for nothing.
func (c *Clock) After(d time.Duration, f func()) {
	c.count++
	c.schedule(c.now.Add(d), last|c.count, nil, f)
}

// after calls f once d is over.
func (c *Clock) after(d time.Duration, f func()) (stop func()) {
	c.count++
	return c.stopping(c.schedule(c.now.Add(d), c.count, nil, f))
}

func (c *Clock) stopping(t *timer) (stop func()) {
	order := t.order
	return func() {
		if t.order == order { // it is not another one's by now
			c.drop(t)
		}
	}
}

// AtTurn calls f at a turn. f waits for nothing.
func (c *Clock) AtTurn(turn Turn, f func()) { c.atTurn(turn, 0, f) }

// atTurn schedules what comes at a turn, or with after 1 what comes between it and the next.
func (c *Clock) atTurn(turn Turn, after uint64, f func()) *timer {
	at := turn.At
	if at.Before(c.now) {
		at = c.now
	}
	return c.schedule(at, turns|turn.Number<<1|after, nil, f)
}

// Go starts a task.
func (c *Clock) Go(f func()) { c.start(f) }

// Together runs f n times, one after another wherever one of them waits.
func (c *Clock) Together(n int, f func(i int)) {
	if n <= 0 {
		return
	}
	if n == 1 {
		f(0)
		return
	}
	parent, left := c.run, n
	c.count++
	parent.turn, parent.over = c.count, false // it waits for nothing that it waited for before
	for i := range n {
		c.start(func() {
			f(i)
			if left--; left == 0 {
				parent.over = true
				c.ready.push(parent)
			}
		})
	}
	c.rest(parent)
}

// rest gives the turn to the next task and returns when t has it again.
func (c *Clock) rest(t *task) {
	if next := c.next(); next != t {
		c.pick = next
		t.yield(struct{}{})
	}
}

// next takes the task that is to run. The order is: who became ready, who waits
// for something that has come, who is due first.
func (c *Clock) next() *task {
	for {
		c.poll()
		if t := c.ready.shift(); t != nil {
			return t
		}
		if len(c.timers) == 0 {
			panic("virtual: everything waits, and nothing is due")
		}
		due := c.timers[0]
		if due.at.After(c.now) {
			c.now = due.at
		}
		task, end := due.task, due.end
		c.drop(due)
		if task != nil {
			task.timer = nil
			c.wake(task)
		} else {
			end()
		}
	}
}

// poll readies those whose channel has something for them, and those whose
// context has ended.
func (c *Clock) poll() {
	c.ends.poll(c.wake)
	if len(c.polled) == 0 {
		return
	}
	kept := c.polled[:0]
	for _, t := range c.polled {
		switch {
		case t.over || t.ready == nil: // ended otherwise; what it waits for now is none of this
		case taken(t.ready):
			c.wake(t)
		default:
			kept = append(kept, t)
		}
	}
	clear(c.polled[len(kept):])
	c.polled = kept
}

func (c *Clock) wake(t *task) {
	t.over, t.ready = true, nil
	if t.timer != nil {
		c.drop(t.timer)
		t.timer = nil
	}
	for i, e := range t.until {
		if e != nil {
			c.ends.remove(e)
			t.until[i] = nil
		}
	}
	c.ready.push(t)
}

func taken(ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	default:
		return false
	}
}

// turns has timers come after others of their moment, and last after those as well.
const (
	turns = 1 << 62
	last  = 1 << 63
)

func (c *Clock) schedule(at time.Time, order uint64, t *task, end func()) *timer {
	var x *timer
	if n := len(c.spare); n > 0 {
		x, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		x = new(timer)
	}
	*x = timer{at: at, order: order, task: t, end: end}
	heap.Push(&c.timers, x)
	return x
}

func (c *Clock) drop(t *timer) {
	if t.place < 0 {
		return
	}
	heap.Remove(&c.timers, t.place)
	t.task, t.end = nil, nil
	c.spare = append(c.spare, t)
}

// queue is tasks in order.
type queue struct {
	list []*task
	head int
}

func (q *queue) push(t *task) { q.list = append(q.list, t) }

// shift takes the first task; nil if there is none.
func (q *queue) shift() *task {
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
		return nil
	}
	t := q.list[q.head]
	q.list[q.head] = nil
	q.head++
	return t
}

// timers is a heap by time and then by order.
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push adds a timer at the end.
func (h *timers) Push(x any) {
	t := x.(*timer)
	t.place = len(*h)
	*h = append(*h, t)
}

// Pop takes the timer at the end.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.place = -1
	return t
}
