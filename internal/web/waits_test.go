package web

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestWhatWaits: above the list of runs is what waits for somebody, each cause and each
// command with its button, and Dismiss; the newest in the open, the others folded. A page
// with a filter, and one that changes nothing, have no such buttons.
func TestWhatWaits(t *testing.T) {
	t.Parallel()
	said := filepath.Join(t.TempDir(), "said")
	var asked atomic.Int64
	var waiting atomic.Pointer[Waiting]
	opt := Options{Program: []string{"/bin/sh", "-c", `printf '%s|' "$@" > "$0"`, said}, Waiting: func(context.Context) (Waiting, error) {
		asked.Add(1)
		return *waiting.Load(), nil
	}}
	s := serve(t, opt)
	id := s.run(journal.Header{Name: "import", Kind: "mapreduce"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})
	short := journal.ShortRun(id)
	w := Waiting{Says: "6 runs wait for you, and 2 are dismissed"}
	w.Runs = append(w.Runs, WaitingRun{ID: id, Title: "<b>import", Status: event.CompletedWithFailures, What: "30 of 200 items failed",
		Why:      []WaitingWhy{{Text: "20 × network", Filter: `class == "network"`, Command: "bide dlq retry " + short + ` --filter 'class == "network"'`}, {Text: "the work is in a branch"}},
		Commands: []string{"bide resume " + short, "bide dlq retry " + short, "bide worktree merge " + id, "git merge --no-ff x", "bide show " + short}})
	for range maxWaits + 1 {
		w.Runs = append(w.Runs, WaitingRun{ID: id, Title: "other", Status: event.Failed, What: "failed"})
	}
	waiting.Store(&w)
	s.list.refresh(t.Context())
	body := s.page("/")
	_, section, _ := strings.Cut(body, `<section class="todos"`)
	section, _, _ = strings.Cut(section, "</section>")
	for _, want := range []string{
		">6 runs wait for you, and 2 are dismissed<", "&lt;b&gt;import", "30 of 200 items failed", "20 × network", "the work is in a branch", "git merge --no-ff x",
		"bide dlq retry " + short + " --filter &#39;class == &#34;network&#34;&#39;", `name="filter" value="class == &#34;network&#34;"`,
		`action="/runs/` + id + `/dismiss"`, `data-confirm="Dismiss the 6 runs that are shown here? They stay in the list of runs, and wait again if they fail once more."`, `<input type="hidden" name="also" value="` + id + `">`, ">Dismiss these 6<", `action="/runs/` + id + `/resume"`, `action="/runs/` + id + `/merge"`, "<summary>2 more</summary>",
	} {
		if !strings.Contains(section, want) {
			t.Errorf("the page does not say %s:\n%s", want, section)
		}
	}
	open, folded, _ := strings.Cut(section, "<details>")
	if n, m := strings.Count(open, `class="todo"`), strings.Count(folded, `class="todo"`); n != maxWaits || m != 2 {
		t.Errorf("%d are in the open and %d folded", n, m)
	}
	if n := strings.Count(section, `/retry"`); n != 2 || strings.Contains(section, "bide show") {
		t.Errorf("%d buttons retry, want that of the cause and that of all", n)
	}
	if strings.Contains(s.page("/?q=import"), `class="todos"`) {
		t.Error("a search shows what waits")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was read %d times for two pages", n)
	}
	waiting.Store(&Waiting{Says: "no run waits for you; 7 runs are dismissed, see bide runs"})
	if code, to := s.press(id, "dismiss", nil); code != http.StatusSeeOther || to != "/" {
		t.Errorf("a dismissal gives status %d and leads to %s", code, to)
	}
	if got := read(t, said); got != "status|--dismiss|"+id+"|" {
		t.Errorf("the program was given %q", got)
	}
	other := s.run(journal.Header{Name: "other"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Failed})
	if code, to := s.press(id, "dismiss", url.Values{"also": {other}}); code != http.StatusSeeOther || to != "/" {
		t.Errorf("a dismissal of all gives status %d and leads to %s", code, to)
	}
	if got := read(t, said); got != "status|--dismiss|"+id+"|--dismiss|"+other+"|" {
		t.Errorf("the program was given %q", got)
	}
	if code, _ := s.press(id, "dismiss", url.Values{"also": {"--json"}}); code != http.StatusNotFound {
		t.Errorf("the dismissal of a run that is not there gives status %d", code)
	}
	waiting.Store(&Waiting{Says: "3 runs wait for you", Runs: append([]WaitingRun{{ID: other, Title: "a run", Status: unreadable, What: "cannot be read", Why: []WaitingWhy{{Text: "no journal"}}}}, w.Runs[:2]...)})
	s.waits.forget()
	if body := s.page("/"); !strings.Contains(body, ">no journal<") || !strings.Contains(body, ">Dismiss these 2<") || strings.Contains(body, `action="/runs/`+other+`/dismiss"`) {
		t.Errorf("a run that cannot be read has a button, which could do nothing:\n%s", body)
	}
	waiting.Store(&Waiting{Says: "8 runs wait for you; these are the newest, bide runs has all", Runs: w.Runs, More: []string{other, id}})
	s.waits.forget()
	if body := s.page("/"); !strings.Contains(body, ">Dismiss all 8<") || !strings.Contains(body, "Dismiss all 8 runs that wait, those too that are not shown here?") || !strings.Contains(body, `name="also" value="`+other+`"`) {
		t.Errorf("the button does not take the runs that are not shown:\n%s", body)
	}
	waiting.Store(&Waiting{Says: "1 run waits for you", Runs: w.Runs[:1]})
	s.waits.forget()
	if strings.Contains(s.page("/"), "Dismiss these") {
		t.Error("one run has a button that dismisses all")
	}
	waiting.Store(&Waiting{Says: "no run waits for you; 7 runs are dismissed, see bide runs"})
	s.waits.forget()
	if body := s.page("/"); !strings.Contains(body, "No run waits for you; 7 runs are dismissed") || strings.Contains(body, `class="todo"`) {
		t.Error("the page shows what waited before the dismissal")
	}
	waiting.Store(&w)
	opt.ReadOnly = true
	s = serve(t, opt)
	s.run(journal.Header{Name: "import", Kind: "mapreduce"}, event.Event{Type: event.RunStarted})
	s.list.refresh(t.Context())
	if body := s.page("/"); !strings.Contains(body, "30 of 200 items failed") || strings.Contains(body, "<form method=\"post\"") {
		t.Error("a page that changes nothing has buttons, or does not say what waits")
	}
}

// TestRefusedDismissal: what went wrong is told on the page of the run.
func TestRefusedDismissal(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `echo "bide: run X waits for nobody: it is succeeded" >&2; exit 2`}})
	id := s.run(journal.Header{Name: "m"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	if _, to := s.press(id, "dismiss", nil); to != "/runs/"+id {
		t.Errorf("it leads to %s", to)
	}
	if got := box(t, s.page("/runs/"+id)); !strings.Contains(got, "run X waits for nobody: it is succeeded") {
		t.Errorf("the page says %q", got)
	}
}

// TestMapWithoutItems: a map that succeeded without an item says so.
func TestMapWithoutItems(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.run(journal.Header{Name: "empty", Kind: "mapreduce"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Succeeded, Data: []byte(`{}`)})
	s.list.refresh(t.Context())
	if !strings.Contains(s.page("/"), ">no items<") {
		t.Error("the list does not say that it had no items")
	}
}
