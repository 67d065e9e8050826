package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// activities are the activities of workers.
type activities struct {
	worker *cluster.Worker
	// heartbeat tells the server that an activity is alive.
	heartbeat func(ctx context.Context, token []byte) error
	// wish asks the coordinator of a run whether the run is to stop.
	wish func(ctx context.Context, run string) (cluster.Stop, error)
	// signal reports something about a lane to the coordinator of its run.
	signal func(ctx context.Context, run string, e laneEnd) error
}

// beatEvery is the greatest time between two heartbeats; a provider may charge for each.
const beatEvery = 5 * time.Second

func registerMain(w worker.Registry, a *activities) {
	w.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: workflowType})
	w.RegisterWorkflowWithOptions(Lane, workflow.RegisterOptions{Name: laneType})
	w.RegisterActivityWithOptions(a.adopt, activity.RegisterOptions{Name: adoptActivity})
	w.RegisterActivityWithOptions(a.adoptHome, activity.RegisterOptions{Name: adoptHome})
	w.RegisterActivityWithOptions(a.begin, activity.RegisterOptions{Name: beginActivity})
	w.RegisterActivityWithOptions(a.record, activity.RegisterOptions{Name: recordActivity})
	w.RegisterActivityWithOptions(a.stop, activity.RegisterOptions{Name: stopActivity})
}

func registerLanes(w worker.Registry, a *activities) {
	w.RegisterActivityWithOptions(a.lane, activity.RegisterOptions{Name: laneActivity})
	w.RegisterActivityWithOptions(a.home, activity.RegisterOptions{Name: homeActivity})
}

func (a *activities) lane(ctx context.Context, l cluster.Lease) (cluster.Settled, error) {
	ctx, drain, end := a.alive(ctx, l.Run, l.Heartbeat)
	defer end()
	var telling sync.WaitGroup
	defer telling.Wait()
	tell, over := context.WithCancel(ctx)
	defer over()
	info := activity.GetInfo(ctx)
	ended := a.worker.Work.Lease(info.StartedTime.Sub(info.ScheduledTime)) // both times are by the server's clock
	out, err := a.worker.Lane(ctx, l, drain, func(first int) { telling.Go(func() { a.slow(tell, l, first) }) })
	ended(outcomeOf(err))
	return out, final(err)
}

// outcomeOf gives how a lease ended on its worker, in the words for ends of lanes.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return laneSettled
	case errors.As(err, new(*cluster.SupersededError)):
		return laneOver
	case errors.Is(err, context.Canceled):
		return laneLost // the server gave the lease up, and another worker has its items
	}
	return laneBroken
}

// slow reports to a run how many items a lane keeps whose present item takes longer than
// its lease. It tries until the run knows, or the lane has ended: most do within a second,
// and then nothing is reported. A call is not cut short, as a server may take that badly.
func (a *activities) slow(ctx context.Context, l cluster.Lease, first int) {
	for try := 1; (clock.Machine{}).Wait(ctx, cluster.HoldOf(try), nil) == nil; try++ {
		err := a.signal(context.WithoutCancel(ctx), l.Run, laneEnd{Life: l.Life, Lease: l.ID, How: laneSlow, Keep: first})
		if err == nil || errors.As(err, new(*serviceerror.NotFound)) {
			return
		}
	}
}

func (a *activities) home(ctx context.Context, t cluster.HomeTask) (cluster.HomeDone, error) {
	if activity.GetInfo(ctx).TaskQueue == laneQueue { // on the worker's own queue, the task takes none of its slots
		defer a.worker.Work.Slot()()
	}
	ctx, _, end := a.alive(ctx, t.Run, beatOf(t))
	defer end()
	out, err := a.worker.Home(ctx, t)
	return out, final(err)
}

func (a *activities) adopt(ctx context.Context, l cluster.Lease) (cluster.Settled, error) {
	_, _, end := a.alive(ctx, "", shortBeat)
	defer end()
	return a.worker.Adopt(l)
}

func (a *activities) adoptHome(ctx context.Context, t cluster.HomeTask) (cluster.HomeLeft, error) {
	_, _, end := a.alive(ctx, "", shortBeat)
	defer end()
	return a.worker.AdoptHome(t)
}

// begin begins a life of a run. Its owner is the workflow, however often this is tried.
func (a *activities) begin(ctx context.Context, run, store string) (cluster.Order, error) {
	owner := activity.GetInfo(ctx).WorkflowExecution.RunID
	_, _, end := a.alive(ctx, "", shortBeat)
	defer end()
	s, err := a.worker.Open(store)
	if err != nil {
		return cluster.Order{}, err
	}
	o, err := s.Run(run).Begin(owner, time.Now())
	return o, overOr(err)
}

func (a *activities) record(ctx context.Context, run, store string, e cluster.Entry) error {
	_, _, end := a.alive(ctx, "", shortBeat)
	defer end()
	info, began := activity.GetInfo(ctx), time.Now()
	s, err := a.worker.Open(store)
	if err == nil {
		err = s.Run(run).Record(e)
	}
	a.worker.Work.Recorded(info.StartedTime.Sub(info.ScheduledTime)+time.Since(began), classOf(err))
	return overOr(err)
}

// classOf gives the class of an error of the store; "" for other errors.
func classOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*cluster.SupersededError)):
		return lifeIsOver
	}
	return storeFails
}

func (a *activities) stop(ctx context.Context, run, store string, q cluster.Stop) error {
	_, _, end := a.alive(ctx, "", shortBeat)
	defer end()
	s, err := a.worker.Open(store)
	if err != nil {
		return err
	}
	return s.Run(run).PutStop(q)
}

// The types of errors of activities.
const (
	plainError = "bide"
	storeFails = "store" // the store cannot be written
	lifeIsOver = "over"  // a later life of the run has begun
)

// overOr gives an error that is tried again, unless the life of the run is over.
func overOr(err error) error {
	if errors.As(err, new(*cluster.SupersededError)) {
		return temporal.NewNonRetryableApplicationError(err.Error(), lifeIsOver, nil)
	}
	return err
}

// final gives an error that the coordinator gets without further tries. Its text is short
// because it goes into the history.
func final(err error) error {
	if err == nil {
		return nil
	}
	kind := plainError
	switch {
	case cluster.StoreFails(err):
		kind = storeFails
	case errors.As(err, new(*cluster.SupersededError)):
		kind = lifeIsOver
	}
	return temporal.NewNonRetryableApplicationError(diag.ClipBytes(err.Error(), 1000), kind, nil)
}

// alive sends heartbeats for an activity until end is called. It sends them itself, with
// the activity's token: the SDK ends an activity if it cannot reach the server for a
// moment, but running items must survive a restart of the server. drain is closed when the
// activity is to end soon: it was asked to, the worker leaves, or no heartbeat was received
// for so long that the server will soon give it up. The context ends when the server has
// given it up. If the activity was asked to end, run may be stopping; the store usually
// says so sooner, but not if it is full. run is "" for an activity that does not stop with
// a run.
func (a *activities) alive(ctx context.Context, run string, timeout time.Duration) (_ context.Context, drain <-chan struct{}, end func()) {
	return a.beats(context.WithoutCancel(ctx), activity.GetInfo(ctx).TaskToken, activity.GetWorkerStopChannel(ctx), run, timeout)
}

// beats is alive for a token. The server counts from the last heartbeat that it received,
// so no call may take so long that drain is closed after the server has given the activity
// up.
func (a *activities) beats(ctx context.Context, token []byte, leave <-chan struct{}, run string, timeout time.Duration) (_ context.Context, drain <-chan struct{}, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ask := func() { once.Do(func() { close(ch) }) }
	silent := time.AfterFunc(timeout*4/5, ask)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(min(beatEvery, timeout/6))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-leave:
				leave = nil
				ask()
			case <-tick.C:
			}
			sent := time.Now()
			rpc, stop := context.WithTimeout(ctx, 5*time.Second)
			err := a.heartbeat(rpc, token)
			asked := errors.As(err, new(*temporal.CanceledError))
			if asked && run != "" {
				if s, err := a.wish(rpc, run); err == nil && s.Life > 0 {
					a.worker.Tell(run, s)
				}
			}
			stop()
			switch {
			case err == nil:
				silent.Reset(time.Until(sent.Add(timeout * 4 / 5)))
			case asked:
				ask()
			case errors.As(err, new(*serviceerror.NotFound)):
				cancel() // another worker has its items now
				return
			}
		}
	})
	return ctx, ch, func() { close(done); silent.Stop(); wg.Wait(); cancel() }
}

// wishes gives the function wish for a client.
func wishes(c client.Client) func(context.Context, string) (cluster.Stop, error) {
	return func(ctx context.Context, run string) (s cluster.Stop, err error) {
		v, err := c.QueryWorkflow(ctx, WorkflowID(run), "", stopQuery)
		if err == nil {
			err = v.Get(&s)
		}
		return s, err
	}
}

// signals gives the function signal for a client.
func signals(c client.Client) func(context.Context, string, laneEnd) error {
	return func(ctx context.Context, run string, e laneEnd) error {
		return c.SignalWorkflow(ctx, WorkflowID(run), "", laneSignal, e)
	}
}

// heartbeats gives the function heartbeat for a client.
func heartbeats(c client.Client) func(context.Context, []byte) error {
	return func(ctx context.Context, token []byte) error { return c.RecordActivityHeartbeat(ctx, token) }
}
