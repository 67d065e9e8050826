package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"go.temporal.io/sdk/workflow"
)

// TestVersionOf: a version has a deployment and a build, or there is none.
func TestVersionOf(t *testing.T) {
	for _, c := range []struct{ name, build, want string }{
		{"", "", ""},
		{"night", "b1", "night:b1"},
		{"night", "", "TEMPORAL_WORKER_BUILD_ID is not"},
		{"", "b1", "TEMPORAL_DEPLOYMENT_NAME is not"},
		{"n.b", "b1", "a Temporal server takes no name with a dot or a colon"},
		{"n:b", "b1", "a Temporal server takes no name with a dot or a colon"},
	} {
		env := map[string]string{deploymentVariable: c.name, buildVariable: c.build}
		o, err := versionOf(func(name string) string { return env[name] })
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case o.UseVersioning && o.DefaultVersioningBehavior == workflow.VersioningBehaviorPinned:
			got = o.Version.DeploymentName + ":" + o.Version.BuildID
		}
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q, %q: %q", c.name, c.build, got)
		}
	}
}

// TestNobody: a run is held up where none of the workers that are there has the version
// that gets its work, and the sentence names that version and what to do.
func TestNobody(t *testing.T) {
	const none, b1, b2 = "", "night:b1", "night:b2"
	for _, c := range []struct {
		have                     []string
		current, ramping, pinned string
		want                     string
	}{
		{nil, none, none, none, "no worker takes work of protocol"},
		{[]string{none}, none, none, none, ""},
		{[]string{b1}, b1, b1, none, ""},
		{[]string{b1}, b2, b1, none, ""},
		{[]string{b1, b2}, b2, b2, b1, ""},
		{[]string{b2}, b2, b2, b1, "no worker has version night:b1, on which the run stays: start bide worker with TEMPORAL_DEPLOYMENT_NAME=night TEMPORAL_WORKER_BUILD_ID=b1, or move"},
		{nil, b2, b2, b1, "no worker has version night:b1, on which the run stays"},
		{[]string{b1, none}, b2, b2, none, "no worker has version night:b2, on which runs begin: start bide worker with"},
		{[]string{b1}, none, none, none, "no version of the workers is current: temporal worker deployment set-current-version --deployment-name night --build-id b1, or start bide worker without"},
	} {
		w := seenWorkers{current: c.current, ramping: c.ramping}
		for _, v := range c.have {
			w.list = append(w.list, cluster.SeenWorker{Version: v})
		}
		if got := w.nobody(c.pinned); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

const versioned = `
name: versioned
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        echo "$TEMPORAL_WORKER_BUILD_ID" >> ran-$BIDE_RUN
        if [ "$BIDE_ITEM" = i20 ]; then until test -e go-$BIDE_RUN; do sleep 0.05; done; fi
reduce:
  - shell: echo "$TEMPORAL_WORKER_BUILD_ID" >> ran-$BIDE_RUN
`

// build starts a worker of a build of the deployment "night".
func (s *site) build(id string) *exec.Cmd {
	s.t.Helper()
	plain := s.env
	defer func() { s.env = plain }()
	s.env = append(s.env, deploymentVariable+"=night", buildVariable+"="+id, "BIDE_TEST_EVENTS=100")
	return s.worker(2)
}

// temporal runs Temporal's own program.
func (s *site) temporal(args ...string) error {
	s.t.Helper()
	program, err := serverProgram()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, append(args, "--address", s.address)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("temporal %v: %w\n%s", args, err, out)
	}
	return err
}

// current has runs begin on a build, once the server knows of both of its queues.
func (s *site) current(build string) {
	s.t.Helper()
	s.wait("the queues of "+build, func() bool {
		return s.temporal("worker", "deployment", "set-current-version", "--deployment-name", "night", "--build-id", build, "-y") == nil
	})
}

// begin starts a run, and gives its id.
func (s *site) begin() string {
	s.t.Helper()
	var known = map[string]bool{}
	runs := filepath.Join(s.root, "store", "runs", "*")
	list := func() []string { names, _ := filepath.Glob(runs); return names } // the pattern is right
	for _, path := range list() {
		known[path] = true
	}
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	for _, path := range list() {
		if !known[path] {
			return filepath.Base(path)
		}
	}
	s.t.Fatal("no run has begun")
	return ""
}

// trouble is what holds up a run.
func (s *site) trouble(run string) string {
	for _, r := range s.state().Runs {
		if r.Run == run {
			return r.Trouble
		}
	}
	return ""
}

// ranOn counts the items and steps of a run by the build that ran them.
func (s *site) ranOn(run string) map[string]int {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "ran-"+run))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	by := map[string]int{}
	for _, build := range strings.Fields(string(text)) {
		by[build]++
	}
	return by
}

// letGo lets an item end that waits for it.
func (s *site) letGo(run string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "go-"+run), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// TestVersions: runs wait until a version is current; one that has begun stays on its
// version, also after its coordinator has continued as a new execution, when another
// version has become current, on which the next run begins. One whose version no worker has
// is held up, and continues where it is moved to another.
func TestVersions(t *testing.T) {
	t.Parallel()
	const items = 60
	s := newSite(t, versioned, items)
	s.build("b1")
	first := s.begin()
	s.wait("the word that no version is current", func() bool { return strings.Contains(s.trouble(first), "no version of the workers is current") })
	s.current("b1")
	s.wait("the first items", func() bool { return s.ranOn(first)["b1"] > 20 })
	second := s.build("b2")
	s.current("b2")
	next := s.begin()
	s.wait("items of the next run", func() bool { return s.ranOn(next)["b2"] > 20 })
	s.letGo(first)
	s.wait("the end of the first run", func() bool { return s.summaryOf(first).Status != event.Running })
	if sum, by := s.summaryOf(first), s.ranOn(first); sum.Status != event.Succeeded || len(by) != 1 || by["b1"] != items+1 {
		t.Errorf("%s, %v", sum.Status, by)
	}
	c := s.client()
	d, err := c.DescribeWorkflowExecution(t.Context(), WorkflowID(first), "")
	if err != nil {
		t.Fatal(err)
	}
	if i := d.WorkflowExecutionInfo; i.FirstRunId == i.Execution.RunId || pinnedTo(i.VersioningInfo) != "night:b1" {
		t.Errorf("it is not continued on its version: %v", i)
	}
	for _, e := range s.eventsOf(c, WorkflowID(first), "") { // the worker that did the setup is found for the reduce
		if a := e.GetActivityTaskTimedOutEventAttributes(); a != nil {
			t.Errorf("an activity timed out: %v", a)
		}
	}
	c.Close()
	versions := map[string]int{}
	st := s.state()
	for _, w := range st.Workers {
		versions[w.Version]++
	}
	// The first run may be in the list for a moment longer.
	at := slices.IndexFunc(st.Runs, func(r cluster.SeenRun) bool { return r.Run == next })
	if fmt.Sprint(versions) != "map[night:b1:1 night:b2:1]" || st.Current != "night:b2" || at < 0 || st.Runs[at].Version != "night:b2" {
		t.Errorf("%+v", st)
	}
	s.end(second)
	s.wait("the word that no worker has the version", func() bool {
		return strings.HasPrefix(s.trouble(next), "no worker has version night:b2, on which the run stays: start bide worker with TEMPORAL_DEPLOYMENT_NAME=night TEMPORAL_WORKER_BUILD_ID=b2")
	})
	err = s.temporal("workflow", "update-options", "--query", "ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '"+WorkflowID(next)+"'",
		"--versioning-override-behavior", "pinned", "--versioning-override-deployment-name", "night", "--versioning-override-build-id", "b1", "-y")
	if err != nil {
		t.Fatal(err)
	}
	s.letGo(next)
	s.wait("the end of the next run", func() bool { return s.summaryOf(next).Status != event.Running })
	if sum, by := s.summaryOf(next), s.ranOn(next); sum.Status != event.Succeeded || sum.Items.Succeeded != items || len(by) != 2 || by["b1"] == 0 || by["b2"] <= 20 {
		t.Errorf("%+v, %v", sum, by)
	}
}

// TestTheFirstVersion: a run that began on workers without a version continues on the
// version that becomes current, and stays on it.
func TestTheFirstVersion(t *testing.T) {
	t.Parallel()
	const items = 60
	s := newSite(t, versioned, items)
	s.env = append(s.env, "BIDE_TEST_EVENTS=100") // of all workers: one that hands over sooner decides otherwise
	plain := s.worker(2)
	run := s.begin()
	s.wait("the first items", func() bool { return s.lines("ran-"+run) > 5 })
	s.build("b1")
	s.current("b1")
	s.letGo(run)
	if err := plain.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := plain.Wait(); err != nil {
		t.Error(err)
	}
	s.wait("the end", func() bool { return s.summaryOf(run).Status != event.Running })
	if sum, by := s.summaryOf(run), s.ranOn(run); sum.Status != event.Succeeded || sum.Items.Succeeded != items || by["b1"] == 0 {
		t.Errorf("%+v, %v", sum, by)
	}
	c := s.client()
	defer c.Close()
	d, err := c.DescribeWorkflowExecution(t.Context(), WorkflowID(run), "")
	if err != nil {
		t.Fatal(err)
	}
	if v := pinnedTo(d.WorkflowExecutionInfo.VersioningInfo); v != "night:b1" {
		t.Errorf("it stays on %q", v)
	}
}

// TestHalfAVersion: a worker with a half of a version refuses to start.
func TestHalfAVersion(t *testing.T) {
	t.Setenv(buildVariable, "b1")
	t.Setenv(deploymentVariable, "")
	if err := work("1", nil); err == nil || !strings.Contains(err.Error(), deploymentVariable+" is not: a version of a worker has both; set it too, or none of them") {
		t.Error(err)
	}
}
