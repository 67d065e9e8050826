package web

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

func TestMetrics(t *testing.T) {
	s := serve(t, Options{MetricsToken: "a-token-of-some-length"})
	scrape := func() string {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, s.at("/metrics"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer a-token-of-some-length")
		s.list.refresh(t.Context())
		resp, err := s.out.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		if _, err := io.Copy(&b, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err, b.String())
		}
		return b.String()
	}
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
		t.Errorf("a browser that was let in gets %d", code)
	}
}
