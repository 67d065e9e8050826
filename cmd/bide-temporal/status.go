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

// standing is what Temporal knows of a run.
type standing struct {
	Run  string `json:"run"`
	Word string `json:"word"` // running, closed or none
	// Version is that of the workers on which it stays; "" is any that takes its work.
	Version string `json:"version,omitempty"`
	// Trouble is what holds it up that the store does not tell, as it cannot be
	// written or as there is nobody who would; "" is nothing.
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

// standings are what Temporal knows of runs.
func standings(ctx context.Context, c client.Client, runs []string) ([]standing, error) {
	key, err := newCrypt(os.Getenv(KeyFile))
	if err != nil {
		return nil, err
	}
	list := make([]standing, len(runs))
	var all *crew // what they have in common
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
				s.Trouble = told(err)
			}
			continue
		}
		s.Word = "running"
		if all == nil {
			w, err := crewOf(ctx, c)
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

// seen is how long ago a worker that is there asked for work at the most: it asks for
// a minute, and then again.
const seen = 75 * time.Second

// nobody says that no worker is there for a run that stays on a version, or for one that
// stays on none, "", and goes where runs begin; "" where a worker is.
func (w crew) nobody(pinned string) string {
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

// heard reports whether the run was heard of by a worker that is at work for it: of a
// server that has just started, nobody may have asked for more work yet.
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

// laneHeard is heard of the lanes of a run, as far as a few of them tell.
func laneHeard(ctx context.Context, c client.Client, run string) (bool, error) {
	lanes, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 10, Query: lanesOf(run)})
	if err != nil {
		return false, err
	}
	for _, e := range lanes.Executions {
		if d, err := c.DescribeWorkflowExecution(ctx, e.Execution.WorkflowId, ""); err == nil && heard(d, time.Now()) { // it may have ended
			return true, nil
		}
	}
	return false, nil
}

// lanesOf are the lanes of a run that have not ended, as a query.
func lanesOf(run string) string {
	return fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '%s-'", laneType, WorkflowID(run))
}

// worked reports whether a worker has told something of a run lately, as the end of its
// history says.
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
		return what + told(err)
	}
	return ""
}

// told is what a failure says here; without its key, the SDK says in its own words that
// it cannot be read.
func told(err error) string {
	text := strings.TrimSpace(reason(err))
	if text == "Encoded failure" {
		return errSealed.Error()
	}
	return text
}

// control has the map of a run do something, and tells what it said.
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
