package mapper

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// work is a worker's life.
func (x *Map) work(ctx context.Context) {
	w := &worker{ready: make(chan struct{}, 1)}
	told := func() { x.free(w) }
	all := context.WithoutCancel(ctx)
	for {
		x.tell(told)
		if err := x.Clock.Wait(all, -1, w.ready); err != nil {
			panic(errProtocol("a wait that cannot be cancelled", err))
		}
		x.recorded(ctx, w)
		switch j := &w.job; {
		case j.start.index > 0:
			told = x.agent(ctx, w, &j.start)
		case j.due != nil:
			told = x.handle(ctx, w, j.due)
		case j.sync:
			x.sync(ctx)
			w.unsynced = false
			told = func() { x.free(w) }
		case j.quit:
			if w.unsynced {
				x.sync(ctx)
			}
			return
		}
	}
}

// recorded tells the agent that w has run that its end is on the disk.
func (x *Map) recorded(ctx context.Context, w *worker) {
	f := w.recorded
	if f == nil {
		return
	}
	w.recorded = nil
	if x.sync(ctx) {
		w.unsynced = false
		f(ctx)
	}
}

// sync has on the disk what is recorded. A failure to write ends the run by
// itself.
func (x *Map) sync(ctx context.Context) bool {
	err := x.Recorder.Sync(context.WithoutCancel(ctx))
	if err != nil && (x.Stopping == nil || x.Stopping() == nil) {
		x.note("the end of an item: %v", err)
	}
	return err == nil
}

func (x *Map) note(format string, args ...any) {
	// What cannot be recorded is met again by the next fact.
	_ = x.Recorder.Record(event.Event{Type: event.Note, Message: fmt.Sprintf(format, args...)})
}

// agent runs an agent, and gives what is to be told.
func (x *Map) agent(ctx context.Context, w *worker, s *starting) func() {
	e := &w.end
	*e = ending{}
	a := &e.a
	var err error
	a.Item, err = x.feed.item(ctx, s.index)
	a.Number, a.Recoveries, a.Last, a.Used, a.Probe, a.Start = s.number, s.recoveries, s.last, s.used, s.probe, s.at
	if err == nil && x.Admit != nil {
		if a.Holding, err = x.Admit(ctx, a.Item, a.Number); a.Holding != nil {
			defer a.Holding.Release()
			a.Start = x.Clock.Now() // what it has waited for is not its own time
		}
	}
	if err == nil {
		w.begun[0] = x.started(a, s.at)
		err = x.Recorder.Record(w.begun[:]...)
	}
	if err == nil && x.Strict {
		err = x.Recorder.Sync(context.WithoutCancel(ctx))
	}
	switch {
	case err == nil:
		x.Template.Run(ctx, a, &e.Ending)
	case x.Stopping != nil && x.Stopping() != nil:
		e.Err, e.Interrupted = err, true
	default:
		e.failed(err)
	}
	w.unsynced, w.recorded = x.Strict, e.Recorded
	e.took, e.used = x.Clock.Now().Sub(a.Start), e.Used
	if e.Err == nil && x.Recorder.Detailed() {
		e.data = step.Data(e.Result)
	}
	return func() { x.ended(w, e) }
}

// ending is how an agent ended, with what is to be written down.
type ending struct {
	Ending
	a    Attempt
	took time.Duration
	data json.RawMessage
	used event.Used // as Ending has it; that of one that was settled does not
}

func (e *ending) outcome() policy.Outcome {
	o := policy.Outcome{OK: e.Err == nil && !e.Interrupted && !e.Limited, Err: e.Err, LeftOut: e.LeftOut, Cancelled: e.Interrupted || e.Limited, Shortage: e.Shortage, RetryAfter: e.RetryAfter, Halt: e.Halt, Took: e.took}
	if o.Err != nil {
		o.Signature = failure.Sign(e.Failure.Class, e.Step, e.Failure.Message)
	}
	return o
}

// handle runs an item's handler, and gives what is to be told.
func (x *Map) handle(ctx context.Context, w *worker, h *handling) func() {
	if h.hold != nil {
		return x.onHold(ctx, w, h.hold)
	}
	it, err := x.feed.item(ctx, h.index)
	if err == nil {
		err = x.Template.Handle(ctx, it, h.due)
	}
	w.unsynced = x.Strict
	return func() {
		x.handled(it.ID, h, err)
		x.free(w)
	}
}

// onHold runs what is to be run when the map is held. That it fails is a warning; where the
// run stops first, a resume runs what is left of it.
func (x *Map) onHold(ctx context.Context, w *worker, h *Held) func() {
	if err := x.OnHold(ctx, *h); err != nil && (x.Stopping == nil || x.Stopping() == nil) {
		x.note("on_hold failed: %v", err)
	}
	return func() { x.free(w) }
}
