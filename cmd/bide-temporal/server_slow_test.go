package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestServerHandOver: a run continues as a new execution many times while one item is
// running, and no item waits for that one; a worker is killed meanwhile. Each item is in
// the results once.
func TestServerHandOver(t *testing.T) {
	t.Parallel()
	const items, slots = 800, 2
	s := newSite(t, `
name: slow
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 4
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; test ${item.n} -gt 0 || while [ ! -e go ]; do sleep 0.1; done; sleep 0.01
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, items)
	s.env = append(s.env, "BIDE_TEST_EVENTS=60")
	s.worker(slots)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("the first items", func() bool { return s.lines("ran") > 3 }) // among them the one that takes long
	second := s.worker(slots)
	s.wait("half of the items", func() bool { return s.lines("ran") > items/2 })
	s.end(second)
	s.worker(slots)
	s.wait("all items but one", func() bool { return s.summary().Items.Succeeded == items-1 })
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wait("the end", func() bool { return s.summary().Status != event.Running })
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != items {
		t.Errorf("%+v", sum)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != fmt.Sprintf("%d of %d\n", items, items) {
		t.Errorf("%q, %v", text, err)
	}
	s.once(items)
	if again := s.lines("ran") - items; again < 0 || again > slots {
		t.Errorf("%d items ran twice, with %d lanes killed", again, slots)
	}
	c := s.client()
	defer c.Close()
	executions, longest := 0, 0
	for before := ""; ; {
		events := s.eventsOf(c, WorkflowID(s.only()), before)
		executions, longest = executions+1, max(longest, len(events))
		if before = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); before == "" {
			break
		}
	}
	t.Logf("%d executions, of at most %d events; %d items ran twice", executions, longest, s.lines("ran")-items)
	if executions < 4 || longest > 60+200 {
		t.Errorf("%d executions, of at most %d events", executions, longest)
	}
	s.keepHistory("handed-over")
}
