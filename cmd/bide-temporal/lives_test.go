package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestTwoServers: a server goes down, the run is resumed on another one and succeeds,
// and the first server comes back with its database and a worker: nothing runs again,
// the run stays as it is, and the first server's part of it ends and says why. Only in
// the long form; TestLifeIsOver and TestOrderModel are the short one.
func TestTwoServers(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	const items, slots = 1500, 2
	s := newSite(t, `
name: servers
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 0.01
reduce:
  - shell: echo "${map.successful} of ${map.total}" >> result
`, items)
	first := s.worker(slots)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("a third of the items", func() bool { return s.lines("ran") > items/3 })
	s.endServer()
	s.end(first)
	address, env := lasting(t), s.env
	second, err := serve(address, filepath.Join(s.root, "second.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = second.Kill() // it may have ended
		<-second.ended
	})
	s.env = append(env[:len(env):len(env)], "TEMPORAL_ADDRESS="+address)
	s.worker(slots)
	s.must("resume")
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != items {
		t.Errorf("%+v", sum)
	}
	attempts := s.lines("ran")
	if attempts > items+slots {
		t.Errorf("%d attempts of %d items, with %d in flight", attempts, items, slots)
	}
	s.env = env
	s.start()
	s.worker(slots)
	status := func() string {
		cmd := exec.Command(filepath.Join(s.root, "bin", "bide-temporal"), "status", s.only())
		cmd.Env = s.env
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	s.wait("the end of the first life", func() bool { return !strings.Contains(status(), `"running"`) })
	if out := status(); !strings.Contains(out, "is over: life 2 has begun elsewhere") {
		t.Errorf("%s", out)
	}
	if sum := s.summary(); sum.Status != event.Succeeded || s.lines("ran") != attempts || s.lines("result") != 1 {
		t.Errorf("%+v, %d attempts, and %d before", sum, s.lines("ran"), attempts)
	}
	s.once(items)
}
