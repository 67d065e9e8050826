package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
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
	look := time.NewTicker(5 * time.Second)
	defer look.Stop()
	killed, restarted := 0, false
	news, silent, known, told := time.Now(), time.Duration(0), int64(0), time.Now()
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
		sum, last := s.newsOf(s.only())
		done := sum.Items.Succeeded
		silent = max(silent, time.Since(news))
		if last != known || sum.Status != event.Running {
			known, news = last, time.Now()
		}
		if time.Since(told) < 10*time.Second && sum.Status == event.Running {
			continue
		}
		told = time.Now()
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
	t.Logf("the longest time without news: %.0f s", silent.Seconds())
	if silent > 15*time.Second {
		t.Errorf("%.0f s without news, 15 s are promised", silent.Seconds())
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
