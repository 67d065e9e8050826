package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestFairness: three items that do nothing, in a run beside a large one that takes all
// slots, need not wait for more than a few leases of the large one. What waits meanwhile is
// told by bide cluster status.
func TestFairness(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: large
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 12
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; test -e done || sleep 0.5
`, 1200)
	small := "name: small\nmode: mapreduce\nmap:\n  input: [1, 2, 3]\n  max_parallel: 3\n  agent_template:\n    - shell: echo ${item} >> small\nreduce:\n  - shell: echo over >> over\n"
	if err := os.WriteFile(filepath.Join(s.dir, "small.yml"), []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	s.worker(2)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	large := s.only()
	s.wait("leases that wait for a slot", func() bool { return s.lines("ran") > 2 && s.state().Waiting > 5 })
	st := s.state()
	if len(st.Workers) != 1 || st.Slots != 2 || len(st.Runs) != 1 || st.Runs[0].Run != large || st.Runs[0].Leases != 12 {
		t.Errorf("%+v", st)
	}
	if text := s.must("cluster", "status"); !strings.Contains(text, "1 worker, 2 slots") || !strings.Contains(text, "for a slot, for up to ") {
		t.Errorf("%s", text)
	}
	before := s.lines("ran")
	s.must("run", "--on", "temporal", "--detach", "small.yml")
	s.wait("the small run", func() bool { return s.lines("over") > 0 })
	between := s.lines("ran") - before
	t.Logf("%d items of the large run ended meanwhile", between)
	if s.lines("small") != 3 || between > 200 { // a lease of it has 10 or 15 items; without fairness they are 240
		t.Errorf("%d items of the small run, and %d of the large one meanwhile", s.lines("small"), between)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "done"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("stop", large)
	s.wait("the end", func() bool { return s.summaryOf(large).Status != event.Running })
}

// state is what bide cluster status tells.
func (s *site) state() (st cluster.State) {
	s.t.Helper()
	out, err := s.bide("cluster", "status", "--json").Output() // 1 where something holds up a run
	if jerr := json.Unmarshal(out, &st); jerr != nil {
		s.t.Fatal(err, jerr)
	}
	return st
}

// TestSlotsOf: what a worker says of itself comes back, and others have no slots.
func TestSlotsOf(t *testing.T) {
	now := time.Now()
	poller := func(name string, ago time.Duration) *taskqueue.PollerInfo {
		return &taskqueue.PollerInfo{Identity: name, LastAccessTime: timestamppb.New(now.Add(-ago))}
	}
	by := map[string]cluster.SeenWorker{}
	addWorkers(by, []*taskqueue.PollerInfo{poller(identity(8), time.Second), poller(identity(8), time.Minute), poller("1234@old", time.Second), poller("gone, slots: 3", time.Hour)}, now)
	name, _ := slotsOf(identity(8))
	if len(by) != 2 || by[name].Slots != 8 || !by[name].Heard.After(now.Add(-2*time.Second)) || by["1234@old"].Slots != 0 {
		t.Errorf("%+v", by)
	}
}

// TestPriority: of runs that wait for the one slot that there is, those with the lower
// --priority are served first, in whatever order they came.
func TestPriority(t *testing.T) {
	t.Parallel()
	s := newSite(t, "name: first\ncommands:\n  - shell: echo first >> served; until test -e go; do sleep 0.05; done\n", 0)
	s.worker(1)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("the run that has the slot", func() bool { return s.lines("served") == 1 })
	for i, of := range []struct{ name, flags string }{{"last", "--priority 5"}, {"usual", ""}, {"next", "--priority 1"}} {
		text := fmt.Sprintf("name: %s\ncommands:\n  - shell: echo %[1]s >> served\n", of.name)
		if err := os.WriteFile(filepath.Join(s.dir, of.name+".yml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.must(append(strings.Fields("run --on temporal --detach "+of.flags), of.name+".yml")...)
		s.wait("its place among those that wait", func() bool { return s.state().Waiting == i+1 })
	}
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wait("all runs", func() bool { return s.lines("served") == 4 })
	text, err := os.ReadFile(filepath.Join(s.dir, "served"))
	if err != nil || string(text) != "first\nnext\nusual\nlast\n" {
		t.Errorf("%q, %v", text, err)
	}
}
