package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The names under which Temporal knows the parts. They have the protocol's number:
// a worker of another protocol does not take their work.
var (
	workflowType = fmt.Sprintf("bide.run.v%d", cluster.Protocol)
	// mainQueue has workflows and what is soon done, laneQueue what runs steps.
	mainQueue = fmt.Sprintf("bide.p%d", cluster.Protocol)
	laneQueue = mainQueue + ".lanes"
)

const (
	laneActivity   = "bide.lane"
	homeActivity   = "bide.home"
	adoptActivity  = "bide.adopt"
	adoptHome      = "bide.adopt_home"
	recordActivity = "bide.record"
	stopActivity   = "bide.stop"

	stopSignal    = "stop"
	stopQuery     = "stop"    // whether it stops: a cluster.Stop
	controlUpdate = "control" // a cluster.Control

	// recordEvery is how often decisions go to the store.
	recordEvery = time.Second
	// stopTries is how long the store is tried for the wish to stop: those who work
	// hear of it from the server as well.
	stopTries = 5 * time.Second
	// homeTries is how many workers may go down under what is not the map, or be
	// unable to do it.
	homeTries = 5
	// homeBeat is how long nothing may be heard of them, shortBeat of what is soon
	// done: of a worker that went down with it nothing else tells.
	homeBeat  = time.Minute
	shortBeat = 15 * time.Second
	// manyEvents is when an execution hands over to the next, whatever the server
	// suggests: half of what a history may have before it is slow.
	manyEvents = 8000
)

// WorkflowID is the id of a run's workflow.
func WorkflowID(run string) string { return "bide-" + run }

// Input is what an execution begins with: a run in the store, and where the
// execution before it, if there was one, has got to.
type Input struct {
	Run   string        `json:"run"`
	Store string        `json:"store"`
	Life  int           `json:"life"` // of the run, from 1
	Order cluster.Order `json:"order,omitzero"`
	// Coordinator is set once the map has begun.
	Coordinator *cluster.CoordinatorState `json:"coordinator,omitempty"`
	Homes       int                       `json:"homes,omitempty"` // home tasks so far
	// Began is when this life of the run did; the zero time: now.
	Began time.Time `json:"began,omitzero"`
}

// StopRequest is the signal to stop.
type StopRequest struct {
	Now bool `json:"now"`
}

// Run is the coordinator of a run as a workflow. All it decides is cluster's.
func Run(ctx workflow.Context, in Input) (string, error) {
	r := &run{Input: in, order: &in.Order}
	if in.Coordinator != nil {
		c, err := cluster.NewCoordinator(*in.Coordinator)
		if err != nil {
			return "", err
		}
		r.c, r.order = c, &c.Order
	}
	if r.Began.IsZero() {
		r.Began = workflow.Now(ctx)
	}
	err := workflow.SetQueryHandler(ctx, stopQuery, func() (cluster.Stop, error) { return r.wish, nil })
	if err == nil {
		err = workflow.SetUpdateHandler(ctx, controlUpdate, r.control)
	}
	if err != nil {
		return "", err
	}
	workflow.Go(ctx, r.signals)
	status, err := r.whole(ctx)
	if err != nil {
		return "", err
	}
	return status, r.flush(ctx)
}

// run is an execution.
type run struct {
	Input
	c     *cluster.Coordinator
	order *cluster.Order

	stopping, now bool
	wish          cluster.Stop // the zero Stop: nobody wants it to stop
	inMap, told   bool         // lanes are handed out; somebody told the map to do something
	late          bool         // the time of the run is over, and all who work were told
	cancels       []canceller  // of lanes, and of the home task
	ended         []laneEnd
	flushing      bool
	flushed       time.Time
}

// canceller ends an activity: that of a lease, or that of the home task, 0.
type canceller struct {
	lease  int
	cancel workflow.CancelFunc
}

type laneEnd struct {
	lease cluster.Lease
	out   cluster.Settled
	err   error
}

func (r *run) whole(ctx workflow.Context) (string, error) {
	if r.c == nil {
		done, err := r.home(ctx, cluster.HomeTask{})
		if err != nil || done.Config == nil {
			return done.Status, err
		}
		state := cluster.CoordinatorState{Run: r.Input.Run, Store: r.Store, Life: r.Life, Config: *done.Config, Machine: done.State,
			Used: done.Used, Began: r.Began, Paused: done.Config.Paused, Order: *r.order}
		if r.c, err = cluster.NewCoordinator(state); err != nil {
			return "", err
		}
		r.order = &r.c.Order
	}
	if r.stopping {
		r.c.Stop()
	}
	r.inMap = true
	err := r.lanes(ctx)
	r.inMap = false
	if err != nil {
		return "", err
	}
	done, err := r.home(ctx, cluster.HomeTask{After: true, Halt: r.c.Stopped()})
	return done.Status, err
}

// once are the options of work that is not begun again by itself: what it has
// left is looked at first.
func once(queue string, heartbeat time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: 10 * 365 * 24 * time.Hour, HeartbeatTimeout: heartbeat,
		WaitForCancellation: true, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}
}

// short are the options of what may be done again as often as it takes.
func short() workflow.ActivityOptions {
	return workflow.ActivityOptions{TaskQueue: mainQueue, StartToCloseTimeout: 5 * time.Minute, HeartbeatTimeout: shortBeat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}}
}

// home has a worker do what of the run is not its map. Where that worker is gone,
// another one goes on from what it has recorded.
func (r *run) home(ctx workflow.Context, t cluster.HomeTask) (done cluster.HomeDone, err error) {
	t.Run, t.Store, t.Life = r.Input.Run, r.Store, r.Life
	begun := false // that is told already
	broken, why := 0, ""
	for try := 1; ; try++ {
		t.Stop = r.stopping
		t.Begin = !t.After && !begun
		r.Homes++
		t.Log = cluster.HomeLog(r.Life, r.Homes)
		t.Spent = workflow.Now(ctx).Sub(r.Began)
		r.order.Opened(t.Log, workflow.Now(ctx))
		if err := r.flush(ctx); err != nil {
			return done, err
		}
		actx, cancel := workflow.WithCancel(ctx)
		r.cancels = []canceller{{0, cancel}}
		if r.stopping {
			cancel()
			actx, _ = workflow.NewDisconnectedContext(ctx) // it is told by t.Halt, or by the store
		}
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(actx, once(laneQueue, homeBeat)), homeActivity, t).Get(ctx, &done)
		cancel()
		r.cancels = nil
		switch {
		case err == nil && !done.Moved:
			r.order.Accept(done.Prefix, workflow.Now(ctx))
			return done, r.flush(ctx)
		case err == nil:
			r.order.Accept(done.Prefix, workflow.Now(ctx))
			begun, try = true, 0
			continue
		}
		var left cluster.Prefix
		if aerr := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), adoptHome, t).Get(ctx, &left); aerr != nil {
			return done, aerr
		}
		r.order.Accept(left, workflow.Now(ctx))
		begun = begun || left.Length > 0
		if lost(err) && try < homeTries && !r.stopping {
			continue
		}
		if full := storeFailed(err); !lost(err) && (full || try < homeTries && !r.stopping) {
			if full {
				try--
			}
			broken++
			if why != reason(err) {
				why = reason(err)
				r.order.Tell(workflow.Now(ctx), event.Event{Type: event.Note, Time: workflow.Now(ctx), Message: "a worker could not work: " + why})
			}
			was := r.stopping
			if _, err := workflow.AwaitWithTimeout(ctx, cluster.HoldOf(broken), func() bool { return r.stopping != was }); err != nil {
				return done, err
			}
			continue
		}
		end := event.Event{Type: event.RunFinished, Time: workflow.Now(ctx), Status: event.Failed, Class: "cluster", Message: reason(err)}
		switch {
		case r.stopping:
			end.Status, end.Class, end.Message = event.Interrupted, "cancelled", "interrupted"
		case lost(err):
			end.Status, end.Message = event.Interrupted, fmt.Sprintf("%d workers went down while they did what is not the map's", try)
		}
		done = cluster.HomeDone{Status: end.Status}
		r.order.Tell(workflow.Now(ctx), end)
		return done, r.flush(ctx)
	}
}

// lost reports whether an activity ended because its worker is gone.
func lost(err error) bool {
	return errors.As(err, new(*temporal.TimeoutError)) || errors.As(err, new(*temporal.CanceledError))
}

// storeFailed reports whether an activity could not write to the store.
func storeFailed(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == storeFails
}

// reason is what an activity says of its failure, without what Temporal puts around it.
func reason(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return strings.TrimSpace(err.Error())
}

// lanes has the map worked off.
func (r *run) lanes(ctx workflow.Context) error {
	handOver := false
	for {
		var until time.Time
		for r.c.Open() < r.c.Lanes() && !handOver {
			l, at, over := r.c.Lease(workflow.Now(ctx))
			if over {
				r.c.Over(workflow.Now(ctx))
				return r.flush(ctx)
			}
			if until = at; l == nil {
				break
			}
			r.lane(ctx, *l)
		}
		if handOver && r.c.Open() == 0 {
			return r.handOver(ctx)
		}
		if !r.late {
			until = r.c.Until(until)
		}
		if err := r.await(ctx, until); err != nil {
			return err
		}
		if !r.late && r.c.Late(workflow.Now(ctx)) {
			r.late = true
			r.endLanes(ctx, true)
			r.cancelAll()
		}
		for len(r.ended) > 0 {
			e := r.ended[0]
			r.ended = r.ended[1:]
			if err := r.settle(ctx, e); err != nil {
				return err
			}
		}
		r.flushSoon(ctx)
		info := workflow.GetInfo(ctx)
		handOver = handOver || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > manyEvents
	}
}

// lane begins a lease.
func (r *run) lane(ctx workflow.Context, l cluster.Lease) {
	actx, cancel := workflow.WithCancel(ctx)
	r.cancels = append(r.cancels, canceller{l.ID, cancel})
	workflow.Go(ctx, func(ctx workflow.Context) {
		var out cluster.Settled
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(actx, once(laneQueue, l.Heartbeat)), laneActivity, l).Get(ctx, &out)
		r.ended = append(r.ended, laneEnd{l, out, err})
	})
}

// await waits until a lease has ended, or for a time.
func (r *run) await(ctx workflow.Context, until time.Time) error {
	was := r.stopping
	r.told = false
	happened := func() bool { return len(r.ended) > 0 || r.stopping != was || r.told }
	if until.IsZero() {
		return workflow.Await(ctx, happened)
	}
	_, err := workflow.AwaitWithTimeout(ctx, max(until.Sub(workflow.Now(ctx)), time.Millisecond), happened)
	return err
}

// settle takes how a lease ended. Of one whose lane is gone, its log tells.
func (r *run) settle(ctx workflow.Context, e laneEnd) error {
	r.cancels = slices.DeleteFunc(r.cancels, func(c canceller) bool { return c.lease == e.lease.ID })
	if e.err == nil {
		err := r.c.Settle(e.lease.ID, e.out, workflow.Now(ctx))
		if err == nil && (r.c.Paused(workflow.Now(ctx)) || r.c.Stopped() != policy.NotStopped) {
			r.cancelAll()
		}
		return err
	}
	var out cluster.Settled
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), adoptActivity, e.lease).Get(ctx, &out); err != nil {
		return err
	}
	switch {
	case errors.As(e.err, new(*temporal.CanceledError)): // before it began
		return r.c.Settle(e.lease.ID, out, workflow.Now(ctx))
	case lost(e.err):
		return r.c.Lost(e.lease.ID, out, workflow.Now(ctx))
	}
	// A lane that could not work has run nothing that its log does not tell of.
	return r.c.Broken(e.lease.ID, out, reason(e.err), workflow.Now(ctx))
}

// control does what somebody asks for while the map goes on.
func (r *run) control(ctx workflow.Context, q cluster.Control) error {
	if !r.inMap || r.stopping {
		return temporal.NewApplicationError(cluster.ErrNoMap.Error(), plainError)
	}
	if err := r.c.Control(q, workflow.Now(ctx)); err != nil {
		return temporal.NewApplicationError(err.Error(), plainError)
	}
	r.told = true
	if q.Do == journal.Pause {
		r.cancelAll()
	}
	return nil
}

// cancelAll asks all who work to end soon.
func (r *run) cancelAll() {
	for _, c := range r.cancels {
		c.cancel()
	}
}

// signals takes the wish to stop, and tells all who work.
func (r *run) signals(ctx workflow.Context) {
	ch := workflow.GetSignalChannel(ctx, stopSignal)
	for {
		var q StopRequest
		if !ch.Receive(ctx, &q) {
			return
		}
		r.stop(ctx, q)
	}
}

func (r *run) stop(ctx workflow.Context, q StopRequest) {
	r.now = r.now || q.Now
	r.wish = cluster.Stop{Life: r.Life, Now: r.now}
	r.endLanes(ctx, r.now)
	if r.c != nil {
		r.c.Stop()
	}
	r.stopping = true
	r.cancelAll()
}

// endLanes has those who work end what they do, at once or within its grace: sooner
// than the server would tell them.
func (r *run) endLanes(ctx workflow.Context, now bool) {
	s := cluster.Stop{Life: r.Life, Now: now}
	opt := short()
	opt.ScheduleToCloseTimeout = stopTries
	_ = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opt), stopActivity, r.Input.Run, r.Store, s).Get(ctx, nil) // whom it does not reach, the server tells
}

// flush has all decisions in the store.
func (r *run) flush(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return !r.flushing }); err != nil {
		return err
	}
	return r.record(ctx)
}

func (r *run) record(ctx workflow.Context) error {
	entries := r.order.Entries()
	if len(entries) == 0 {
		return nil
	}
	r.flushing = true
	defer func() { r.flushing, r.flushed = false, workflow.Now(ctx) }()
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), recordActivity, r.Input.Run, r.Store, entries).Get(ctx, nil)
	if err == nil {
		r.order.Recorded(entries[len(entries)-1].Seq)
	}
	return err
}

// flushSoon has decisions in the store a moment later, without waiting for it.
func (r *run) flushSoon(ctx workflow.Context) {
	if r.flushing {
		return
	}
	r.flushing = true
	wait := recordEvery - workflow.Now(ctx).Sub(r.flushed)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if wait > 0 {
			_ = workflow.Sleep(ctx, wait) // it ends with the workflow
		}
		r.flushing = false
		_ = r.record(ctx) // it is tried until it is done
	})
}

// handOver goes on as a new execution, when no lease is open.
func (r *run) handOver(ctx workflow.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	ch := workflow.GetSignalChannel(ctx, stopSignal)
	for {
		var q StopRequest
		if !ch.ReceiveAsync(&q) {
			break
		}
		r.stop(ctx, q)
	}
	state := r.c.State()
	in := Input{Run: r.Input.Run, Store: r.Store, Life: r.Life, Coordinator: &state, Homes: r.Homes, Began: r.Began}
	return workflow.NewContinueAsNewError(ctx, workflowType, in)
}
