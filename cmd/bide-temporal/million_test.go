package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestMillion: BIDE_CLUSTER_ITEMS items that do nothing on four workers of two slots,
// of which one is killed each minute; the server is killed once and started again.
// Each item ends once, and only those that were in flight on a killed lane have begun
// twice. make cluster-million runs it with a million.
func TestMillion(t *testing.T) {
	items, err := strconv.Atoi(os.Getenv("BIDE_CLUSTER_ITEMS"))
	if err != nil {
		t.Skip("left out: BIDE_CLUSTER_ITEMS says of how many items")
	}
	const workers, slots = 4, 2
	s := newSite(t, `
name: million
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 8
  agent_template:
    - shell: "true"
`, items)
	var list []*exec.Cmd
	for range workers {
		list = append(list, s.worker(slots))
	}
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	began := time.Now()
	kill := time.NewTicker(time.Minute)
	defer kill.Stop()
	look := time.NewTicker(10 * time.Second)
	defer look.Stop()
	killed, restarted := 0, false
	for {
		select {
		case <-kill.C:
			i := killed % workers
			s.end(list[i])
			list[i] = s.worker(slots)
			killed++
			continue
		case <-look.C:
		}
		sum := s.summary()
		done := sum.Items.Succeeded
		t.Logf("%6.0f s: %d items, %.0f/s, %d workers killed, server %s", time.Since(began).Seconds(), done, float64(done)/time.Since(began).Seconds(), killed, memory(s.server.Pid))
		if !restarted && done > items/2 {
			restarted = true
			s.endServer()
			s.start()
			t.Logf("the server was killed, and started again")
		}
		if sum.Status != event.Running {
			if sum.Status != event.Succeeded || sum.Items.Succeeded != items {
				t.Errorf("%+v", sum)
			}
			break
		}
	}
	took := time.Since(began)
	silent, at := s.silence()
	t.Logf("the longest time without news: %.1f s, after %s", silent.Seconds(), at.Sub(began))
	if silent > 15*time.Second {
		t.Errorf("%.1f s without news, 15 s are promised", silent.Seconds())
	}
	if rate := float64(items) / took.Seconds(); items >= 1_000_000 && rate < 1000 {
		t.Errorf("%.0f items a second, 1,000 are promised", rate)
	}
	again := s.once(items)
	info, err := os.Stat(filepath.Join(s.root, "temporal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d items in %.1f s: %.0f/s; %d workers killed, server restarted: %v, %d items begun twice; server %s, its database %d MB", items, took.Seconds(),
		float64(items)/took.Seconds(), killed, restarted, again, memory(s.server.Pid), info.Size()>>20)
	if again > killed*slots {
		t.Errorf("%d items were begun twice, with %d lanes killed", again, killed*slots)
	}
}

// silence is the longest time within which the run told nothing of its items, phases and
// notes, and when that began.
func (s *site) silence() (longest time.Duration, at time.Time) {
	s.t.Helper()
	r, err := s.home.Read(s.only())
	if err != nil {
		s.t.Fatal(err)
	}
	var times []time.Time
	for e, err := range r.Events(context.Background(), 1, journal.EventFilter{Types: []event.Type{
		event.RunStarted, event.PhaseStarted, event.ItemFinished, event.PhaseFinished, event.Note, event.RunFinished}}) {
		if err != nil {
			s.t.Fatal(err)
		}
		times = append(times, e.Time)
	}
	if err := r.Close(); err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(times, time.Time.Compare)
	for i, t := range times[1:] {
		if gap := t.Sub(times[i]); gap > longest {
			longest, at = gap, times[i]
		}
	}
	return longest, at
}

// memory is what a process has and had at most, where the system tells.
func memory(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "?"
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && (name == "VmRSS" || name == "VmHWM") {
			out = append(out, name+" "+strings.TrimSpace(value))
		}
	}
	return strings.Join(out, ", ")
}
