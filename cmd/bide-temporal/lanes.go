package main

import (
	"errors"
	"slices"

	"github.com/bide-dev/bide/internal/cluster"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// A lane is a workflow of its own: a worker runs one lease for it, and then it signals to
// the run how the lease ended. A lane does not end with the execution of the run that began
// it. So a run whose history has become long continues immediately as a new execution,
// however long an item takes: the run's id stays the same, and the signal reaches the
// current execution.

// laneEnd is how a lane ended.
type laneEnd struct {
	Life  int             `json:"life"`
	Lease int             `json:"lease"`
	How   string          `json:"how"`
	Keep  int             `json:"keep,omitempty"` // how many items a slow lane keeps
	Out   cluster.Settled `json:"out,omitzero"`
	Why   string          `json:"why,omitempty"`
}

// The ways in which lanes end. If a lane was neither settled nor over, its log says what it
// has done.
const (
	laneSettled  = "settled"
	laneNotBegun = "not begun" // it was cancelled before it began
	laneLost     = "lost"      // its worker is gone
	laneBroken   = "broken"    // it could not work
	laneOver     = "over"      // a later life of the run has begun

	// laneSlow is no end: the present item of the lane takes longer than its lease, and the
	// lane gives back the items after it.
	laneSlow = "slow"
)

// howOf gives how a lane ended, from its error.
func howOf(err error) string {
	switch {
	case err == nil:
		return laneSettled
	case isOver(err):
		return laneOver
	case errors.As(err, new(*temporal.CanceledError)):
		return laneNotBegun
	case lost(err):
		return laneLost
	}
	return laneBroken
}

// Lane is the workflow of a lane.
func Lane(ctx workflow.Context, l cluster.Lease) error {
	end := laneEnd{Life: l.Life, Lease: l.ID}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, once(laneQueue, l.Heartbeat)), laneActivity, l).Get(ctx, &end.Out)
	if end.How = howOf(err); err != nil {
		end.Out, end.Why = cluster.Settled{}, reason(err)
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for try := 1; ; try++ {
		err := workflow.SignalExternalWorkflow(ctx, WorkflowID(l.Run), "", laneSignal, end).Get(ctx, nil)
		if err == nil || errors.As(err, new(*temporal.UnknownExternalWorkflowExecutionError)) {
			return nil // the run has ended, so nobody needs to know
		}
		if try == laneTries {
			return err
		}
		if err := workflow.Sleep(ctx, cluster.HoldOf(try)); err != nil {
			return err
		}
	}
}

// laneTries is how often a lane tries to report how it ended. A server accepts only so many
// signals for a run at once, and more only when the run has taken them.
const laneTries = 100

// lane starts the lane for a lease.
func (r *run) lane(ctx workflow.Context, l cluster.Lease) {
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: laneID(l), TaskQueue: mainQueue,
		ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON, WaitForCancellation: true}), laneType, l)
	if r.starting == nil {
		r.starting = map[int]bool{}
	}
	r.starting[l.ID] = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		delete(r.starting, l.ID)
		if err != nil {
			r.take(ctx, laneEnd{Life: l.Life, Lease: l.ID, How: laneBroken, Why: reason(err)})
			return
		}
		if err := child.Get(ctx, nil); err != nil {
			r.gone(ctx, l)
		}
	})
}

// cancelLane asks a lane to end soon, if it was not asked before.
func (r *run) cancelLane(ctx workflow.Context, l cluster.Lease) {
	if r.cancelled[l.ID] {
		return
	}
	if r.cancelled == nil {
		r.cancelled = map[int]bool{}
	}
	r.cancelled[l.ID] = true
	r.under++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { r.under-- }()
		if err := workflow.Await(ctx, func() bool { return !r.starting[l.ID] }); err != nil {
			return // the run has ended
		}
		if err := workflow.RequestCancelExternalWorkflow(ctx, laneID(l), "").Get(ctx, nil); err != nil {
			r.gone(ctx, l)
		}
	})
}

// gone ends a lease whose lane no longer exists: the lane has reported its end before, or
// somebody has terminated it.
func (r *run) gone(ctx workflow.Context, l cluster.Lease) {
	r.takeEnds(ctx, workflow.GetSignalChannel(ctx, laneSignal))
	_, open := r.c.Has(l.ID)
	if open && !slices.ContainsFunc(r.ended, func(e laneEnd) bool { return e.Life == l.Life && e.Lease == l.ID }) {
		r.take(ctx, laneEnd{Life: l.Life, Lease: l.ID, How: laneLost})
	}
}

// laneSignals receives the signals that say how lanes ended.
func (r *run) laneSignals(ctx workflow.Context) {
	ch := workflow.GetSignalChannel(ctx, laneSignal)
	for {
		var e laneEnd
		if !ch.Receive(ctx, &e) {
			return
		}
		r.take(ctx, e)
	}
}

// takeEnds receives those signals that have arrived.
func (r *run) takeEnds(ctx workflow.Context, ch workflow.ReceiveChannel) {
	for e := (laneEnd{}); ch.ReceiveAsync(&e); e = (laneEnd{}) {
		r.take(ctx, e)
	}
}

// take takes how a lane ended. If the lane does not say what it has done, its log is read.
func (r *run) take(ctx workflow.Context, e laneEnd) {
	if r.c == nil || e.Life != r.life() {
		return // from an earlier life
	}
	l, open := r.c.Has(e.Lease)
	if !open || r.adopting[e.Lease] {
		return
	}
	if e.How == laneSettled || e.How == laneOver || e.How == laneSlow {
		r.ended = append(r.ended, e)
		return
	}
	if r.adopting == nil {
		r.adopting = map[int]bool{}
	}
	r.adopting[e.Lease] = true
	r.under++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { r.under-- }()
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, short()), adoptActivity, l).Get(ctx, &e.Out)
		delete(r.adopting, e.Lease)
		if err != nil {
			r.failed = err
			return
		}
		r.ended = append(r.ended, e)
	})
}
