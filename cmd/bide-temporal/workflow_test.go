package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// The tests of this file run the workflow in the SDK's environment, which passes
// over waits, with the real activities on real files.

// place is a run in a store.
type place struct {
	t      *testing.T
	dir    string // where steps run
	home   *journal.Store
	store  cluster.Store
	run    string
	env    *testsuite.TestWorkflowEnvironment
	worker *cluster.Worker
}

func newPlace(t *testing.T, text string, items int) *place {
	t.Helper()
	return newPlaceOf(t, "flow.yml", text, items, nil)
}

func storeIn(t *testing.T, dir string) cluster.Store {
	t.Helper()
	s, err := cluster.OpenStore("dir:" + dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withoutServer leaves a test out where only those against a server are to run.
func withoutServer(t *testing.T) {
	t.Helper()
	if os.Getenv("BIDE_CLUSTER") != "" {
		t.Skip("left out with BIDE_CLUSTER: it needs no server")
	}
}

// newPlaceOf is newPlace of a file with a name, that of a pipeline perhaps, and with
// others beside it.
func newPlaceOf(t *testing.T, flow, text string, items int, files map[string]string) *place {
	t.Helper()
	return newPlaceIn(t, storeIn(t, filepath.Join(t.TempDir(), "store")), flow, text, items, files)
}

// newPlaceIn is newPlaceOf of a run in a store.
func newPlaceIn(t *testing.T, store cluster.Store, flow, text string, items int, files map[string]string) *place {
	t.Helper()
	withoutServer(t)
	root := t.TempDir()
	p := &place{t: t, dir: filepath.Join(root, "work"), store: store}
	var err error
	if p.home, err = journal.OpenStore(filepath.Join(root, "home")); err != nil {
		t.Fatal(err)
	}
	p.home.Refresh = cluster.Refresh(p.home)
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for i := range items {
		fmt.Fprintf(&list, "{\"id\": \"i%d\", \"n\": %d}\n", i, i)
	}
	all := map[string]string{"items.jsonl": list.String(), flow: text}
	maps.Copy(all, files)
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	opt := p.options(flow)
	if opt.Isolation == "worktree" {
		p.git("init", "-q", "-b", "main")
		p.git("config", "user.name", "Ada")
		p.git("config", "user.email", "ada@example.org")
		p.git("add", "-A")
		p.git("commit", "-q", "-m", "start")
	}
	h, err := engine.Plan(opt)
	if err != nil {
		t.Fatal(err)
	}
	p.run = h.Run
	plan := cluster.Plan{Protocol: cluster.Protocol, Header: h}
	shared, err := p.store.Create(plan)
	if err != nil {
		t.Fatal(err)
	}
	if opt.Isolation == "worktree" {
		repo, err := worktree.Open(t.Context(), p.dir)
		if err == nil {
			err = shared.PutGit(t.Context(), repo)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	j, err := cluster.Make(p.home, p.store, plan)
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := cluster.NewWorker(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	p.worker = w
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent())
	p.env = suite.NewTestWorkflowEnvironment()
	p.env.SetTestTimeout(5 * time.Minute) // of the machine, which may be busy
	// On a busy machine a workflow may have to wait for a processor for a second.
	p.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	p.env.SetDataConverter(payloads())
	p.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: WorkflowID(p.run), TaskQueue: mainQueue})
	a := &activities{worker: w, heartbeat: func(context.Context, []byte) error { return nil },
		wish:   func(context.Context, string) (cluster.Stop, error) { return cluster.Stop{}, nil },
		signal: func(_ context.Context, _ string, e laneEnd) error { p.env.SignalWorkflow(laneSignal, e); return nil }}
	registerMain(p.env, a)
	registerLanes(p.env, a)
	return p
}

// options are those of a run of a file of the place.
func (p *place) options(flow string) (opt engine.Options) {
	p.t.Helper()
	path := filepath.Join(p.dir, flow)
	if dataflow.IsPipeline(path) {
		pl, problems := dataflow.Load(path, "", os.ReadFile)
		if problems.HasErrors() {
			p.t.Fatal(problems)
		}
		opt.Pipeline = pl
	} else {
		f, problems := workflow.Load(path, workflow.Options{ToRun: true})
		if problems.HasErrors() {
			p.t.Fatal(problems)
		}
		opt.File = f
	}
	opt.Dir, opt.Isolation = p.dir, "none"
	if opt.File != nil && opt.File.Isolation == "worktree" {
		opt.Isolation = "worktree"
	}
	return opt
}

// git gives what git prints in the place.
func (p *place) git(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *place) input() Input {
	return Input{Run: p.run, Store: p.store.String()}
}

// result is what the workflow returned.
func (p *place) result() string {
	p.t.Helper()
	if !p.env.IsWorkflowCompleted() {
		p.t.Fatal("the workflow has not come to its end")
	}
	if err := p.env.GetWorkflowError(); err != nil {
		p.t.Fatal(err)
	}
	var status string
	if err := p.env.GetWorkflowResult(&status); err != nil {
		p.t.Fatal(err)
	}
	return status
}

// why is the message with which the run has ended.
func (p *place) why() string {
	p.t.Helper()
	r, err := p.home.Read(p.run)
	if err != nil {
		p.t.Fatal(err)
	}
	state, err := r.State(context.Background())
	if err = errors.Join(err, r.Close()); err != nil {
		p.t.Fatal(err)
	}
	return state.Message
}

func (p *place) summary() journal.Summary {
	p.t.Helper()
	r, err := p.home.Read(p.run)
	if err != nil {
		p.t.Fatal(err)
	}
	sum, err := r.Summary(context.Background())
	if err = errors.Join(err, r.Close()); err != nil {
		p.t.Fatal(err)
	}
	return sum
}

const slowRetry = `
name: waits
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        echo "$BIDE_ITEM" >> ran
        case "${item.n}-$BIDE_ATTEMPT" in 3-1) exit 7;; 5-*) exit 9;; esac
        echo "${item.n}"
  retry_config: {attempts: 2, backoff: fixed, initial_delay: 6h, max_delay: 6h}
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`

// TestWorkflow: a map whose items wait six hours for their second attempt comes to
// its end, and the mirror shows it as any run.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlace(t, slowRetry, 12)
	begin := p.env.Now()
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.CompletedWithFailures {
		t.Fatal(got)
	}
	if waited := p.env.Now().Sub(begin); waited < 6*time.Hour-time.Minute || waited > 7*time.Hour {
		t.Errorf("it took %v", waited)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "result")); err != nil || string(text) != "11 of 12\n" {
		t.Errorf("%q, %v", text, err)
	}
	if s := p.summary(); s.Status != event.CompletedWithFailures || s.Items.Succeeded != 11 || s.Items.DeadLettered != 1 {
		t.Errorf("%+v", s)
	}
}

// TestWithoutMap: a workflow without a map is run by one worker.
func TestWithoutMap(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "commands:\n  - shell: echo here > result\n", 0)
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.Succeeded {
		t.Fatal(got)
	}
	if s := p.summary(); s.Status != event.Succeeded || s.Steps.Succeeded != 1 {
		t.Errorf("%+v", s)
	}
}

// TestStopSignal: the signal ends the wait of a map; the run is interrupted, and its
// next life continues with what is left.
func TestStopSignal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, slowRetry, 12)
	p.env.RegisterDelayedCallback(func() { p.env.SignalWorkflow(stopSignal, StopRequest{}) }, time.Hour)
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.Interrupted {
		t.Fatal(got)
	}
	if s := p.summary(); s.Status != event.Interrupted || s.Items.Succeeded != 10 {
		t.Errorf("%+v", s)
	}
}

// TestLifeIsOver: while items wait, a later life of the run begins elsewhere. This one
// says so, and runs and records nothing more.
func TestLifeIsOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t, slowRetry, 12)
	var before []byte
	order := filepath.Join(p.store.Run(p.run).Path(), "order")
	entries := func() (n int) {
		list, err := os.ReadDir(order)
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	was := 0
	p.env.RegisterDelayedCallback(func() {
		o, err := p.store.Run(p.run).Begin("elsewhere", p.env.Now())
		if err != nil || o.Life != 2 {
			t.Errorf("%+v, %v", o, err)
		}
		was = entries()
		if before, err = os.ReadFile(filepath.Join(p.dir, "ran")); err != nil {
			t.Error(err)
		}
	}, time.Hour)
	p.env.ExecuteWorkflow(Run, p.input())
	err := p.env.GetWorkflowError()
	if !isOver(err) || !strings.Contains(reason(err), "life 1 of run "+p.run+" is over: life 2 has begun elsewhere") {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(filepath.Join(p.dir, "ran")); err != nil || string(after) != string(before) || len(after) == 0 {
		t.Errorf("ran: %q, then %q, %v", before, after, err)
	}
	if n := entries(); n != was {
		t.Errorf("%d entries, and %d before", n, was)
	}
}

// says counts the notes of the run with a text.
func (p *place) says(text string) (n int) {
	p.t.Helper()
	r, err := p.home.Read(p.run)
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Events(context.Background(), 1, journal.EventFilter{Types: []event.Type{event.Note, event.RunControlled}}) {
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.Contains(e.Message, text) {
			n++
		}
	}
	return n
}

// brokenFlow takes from its workers, before the map, what each of them needs for it.
const brokenFlow = `
name: broken
mode: mapreduce
secrets: {TOKEN: '${file:token}'}
setup:
  - shell: mv token away
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$TOKEN" | wc -c
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`

func newBroken(t *testing.T) (p *place, lanes *int) {
	t.Helper()
	p = newPlaceOf(t, "flow.yml", brokenFlow, 4, map[string]string{"token": "a-long-token"})
	lanes = new(int)
	p.env.SetOnActivityStartedListener(func(i *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if i.ActivityType.Name == laneActivity {
			*lanes++
		}
	})
	return p, lanes
}

// TestNoWorkerCan: a run that no worker can work for says so, tries less and less
// often, and continues by itself when one can.
func TestNoWorkerCan(t *testing.T) {
	t.Parallel()
	p, lanes := newBroken(t)
	p.env.RegisterDelayedCallback(func() {
		if err := os.Rename(filepath.Join(p.dir, "away"), filepath.Join(p.dir, "token")); err != nil {
			t.Error(err)
		}
	}, 10*time.Minute)
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.Failed && got != event.Succeeded {
		t.Fatal(got)
	}
	if s := p.summary(); s.Items.Succeeded != 4 {
		t.Errorf("%+v", s)
	}
	if *lanes > 60 {
		t.Errorf("%d lanes in ten minutes", *lanes)
	}
	for _, text := range []string{"a worker could not work: ", "no worker can work for this run: ", "workers can work for this run again"} {
		if n := p.says(text); n != 1 {
			t.Errorf("%q is told %d times", text, n)
		}
	}
}

// TestNoWorkerCanStop: such a run is stopped at once.
func TestNoWorkerCanStop(t *testing.T) {
	t.Parallel()
	p, _ := newBroken(t)
	p.env.RegisterDelayedCallback(func() { p.env.SignalWorkflow(stopSignal, StopRequest{}) }, 5*time.Minute)
	begin := p.env.Now()
	p.env.ExecuteWorkflow(Run, p.input())
	// It failed for want of the secret, as on one machine; a worker that was about to find
	// that out when the stop came has been interrupted.
	if got := p.result(); got != event.Failed && got != event.Interrupted {
		t.Fatal(got)
	}
	if s := p.summary(); s.Items.Succeeded != 0 {
		t.Errorf("%+v", s)
	}
	if took := p.env.Now().Sub(begin); took > 6*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// asks has the workflow do something after a time.
func (p *place) asks(after time.Duration, q cluster.Control) {
	p.env.RegisterDelayedCallback(func() { p.env.UpdateWorkflowNoRejection(controlUpdate, q.Do, p.t, q) }, after)
}

// TestControlUpdate: while a map is running, waits are ended, dead letters run again, and
// nothing begins while it is paused.
func TestControlUpdate(t *testing.T) {
	t.Parallel()
	p := newPlace(t, slowRetry, 12)
	begin := p.env.Now()
	p.asks(time.Hour, cluster.Control{Do: cluster.Requeue, Again: []cluster.Letter{{Index: 6, ID: "i5"}}})
	p.asks(2*time.Hour, cluster.Control{Do: journal.Pause})
	p.asks(3*time.Hour, cluster.Control{Do: journal.RetryNow})
	p.asks(4*time.Hour, cluster.Control{Do: journal.Continue})
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.CompletedWithFailures {
		t.Fatal(got)
	}
	if took := p.env.Now().Sub(begin); took < 4*time.Hour || took > 4*time.Hour+30*time.Minute {
		t.Errorf("it took %v", took)
	}
	if s := p.summary(); s.Items.Succeeded != 11 || s.Items.DeadLettered != 1 {
		t.Errorf("%+v", s)
	}
	if n := p.says("somebody asked for it: the run "); n != 3 {
		t.Errorf("%d requests are told", n)
	}
}
