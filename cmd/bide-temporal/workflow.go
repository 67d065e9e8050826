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

// These are Temporal's names for the parts. They have the number of the protocol: a worker
// of another protocol does not take their work.
var (
	workflowType = fmt.Sprintf("bide.run.v%d", cluster.Protocol)
	laneType     = fmt.Sprintf("bide.lane.v%d", cluster.Protocol)
	// mainQueue has workflows and short activities; laneQueue has activities that run
	// steps.
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
	stopQuery     = "stop"    // asks whether the run is to stop: a cluster.Stop
	controlUpdate = "control" // a cluster.Control

	// recordEvery is how often decisions go to the store.
	recordEvery = time.Second
	// stopTries is how long bide tries to write a stop to the store: workers hear of it
	// from the server as well.
	stopTries = 5 * time.Second
	// homeTries is how many workers may die during a home task, or be unable to do it.
	homeTries = 5
	// homeBeat is how long a home task may be silent, and shortBeat how long a short
	// activity may. Nothing else shows that the worker died.
	homeBeat = time.Minute
	// homeWait is how long the task after the map waits for the worker that keeps a copy of
	// the run.
	homeWait  = 5 * time.Second
	shortBeat = 15 * time.Second
	// readBeat is how long a worker may be silent that only reads. It is so short that a run
	// is never without news for 15 seconds, and reading anew does no harm.
	readBeat = 8 * time.Second
)

// manyEvents is after how many events an execution hands over to the next, whatever the
// server suggests: half of what makes a history slow. It is part of the protocol: two
// workers with different values would decide differently from one history.
var manyEvents = 8000

// WorkflowID gives the id of a run's workflow.
func WorkflowID(run string) string { return "bide-" + run }

// laneID gives the id of a lane's workflow.
func laneID(l cluster.Lease) string { return WorkflowID(l.Run) + "-" + l.Log }

// Input is what an execution begins with: a run in the store, and how far the execution
// before it has come, if there was one.
type Input struct {
	Run   string `json:"run"`
	Store string `json:"store"`
	// Again are dead letters that this life of the run runs again.
	Again []cluster.Letter `json:"again,omitempty"`
	// Coordinator is set once the map has begun.
	Coordinator *cluster.CoordinatorState `json:"coordinator,omitempty"`
	Homes       int                       `json:"homes,omitempty"` // home tasks so far
	// HomeQueue is the queue of the worker that keeps a copy of the run for the task after
	// the map.
	HomeQueue string       `json:"home_queue,omitempty"`
	Stop      *StopRequest `json:"stop,omitempty"` // somebody has stopped it
	// Began is when this life of the run began; the zero time means now.
	Began time.Time `json:"began,omitzero"`
}

// StopRequest is the signal to stop.
type StopRequest struct {
	Now bool `json:"now"`
}

// Run is the workflow that coordinates a run. Package cluster makes all its decisions.
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

// begin begins a life of the run: from then on, no other coordinator can record anything.
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

// run is one execution of the workflow.
type run struct {
	Input
	c     *cluster.Coordinator
	order *cluster.Order

	stopping, now bool
	wanted        bool                // a stop was requested
	inMap, asked  bool                // lanes are handed out; the map got a request
	late          bool                // the time of the run is over, and all workers know
	cancelHome    workflow.CancelFunc // of the home task, if there is one
	starting      map[int]bool        // leases whose lane has not started yet
	cancelled     map[int]bool        // leases whose lane was asked to end soon
	adopting      map[int]bool        // leases whose log is being read
	ended         []laneEnd
	under         int // operations in progress, which the next execution would not know of
	flushing      bool
	flushed       time.Time
	failed        error // why nothing more can be recorded
}

// life gives the life of the run; 0 before it has begun.
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

// once gives the options for an activity that is not started again automatically: what it
// has left is read first.
func once(queue string, heartbeat time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: 10 * 365 * 24 * time.Hour, HeartbeatTimeout: heartbeat,
		WaitForCancellation: true, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}
}

// short gives the options for an activity that may be repeated as often as needed.
func short() workflow.ActivityOptions {
	return workflow.ActivityOptions{TaskQueue: mainQueue, StartToCloseTimeout: 5 * time.Minute, HeartbeatTimeout: shortBeat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}}
}

// home has a worker do a home task. If that worker is gone, another one continues from what
// it has recorded.
func (r *run) home(ctx workflow.Context, t cluster.HomeTask) (done cluster.HomeDone, err error) {
	t.Run, t.Store, t.Life = r.Input.Run, r.Store, r.life()
	begun := false // the begin of the life is recorded already
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
		done = cluster.HomeDone{}
		if r.stopping {
			cancel()
			actx, _ = workflow.NewDisconnectedContext(ctx) // t.Halt or the store says that the run stops
		}
		t.Read = t.After && r.HomeQueue == "" && workflow.GetVersion(ctx, "read-first", workflow.DefaultVersion, 1) > workflow.DefaultVersion
		opt := once(laneQueue, beatOf(t))
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
		case err == nil && t.Read && done.Status == "":
			r.order.Accept(done.Prefix, workflow.Now(ctx))
			r.HomeQueue = done.Queue
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

// beatOf gives how long the worker of a home task may be silent.
func beatOf(t cluster.HomeTask) time.Duration {
	if t.Read {
		return readBeat
	}
	return homeBeat
}

// notStarted reports whether an activity ended because no worker began it.
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

// isOver reports whether a later life of the run has begun: then this one has nothing more
// to do or to record.
func isOver(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == lifeIsOver
}

// reason gives the activity's own text for its failure, without what Temporal adds.
func reason(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return strings.TrimSpace(err.Error())
}

// lanes runs the map by handing out lanes.
func (r *run) lanes(ctx workflow.Context) error {
	if r.Coordinator != nil { // what the execution before has not recorded yet
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
	r.asked = false
	happened := func() bool { return len(r.ended) > 0 || r.stopping != was || r.asked || r.failed != nil }
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

// settle processes the ends of leases.
func (r *run) settle(ctx workflow.Context) error {
	for len(r.ended) > 0 {
		e := r.ended[0]
		r.ended = r.ended[1:]
		if e.Life != r.life() {
			continue // from an earlier life
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
		case laneBroken: // it ran only what its log says
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
	r.asked = true
	if q.Do == journal.Pause {
		r.cancelAll(ctx)
	}
	return nil
}

// cancelAll asks all workers of the run to end soon.
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

// signals receives the signal to stop, and tells all workers of the run.
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

// wish gives whether the run is to stop; the zero Stop if not.
func (r *run) wish() (cluster.Stop, error) {
	if !r.wanted {
		return cluster.Stop{}, nil
	}
	return cluster.Stop{Life: r.life(), Now: r.now}, nil
}

// endLanes asks the workers of the run to end their work, immediately or within its grace:
// this reaches them sooner than through the server.
func (r *run) endLanes(ctx workflow.Context, now bool) {
	if r.life() == 0 {
		return // no worker has begun yet
	}
	s := cluster.Stop{Life: r.life(), Now: now}
	opt := short()
	opt.ScheduleToCloseTimeout = stopTries
	_ = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opt), stopActivity, r.Input.Run, r.Store, s).Get(ctx, nil) // the server tells the workers that this does not reach
}

// flush writes all decisions to the store.
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

// flushSoon writes decisions to the store a moment later, without waiting for it. Then it
// writes the decisions that were made in the meantime, because nothing else may happen for
// hours.
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
		_ = r.record(ctx) // it is tried until it is done; otherwise r.failed says why
		if r.failed == nil && !r.flushing && len(r.order.Pending) > 0 && workflow.GetVersion(ctx, "flush-again", workflow.DefaultVersion, 1) > workflow.DefaultVersion {
			r.flushSoon(ctx)
		}
	})
}

// handOver continues as a new execution. Lanes keep working. Requests to the server are
// completed first, because the server drops the requests of an execution that has ended.
// Signals are all received first, because the next execution gets only signals that the
// server has not delivered yet. A signal that comes at this moment is delivered first: then
// the server makes the execution decide again.
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
