package web

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestListCountsAsTheCommandLine: the list counts the steps of a run, and the time that
// it took, as journal.Summary does for "bide runs"; nobody had the run for a night.
func TestListCountsAsTheCommandLine(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	j, err := s.store.Create(journal.Header{Name: "n", Kind: "workflow"})
	if err != nil {
		t.Fatal(err)
	}
	at := j.Header().Started
	add := func(after time.Duration, e event.Event) {
		t.Helper()
		if e.Time = at.Add(after); j.Append(e) != nil {
			t.Fatal("an event is not recorded")
		}
	}
	end := func(step, status, data string) event.Event {
		return event.Event{Type: event.StepFinished, Step: step, Status: status, Attempts: 1, Data: []byte(data)}
	}
	const night = 10 * time.Hour
	add(0, event.Event{Type: event.RunStarted})
	add(1*time.Second, end("commands[0]", event.Succeeded, "{}"))
	add(2*time.Second, end("commands[1]", event.Succeeded, `{"recovered":true}`))
	add(3*time.Second, end("commands[2]", event.Degraded, "{}"))
	add(4*time.Second, end("commands[3]", event.Failed, `{"tolerated":true}`))
	add(5*time.Second, event.Event{Type: event.StepStarted, Step: "commands[4]"}) // and its process is killed
	add(night, event.Event{Type: event.RunResumed})
	add(night+2*time.Second, end("commands[4]", event.Failed, "{}"))
	add(night+3*time.Second, event.Event{Type: event.RunFinished, Status: event.Failed, DurationMS: 3000,
		Data: []byte(`{"steps":{"succeeded":1,"recovered":1,"degraded":1,"tolerated":1,"failed":1}}`)})
	id := j.Run()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := s.store.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum, err := r.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := event.Counts{Succeeded: 1, Failed: 1, KindCounts: event.KindCounts{Recovered: 1, Degraded: 1, Tolerated: 1}}
	e := s.list.readEntry(t.Context(), id)
	if sum.Steps != want || e.Steps != want {
		t.Errorf("the command line counts %+v, the page %+v, want %+v", sum.Steps, e.Steps, want)
	}
	if sum.Took != 8*time.Second || e.Took() != 8*time.Second {
		t.Errorf("it took %v on the command line, %v on the page, want 8s", sum.Took, e.Took())
	}
}

// TestTookOfAShortRetry: a run of 80 ms, and 8 ms of a retry half a second later, took 88 ms
// in the list, on its own page, among the last runs of its workflow, and on the command line.
func TestTookOfAShortRetry(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	at := time.Now().Add(-time.Hour)
	after := func(d time.Duration, e event.Event) event.Event { e.Time = at.Add(d); return e }
	end := event.Event{Type: event.RunFinished, Status: event.Succeeded, Data: []byte(`{"items":{"total":1,"succeeded":1}}`)}
	first, retry := end, end
	first.DurationMS, retry.DurationMS = 80, 8
	h := journal.Header{Name: "n", Path: "/n.yml", Kind: "mapreduce", Started: at}
	id := s.run(h, after(0, event.Event{Type: event.RunStarted}), after(80*time.Millisecond, first),
		after(580*time.Millisecond, event.Event{Type: event.RunResumed}), after(588*time.Millisecond, retry))
	s.run(h, after(0, event.Event{Type: event.RunStarted}), after(80*time.Millisecond, first))
	s.list.refresh(t.Context())
	r, err := s.store.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum, err := r.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e := s.list.readEntry(t.Context(), id); sum.Took != 88*time.Millisecond || e.Took() != sum.Took {
		t.Errorf("it took %v on the command line, %v in the list, want 88ms", sum.Took, e.Took())
	}
	if body := s.page("/runs/" + id); !strings.Contains(body, "after 88ms") || !strings.Contains(body, "the last 2 runs: 2 succeeded; 80ms to 88ms") {
		t.Errorf("its page says otherwise:\n%s", head(t, body))
	}
}

// TestDeletedRunIsTold: a page that shows a run is told when it is deleted.
func TestDeletedRunIsTold(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	j, err := s.store.Create(journal.Header{Name: "n", Kind: "workflow"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(event.Event{Type: event.RunStarted}); err != nil {
		t.Fatal(err)
	}
	id := j.Run()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at("/stream?topics=run:"+id), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.in.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ends without %s: %v", want, lines.Err())
	}
	next(`"status":"interrupted"`)
	if err := s.store.Remove(id); err != nil {
		t.Fatal(err)
	}
	next(`"status":"deleted"`)
}

// TestEachPageOfARunHasItsTab: the tab of a page that is shown is marked, and it alone.
func TestEachPageOfARunHasItsTab(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := s.hostileRun()
	for page, tab := range map[string]string{"": "", "/map": "/map", "/items/0": "/map", "/dlq": "/dlq", "/graph": "/graph", "/retries": "/retries", "/foresight": "/foresight", "/file": "/file"} {
		_, nav, _ := strings.Cut(s.page("/runs/"+id+page), `<nav class="tabs"`)
		nav, _, _ = strings.Cut(nav, "</nav>")
		if n := strings.Count(nav, "aria-current"); n != 1 || !strings.Contains(nav, `<a href="/runs/`+id+tab+`" aria-current="page"`) {
			t.Errorf("the tabs of the page %q are %s", page, nav)
		}
		if n := strings.Count(nav, "<a "); n != 8 {
			t.Errorf("the page %q has %d tabs", page, n)
		}
	}
}
