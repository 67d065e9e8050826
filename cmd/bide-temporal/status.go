package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// standing is what Temporal knows about a run.
type standing struct {
	Run  string `json:"run"`
	Word string `json:"word"` // running, closed or none
	// Version is the version of the workers on which the run stays; "" means any worker
	// that takes its work.
	Version string `json:"version,omitempty"`
	// Trouble is what holds up the run and the store does not say, because the store cannot
	// be written or nobody is there to write it; "" if nothing does.
	Trouble string `json:"trouble,omitempty"`
}

func status(runs []string) error {
	return withClient(func(ctx context.Context, c client.Client) error {
		list, err := standings(ctx, c, runs)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(list)
	})
}

// standings gives what Temporal knows about runs.
func standings(ctx context.Context, c client.Client, runs []string) ([]standing, error) {
	key, err := newCrypt(os.Getenv(KeyFile))
	if err != nil {
		return nil, err
	}
	list := make([]standing, len(runs))
	var all *seenWorkers // the workers, read once for all runs
	for i, run := range runs {
		s := &list[i]
		s.Run = run
		d, err := c.DescribeWorkflowExecution(ctx, WorkflowID(run), "")
		switch {
		case errors.As(err, new(*serviceerror.NotFound)):
			s.Word = "none"
			continue
		case err != nil:
			return nil, err
		case d.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
			s.Word = "closed"
			if err := c.GetWorkflow(ctx, WorkflowID(run), "").Get(ctx, nil); err != nil {
				s.Trouble = failureText(err)
			}
			continue
		}
		s.Word = "running"
		if all == nil {
			w, err := seenWorkersOf(ctx, c)
			if err != nil {
				return nil, err
			}
			all = &w
		}
		s.Version = pinnedTo(d.WorkflowExecutionInfo.GetVersioningInfo())
		alone := all.nobody(s.Version)
		if s.Trouble = failing(d, failures(key)); s.Trouble == "" && alone != "" && !heard(d, time.Now()) {
			lately, err := laneHeard(ctx, c, run)
			if err == nil && !lately {
				lately, err = worked(ctx, c, run)
			}
			if err != nil {
				return nil, err
			}
			if !lately {
				s.Trouble = alone
			}
		}
	}
	return list, nil
}

// seen is how long ago a present worker last asked for work, at most: it asks for a minute,
// and then again.
const seen = 75 * time.Second

// nobody says that no worker is present for a run. pinned is the version on which the run
// stays; "" for a run that goes to the version on which runs begin. If a worker is present,
// it gives "".
func (w seenWorkers) nobody(pinned string) string {
	has := func(version string) bool {
		return slices.ContainsFunc(w.list, func(s cluster.SeenWorker) bool { return s.Version == version })
	}
	versioned := slices.IndexFunc(w.list, func(s cluster.SeenWorker) bool { return s.Version != "" })
	switch {
	case pinned != "" && !has(pinned):
		return fmt.Sprintf("no worker has version %s, on which the run stays: %s, or move the run to another version (bide docs cluster)", pinned, startAs(pinned))
	case pinned != "" || has(w.current) || has(w.ramping):
		return ""
	case w.current != "":
		return fmt.Sprintf("no worker has version %s, on which runs begin: %s, or make another version current (bide docs cluster)", w.current, startAs(w.current))
	case versioned >= 0:
		return fmt.Sprintf("no version of the workers is current: %s, or %s", makeCurrent(w.list[versioned].Version), startAs(""))
	}
	return fmt.Sprintf("no worker takes work of protocol %d (the queue %s): start bide worker there, or one of this version", cluster.Protocol, mainQueue)
}

// heard reports whether a worker that is running the run has been heard of. Soon after a
// start of the server, perhaps no worker has asked for more work yet.
func heard(d *workflowservice.DescribeWorkflowExecutionResponse, now time.Time) bool {
	for _, p := range d.PendingActivities {
		if p.State != enums.PENDING_ACTIVITY_STATE_STARTED {
			continue
		}
		for _, t := range []*timestamppb.Timestamp{p.LastHeartbeatTime, p.LastStartedTime} {
			if t != nil && now.Sub(t.AsTime()) < seen {
				return true
			}
		}
	}
	return false
}

// laneHeard is heard for the lanes of a run, according to a few of them.
func laneHeard(ctx context.Context, c client.Client, run string) (bool, error) {
	lanes, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 10, Query: lanesOf(run)})
	if err != nil {
		return false, err
	}
	for _, e := range lanes.Executions {
		if d, err := c.DescribeWorkflowExecution(ctx, e.Execution.WorkflowId, ""); err == nil && heard(d, time.Now()) { // the lane may have ended
			return true, nil
		}
	}
	return false, nil
}

// lanesOf is a query for the lanes of a run that have not ended.
func lanesOf(run string) string {
	return fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '%s-'", laneType, WorkflowID(run))
}

// worked reports whether a worker has reported something for a run lately, according to the
// end of the run's history.
func worked(ctx context.Context, c client.Client, run string) (bool, error) {
	opt, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return false, err
	}
	h, err := c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: cmp.Or(opt.Namespace, client.DefaultNamespace), Execution: &common.WorkflowExecution{WorkflowId: WorkflowID(run)}, MaximumPageSize: 50})
	if err != nil {
		return false, err
	}
	for _, e := range h.GetHistory().GetEvents() {
		switch e.EventType {
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			return time.Since(e.EventTime.AsTime()) < seen, nil
		}
	}
	return false, nil
}

// failing says which short activity is tried again and again.
func failing(d *workflowservice.DescribeWorkflowExecutionResponse, fc converter.FailureConverter) string {
	for _, p := range d.PendingActivities {
		if p.LastFailure == nil || p.Attempt < 2 {
			continue
		}
		what := ""
		switch p.ActivityType.GetName() {
		case beginActivity:
		case recordActivity, stopActivity:
			what = "the store cannot be written: "
		case adoptActivity, adoptHome:
			what = "the store cannot be read: "
		default:
			continue
		}
		err := fc.FailureToError(p.LastFailure)
		if errors.As(err, new(*temporal.TimeoutError)) {
			return "a worker does not answer: another one does what it was to do"
		}
		return what + failureText(err)
	}
	return ""
}

// failureText gives the text of a failure. Without the key, the SDK has a text of its own
// for a failure that it cannot read.
func failureText(err error) string {
	text := strings.TrimSpace(reason(err))
	if text == "Encoded failure" {
		return errSealed.Error()
	}
	return text
}

// control asks the map of a run to do something, and reports its answer.
func control(run string) error {
	var q cluster.Control
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&q); err != nil {
		return fmt.Errorf("what run %s is to do: %w", run, err)
	}
	return withClient(func(ctx context.Context, c client.Client) error {
		h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: WorkflowID(run), UpdateName: controlUpdate, Args: []any{q},
			WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = h.Get(ctx, nil)
		}
		switch {
		case errors.As(err, new(*serviceerror.NotFound)):
			return fmt.Errorf("Temporal has no running run %s", run)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("no worker took what run %s is to do within %v; `bide show` tells what holds it up", run, patience)
		case err != nil:
			return fmt.Errorf("run %s: %s", run, reason(err))
		}
		return nil
	})
}
