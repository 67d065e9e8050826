package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
)

// TestFrozenWorker: one of two workers is stopped again and again, each time until the other
// has ended more items or the run waits for it, and continues then: with what it was about to
// record, too. Nothing that was accepted is lost or counted twice, and the store is whole.
func TestFrozenWorker(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	const items, slots, freezes = 2000, 2, 4
	s := newSite(t, `
name: frozen
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 4
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 0.02
reduce:
  - shell: echo "${map.successful} of ${map.total}" >> result
`, items)
	first := s.worker(slots)
	s.worker(slots)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	signal := func(sig syscall.Signal) {
		if err := first.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	for n := range freezes {
		s.wait("more items", func() bool { return s.lines("ran") > (n+1)*items/10 })
		signal(syscall.SIGSTOP)
		at := s.lines("ran")
		s.wait("items of the other worker", func() bool { return s.lines("ran") >= at+items/10 })
		signal(syscall.SIGCONT)
	}
	s.wait("the end", func() bool { return s.summary().Status != event.Running })
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != items || s.lines("result") != 1 {
		t.Errorf("%+v, %d results", sum, s.lines("result"))
	}
	s.once(items)
	if again := s.lines("ran") - items; again < 0 || again > freezes*slots {
		t.Errorf("%d items ran twice, with %d lanes frozen", again, freezes*slots)
	}
	store, err := cluster.OpenStore("dir:" + filepath.Join(s.root, "store"))
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := store.Run(s.only()).Verify(); err != nil || len(rep.Damaged) > 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}
