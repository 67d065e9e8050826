package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
)

// nasty is markup, where a name, an item or a message may be.
const nasty = `"><script>alert(1)</script><img src=x onerror=alert(2)> javascript:alert(3) {{.}} </pre>`

// hostileRun records a run whose every text is markup.
func (s *served) hostileRun() string {
	data, err := json.Marshal(map[string]any{"output": nasty, "stdout": nasty, "stderr": nasty, "vars": map[string]string{nasty: nasty}, "branch": nasty, "commits": []string{nasty}})
	if err != nil {
		s.t.Fatal(err)
	}
	usage, round := json.RawMessage(fmt.Sprintf(`{%q: 1.5}`, "<script>alert(4)</script>")), json.RawMessage(fmt.Sprintf(`{"for": %q}`, "<script>alert(5)</script>"))
	return s.run(journal.Header{Name: nasty, Path: "/" + nasty, Kind: "workflow", Source: []byte("name: " + nasty), Params: json.RawMessage(`{"a":"<script>"}`)},
		event.Event{Type: event.RunStarted, Label: nasty},
		event.Event{Type: event.Note, Message: nasty},
		event.Event{Type: event.StepStarted, Step: nasty, Label: nasty},
		event.Event{Type: event.AttemptStarted, Step: nasty, Attempt: 1},
		event.Event{Type: event.AttemptFailed, Step: nasty, Attempt: 1, Class: nasty, Message: nasty, Data: data},
		event.Event{Type: event.RetryScheduled, Step: nasty, Attempt: 1, DelayMS: 1},
		event.Event{Type: event.StepFinished, Step: nasty, Status: event.Failed, Attempts: 1, Class: nasty, Message: nasty},
		event.Event{Type: event.ItemsReady, Total: 2},
		event.Event{Type: event.ItemStarted, Item: nasty, Index: 1, Label: nasty, Attempt: 1},
		event.Event{Type: event.StepStarted, Item: nasty, Index: 1, Step: nasty, Label: nasty},
		event.Event{Type: event.AttemptStarted, Item: nasty, Index: 1, Step: nasty, Attempt: 1},
		event.Event{Type: event.AttemptFailed, Item: nasty, Index: 1, Step: nasty, Attempt: 1, Class: nasty, Message: nasty, Data: data},
		event.Event{Type: event.ItemFinished, Item: nasty, Index: 1, Status: event.DeadLettered, Attempts: 1, Class: nasty, Message: nasty, Data: data},
		event.Event{Type: event.BreakerChanged, Label: nasty, From: nasty, To: nasty},
		event.Event{Type: event.AgentUsage, Data: usage},
		event.Event{Type: event.StepStarted, Step: nasty + "@1", Label: nasty, Data: round},
		event.Event{Type: event.RunFinished, Status: event.Failed, Message: nasty},
	)
}

func TestHostileTextsAreText(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `echo "$0" >&2; exit 1`, "<script>alert(6)</script>"}})
	id := s.hostileRun()
	s.list.refresh(t.Context())
	v := url.Values{"path": {nasty}}.Encode()
	for _, path := range []string{
		"/", "/?q=" + url.QueryEscape(nasty), "/runs/" + id, "/runs/" + id + "/rows", "/runs/" + id + "/step?" + v, "/runs/" + id + "/step?index=1&" + v,
		"/runs/" + id + "/map", "/runs/" + id + "/map?class=" + url.QueryEscape(nasty), "/runs/" + id + "/items/0", "/runs/" + id + "/dlq", "/runs/" + id + "/graph",
		"/runs/" + id + "/retries?of=" + url.QueryEscape(nasty), "/runs/" + id + "/foresight", "/runs/" + id + "/foresight?set=" + url.QueryEscape(nasty), "/runs/" + id + "/file", "/compare?a=" + id + "&b=" + id,
		"/runs/" + id + "/lines?attempt=1&stream=stderr&" + v, "/runs/" + id + "/find?q=script&attempt=1&stream=stderr&" + v,
		"/runs/" + id + "/items/1", "/runs/" + id + "/map?state=dead_lettered", "/runs/" + id + "/dlq?class=" + url.QueryEscape(nasty), "/compare",
		"/runs/" + id + "/step?stream=stderr&q=" + url.QueryEscape(nasty) + "&" + v,
	} {
		body := s.page(path)
		for _, bad := range []string{"<script>", "<img", `href="javascript:`, "alert(1)</script"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q in it", path, bad)
			}
		}
	}
	for _, path := range []string{"/runs/" + nasty, "/runs/" + id + "/step?path=" + url.QueryEscape(nasty+"x"), "/runs/" + id + "/items/9", "/" + nasty, "/runs/" + id + "/file?name=" + url.QueryEscape(nasty)} {
		u := url.URL{Path: path}
		if p, q, ok := strings.Cut(path, "?"); ok {
			u = url.URL{Path: p, RawQuery: q}
		}
		code, _, body := s.get(s.in, s.at(u.String()))
		if code != http.StatusNotFound || strings.Contains(body, "<script>") {
			t.Errorf("%s gives status %d:\n%s", path, code, body)
		}
	}
	// What a form sends comes back as text: an edit that is no JSON, one that is.
	for _, data := range []string{nasty, strconv.Quote(nasty), "{\"a\":" + strconv.Quote(nasty) + "}"} {
		r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+id+"/edit"), strings.NewReader(url.Values{"index": {"1"}, "data": {data}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if code, _, body := s.do(s.in, r); code != http.StatusOK || strings.Contains(body, "<script>") || strings.Contains(body, "<img") || !strings.Contains(body, "alert(3)") {
			t.Errorf("the edit %.30q gives status %d:\n%s", data, code, body)
		}
	}
	// An action that fails: what it said is text.
	r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+id+"/resume"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if code, _, body := s.do(s.in, r); code >= 500 {
		t.Fatalf("the action gives status %d:\n%s", code, body)
	}
	if body := s.page("/runs/" + id); !strings.Contains(body, "alert(6)") || strings.Contains(body, "<script>") {
		t.Errorf("what the action said:\n%s", body[:min(len(body), 4000)])
	}
	// Data for scripts is JSON, which no browser takes for a page.
	for _, path := range []string{"/series", "/retries?data=1&of=" + url.QueryEscape(nasty), "/cells"} {
		if _, h, _ := s.get(s.in, s.at("/runs/"+id+path)); strings.Contains(h.Get("Content-Type"), "html") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s is %s", path, h.Get("Content-Type"))
		}
	}
	// As it is, an output is plain text in a sandbox.
	_, h, _ := s.get(s.in, s.at("/runs/"+id+"/log?attempt=1&stream=stderr&"+v))
	if !strings.HasPrefix(h.Get("Content-Type"), "text/plain") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("an output is served as %q under %q", h.Get("Content-Type"), h.Get("Content-Security-Policy"))
	}
}

// stepRun is a run with one step whose output is a file, and its reader.
func (s *served) stepRun() (string, *journal.Reader) {
	s.t.Helper()
	id := s.run(journal.Header{Name: "n", Kind: "workflow"},
		event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "talk"},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1},
		event.Event{Type: event.StepFinished, Step: "commands[0]", Status: event.Succeeded, Attempts: 1, Data: json.RawMessage(`{"output":"short"}`)},
		event.Event{Type: event.RunFinished, Status: event.Succeeded},
	)
	r, err := s.store.Read(id)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Close() })
	return id, r
}

// TestNamesOfFilesComeFromTheJournal: nothing of the address becomes a part of a
// file's name, and a link out of the run's directory is not followed.
func TestNamesOfFilesComeFromTheJournal(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id, r := s.stepRun()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("top secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../../../etc/passwd", "commands[0]/../../..", "%2e%2e/journal.db", secret} {
		code, _, body := s.get(s.in, s.at("/runs/"+id+"/log?stream=stdout&attempt=1&path="+url.QueryEscape(path)))
		if code != http.StatusNotFound {
			t.Errorf("the step %q gives status %d: %.80s", path, code, body)
		}
	}
	if code, _, _ := s.get(s.in, s.at("/runs/"+id+"/log?attempt=1&path=commands%5B0%5D&stream="+url.QueryEscape("../../journal.db"))); code != http.StatusNotFound {
		t.Errorf("a stream of another name gives status %d", code)
	}
	file := r.OutputFile(0, "commands[0]", 1, "stdout")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, file); err != nil {
		t.Fatal(err)
	}
	_, _, body := s.get(s.in, s.at("/runs/"+id+"/log?attempt=1&path=commands%5B0%5D&stream=stdout"))
	if strings.Contains(body, "secret") {
		t.Errorf("a link out of the directory was followed: %s", body)
	}
}

// TestGoneLog: the page of a step says where the file of an output is gone.
func TestGoneLog(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	const gone = "the file with the rest is gone"
	for data, says := range map[string]bool{`{"output": "1\n2", "output_file": "/nowhere/commands[0].1.stdout"}`: true, `{"output": "1\n2"}`: false} {
		id := s.run(journal.Header{Name: "one"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.StepStarted, Step: "commands[0]"},
			event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1},
			event.Event{Type: event.StepFinished, Step: "commands[0]", Status: event.Succeeded, Attempts: 1, Data: []byte(data)})
		if body := s.page("/runs/" + id + "/step?path=commands%5B0%5D"); strings.Contains(body, gone) != says || !strings.Contains(body, "stdout") {
			t.Errorf("%s: %.3000s", data, body)
		}
	}
}

// TestLargeLog reads a sparse file of 1 GB by ranges: its end, a place in its
// middle, and what is before it.
func TestLargeLog(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id, r := s.stepRun()
	file := r.OutputFile(0, "commands[0]", 1, "stdout")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 30
	for at, text := range map[int64]string{size / 2: "\nin the middle\n", size - 20: "\nthe last line 12345"} {
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	of := "/runs/" + id + "/%s?attempt=1&path=commands%%5B0%%5D&stream=stdout&"
	took := quickest(func() {
		if body := s.page(fmt.Sprintf(of, "lines")); !strings.Contains(body, "the last line 12345") {
			t.Errorf("the end is not there: %.200s", body)
		}
		if body := s.page(fmt.Sprintf(of, "lines") + fmt.Sprintf("after=%d", size/2+1)); !strings.Contains(body, "in the middle") {
			t.Errorf("the middle is not there: %.200s", body)
		}
		if body := s.page(fmt.Sprintf(of, "lines") + fmt.Sprintf("before=%d", size/2+15)); !strings.Contains(body, "in the middle") {
			t.Errorf("what is before is not there: %.200s", body)
		}
	})
	if took > 5*time.Second {
		t.Errorf("three places of a large file took %s", took)
	}
	req, err := http.NewRequest(http.MethodGet, s.at(fmt.Sprintf(of, "log")), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=-10")
	if code, _, body := s.do(s.in, req); code != http.StatusPartialContent || body != "line 12345" {
		t.Errorf("the last ten bytes are %q with status %d", body, code)
	}
}

// TestStreamGoesOn: a reader that comes back with Last-Event-ID is told the
// cells that changed since, and no others.
func TestStreamGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	j, err := s.store.Create(journal.Header{Name: "m", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	record := func(events ...event.Event) {
		for _, e := range events {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	record(event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 1000},
		event.Event{Type: event.ItemStarted, Index: 7, Attempt: 1}, event.Event{Type: event.ItemFinished, Index: 7, Status: event.Succeeded, Attempts: 1})
	listen := func(last string) (string, []int) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at("/stream?topics=map:"+j.Run()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		res, err := s.in.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return message(t, res)
	}
	id, got := listen("")
	if fmt.Sprint(got) != "[7]" {
		t.Errorf("at first it is told of the items %v", got)
	}
	record(event.Event{Type: event.ItemStarted, Index: 900, Attempt: 1}, event.Event{Type: event.ItemStarted, Index: 9, Attempt: 1})
	time.Sleep(2 * fresh) // the fold is as old as that may be
	if _, got = listen(id); fmt.Sprint(got) != "[9 900]" {
		t.Errorf("after %s it is told of the items %v", id, got)
	}
}

// TestSecretsOfTheFile: values of secrets that are in a file are not shown.
func TestSecretsOfTheFile(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := s.run(journal.Header{Name: "n", Kind: "workflow", Path: "n.yml", Source: []byte("name: n\nsecrets:\n  TOKEN: {provider: value, key: hunter2hunter2}\ncommands:\n  - shell: echo hunter2hunter2\n")},
		event.Event{Type: event.RunStarted})
	for _, path := range []string{"/runs/" + id, "/runs/" + id + "/file", "/runs/" + id + "/graph", "/compare?a=" + id + "&b=" + id} {
		if body := s.page(path); strings.Contains(body, "hunter2") {
			t.Errorf("%s shows a secret", path)
		}
	}
}

// TestMapWithFailuresIsNoSuccess: the timeline and the graph say of a map how
// its items ended, however its phase was recorded.
func TestMapWithFailuresIsNoSuccess(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := s.run(journal.Header{Name: "m", Kind: "mapreduce"},
		event.Event{Type: event.RunStarted},
		event.Event{Type: event.PhaseStarted, Phase: "map"},
		event.Event{Type: event.ItemsReady, Total: 2},
		event.Event{Type: event.ItemStarted, Item: "a", Index: 1, Label: "the first", Attempt: 1},
		event.Event{Type: event.ItemFinished, Item: "a", Index: 1, Label: "the first", Status: event.Succeeded, Attempts: 1},
		event.Event{Type: event.ItemStarted, Item: "b", Index: 2, Attempt: 1},
		event.Event{Type: event.ItemFinished, Item: "b", Index: 2, Status: event.DeadLettered, Attempts: 1},
		event.Event{Type: event.PhaseFinished, Phase: "map", Status: event.Succeeded},
		event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures},
	)
	for _, path := range []string{"", "/graph"} {
		body := s.page("/runs/" + id + path)
		if _, row, ok := strings.Cut(body, `data-key="map"`); !ok || !strings.Contains(row, "completed with failures") || !strings.Contains(row, "1 of 2, 1 failed") || strings.Contains(row, ">succeeded<") {
			t.Errorf("%q says of the map:\n%.1500s", path, row)
		}
	}
	// Items are called by what they are, beside their numbers.
	if body := s.page("/runs/" + id + "/map"); !strings.Contains(body, `>the first</a>`) || !strings.Contains(body, `>b</a>`) {
		t.Errorf("the items have no names:\n%s", body[strings.Index(body, "<tbody>"):])
	}
	if body := s.page("/runs/" + id + "/items/0"); !strings.Contains(body, "Item a <span class=\"itemname\">the first</span>") || !strings.Contains(body, "index 0 (the first is 0)") {
		t.Errorf("the item has no name: %s", body[strings.Index(body, "<h2>"):])
	}
	if body := s.page("/runs/" + id + "/items/1"); !strings.Contains(body, "<h2>Item b</h2>") || !strings.Contains(body, "<title>Item b ") {
		t.Errorf("the item is not called as by dlq list: %.300s", body[strings.Index(body, "<h2>"):])
	}
	if code, h, _ := s.get(s.in, s.at("/runs")); code != http.StatusSeeOther || h.Get("Location") != "/" {
		t.Errorf("/runs gives status %d to %s", code, h.Get("Location"))
	}
	if code, h, _ := s.get(s.in, s.at("/runs/"+id+"/map?item=%231")); code != http.StatusSeeOther || !strings.HasSuffix(h.Get("Location"), "/items/1") {
		t.Errorf("the item of a number gives status %d to %s", code, h.Get("Location"))
	}
}

// findAll follows a search to its end, and gives the places of all lines that it
// found.
func (s *served) findAll(address string) (places []string, requests int) {
	s.t.Helper()
	for from := "0"; ; requests++ {
		if requests > 1000 {
			s.t.Fatal("the search does not end")
		}
		body := s.page(address + "&from=" + from)
		for _, m := range regexp.MustCompile(`data-at="(\d+)"`).FindAllStringSubmatch(body, -1) {
			places = append(places, m[1])
		}
		m := regexp.MustCompile(`data-more="(\w+)" data-next="(\d+)"`).FindStringSubmatch(body)
		if m == nil {
			s.t.Fatalf("the answer does not say where it goes on: %.300s", body)
		}
		if m[1] == "false" {
			return places, requests + 1
		}
		from = m[2]
	}
}

// TestSearchFindsAll: a search that is followed to its end gives each matching line
// once, however many there are, wherever the parts end that are read at once.
func TestSearchFindsAll(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id, r := s.stepRun()
	file := r.OutputFile(0, "commands[0]", 1, "stdout")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	find := "/runs/" + id + "/find?attempt=1&path=commands%5B0%5D&stream=stdout&q=needle"
	long := strings.Repeat("x", findBytes) // of one line
	for name, text := range map[string]string{
		"many lines":              strings.Repeat("hay\na needle here\n", 1000),
		"all lines, no end":       strings.Repeat("needle\n", 2*maxFinds) + "needle",
		"as many as at once":      strings.Repeat("needle\n", maxFinds),
		"beyond what is read":     strings.Repeat("hay in a long line of it\n", findBytes/20) + "needle\n",
		"twice in a line":         "needle and needle\nNEEDLE\n",
		"across parts of a line":  long[3:] + "needle" + long[100:] + "needle\nneedle\n",
		"more than one long line": long + "\n" + long + "needle\n" + long,
	} {
		if err := os.WriteFile(file, []byte(text+strings.Repeat("\n", proc.SpillThreshold)), 0o600); err != nil {
			t.Fatal(err)
		}
		var want []string
		at := 0
		for line := range strings.Lines(text) {
			if strings.Contains(strings.ToLower(line), "needle") {
				want = append(want, strconv.Itoa(at))
			}
			at += len(line)
		}
		got, _ := s.findAll(find)
		if parts := map[string]int{"across parts of a line": 2, "more than one long line": 1}[name]; parts > 0 {
			if len(got) != parts { // of a long line each part that is read
				t.Errorf("%s: it finds %d places, want %d", name, len(got), parts)
			}
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: it finds %d lines, want %d", name, len(got), len(want))
		}
	}
}

// TestLongFiles: a file of more lines than are shown says how many are left out.
func TestLongFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	source := "commands:\n  - shell: \"true\"\n" + strings.Repeat("# a line\n", maxLines)
	id := s.run(journal.Header{Name: "n", Path: "n.yml", Kind: "workflow", Source: []byte(source)}, event.Event{Type: event.RunStarted})
	body := s.page("/runs/" + id + "/file")
	if got := strings.Count(body, `class="ln"`); got != maxLines {
		t.Errorf("it shows %d lines, want %d", got, maxLines)
	}
	if !strings.Contains(body, "2 more lines are not shown") {
		t.Error("it does not say that two lines are left out")
	}
	if whole := s.page("/runs/" + id + "/file?raw=1"); whole != source {
		t.Errorf("the whole file has %d bytes, want %d", len(whole), len(source))
	}
}

// TestNamesOfAnyShape: a name is shown as it is, however long it is and whatever
// turns the direction of writing in it; what is pressed is about the right item.
func TestNamesOfAnyShape(t *testing.T) {
	t.Parallel()
	said := filepath.Join(t.TempDir(), "said")
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `printf '%s\n' "$@" > "$0"`, said}})
	j, err := s.store.Create(journal.Header{Name: "n\u202eame", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{strings.Repeat("x", 10<<10), "\u202etxt.live\u2069"}
	items := func(yield func(event.Item, error) bool) {
		for _, id := range ids {
			if !yield(event.Item{ID: id, Data: []byte(`{"id":` + strconv.Quote(id) + `}`)}, nil) {
				return
			}
		}
	}
	if _, _, err := j.PutItems(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 2}}
	for i, id := range ids {
		for _, e := range []event.Event{{Type: event.ItemStarted, Attempt: 1, Label: "label " + id}, {Type: event.ItemFinished, Status: event.DeadLettered, Attempts: 1, Class: "exit", Message: "no \u202e" + id, Data: json.RawMessage(`{}`)}} {
			e.Item, e.Index = id, i+1
			events = append(events, e)
		}
	}
	for _, e := range events {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	s.list.refresh(t.Context())
	for _, path := range []string{"/", "", "/map", "/dlq", "/items/0", "/items/1", "/graph"} {
		if path != "/" {
			path = "/runs/" + j.Run() + path
		}
		body := s.page(path)
		if strings.ContainsFunc(body, func(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }) {
			t.Errorf("%s turns the direction of writing", path)
		}
		if !strings.Contains(body, `n\u202eame`) {
			t.Errorf("%s does not show what is in the name", path)
		}
		if strings.Contains(path, "items") {
			continue // shows all of it, wrapped
		}
		for _, word := range strings.FieldsFunc(body, func(r rune) bool { return strings.ContainsRune(" <>\"\n", r) }) {
			if len(word) > 400 {
				t.Errorf("%s has a word of %d bytes: %.60s", path, len(word), word)
			}
		}
	}
	r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+j.Run()+"/retry"), strings.NewReader("index=2"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if code, _, body := s.do(s.in, r); code != http.StatusSeeOther {
		t.Fatalf("status %d: %.300s", code, body)
	}
	if b, err := os.ReadFile(said); err != nil || !slices.Contains(strings.Split(string(b), "\n"), "--item="+ids[1]) {
		t.Errorf("the program is called with %q (%v)", b, err)
	}
}
