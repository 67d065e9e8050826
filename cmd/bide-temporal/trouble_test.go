package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
)

// said is what a process says, as it comes.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) has(text string) bool { return strings.Contains(s.String(), text) }

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// follow starts the program, which follows a run.
func (s *site) follow(args ...string) (*exec.Cmd, *said) {
	s.t.Helper()
	cmd, out := s.bide(args...), &said{}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.end(cmd) })
	return cmd, out
}

// status is the exit status of a process.
func (s *site) status(cmd *exec.Cmd) int {
	s.t.Helper()
	err := cmd.Wait()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return ended.ExitCode()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return 0
}

// lend takes the run out of the store, or brings it back: nothing can be written to it
// meanwhile.
func (s *site) lend(back bool) {
	s.t.Helper()
	there := filepath.Join(s.root, "store", "runs", s.only())
	from, to := there, there+".away"
	if back {
		from, to = to, from
	}
	if err := os.Rename(from, to); err != nil {
		s.t.Fatal(err)
	}
}

const storeIsAway = "held up: the store cannot be written"

// TestStoreAway: while the store cannot be written, the run says so to all who look,
// begins nothing, and continues by itself afterwards, with nothing done twice.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: away
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 0.2
`, 120)
	s.worker(2)
	cmd, out := s.follow("run", "--on", "temporal", "flow.yml")
	s.wait("some items", func() bool { return s.lines("ran") > 3 })
	s.lend(false)
	s.wait("the follower's word", func() bool { return out.has(storeIsAway) })
	s.wait("the word of show", func() bool { return strings.Contains(s.must("show"), "the store cannot be written") })
	if list := s.must("runs", "--json"); !strings.Contains(list, storeIsAway) {
		t.Errorf("runs: %s", list)
	}
	before, still := 0, 0
	s.wait("a stillness", func() bool { // the leases that were out end within some seconds
		was := before
		if before, still = s.lines("ran"), still+1; was != before {
			still = 0
		}
		return still > 100
	})
	if before == 120 {
		t.Error("nothing was held up")
	}
	s.lend(true)
	if status := s.status(cmd); status != 0 {
		t.Errorf("exit status %d: %s", status, out)
	}
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != 120 || s.lines("ran") != 120 {
		t.Errorf("%+v, %d attempts", sum, s.lines("ran"))
	}
	s.once(120)
}

// TestStoreAwayStop: while the store cannot be written, who follows the run leaves at
// the first interrupt when what runs had its grace, at the second one at once; what runs
// ends, as the server tells it; and the end is recorded when it can be.
func TestStoreAwayStop(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: stuck
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 600
`, 4)
	s.worker(2)
	first, out1 := s.follow("run", "--on", "temporal", "flow.yml")
	s.wait("two items", func() bool { return s.lines("ran") == 2 })
	second, out2 := s.follow("resume")
	s.wait("the second follower", func() bool { return out2.String() != "" })
	s.lend(false)
	interrupt := func(cmd *exec.Cmd) {
		t.Helper()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	interrupt(second)
	interrupt(first)
	s.wait("the answer", func() bool { return out2.has("interrupted") })
	interrupt(second)
	for _, f := range []struct {
		cmd *exec.Cmd
		out *said
	}{{second, out2}, {first, out1}} { // what runs would continue for longer than the test
		if status := s.status(f.cmd); status != 130 || !f.out.has("its end is not recorded yet") {
			t.Errorf("exit status %d: %s", status, f.out)
		}
	}
	s.lend(true)
	s.wait("the end", func() bool { return s.summary().Status == event.Interrupted })
	s.keepHistory("stuck")
	if s.lines("ran") != 2 {
		t.Errorf("%d attempts", s.lines("ran"))
	}
}

// TestOtherProtocol: workers of another protocol take nothing of a run; it says that
// nobody works for it, and continues when one comes who can. Who sees a run of another
// protocol in the store sees the others.
func TestOtherProtocol(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: versions
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 0.1
`, 40)
	plain := s.env
	s.env = append(plain, "BIDE_TEST_PROTOCOL=99")
	s.worker(2)
	s.env = plain
	cmd, out := s.follow("run", "--on", "temporal", "flow.yml")
	s.wait("the follower's word", func() bool { return out.has(fmt.Sprint("no worker takes work of protocol ", cluster.Protocol)) })
	if text := s.must("show"); !strings.Contains(text, fmt.Sprint("no worker takes work of protocol ", cluster.Protocol)) {
		t.Errorf("show: %s", text)
	}
	if s.lines("ran") > 0 {
		t.Error("a worker of another protocol has taken work")
	}
	s.worker(2)
	if status := s.status(cmd); status != 0 || s.lines("ran") != 40 {
		t.Errorf("exit status %d, %d attempts: %s", status, s.lines("ran"), out)
	}
	other := filepath.Join(s.root, "store", "runs", "01ANOTHER0RUN0OF0PROTOCOL0")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "plan.json"), []byte(`{"protocol": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := s.must("runs"); !strings.Contains(text, "speaks protocol 99") || !strings.Contains(text, "versions") {
		t.Errorf("runs: %s", text)
	}
}

// TestControlOfARun: what a run can be told while it is running, from any machine.
func TestControlOfARun(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: told
mode: mapreduce
setup:
  - shell: echo here >> here; while [ ! -e go ]; do sleep 0.1; done
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; case ${item.n} in 0) test -e mended;; 1) test -e mended;; *) test -e free || sleep 0.5;; esac
  retry_config: {attempts: 1}
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, 60)
	s.worker(4)
	cmd, out := s.follow("run", "--on", "temporal", "flow.yml")
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := s.bide(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("bide %v: %v\n%s", args, err, out)
		}
	}
	touch := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.wait("the setup", func() bool { return s.lines("here") > 0 })
	refused("its map is not running now", "control", "last", "pause")
	touch("go")
	s.wait("dead letters", func() bool { return s.summary().Items.DeadLettered == 2 })
	s.must("control", "last", "pause") // the others last for half a minute
	touch("free")
	s.wait("the word of show", func() bool { return strings.Contains(s.must("show"), "paused since") })
	refused("other machines run it", "dlq", "purge", "last", "--all", "-y")
	touch("mended")
	refused("--as-recorded", "dlq", "retry", "last")
	letters, told := s.follow("dlq", "retry", "last", "--as-recorded")
	s.wait("the letters", func() bool { return told.has("what happens from now on is shown") })
	s.must("control", "last", "retry-now")
	s.must("control", "last", "parallel", "4")
	s.must("control", "last", "continue")
	if status := s.status(letters); status != 0 {
		t.Errorf("exit status %d: %s", status, told)
	}
	if status := s.status(cmd); status != 0 {
		t.Errorf("exit status %d: %s", status, out)
	}
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != 60 || s.lines("ran") != 62 {
		t.Errorf("%+v, %d attempts", sum, s.lines("ran"))
	}
	s.keepHistory("told")
	// Temporal closes a run a moment after its end is in the store.
	s.wait("the end on Temporal", func() bool {
		out, err := s.bide("control", "last", "pause").CombinedOutput()
		if err == nil {
			t.Fatalf("a run that is over was paused: %s", out)
		}
		return strings.Contains(string(out), "Temporal has no run")
	})
}
