package web

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// flakyRun records a run whose one step failed twice, and whose policy has one
// attempt left.
func (s *served) flakyRun(ended bool) string {
	src := "name: nightly\ncommands:\n  - shell: get\n    name: fetch\n    retry: {attempts: 4, initial_delay: 1s, backoff: fixed}\n"
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	events := []event.Event{{Type: event.RunStarted, Time: at}, {Type: event.StepStarted, Step: "commands[0]", Time: at}}
	add := func(e event.Event, after time.Duration) {
		at = at.Add(after)
		e.Step, e.Time = "commands[0]", at
		events = append(events, e)
	}
	for n := 1; n <= 2; n++ {
		add(event.Event{Type: event.AttemptStarted, Attempt: n}, 0)
		add(event.Event{Type: event.AttemptFailed, Attempt: n, Class: "network", Message: "refused", Data: json.RawMessage(`{"failure":{"network":true}}`)}, 2*time.Second)
		add(event.Event{Type: event.RetryScheduled, Attempt: n, DelayMS: 1000, Class: "network"}, 0)
		at = at.Add(time.Second)
	}
	add(event.Event{Type: event.AttemptStarted, Attempt: 3}, 0)
	add(event.Event{Type: event.AttemptFinished, Attempt: 3}, 2*time.Second)
	add(event.Event{Type: event.StepFinished, Status: event.Succeeded, Attempts: 3}, 0)
	if ended {
		add(event.Event{Type: event.RunFinished, Status: event.Succeeded}, 0)
	}
	return s.run(journal.Header{Name: "nightly", Path: "nightly.yml", Kind: "workflow", Source: []byte(src), Options: json.RawMessage(`{}`)}, events...)
}

// TestForesightPage: the page shows the replay of a run under its own policy and
// under another one, and what runs like it would be like.
func TestForesightPage(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := s.flakyRun(true)
	body := s.page("/runs/" + id + "/foresight?all=1")
	for _, want := range []string{"This run again", "6 of 6 decisions are the same", "Recorded", "50 simulated runs", "runs succeed", "<rect", `aria-current="page">Foresight`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %q in\n%s", want, body)
		}
	}
	body = s.page("/runs/" + id + "/foresight?all=1&seeds=20&set=" + url.QueryEscape("fetch.retry.attempts=2\nfetch.retry.initial_delay=5s"))
	for _, want := range []string{"with the changes", "<b>failed</b>", "was &#34;again after attempt 1, in 1000ms&#34;, is &#34;again after attempt 1, in 5000ms&#34;", "20 simulated runs", "fetch.retry.attempts=2\nfetch.retry.initial_delay=5s"} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %q in\n%s", want, body)
		}
	}
	for set, want := range map[string]string{
		"fetsh.retry.attempts=2":      "cannot be made: --set fetsh.retry.attempts=2",
		"fetch.retry.attempts=many":   "cannot be made",
		strings.Repeat("a.b=1\n", 21): "a page takes 20",
	} {
		body := s.page("/runs/" + id + "/foresight?all=1&set=" + url.QueryEscape(set))
		if !strings.Contains(body, want) || strings.Contains(body, "This run again") {
			t.Errorf("%q gives\n%s", set, body)
		}
	}
	body = s.page("/runs/" + s.flakyRun(false) + "/foresight?all=1")
	if !strings.Contains(body, "<td>interrupted</td><td><b>succeeded</b></td>") || !strings.Contains(body, "5 of 5 decisions") {
		t.Errorf("of a run that was cut short it says\n%s", body)
	}
}

// TestForesightFirst: the first answer is what there is after a moment, and says that it
// is not all; the page with all of it follows by itself.
func TestForesightFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.foresightFirst = 1 // nothing has time
	id := s.flakyRun(true)
	_, header, body := s.get(s.in, s.at("/runs/"+id+"/foresight?set="+url.QueryEscape("fetch.retry.attempts=2")))
	_, to, ok := strings.Cut(header.Get("Refresh"), "0; url=")
	if !ok || !strings.Contains(body, "The answer follows.") || strings.Contains(body, "There is no foresight") {
		t.Fatalf("refresh %q:\n%s", header.Get("Refresh"), body)
	}
	_, header, body = s.get(s.in, s.at(to))
	if header.Get("Refresh") != "" || !strings.Contains(body, "50 simulated runs") || strings.Contains(body, "follow") {
		t.Errorf("%s: refresh %q:\n%s", to, header.Get("Refresh"), body)
	}
	s.foresightFirst = time.Minute
	if _, header, body = s.get(s.in, s.at("/runs/"+id+"/foresight")); header.Get("Refresh") != "" || !strings.Contains(body, "50 simulated runs") {
		t.Errorf("what is all at once is told again: refresh %q:\n%s", header.Get("Refresh"), body)
	}
}

// TestForesightBacktest: the page predicts the newest runs of the workflow from each other.
func TestForesightBacktest(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := s.flakyRun(true)
	if body := s.page("/runs/" + id + "/foresight?backtest=1"); !strings.Contains(body, "There is no other run") {
		t.Errorf("one run alone:\n%s", body)
	}
	s.flakyRun(false)
	s.flakyRun(true)
	body := s.page("/runs/" + id + "/foresight?backtest=1")
	for _, want := range []string{"Of 2 runs ", "left out: it did not end", "<th scope=\"col\">Inside</th>"} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %q in\n%s", want, body)
		}
	}
}
