package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The names under which Temporal knows the parts. They have the protocol's number:
// a worker of another protocol does not take their work.
var (
	workflowType = fmt.Sprintf("bide.run.v%d", cluster.Protocol)
	laneType     = fmt.Sprintf("bide.lane.v%d", cluster.Protocol)
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
	laneSignal    = "lane"    // a lane has ended: a laneEnd
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
	homeBeat = time.Minute
	// homeWait is how long what follows the map waits for the worker that keeps a copy.
	homeWait  = 10 * time.Second
	shortBeat = 15 * time.Second
)

// manyEvents is when an execution hands over to the next, whatever the server
// suggests: half of what a history may have before it is slow. It is of the protocol: two
// workers with different values decide otherwise of one history.
var manyEvents = 8000

// WorkflowID is the id of a run's workflow.
func WorkflowID(run string) string { return "bide-" + run }

// laneID is the id of the workflow that is a lane.
func laneID(l cluster.Lease) string { return WorkflowID(l.Run) + "-" + l.Log }

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
	// HomeQueue is where the worker is that keeps a copy of the run for what follows its map.
	HomeQueue string       `json:"home_queue,omitempty"`
	Stop      *StopRequest `json:"stop,omitempty"` // somebody has stopped it
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
	if in.Stop != nil {
		r.stopping, r.wanted, r.now = true, true, in.Stop.Now
	}
	workflow.Go(ctx, r.signals)
	workflow.Go(ctx, r.laneSignals)
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
	wanted        bool                // somebody wants it to stop
	inMap, told   bool                // lanes are handed out; somebody told the map to do something
	late          bool                // the time of the run is over, and all who work were told
	cancelHome    workflow.CancelFunc // of the home task, while there is one
	starting      map[int]bool        // leases whose lane is not there yet
	cancelled     map[int]bool        // leases whose lane was asked to end soon
	adopting      map[int]bool        // leases whose log is being read
	ended         []laneEnd
	under         int // things under way that the next execution would not know of
	flushing      bool
	flushed       time.Time
	failed        error // why nothing more can be recorded
}

// life is that of the run; 0 while it has not begun.
func (r *run) life() int { return r.order.Life }

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
		r.order, r.HomeQueue = &r.c.Order, done.Queue
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
		r.cancelHome = cancel
		if r.stopping {
			cancel()
			actx, _ = workflow.NewDisconnectedContext(ctx) // it is told by t.Halt, or by the store
		}
		opt := once(laneQueue, homeBeat)
		if t.After && r.HomeQueue != "" {
			opt.TaskQueue, opt.ScheduleToStartTimeout = r.HomeQueue, homeWait
		}
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(actx, opt), homeActivity, t).Get(ctx, &done)
		cancel()
		r.cancelHome = nil
		elsewhere := t.After && r.HomeQueue != "" && notStarted(err) // that worker is gone
		r.HomeQueue = ""
		switch {
		case elsewhere:
			try--
			continue
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
		var left cluster.HomeLeft
		if aerr := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), adoptHome, t).Get(ctx, &left); aerr != nil {
			return done, aerr
		}
		r.order.Accept(left.Prefix, workflow.Now(ctx))
		begun = begun || left.Begun
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

// notStarted reports whether an activity ended because nobody began it.
func notStarted(err error) bool {
	var t *temporal.TimeoutError
	return errors.As(err, &t) && t.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
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
	if r.Coordinator != nil { // what the execution before has left to be recorded
		r.flushSoon(ctx)
	}
	for {
		var until time.Time
		for r.c.Open() < r.c.Lanes() {
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
		if !r.late {
			until = r.c.Until(until)
		}
		if err := r.await(ctx, until); err != nil {
			return err
		}
		if !r.late && r.c.Late(workflow.Now(ctx)) {
			r.late = true
			r.endLanes(ctx, true)
			r.cancelAll(ctx)
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
		if handOverDue(workflow.GetInfo(ctx)) {
			return r.handOver(ctx)
		}
		r.flushSoon(ctx)
	}
}

// handOverDue reports whether the history of an execution has become long.
var handOverDue = func(i *workflow.Info) bool {
	return i.GetContinueAsNewSuggested() || i.GetCurrentHistoryLength() > manyEvents
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

// settle takes how leases have ended.
func (r *run) settle(ctx workflow.Context) error {
	for len(r.ended) > 0 {
		e := r.ended[0]
		r.ended = r.ended[1:]
		if e.Life != r.life() {
			continue // of a life before this one
		}
		if _, open := r.c.Has(e.Lease); !open {
			continue
		}
		now := workflow.Now(ctx)
		if e.How == laneSlow {
			if err := r.c.Keep(e.Lease, e.Keep, now); err != nil {
				return err
			}
			continue
		}
		delete(r.cancelled, e.Lease)
		var err error
		switch e.How {
		case laneSettled:
			err = r.c.Settle(e.Lease, e.Out, now)
			if err == nil && (r.c.Paused(now) || r.c.Stopped() != policy.NotStopped) {
				r.cancelAll(ctx)
			}
		case laneNotBegun:
			err = r.c.Settle(e.Lease, e.Out, now)
		case laneLost:
			err = r.c.Lost(e.Lease, e.Out, now)
		case laneBroken: // it has run nothing that its log does not tell of
			err = r.c.Broken(e.Lease, e.Out, e.Why, now)
		case laneOver:
			err = temporal.NewNonRetryableApplicationError(e.Why, lifeIsOver, nil)
		default:
			err = fmt.Errorf("the lane of lease %d ended as %q", e.Lease, e.How)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		r.cancelAll(ctx)
	}
	return nil
}

// cancelAll asks all who work to end soon.
func (r *run) cancelAll(ctx workflow.Context) {
	if r.cancelHome != nil {
		r.cancelHome()
	}
	if r.c != nil {
		for _, l := range r.c.Leases() {
			r.cancelLane(ctx, l)
		}
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
	r.under++
	defer func() { r.under-- }()
	r.now = r.now || q.Now
	r.wanted = true
	r.endLanes(ctx, r.now)
	if r.c != nil {
		r.c.Stop()
	}
	r.stopping = true
	r.cancelAll(ctx)
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

// flushSoon has decisions in the store a moment later, without waiting for it; and then those
// that are taken meanwhile, as nothing else may happen for hours.
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
		if r.failed == nil && !r.flushing && len(r.order.Pending) > 0 && workflow.GetVersion(ctx, "flush-again", workflow.DefaultVersion, 1) > workflow.DefaultVersion {
			r.flushSoon(ctx)
		}
	})
}

// handOver continues as a new execution. Lanes work on meanwhile. What was asked of the
// server is done before, as it drops what an execution asks for that has ended; and no
// signal is left, as the next execution gets those only that the server has not delivered.
// One that comes at this moment is delivered first: then the server has the execution
// decide again.
func (r *run) handOver(ctx workflow.Context) error {
	stops, lanes := workflow.GetSignalChannel(ctx, stopSignal), workflow.GetSignalChannel(ctx, laneSignal)
	for {
		quiet := func() bool { return r.under == 0 && len(r.starting) == 0 && !r.flushing }
		if err := workflow.Await(ctx, func() bool { return quiet() || r.failed != nil }); err != nil || r.failed != nil {
			return cmp.Or(err, r.failed)
		}
		for q := (StopRequest{}); stops.ReceiveAsync(&q); q = (StopRequest{}) {
			r.stop(ctx, q)
		}
		r.takeEnds(ctx, lanes)
		if err := r.settle(ctx); err != nil {
			return err
		}
		if quiet() && stops.Len()+lanes.Len() == 0 {
			break
		}
	}
	state := r.c.State()
	in := Input{Run: r.Input.Run, Store: r.Store, Coordinator: &state, Homes: r.Homes, Began: r.Began, HomeQueue: r.HomeQueue}
	if r.stopping {
		in.Stop = &StopRequest{Now: r.now}
	}
	return workflow.NewContinueAsNewError(ctx, workflowType, in)
}
