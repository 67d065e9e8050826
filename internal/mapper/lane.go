package mapper

import (
	"context"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/retry/driver"
)

// Lane works off items of a [Map] one after the other for somebody else, who
// decides about the map for many lanes, on other machines perhaps, and who has
// chosen the items. What depends on an item alone is decided here, where its
// error is: whether it is tried again, and when. The machine of this Map is
// asked for nothing else. Each goroutine has a lane of its own.
type Lane struct {
	x    *Map
	feed feed
}

// Lane gives a lane of the map, which is not run itself.
func (x *Map) Lane() *Lane { return &Lane{x: x, feed: feed{read: x.Items}} }

// Work runs the agent of an item to its end and records what becomes of it, as a
// worker of the map does. last is how the attempt before this one failed. The
// error says that it could not be recorded, or that the run stops: then nothing more is
// to be begun.
func (l *Lane) Work(ctx context.Context, it policy.Leased, last *failure.Failure) (policy.End, error) {
	x := l.x
	if x.Stopping != nil {
		if err := x.Stopping(); err != nil {
			return policy.End{Item: it.Item, Outcome: policy.Outcome{Cancelled: true}}, err
		}
	}
	start := x.Clock.Now()
	item, err := l.feed.item(ctx, it.Item)
	a := Attempt{Item: item, Number: x.before[item.Index] + it.Attempt, Recoveries: it.Recoveries, Last: last, Start: start}
	if err == nil {
		err = x.Recorder.Record(x.started(&a, start))
	}
	if err == nil && x.Strict {
		err = x.Recorder.Sync(ctx)
	}
	if err != nil {
		return policy.End{Item: it.Item, Outcome: policy.Outcome{Cancelled: true}}, err
	}
	e := ending{a: a}
	x.Template.Run(ctx, &e.a, &e.Ending)
	now := x.Clock.Now()
	e.took = now.Sub(start)
	if e.Err == nil {
		e.data = step.Data(e.Result)
	}
	o := e.outcome()
	if e.Limited { // all lanes are to wait, not this one alone
		o.Cancelled, o.RateLimited = false, true
	}
	if it.Retry == nil {
		it.Retry = &driver.State{Began: start}
	}
	var v policy.Verdict
	v, o.Judged = x.machine.Judge(it, o, now)
	fact, h := x.fact(&e, &v, now)
	if err := x.Recorder.Record(fact); err != nil {
		return policy.End{Item: it.Item, Outcome: policy.Outcome{Cancelled: true}}, err
	}
	if h != nil {
		err = l.handle(ctx, item, h)
	}
	if err == nil && (x.Strict || e.Recorded != nil) {
		err = x.Recorder.Sync(ctx)
	}
	if err == nil && e.Recorded != nil {
		e.Recorded(ctx)
	}
	return policy.End{Item: it.Item, Outcome: o}, err
}

// handle runs the handler of an item that failed for good. Where the run stops
// first, the handler stays due: for whoever ends the map.
func (l *Lane) handle(ctx context.Context, item event.Item, h *handling) error {
	x := l.x
	err := x.Template.Handle(ctx, item, h.due)
	if err != nil && x.Stopping != nil && x.Stopping() != nil {
		return nil
	}
	return x.Recorder.Record(x.handledFacts(item.ID, h, err)...)
}

// State is where each item stands, before the map is run.
func (x *Map) State() policy.State { return x.machine.State() }

// Halt stops the map before it begins, for the reason that somebody else has
// found, who has decided about it so far.
func (x *Map) Halt(why policy.StopReason) { x.machine.Halt(why) }

// Lost is the record of an item that is given up because its worker went down too
// often while it ran.
func Lost(it event.Item, name string, attempt int, why string) event.Event {
	l := Letter{Failure: failure.Failure{Class: policy.ClassRecovery, Message: why}, CorrelationID: name, Attempt: attempt}
	return event.Event{Type: event.ItemFinished, Phase: phase, Item: it.ID, Index: it.Index, Status: event.DeadLettered, Attempts: attempt,
		Class: l.Class, Message: l.Message, Data: step.Data(l.beside())}
}
