package mapper

import (
	"context"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
)

// worker runs one agent at a time.
type worker struct {
	ready    chan struct{} // a job is there
	job      job           // written in a turn before ready, read by the worker after
	unsynced bool          // an end that it told of may not be on the disk yet
	// recorded is the Ending.Recorded of the agent that it ran last, until it is called.
	recorded func(context.Context)
	// begun is the fact that its agent begins, and end how that ended: until the worker is
	// free they are its own, then the next agent's.
	begun [1]event.Event
	end   ending
}

// job is what a worker does next. Exactly one of its parts is set.
type job struct {
	start starting // with an index
	due   *handling
	sync  bool
	quit  bool
}

// starting is an agent that is to be started.
type starting struct {
	index, number, recoveries int
	probe                     bool
	last                      *failure.Failure
	used                      event.Used
	at                        time.Time
}

// loop takes a turn whenever the machine wants one without a message, or there are
// messages that are left.
func (x *Map) loop(ctx context.Context) {
	defer close(x.done)
	ctx = context.WithoutCancel(ctx) // it ends when all workers have
	for {
		x.tell(nothing)
		until, over := x.inbox.rest()
		if over {
			return
		}
		x.await(ctx, until)
	}
}

// tell has f done, in turn with all else that is told. Whoever tells takes the
// turn, unless somebody has it: so a worker finds its next job ready, and nobody has
// to be woken for it.
func (x *Map) tell(f func()) {
	x.inbox.put(f)
	list, ok := x.inbox.take()
	if !ok {
		return
	}
	var until time.Time
	over := false
	for i := 0; i < len(list) && !over; i++ {
		// One by one: what starts depends on the order in which agents end, not on
		// how many messages wait by chance.
		list[i]()
		x.halt()
		x.widen()
		until, over = x.offer()
	}
	x.inbox.leave(until, over)
}

// nothing is what the loop is told by the time that has passed.
func nothing() {}

// halt stops the start of items when the run stops.
func (x *Map) halt() {
	if x.stopped != nil || x.Stopping == nil {
		return
	}
	if why := x.Stopping(); why != nil {
		x.stopped = why
		x.machine.Halt("stopping")
	}
}

// offer gives jobs to the workers that are free, as long as there are any. until
// is when there may be more without a message; the zero time for never. over
// says that the map has ended and all workers were told.
func (x *Map) offer() (until time.Time, over bool) {
	for len(x.idle) > 0 {
		if len(x.due) > 0 && x.stopped == nil {
			x.give(job{due: x.due[0]})
			x.due = x.due[1:]
			continue
		}
		now := x.Clock.Now()
		d := x.machine.Next(now)
		if x.held(d) {
			x.syncIdle()
			return time.Time{}, false
		}
		switch d.Kind {
		case policy.Start:
			if x.NotBefore != nil {
				if until = x.NotBefore(x.starts); until.After(now) {
					break
				}
			}
			x.starts++
			x.start(d, now)
			continue
		case policy.Finished:
			if x.busy > 0 {
				return time.Time{}, false // with a handler
			}
			for len(x.idle) > 0 {
				x.give(job{quit: true})
			}
			return time.Time{}, true
		case policy.Wait:
			until = d.Until
		}
		x.syncIdle()
		return until, false
	}
	return time.Time{}, false
}

// start gives a free worker the item that the machine offers.
func (x *Map) start(d policy.Decision, now time.Time) {
	change, err := x.machine.Started(d.Item, now)
	if err != nil {
		panic(errProtocol("start", err))
	}
	x.record(x.breaker(change, now)...)
	x.give(job{start: starting{index: d.Item, number: x.before[d.Item] + d.Attempt, recoveries: d.Recoveries, probe: d.Probe, last: x.last[d.Item], used: x.used[d.Item], at: now}})
	delete(x.last, d.Item)
	delete(x.used, d.Item)
}

// give hands a job to the worker that was free last: what it needs is still in
// the caches.
func (x *Map) give(j job) {
	w := x.idle[len(x.idle)-1]
	x.idle = x.idle[:len(x.idle)-1]
	x.busy++
	w.job = j
	w.ready <- struct{}{}
}

// syncIdle has free workers wait for the disk, where the promise is that an
// item's end is there before its worker continues. Where the next thing is another
// item, whose start has to be on the disk as well, one sync is for both.
func (x *Map) syncIdle() {
	for i := len(x.idle) - 1; i >= 0; i-- {
		if w := x.idle[i]; w.unsynced {
			x.idle = append(append(x.idle[:i:i], x.idle[i+1:]...), w)
			x.give(job{sync: true})
		}
	}
}

// free says that a worker has nothing to do.
func (x *Map) free(w *worker) {
	x.busy--
	x.idle = append(x.idle, w)
}

// await waits for a message, or until a time.
func (x *Map) await(ctx context.Context, until time.Time) {
	d := time.Duration(-1)
	if !until.IsZero() {
		d = max(until.Sub(x.Clock.Now()), 0)
	}
	_ = x.Clock.Wait(ctx, d, x.inbox.wake) // either is a reason to look again
}
