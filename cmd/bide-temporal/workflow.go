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
	beginActivity  = "bide.begin"
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
	Run   string `json:"run"`
	Store string `json:"store"`
	// Again are dead letters that this life of the run runs again.
	Again []cluster.Letter `json:"again,omitempty"`
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
	r := &run{Input: in, order: &cluster.Order{}}
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
	err := workflow.SetQueryHandler(ctx, stopQuery, r.wish)
	if err == nil {
		err = workflow.SetUpdateHandler(ctx, controlUpdate, r.control)
	}
	if err != nil {
		return "", err
	}
	workflow.Go(ctx, r.signals)
	if r.c == nil {
		if err := r.begin(ctx); err != nil {
			return "", err
		}
	}
	status, err := r.whole(ctx)
	if err != nil {
		return "", err
	}
	return status, r.flush(ctx)
}

// begin begins a life of the run: from then on, no other coordinator records anything.
func (r *run) begin(ctx workflow.Context) error {
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), beginActivity, r.Input.Run, r.Store).Get(ctx, r.order)
	if err != nil {
		return err
	}
	r.order.Requeue(r.Again, workflow.Now(ctx))
	if r.stopping {
		r.endLanes(ctx, r.now)
	}
	return nil
}

// run is an execution.
type run struct {
	Input
	c     *cluster.Coordinator
	order *cluster.Order

	stopping, now bool
	wanted        bool        // somebody wants it to stop
	inMap, told   bool        // lanes are handed out; somebody told the map to do something
	late          bool        // the time of the run is over, and all who work were told
	cancels       []canceller // of lanes, and of the home task
	ended         []laneEnd
	flushing      bool
	flushed       time.Time
	failed        error // why nothing more can be recorded
}

// life is that of the run; 0 while it has not begun.
func (r *run) life() int { return r.order.Life }

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
		state := cluster.CoordinatorState{Run: r.Input.Run, Store: r.Store, Config: *done.Config, Machine: done.State,
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
// another one continues from what it has recorded.
func (r *run) home(ctx workflow.Context, t cluster.HomeTask) (done cluster.HomeDone, err error) {
	t.Run, t.Store, t.Life = r.Input.Run, r.Store, r.life()
	begun := false // that is told already
	broken, why := 0, ""
	for try := 1; ; try++ {
		t.Stop = r.stopping
		t.Begin = !t.After && !begun
		r.Homes++
		t.Log = cluster.HomeLog(r.life(), r.Homes)
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
		case isOver(err):
			return done, err
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

// isOver reports whether a later life of the run has begun: then this one has nothing
// more to do, and nothing to record.
func isOver(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == lifeIsOver
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
	happened := func() bool { return len(r.ended) > 0 || r.stopping != was || r.told || r.failed != nil }
	var err error
	if until.IsZero() {
		err = workflow.Await(ctx, happened)
	} else {
		_, err = workflow.AwaitWithTimeout(ctx, max(until.Sub(workflow.Now(ctx)), time.Millisecond), happened)
	}
	if err == nil {
		err = r.failed
	}
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
	if isOver(e.err) {
		return e.err
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

// control does what somebody asks for while the map is running.
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
	r.wanted = true
	r.endLanes(ctx, r.now)
	if r.c != nil {
		r.c.Stop()
	}
	r.stopping = true
	r.cancelAll()
}

// wish is that somebody wants the run to stop; the zero Stop where nobody does.
func (r *run) wish() (cluster.Stop, error) {
	if !r.wanted {
		return cluster.Stop{}, nil
	}
	return cluster.Stop{Life: r.life(), Now: r.now}, nil
}

// endLanes has those who work end what they do, at once or within its grace: sooner
// than the server would tell them.
func (r *run) endLanes(ctx workflow.Context, now bool) {
	if r.life() == 0 {
		return // nobody works yet
	}
	s := cluster.Stop{Life: r.life(), Now: now}
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
	e, ok := r.order.Next()
	if !ok || r.failed != nil {
		return r.failed
	}
	r.flushing = true
	defer func() { r.flushing, r.flushed = false, workflow.Now(ctx) }()
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), recordActivity, r.Input.Run, r.Store, e).Get(ctx, nil)
	if err != nil {
		r.failed = err
		return err
	}
	r.order.Recorded()
	return nil
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
		_ = r.record(ctx) // it is tried until it is done, or r.failed tells
	})
}

// handOver continues as a new execution, when no lease is open.
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
	in := Input{Run: r.Input.Run, Store: r.Store, Coordinator: &state, Homes: r.Homes, Began: r.Began}
	return workflow.NewContinueAsNewError(ctx, workflowType, in)
}
