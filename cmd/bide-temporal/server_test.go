package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// The tests of this file run the programs as people do, against a real server.

// site is a server, workers, and a directory with a file to run.
type site struct {
	t                  *testing.T
	root, dir, address string
	env                []string
	server             *devServer
	home               *journal.Store
}

// newSite starts a server of the test's own. Where its program is not there, the
// test is left out, and says so.
func newSite(t *testing.T, text string, items int) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: it needs a server")
	}
	if _, err := serverProgram(); err != nil {
		t.Skipf("LEFT OUT: %v", err)
	}
	root := t.TempDir()
	s := &site{t: t, root: root, dir: filepath.Join(root, "work")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "bin")
	for _, dir := range []string{s.dir, bin} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bide", "bide-temporal"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	var list strings.Builder
	for i := range items {
		fmt.Fprintf(&list, "{\"id\": \"i%d\", \"n\": %d}\n", i, i)
	}
	for name, text := range map[string]string{"items.jsonl": list.String(), "flow.yml": text} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.address = lasting(t)
	s.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "BIDE_HOME="+filepath.Join(root, "home"),
		"BIDE_STORE=dir:"+filepath.Join(root, "store"), "TEMPORAL_ADDRESS="+s.address, "HOME="+root, "TMPDIR="+root)
	if s.home, err = journal.OpenStore(filepath.Join(root, "home")); err != nil {
		t.Fatal(err)
	}
	s.home.Refresh = cluster.Refresh(s.home)
	s.start()
	t.Cleanup(s.endServer)
	return s
}

// onlyLong leaves a test out of the short form.
func onlyLong(t *testing.T) {
	t.Helper()
	if os.Getenv("BIDE_CLUSTER") != "long" {
		t.Skip("left out of the short form: BIDE_CLUSTER=long")
	}
}

// ports is the last port that a test got.
var ports atomic.Int32

// lasting is an address for a server that may be started twice: no other
// program is given its port in between, because it lies below those that a system
// hands out by itself.
func lasting(t *testing.T) string {
	t.Helper()
	const first, last = 15000, 31000
	ports.CompareAndSwap(0, first+rand.Int32N((last-first)/2))
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports.Add(7)))
		if err != nil {
			continue // it is taken
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}

func (s *site) start() {
	s.t.Helper()
	var err error
	if s.server, err = serve(s.address, filepath.Join(s.root, "temporal.db")); err != nil {
		s.t.Fatal(err)
	}
}

// endServer kills the server.
func (s *site) endServer() {
	_ = s.server.Kill() // it may have ended
	<-s.server.ended
}

// end kills a process that the test has started.
func (s *site) end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // how it ended is known
}

// bide is the program, with its own group of processes.
func (s *site) bide(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.root, "bin", "bide"), args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// must runs the program, which has to end well, and gives what it prints.
func (s *site) must(args ...string) string {
	s.t.Helper()
	out, err := s.bide(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("bide %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// worker starts a worker and waits until it is ready.
func (s *site) worker(slots int, more ...string) *exec.Cmd {
	s.t.Helper()
	cmd := s.bide(append([]string{"worker", "--slots", fmt.Sprint(slots)}, more...)...)
	out, in, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = in
	if err := errors.Join(cmd.Start(), in.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.end(cmd) })
	said := make(chan string, 1) // up to its first word that it is ready, or to its end
	go func() {
		defer out.Close()
		var text bytes.Buffer
		b := make([]byte, 4096)
		for told := false; ; {
			n, err := out.Read(b)
			text.Write(b[:n])
			if !told && (err != nil || bytes.Contains(text.Bytes(), []byte(", ready\n"))) {
				told = true
				said <- text.String()
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case text := <-said:
		if !strings.Contains(text, ", ready\n") {
			s.t.Fatalf("the worker has ended: %s", text)
		}
	case <-time.After(patienceOfTests):
		s.t.Fatal("no sign of the worker")
	}
	return cmd
}

// patienceOfTests is how long a test waits for something that has to come.
const patienceOfTests = 10 * time.Minute

func (s *site) wait(what string, there func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patienceOfTests); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("no sign of %s", what)
		}
	}
}

// lines counts those of a file of the directory.
func (s *site) lines(name string) int {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// only is the one run that there is.
func (s *site) only() string {
	s.t.Helper()
	id, err := s.home.Find("")
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *site) summary() journal.Summary { return s.summaryOf(s.only()) }

func (s *site) summaryOf(run string) journal.Summary {
	s.t.Helper()
	r, err := s.home.Read(run)
	if err != nil {
		s.t.Fatal(err)
	}
	sum, err := r.Summary(context.Background())
	if err = errors.Join(err, r.Close()); err != nil {
		s.t.Fatal(err)
	}
	return sum
}

// TestCrashes: of two workers the one is killed that did the setup, and the server is killed
// and started again, while nobody follows the run. Every item is in the results exactly once,
// and only those that were in flight on the killed worker ran twice.
func TestCrashes(t *testing.T) {
	t.Parallel()
	const items, slots = 5000, 2
	s := newSite(t, `
name: crashes
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 4
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, items)
	first := s.worker(slots)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	begin := time.Now()
	s.wait("the first items", func() bool { return s.lines("ran") > 0 })
	s.worker(slots)
	s.wait("more items", func() bool { return s.lines("ran") > items/5 })
	s.end(first) // which keeps the copy of the run for what follows the map
	s.worker(slots)
	s.wait("half of the items", func() bool { return s.lines("ran") > items/2 })
	s.endServer()
	s.start()
	s.wait("the result", func() bool { return s.summary().Status != event.Running })
	took := time.Since(begin)
	sum := s.summary()
	if sum.Status != event.Succeeded || sum.Items.Succeeded != items {
		t.Errorf("%+v\n%s", sum, s.must("events", s.only()))
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != fmt.Sprintf("%d of %d\n", items, items) {
		t.Errorf("%q, %v", text, err)
	}
	s.keepHistory("reads-first")
	s.once(items)
	again := s.lines("ran") - items
	t.Logf("%d items in %.1f s, %d ran twice", items, took.Seconds(), again)
	if again < 0 || again > slots {
		t.Errorf("%d items ran twice, with %d lanes killed", again, slots)
	}
}

// once has each of so many items end exactly once, and gives how many were begun
// more than once.
func (s *site) once(items int) (again int) {
	s.t.Helper()
	ends := make([]uint8, items+1)
	r, err := s.home.Read(s.only())
	if err != nil {
		s.t.Fatal(err)
	}
	begun := 0
	for e, err := range r.Events(context.Background(), 1, journal.EventFilter{Types: []event.Type{event.ItemStarted, event.ItemFinished}}) {
		switch {
		case err != nil:
			s.t.Fatal(err)
		case e.Type == event.ItemStarted:
			begun++
		case e.Status != event.Interrupted:
			ends[e.Index]++
		}
	}
	if err := r.Close(); err != nil {
		s.t.Fatal(err)
	}
	for index, n := range ends[1:] {
		if n != 1 {
			s.t.Errorf("item %d ends %d times", index+1, n)
		}
	}
	return begun - items
}

// TestInterrupt: an interrupt of the program that follows a run stops it, as it would
// on this machine: what runs may end, the exit status is 130, and resume continues
// with the rest.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	const items = 300 // they last for most of a minute
	s := newSite(t, `
name: stopped
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; test -e quick || sleep 0.3; echo "$BIDE_ITEM" >> ended
`, items)
	s.worker(2)
	cmd := s.bide("run", "--on", "temporal", "flow.yml")
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.wait("some items", func() bool { return s.lines("ended") > 3 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 130 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if sum := s.summary(); sum.Status != event.Interrupted || sum.Items.Succeeded == items || sum.Items.Succeeded != s.lines("ended") {
		t.Errorf("%+v, %d have ended", sum, s.lines("ended"))
	}
	s.keepHistory("interrupt")
	path := filepath.Join(s.dir, "flow.yml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "# changed\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := s.bide("resume").CombinedOutput(); err == nil || !strings.Contains(string(out), "has changed since the run began") {
		t.Errorf("resumed with a changed file: %v\n%s", err, out)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "quick"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("resume")
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != items || s.lines("ended") != items {
		t.Errorf("%+v, %d have ended", sum, s.lines("ended"))
	}
}

// TestLeaving: a worker that is asked to leave ends what it runs, and another one
// continues; dead letters are run again in a new life of the run; on a machine that
// has only the store, the run is seen as here. clean removes it from the store where that
// is asked for.
func TestLeaving(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: leaving
mode: mapreduce
setup:
  - shell: echo "$$" > setup; sleep 2; echo done >> setup
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        echo "$BIDE_ITEM" >> ran
        sleep 0.1
        if [ "$BIDE_ITEM" = i3 ] && [ ! -e mended ]; then exit 9; fi
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, 30)
	first := s.worker(2)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("some items", func() bool { return s.lines("ran") > 5 })
	s.worker(2)
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("a worker that was asked to leave: %v", err)
	}
	s.wait("the end", func() bool { return s.summary().Status != event.Running })
	if sum := s.summary(); sum.Status != event.CompletedWithFailures || sum.Items.Succeeded != 29 || sum.Items.DeadLettered != 1 || s.lines("ran") != 30 {
		t.Errorf("%+v, %d attempts", sum, s.lines("ran"))
	}
	s.keepHistory("leaving")
	if err := os.WriteFile(filepath.Join(s.dir, "mended"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("dlq", "retry", "last", "--as-recorded")
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != "30 of 30\n" || s.lines("ran") != 31 {
		t.Errorf("%q, %v, %d attempts", text, err, s.lines("ran"))
	}
	elsewhere := s.bide("runs", "--json")
	elsewhere.Env = append(s.env, "BIDE_HOME="+filepath.Join(s.root, "another"))
	out, err := elsewhere.Output()
	if err != nil || !strings.Contains(string(out), `"succeeded": 30`) {
		t.Errorf("%s, %v", out, err)
	}
	if out := s.must("clean", "--older-than", "0s", "-y"); !strings.Contains(out, "--store removes it there") {
		t.Errorf("clean: %s", out)
	}
	if out := s.must("clean", "--older-than", "30d", "--store", "-y"); !strings.Contains(out, "not old enough") {
		t.Errorf("clean: %s", out)
	}
	s.only()
	s.must("clean", "--older-than", "0s", "--store", "-y")
	for _, dir := range []string{"home", "store"} {
		if left, err := filepath.Glob(filepath.Join(s.root, dir, "runs", "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestAtOnce: bide stop --now ends at once what runs, however long it would take.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: long
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 300
`, 4)
	s.worker(2)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("two items", func() bool { return s.lines("ran") == 2 })
	if out := s.must("clean", "--older-than", "0s", "--store", "--force", "-y"); !strings.Contains(out, "it is running") {
		t.Errorf("clean: %s", out)
	}
	begin := time.Now()
	s.must("stop", "--now")
	if took := time.Since(begin); took > 4*time.Minute {
		t.Errorf("it took %v, as long as what runs", took)
	}
	if sum := s.summary(); sum.Status != event.Interrupted || s.lines("ran") != 2 {
		t.Errorf("%+v", sum)
	}
}

// TestOutage: the server is away for 30 s while an item of two minutes runs: the item
// is not ended, and its result counts. Only in the long form.
func TestOutage(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	s := newSite(t, `
name: outage
mode: mapreduce
map:
  input: items.jsonl
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 120; echo "$BIDE_ITEM" >> ended
`, 2)
	s.worker(2)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("both items", func() bool { return s.lines("ran") == 2 })
	s.endServer()
	away := time.NewTimer(30 * time.Second)
	<-away.C
	s.start()
	s.wait("the end", func() bool { return s.summary().Status != event.Running })
	if sum := s.summary(); sum.Status != event.Succeeded || s.lines("ran") != 2 || s.lines("ended") != 2 {
		t.Errorf("%+v, %d attempts", sum, s.lines("ran"))
	}
}
