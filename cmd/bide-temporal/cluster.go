package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// identity is the name by which the server knows a worker of this process.
func identity(slots int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "a machine"
	}
	return fmt.Sprintf("%s, process %d, slots: %d", host, os.Getpid(), slots)
}

// slotsOf splits a worker's identity into its name and its slots.
func slotsOf(identity string) (name string, slots int) {
	name, text, ok := strings.Cut(identity, ", slots: ")
	if _, err := fmt.Sscan(text, &slots); !ok || err != nil {
		return identity, 0
	}
	return name, slots
}

// seenWorkers are the workers that have asked for work of the protocol lately. They ask for
// short work also while all of their slots are taken.
type seenWorkers struct {
	list []cluster.SeenWorker
	// current is the version on which runs begin, and ramping is the version on which a
	// part of them begin: "" means workers without a version.
	current, ramping string
}

func seenWorkersOf(ctx context.Context, c client.Client) (w seenWorkers, err error) {
	by := map[string]cluster.SeenWorker{}
	for _, kind := range []enums.TaskQueueType{enums.TASK_QUEUE_TYPE_WORKFLOW, enums.TASK_QUEUE_TYPE_ACTIVITY} {
		q, err := c.DescribeTaskQueue(ctx, mainQueue, kind)
		if err != nil {
			return w, err
		}
		addWorkers(by, q.Pollers, time.Now())
		if kind == enums.TASK_QUEUE_TYPE_WORKFLOW {
			w.current = versionText(q.GetVersioningInfo().GetCurrentDeploymentVersion())
			w.ramping = w.current
			if q.GetVersioningInfo().GetRampingVersionPercentage() > 0 {
				w.ramping = versionText(q.GetVersioningInfo().GetRampingDeploymentVersion())
			}
		}
	}
	for _, name := range sortedNames(by) {
		w.list = append(w.list, by[name])
	}
	return w, nil
}

func addWorkers(by map[string]cluster.SeenWorker, pollers []*taskqueue.PollerInfo, now time.Time) {
	for _, p := range pollers {
		w := cluster.SeenWorker{Heard: p.LastAccessTime.AsTime(), Version: versionOfPoller(p.DeploymentOptions)}
		if w.Name, w.Slots = slotsOf(p.Identity); now.Sub(w.Heard) < seen && w.Heard.After(by[w.Name].Heard) {
			by[w.Name] = w
		}
	}
}

func sortedNames(by map[string]cluster.SeenWorker) (names []string) {
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// clusterState prints the state of workers and runs.
func clusterState() error {
	opt, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	s := cluster.State{Address: cmp.Or(opt.HostPort, client.DefaultHostPort), Namespace: cmp.Or(opt.Namespace, client.DefaultNamespace),
		Protocol: cluster.Protocol, Workers: []cluster.SeenWorker{}, Runs: []cluster.SeenRun{}}
	return withClient(func(ctx context.Context, c client.Client) error {
		all, err := seenWorkersOf(ctx, c)
		if err != nil {
			return err
		}
		s.Current = all.current
		for _, w := range all.list {
			s.Workers = append(s.Workers, w)
			s.Slots += w.Slots
		}
		q, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{Namespace: s.Namespace,
			TaskQueue: &taskqueue.TaskQueue{Name: laneQueue}, TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true})
		if err != nil {
			return err
		}
		s.Waiting, s.For = int(q.GetStats().GetApproximateBacklogCount()), q.GetStats().GetApproximateBacklogAge().AsDuration()
		if err := runsInProgress(ctx, c, &s); err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(s)
	})
}

// runsInProgress adds the runs in progress to s, the oldest first.
func runsInProgress(ctx context.Context, c client.Client, s *cluster.State) error {
	var ids []string
	for page := []byte(nil); ; {
		runs, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: s.Namespace, NextPageToken: page,
			Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflowType)})
		if err != nil {
			return err
		}
		for _, e := range runs.Executions {
			ids = append(ids, strings.TrimPrefix(e.Execution.WorkflowId, WorkflowID("")))
		}
		if page = runs.NextPageToken; len(page) == 0 {
			break
		}
	}
	slices.Sort(ids)
	standing, err := standings(ctx, c, ids)
	if err != nil {
		return err
	}
	for _, r := range standing {
		if r.Word != "running" {
			continue // it has ended in the meantime
		}
		first, err := firstOf(ctx, c, r.Run)
		if err != nil {
			return err
		}
		open, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: s.Namespace,
			Query: lanesOf(r.Run)})
		if err != nil {
			return err
		}
		s.Runs = append(s.Runs, cluster.SeenRun{Run: r.Run, Since: first, Leases: int(open.Count), Version: r.Version, Trouble: r.Trouble})
	}
	return nil
}

// firstOf gives when this life of a run began, on this server.
func firstOf(ctx context.Context, c client.Client, run string) (time.Time, error) {
	d, err := c.DescribeWorkflowExecution(ctx, WorkflowID(run), "")
	if err != nil {
		return time.Time{}, err
	}
	if id := d.WorkflowExecutionInfo.GetFirstRunId(); id != "" && id != d.WorkflowExecutionInfo.Execution.RunId {
		if f, err := c.DescribeWorkflowExecution(ctx, WorkflowID(run), id); err == nil { // otherwise the server no longer has it
			d = f
		}
	}
	return d.WorkflowExecutionInfo.StartTime.AsTime(), nil
}
