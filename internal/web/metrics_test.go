package web

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
)

// scrape reads the metrics of all runs that there are by now.
func (s *served) scrape() string {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.at("/metrics"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer a-token-of-some-length")
	s.list.refresh(s.t.Context())
	code, _, text := s.do(s.out, r)
	if code != http.StatusOK {
		s.t.Fatal(code, text)
	}
	return text
}

// TestMetricsOfRunsThatCannotBeRead: a journal that cannot be read hides no other
// run, and is counted; and one that nobody writes is not opened again.
func TestMetricsOfRunsThatCannotBeRead(t *testing.T) {
	s := serve(t, Options{MetricsToken: "a-token-of-some-length"})
	has := func(lines ...string) {
		t.Helper()
		text := s.scrape()
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
	}
	at := time.Now().Add(time.Minute) // after the server began
	s.run(journal.Header{Name: "well", Kind: "standard", Started: at}, event.Event{Type: event.RunStarted, Label: "well", Time: at}, event.Event{Type: event.RunFinished, Status: event.Succeeded, Time: at})
	killed := s.run(journal.Header{Name: "killed", Kind: "standard", Started: at}, event.Event{Type: event.RunStarted, Label: "killed", Time: at}, event.Event{Type: event.ItemStarted, Index: 1, Time: at})
	bad := s.run(journal.Header{Name: "bad", Kind: "standard", Started: at}, event.Event{Type: event.RunStarted, Label: "bad", Time: at})
	spoil(t, s.store.RunDir(bad))
	well := `cicd_pipeline_run_duration_seconds_count{cicd_pipeline_name="well",cicd_pipeline_run_state="executing",cicd_pipeline_result="success"} 1`
	gone := `cicd_pipeline_run_active{cicd_pipeline_name="killed",cicd_pipeline_run_state="executing"} 0`
	has(well, gone, "bide_runs_unreadable 1")
	spoil(t, s.store.RunDir(killed)) // who opened it now would see that
	has(well, gone, `bide_items{bide_item_state="running"} 0`, "bide_runs_unreadable 1")
}

// spoil makes a journal unreadable so that its size and its time stay.
func spoil(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "journal.db")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("no journal "), int(info.Size()))[:info.Size()], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func TestMetrics(t *testing.T) {
	s := serve(t, Options{MetricsToken: "a-token-of-some-length"})
	scrape := s.scrape
	j, err := s.store.Create(journal.Header{Name: "nightly", Path: "nightly.yml", Kind: "standard", Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	put := func(list ...event.Event) {
		t.Helper()
		for _, e := range list {
			e.Time = time.Now()
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(event.Event{Type: event.RunStarted, Label: "nightly"}, event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "fetch"})
	if text := scrape(); !strings.Contains(text, `cicd_pipeline_run_active{cicd_pipeline_name="nightly",cicd_pipeline_run_state="executing"} 1`) {
		t.Errorf("a run that goes on is not there:\n%s", text)
	}
	put(event.Event{Type: event.StepFinished, Step: "commands[0]", Label: "fetch", Status: event.Succeeded, Attempts: 2},
		event.Event{Type: event.RunFinished, Status: event.Succeeded})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // asked twice, counted once
		text := scrape()
		for _, line := range []string{`cicd_pipeline_run_active{cicd_pipeline_name="nightly",cicd_pipeline_run_state="executing"} 0`, `bide_step_attempts_sum{cicd_pipeline_task_name="fetch"} 2`} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
	}
	for path, token := range map[string]string{"/metrics": "wrong", "/": "a-token-of-some-length"} {
		r, err := http.NewRequest(http.MethodGet, s.at(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := s.out.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with the token %q: %s", path, token, resp.Status)
		}
	}
	if code, _, _ := s.get(s.in, s.at("/metrics")); code != http.StatusOK {
		t.Errorf("a browser that is signed in gets %d", code)
	}
}

// TestMetricsOfLimits: who asks the page for metrics is told how the limits of the machine are,
// over all runs, and nothing of one that the machine has no more.
func TestMetricsOfLimits(t *testing.T) {
	s := serve(t, Options{MetricsToken: "a-token-of-some-length"})
	limitsAre := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.store.Dir, limits.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := func() (lines []string) {
		for line := range strings.Lines(s.scrape()) {
			if strings.HasPrefix(line, "bide_limit_") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	if lines := of(); lines != nil {
		t.Errorf("a machine without limits: %q", lines)
	}
	limitsAre("limits: {gpu: {slots: 3}}")
	h := limits.Open(s.store.Dir, nil)
	defer h.Close()
	held, err := h.Take(t.Context(), limits.Request{Names: []string{"gpu"}, Clock: clock.Machine{}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`bide_limit_slots{bide_limit="gpu"} 3`, `bide_limit_slots_used{bide_limit="gpu"} 1`, `bide_limit_waiting{bide_limit="gpu"} 0`,
		`bide_limit_waits_total{bide_limit="gpu"} 0`, `bide_limit_wait_time_seconds_total{bide_limit="gpu"} 0`}
	if lines := of(); !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	held.Release()
	want[1] = `bide_limit_slots_used{bide_limit="gpu"} 0`
	if lines := of(); !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	limitsAre("limits: {}")
	if lines := of(); lines != nil {
		t.Errorf("a limit that the machine has no more: %q", lines)
	}
}
