package web

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// press posts a form of a run's page, and gives where it leads.
func (s *served) press(id, action string, form url.Values) (code int, to string) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+id+"/"+action), strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	code, h, _ := s.do(s.in, r)
	return code, h.Get("Location")
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// box is what a page tells of the last action; "" for nothing.
func box(t *testing.T, body string) string {
	t.Helper()
	_, text, _ := strings.Cut(head(t, body), `<div class="notice action`)
	text, _, _ = strings.Cut(text, "</div>")
	return text
}

// TestRetryToldByWhatCameOfIt: a retry whose process ends with 3 because of other dead
// letters has not failed. The page says what became of the items that ran again, none of the
// old errors, and nothing once another process has taken the run.
func TestRetryToldByWhatCameOfIt(t *testing.T) {
	t.Parallel()
	ready, over := filepath.Join(t.TempDir(), "ready"), filepath.Join(t.TempDir(), "over")
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `: > "$0"; until test -e "$1"; do sleep 0.01; done; echo "bide: item a runs again; it had failed after 2 attempts: exit status 6" >&2; exit 3`, ready, over}})
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 40}}
	events = append(events, letters(1, 20, "network", "could not resolve host", `{}`)...)
	events = append(events, letters(21, 10, "exit", "no such column", `{}`)...)
	id := s.run(journal.Header{Name: "import", Kind: "mapreduce"}, append(events, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})...)
	// life is another process of the run, in which items run again of which some fail.
	life := func(from, n, bad int) {
		t.Helper()
		j, err := s.store.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		list := []event.Event{{Type: event.RunResumed}}
		for i := range n {
			list = append(list, event.Event{Type: event.ItemRequeued, Index: from + i, Status: event.DeadLettered})
		}
		for i := range n - bad {
			list = append(list, event.Event{Type: event.ItemFinished, Index: from + i, Status: event.Succeeded, Attempts: 1})
		}
		if bad > 0 {
			list = append(list, letters(from+n-bad, bad, "network", "could not resolve host", `{}`)...)
		}
		for _, e := range append(list, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures}) {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	retry := func(from, n, bad int) string {
		t.Helper()
		_, _ = os.Remove(ready), os.Remove(over)
		pressed := make(chan struct{})
		go func() {
			defer close(pressed)
			if code, to := s.press(id, "retry", url.Values{"filter": {`class == "network"`}, "back": {"/runs/" + id + "/dlq"}}); code != http.StatusSeeOther || to != "/runs/"+id+"/dlq" {
				t.Errorf("the retry gives status %d and leads to %s", code, to)
			}
		}()
		for _, err := os.Stat(ready); err != nil; _, err = os.Stat(ready) { // another process has no virtual time
		}
		life(from, n, bad)
		if err := os.WriteFile(over, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-pressed
		body := s.page("/runs/" + id)
		for strings.Contains(body, "still running.</p>") { // it took longer than a page waits
			body = s.page("/runs/" + id)
		}
		return box(t, body)
	}
	got := retry(1, 20, 0)
	if want := "20 of 20 items ran again and succeeded; 10 others are still dead letters."; !strings.Contains(got, ">"+want+"<") || strings.Contains(got, "fail") || strings.Contains(got, " bad") {
		t.Errorf("it says %q, want %q", got, want)
	}
	if body := s.page("/runs/" + id + "/map"); !strings.Contains(box(t, body), "20 of 20") {
		t.Error("the map does not say it")
	}
	life(21, 1, 0) // by a command
	s.fresh(id)
	if got := box(t, s.page("/runs/"+id)); got != "" {
		t.Errorf("the run has moved on, and it still says %q", got)
	}
	got = retry(22, 5, 2)
	if want := "3 of 5 items ran again and succeeded, 2 failed again; 4 others are still dead letters."; !strings.Contains(got, ">"+want+"<") {
		t.Errorf("it says %q, want %q", got, want)
	}
	// The box can be closed, and the page stays the same.
	back := "/runs/" + id + "/map?state=failed"
	if code, to := s.press(id, "close", url.Values{"back": {back}}); code != http.StatusSeeOther || to != back {
		t.Errorf("closing it gives status %d and leads to %s", code, to)
	}
	if got := box(t, s.page("/runs/"+id)); got != "" {
		t.Errorf("it was closed, and still says %q", got)
	}
	for _, to := range []string{"https://example.org/", "//example.org", "/runs/" + id + "x", "/runs/"} {
		if _, got := s.press(id, "close", url.Values{"back": {to}}); got != "/runs/"+id {
			t.Errorf("a form leads from %q to %q", to, got)
		}
	}
}

// fresh has what is known of a run read again.
func (s *served) fresh(id string) {
	s.t.Helper()
	if err := s.runs.with(id, func(r *run) error { return r.lookAnew(func() {}) }); err != nil {
		s.t.Fatal(err)
	}
}

// TestFailedActionSaysItsOwnError: whole lines of it, the first few in the open and the rest
// folded; of a process that ended with 3 the same, and not as a failure.
func TestFailedActionSaysItsOwnError(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range 9 {
		lines = append(lines, fmt.Sprintf("line %d of it: %s", n+1, strings.Repeat("word ", 120)))
	}
	for _, c := range []struct {
		exit int
		text string
		bad  bool
	}{{1, "The action “merge” failed:", true}, {3, "The action “merge” has ended:", false}} {
		s := serve(t, Options{Program: []string{"/bin/sh", "-c", fmt.Sprintf("echo \"bide: $0\" >&2; exit %d", c.exit), strings.Join(lines, "\n")}})
		id := s.run(journal.Header{Name: "m"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Failed})
		s.press(id, "merge", nil)
		body := s.page("/runs/" + id)
		got := box(t, body)
		if !strings.Contains(got, c.text) || strings.HasPrefix(got, " bad") != c.bad {
			t.Errorf("status %d says %q", c.exit, got)
		}
		open, folded, _ := strings.Cut(got, "<details>")
		for n, line := range lines {
			line = strings.TrimSpace(line)
			if where := map[bool]string{true: open, false: folded}[n < maxSaid]; !strings.Contains(where, line) {
				t.Errorf("status %d: line %d is not where it should be", c.exit, n+1)
			}
		}
		if !strings.Contains(folded, "<summary>5 more lines</summary>") || strings.Contains(got, "bide: ") {
			t.Errorf("status %d: %q", c.exit, got)
		}
	}
}

// TestValidJSON: what an item may be is what the command line takes.
func TestValidJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`{"x":1e400}`: "", `[9007199254740993]`: "", `{"x":`: "This is no JSON: unexpected EOF.", `1 2`: "This is no JSON: there is more text after the JSON value, at byte 3."} {
		if got := validJSON(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
