package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

// letters are the events of items that became dead letters, from an index on.
func letters(from, n int, class, message, data string) (list []event.Event) {
	for i := from; i < from+n; i++ {
		list = append(list, event.Event{Type: event.ItemStarted, Index: i, Attempt: 1},
			event.Event{Type: event.ItemFinished, Index: i, Status: event.DeadLettered, Attempts: 1, Class: class, Message: message, Data: json.RawMessage(data)})
	}
	return list
}

// head is what is above the tabs of a page.
func head(t *testing.T, body string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `data-part="head"`)
	out, _, ok2 := strings.Cut(rest, `class="tabs"`)
	if !ok || !ok2 {
		t.Fatalf("the page has no head:\n%.2000s", body)
	}
	return out
}

// TestARunOpensOnItsAnswer: above the tabs stand the causes with their counts and a
// button each, what was not merged, notes, parameters, directory and cost; and the
// error of the run once.
func TestARunOpensOnItsAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	events := []event.Event{{Type: event.RunStarted, Label: "nightly"}, {Type: event.Note, Message: "the work of item 7 is kept"},
		{Type: event.StepStarted, Step: "commands[0]", Label: "outer"}, {Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1},
		{Type: event.StepStarted, Step: "commands[0].do[0]@0", Label: "inner"}, {Type: event.AttemptStarted, Step: "commands[0].do[0]@0", Attempt: 1},
		{Type: event.StepFinished, Step: "commands[0].do[0]@0", Status: event.Failed, Attempts: 1, Class: "exit", Message: "disk full"},
		{Type: event.StepFinished, Step: "commands[0]", Status: event.Failed, Attempts: 1, Class: "exit", Message: "inner: disk full"},
		{Type: event.AgentUsage, Data: json.RawMessage(`{"cost_usd": 1.5}`)}, {Type: event.AgentUsage, Data: json.RawMessage(`{"cost_usd": 0.75}`)},
		{Type: event.ItemsReady, Total: 9}}
	events = append(events, letters(1, 5, "timeout", "no answer after 3s", `{}`)...)
	events = append(events, letters(6, 2, "exit", "exit status 1", `{"branch":"bide/x/7"}`)...)
	events = append(events, event.Event{Type: event.ItemStarted, Index: 8}, event.Event{Type: event.ItemFinished, Index: 8, Status: event.Failed, Class: "exit", Message: "not kept", Data: json.RawMessage(`{}`)},
		event.Event{Type: event.ItemFinished, Index: 6, Status: event.DeadLettered, Attempts: 2, Class: "exit", Message: "exit status 1", Data: json.RawMessage(`{"output":"\"branch\":\"no\""}`)}, // again, without a branch
		event.Event{Type: event.RunFinished, Status: event.Failed, Message: "the message of the run"})
	id := s.run(journal.Header{Name: "nightly", Path: "/w/nightly.yml", Dir: "/w/here", Kind: "mapreduce", Params: json.RawMessage(`{"who":"you","n":3}`)}, events...)
	body := head(t, s.page("/runs/"+id))
	text := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " ")), " ")
	at := 0
	for _, want := range []string{"It failed after", "1 step exit inner: disk full Retry", "5 items timeout no answer after 3s Retry", "2 items exit exit status 1 Retry", "1 item failed, and is no dead letter",
		"The work of 1 item that failed is in a branch. bide worktree ls lists the branches.", "the work of item 7 is kept", "agents' cost $2.25", "n 3", "who you", "directory /w/here"} {
		want := strings.ReplaceAll(want, "'", "'")
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Errorf("after %q it does not say %q:\n%s", text[max(0, at-40):at], want, text)
			continue
		}
		at += i + len(want)
	}
	if strings.Contains(text, "outer") || strings.Contains(text, "the message of the run") {
		t.Errorf("it says what the causes say:\n%s", text)
	}
	if n := strings.Count(body, `name="group" value="`); n != 2 {
		t.Errorf("%d groups have a button, want 2", n)
	}
	if !strings.Contains(body, `action="/runs/`+id+`/resume"`) {
		t.Error("the step that failed has no button")
	}
	if other := head(t, s.page("/runs/"+id+"/map")); strings.Contains(other, "class=\"answer\"") || !strings.Contains(other, "the message of the run") {
		t.Error("another page of the run has the answer, or lacks the run's error")
	}
}

// TestStripOfRuns: the last runs of a workflow are beside each other, the oldest
// first, as high as they took long.
func TestStripOfRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	began := time.Now().Add(-time.Hour)
	var ids []string
	for i, took := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		at := began.Add(time.Duration(i) * 10 * time.Minute)
		ids = append(ids, s.run(journal.Header{Name: "nightly", Path: "/w/nightly.yml", Kind: "workflow", Started: at}, event.Event{Type: event.RunStarted, Time: at},
			event.Event{Type: event.RunFinished, Status: event.Succeeded, Time: at.Add(took)}))
	}
	alone := s.run(journal.Header{Name: "nightly", Path: "/w/other.yml", Kind: "workflow"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	s.list.refresh(t.Context())
	body := s.page("/runs/" + ids[1])
	var got []string
	for _, m := range regexp.MustCompile(`<a href="/runs/(\w+)" aria-label="[^"]*"( aria-current="page")?>.*?height="([0-9.]+)" rx`).FindAllStringSubmatch(body, -1) {
		got = append(got, fmt.Sprintf("%d %v %s", slices.Index(ids, m[1]), m[2] != "", m[3]))
	}
	if want := []string{"0 false 8.5", "1 true 17", "2 false 34"}; !slices.Equal(got, want) {
		t.Errorf("the strip is %q, want %q", got, want)
	}
	if !strings.Contains(body, "the last 3 runs: 3 succeeded; 1m to 4m") {
		t.Error("the strip has no words")
	}
	if strings.Contains(s.page("/runs/"+alone), `class="strip"`) {
		t.Error("a run that is alone has a strip")
	}
}

// TestBatchesAreNamedByTheirCommand: in the list and on their pages.
func TestBatchesAreNamedByTheirCommand(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	source := "name: batch\nmode: mapreduce\nmap:\n  input: list\n  agent_template:\n    - name: command\n      shell: gzip -9 \"${item.arg}\"\n"
	batch := func(options string) string {
		return s.run(journal.Header{Name: "batch", Path: "/h/batches/batch.yml", Kind: "mapreduce", Source: []byte(source), Options: json.RawMessage(options)},
			event.Event{Type: event.RunStarted, Label: "batch"}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	}
	id := batch(`{"batch":{"words":["gzip","-9","a b","{}"]}}`)
	one := batch(`{"batch":{"command":"claude: review {}"}}`)
	s.list.refresh(t.Context())
	for _, path := range []string{"/", "/?q=gzip", "/runs/" + id} {
		if !strings.Contains(s.page(path), "batch: gzip -9 &#39;a b&#39; {}") {
			t.Errorf("%s does not name the command", path)
		}
	}
	if !strings.Contains(s.page("/runs/"+one), "<h1>batch: claude: review {}</h1>") {
		t.Error("a command that is a text is not named")
	}
}

// TestETA: what is left at the pace of the last minutes in which the run ran, and bounds
// that hold the truth nearly always. The time between a kill and a resume is no part of it.
func TestETA(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	start := time.Now().Add(-time.Hour)
	at := func(d time.Duration, e event.Event) event.Event { e.Time = start.Add(d); return e }
	end := func(n int, d time.Duration) event.Event {
		return at(d, event.Event{Type: event.ItemFinished, Index: n, Status: event.Succeeded, Attempts: 1, Data: json.RawMessage(`{}`)})
	}
	events := []event.Event{at(0, event.Event{Type: event.RunStarted}), at(0, event.Event{Type: event.ItemsReady, Total: 400}), at(0, event.Event{Type: event.PhaseStarted, Phase: "map"})}
	for n := 1; n <= 100; n++ { // one a second
		events = append(events, end(n, time.Duration(n)*time.Second))
	}
	eta := func(now time.Duration) (text string) {
		t.Helper()
		id := s.run(journal.Header{Name: "m", Kind: "mapreduce"}, events...)
		if err := s.runs.with(id, func(r *run) error { return r.look(t.Context(), func() { text = r.items.eta(start.Add(now)) }) }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got, want := eta(100*time.Second), "about 5m left (4m10s to 6m15s)"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	const later = 6 * time.Minute // five after the kill
	events = append(events, at(later, event.Event{Type: event.RunResumed}), at(later, event.Event{Type: event.PhaseStarted, Phase: "map"}))
	if got := eta(later + time.Second); got != "" {
		t.Errorf("when nothing has ended since the resume, it says %q", got)
	}
	for n := 101; n <= 200; n++ { // two a second
		events = append(events, end(n, later+time.Duration(n-100)*time.Second/2))
	}
	if got, want := eta(later+50*time.Second), "about 1m40s left (1m23s to 2m5s)"; got != want {
		t.Errorf("after the resume it says %q, want %q", got, want)
	}
}

// TestFailedItemsFirst: on all pages of the list, each item once.
func TestFailedItemsFirst(t *testing.T) {
	t.Parallel()
	var x items
	x.grow(3 * perPage)
	for i, s := range map[int]journal.ItemStatus{7: journal.ItemFailed, 250: journal.ItemDeadLettered, 251: journal.ItemSucceeded, 280: journal.ItemWaiting} {
		x.set(i, s)
	}
	var got []int
	for from := 0; from < 3*perPage; from += perPage {
		b := mapBody{From: from}
		got = append(got, b.choose(&x)...)
		if b.Fit != 3*perPage {
			t.Errorf("%d items fit", b.Fit)
		}
	}
	if !slices.Equal(got[:4], []int{8, 251, 281, 1}) {
		t.Errorf("it begins with %v", got[:4])
	}
	if slices.Sort(got); len(slices.Compact(got)) != 3*perPage {
		t.Errorf("%d different items are listed", len(slices.Compact(got)))
	}
}

// TestControls: each button calls the program with its arguments, and only what has a
// use is there.
func TestControls(t *testing.T) {
	t.Parallel()
	said := filepath.Join(t.TempDir(), "said")
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `printf '%s ' "$@" > "$0"`, said}})
	j, err := s.store.Create(journal.Header{Name: "m", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	put := func(list ...event.Event) {
		t.Helper()
		for _, e := range list {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	id := j.Run()
	buttons := func() (list []string) {
		t.Helper()
		_ = s.runs.with(id, func(r *run) error { // nothing is fresh
			r.mu.Lock()
			defer r.mu.Unlock()
			r.read = time.Time{}
			return nil
		})
		for _, m := range regexp.MustCompile(`action="/runs/\w+/([a-z-]+)"`).FindAllStringSubmatch(head(t, s.page("/runs/"+id)), -1) {
			list = append(list, m[1])
		}
		return list
	}
	put(event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 2}, event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1})
	if got, want := buttons(), []string{"pause", "parallel", "stop", "kill"}; !slices.Equal(got, want) {
		t.Errorf("the buttons are %q, want %q", got, want)
	}
	put(event.Event{Type: event.RunPaused, DelayMS: 3_600_000, Time: time.Now()})
	if got, want := buttons(), []string{"pause", "retry-now", "parallel", "stop", "kill"}; !slices.Equal(got, want) {
		t.Errorf("while agents are held back they are %q, want %q", got, want)
	}
	put(event.Event{Type: event.PauseEnded, Time: time.Now()})
	if got, want := buttons(), []string{"pause", "parallel", "stop", "kill"}; !slices.Equal(got, want) {
		t.Errorf("after that they are %q, want %q", got, want)
	}
	put(event.Event{Type: event.HoldStarted, Message: "the map is held", DelayMS: 1000, Time: time.Now()})
	if got, want := buttons(), []string{"pause", "probe", "continue", "parallel", "stop", "kill"}; !slices.Equal(got, want) {
		t.Errorf("while the map is held they are %q, want %q", got, want)
	}
	put(event.Event{Type: event.HoldEnded, Time: time.Now()})
	put(event.Event{Type: event.ItemRetry, Index: 1, Attempt: 1, DelayMS: 3_600_000, Time: time.Now()}, event.Event{Type: event.RunControlled, Label: journal.Pause, Time: time.Now()})
	if got, want := buttons(), []string{"continue", "retry-now", "parallel", "stop", "kill"}; !slices.Equal(got, want) {
		t.Errorf("of a paused run they are %q, want %q", got, want)
	}
	if body := head(t, s.page("/runs/"+id)); !strings.Contains(body, "1 item waits for a retry") || !strings.Contains(body, "Paused since") {
		t.Errorf("it does not say what it waits for:\n%s", body)
	}
	post := func(action string, form url.Values) int {
		r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+id+"/"+action), strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		code, _, _ := s.do(s.in, r)
		return code
	}
	for action, want := range map[string]string{"pause": "pause", "continue": "continue", "retry-now": "retry-now", "probe": "probe", "parallel": "parallel 3"} {
		if code := post(action, url.Values{"parallel": {"3"}}); code != http.StatusSeeOther {
			t.Errorf("%s gives status %d", action, code)
		}
		if b, err := os.ReadFile(said); err != nil || string(b) != "control "+id+" "+want+" " {
			t.Errorf("%s calls the program with %q (%v)", action, b, err)
		}
	}
	if code := post("parallel", url.Values{"parallel": {"2000000"}}); code != http.StatusSeeOther { // as bide control takes it
		t.Errorf("parallel 2000000 gives status %d", code)
	}
	for _, bad := range []string{"", "0", "-1", "3; rm", "1e9"} {
		if code := post("parallel", url.Values{"parallel": {bad}}); code != http.StatusBadRequest {
			t.Errorf("parallel %q gives status %d", bad, code)
		}
	}
}

// TestCommandAndErrorOnce: a step's page has its command and the error of the attempt
// once, an item's those of its steps.
func TestCommandAndErrorOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	source := "name: m\nmode: mapreduce\nsetup:\n  - shell: prepare --all\nmap:\n  input: list\n  agent_template:\n    - claude: Mend ${item.file}\n"
	started := func(index int, step string) []event.Event {
		return []event.Event{{Type: event.StepStarted, Index: index, Step: step, Label: "label"}, {Type: event.AttemptStarted, Index: index, Step: step, Attempt: 1},
			{Type: event.AttemptFailed, Index: index, Step: step, Attempt: 1, Class: "exit", Message: "the only error"},
			{Type: event.StepFinished, Index: index, Step: step, Status: event.Failed, Attempts: 1, Class: "exit", Message: "the only error"}}
	}
	events := append([]event.Event{{Type: event.RunStarted}}, started(0, "setup[0]")...)
	events = append(events, event.Event{Type: event.ItemsReady, Total: 1}, event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1})
	events = append(append(events, started(1, "map.agent_template[0]")...), event.Event{Type: event.ItemFinished, Index: 1, Status: event.DeadLettered, Attempts: 1, Class: "exit", Message: "the only error", Data: json.RawMessage(`{}`)})
	id := s.run(journal.Header{Name: "m", Path: "m.yml", Kind: "mapreduce", Source: []byte(source)}, append(events, event.Event{Type: event.RunFinished, Status: event.Failed})...)
	look := func(prompt string) {
		t.Helper()
		for path, want := range map[string]string{
			"/step?path=setup%5B0%5D": "prepare --all", "/step?index=1&path=map.agent_template%5B0%5D": prompt, "/items/0": prompt,
		} {
			_, body, _ := strings.Cut(s.page("/runs/"+id+path), `class="tabs"`)
			if n := strings.Count(body, want); n != 1 {
				t.Errorf("%s has %q %d times", path, want, n)
			}
			if n := strings.Count(body, "the only error"); n != 1 {
				t.Errorf("%s has the error %d times", path, n)
			}
		}
	}
	look("Mend ${item.file}")
	r, err := s.store.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file := r.OutputFile(1, "map.agent_template[0]", 1, "prompt")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("Mend a.go and b.go"), 0o600)); err != nil {
		t.Fatal(err)
	}
	look("Mend a.go and b.go")
	if body := s.page("/runs/" + id + "/step?index=1&path=map.agent_template%5B0%5D"); !strings.Contains(body, "the prompt as it was sent") || strings.Contains(body, "${item.file}") || strings.Contains(body, ">prompt</a>") {
		t.Error("the page has what the file says, or the prompt as an output")
	}
}

// TestUnmergedIsToldOnce: what the run says it left unmerged is shown once, with a button
// that merges it; what failed apart; and nothing of it once it was merged.
func TestUnmergedIsToldOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	var events []event.Event
	for i := 1; i <= 3; i++ {
		status := event.Succeeded
		if i == 3 {
			status = event.Failed
		}
		events = append(events, event.Event{Type: event.ItemStarted, Index: i, Attempt: 1},
			event.Event{Type: event.ItemFinished, Index: i, Status: status, Attempts: 1, Data: json.RawMessage(`{"branch":"bide/x/1"}`)})
	}
	run := func(after ...event.Event) string {
		all := append([]event.Event{{Type: event.RunStarted}, {Type: event.Note, Message: "other"}, {Type: event.ItemsReady, Total: 3}}, events...)
		all = append(all, event.Event{Type: event.Note, Class: event.Unmerged, Label: "bide worktree merge X", Message: "the work of 2 items was left uncommitted; merge it with: bide worktree merge X"},
			event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})
		return s.run(journal.Header{Name: "n", Kind: "mapreduce"}, append(all, after...)...)
	}
	id := run()
	body := head(t, s.page("/runs/"+id))
	for _, want := range []string{"<b>The work of 2 items was left uncommitted.</b> The work of 1 item that failed is in a branch.", `action="/runs/` + id + `/merge"`, "<li>other</li>"} {
		if !strings.Contains(body, want) {
			t.Errorf("it lacks %q:\n%s", want, body)
		}
	}
	if n := strings.Count(body, "left uncommitted"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
	body = head(t, s.page("/runs/"+run(event.Event{Type: event.Note, Class: event.Merged, Message: "all is merged", Data: json.RawMessage(`{"items":[1,2]}`)})))
	if strings.Contains(body, "left uncommitted") || strings.Contains(body, "/merge") || !strings.Contains(body, "<li>all is merged</li>") || !strings.Contains(body, "1 item that failed is in a branch") {
		t.Errorf("after the merge it says:\n%s", body)
	}
	body = head(t, s.page("/runs/"+run(event.Event{Type: event.Note, Class: event.Unmerged, Label: "bide worktree merge X", Message: "not all work could be merged", Data: json.RawMessage(`{"items":[1]}`)})))
	if strings.Contains(body, "left uncommitted") || strings.Count(body, "Not all work could be merged") != 1 || !strings.Contains(body, "/merge") {
		t.Errorf("after a merge of some it says:\n%s", body)
	}
}

// TestTookIsOneFigure: how long a run took is as it counted it, everywhere.
func TestTookIsOneFigure(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	at := time.Now().Add(-time.Hour)
	id := s.run(journal.Header{Name: "n", Kind: "workflow", Started: at}, event.Event{Type: event.RunStarted, Time: at.Add(300 * time.Millisecond)},
		event.Event{Type: event.RunFinished, Status: event.Succeeded, DurationMS: 1300, Time: at.Add(1600 * time.Millisecond)},
		event.Event{Type: event.Note, Message: "much later", Time: at.Add(time.Minute)})
	s.list.refresh(t.Context())
	page := s.page("/runs/" + id)
	for _, want := range []string{"It succeeded after 1.3s.", "<dt>took</dt><dd>1.3s</dd>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if !strings.Contains(s.page("/"), `<td class="r">1.3s</td>`) {
		t.Error("the list has another figure")
	}
}

// TestItemsAtOnce: the field has how many items run at once now.
func TestItemsAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options, want string
		events        []event.Event
	}{
		{"", "7", nil},
		{`{"max_parallel":3}`, "3", nil},
		{`{"max_parallel":3}`, "12", []event.Event{{Type: event.RunControlled, Label: journal.Parallel, Total: 12}}},
	} {
		h := journal.Header{Name: "n", Kind: "mapreduce", Source: []byte("name: n\nmode: mapreduce\nmap:\n  input: [1]\n  max_parallel: 7\n  agent_template: [{shell: 'true'}]\n")}
		if c.options != "" {
			h.Options = json.RawMessage(c.options)
		}
		line := timeline.New(h)
		for _, e := range append([]event.Event{{Type: event.RunStarted}}, c.events...) {
			line.Apply(e)
		}
		if got := fmt.Sprint(line.AtOnce()); got != c.want {
			t.Errorf("%s: %s items at once, want %s", c.options, got, c.want)
		}
	}
}

// TestItemHasItsEvidence: the page of an item has what it has shown, and the merge of it.
func TestItemHasItsEvidence(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	id := s.run(journal.Header{Name: "m", Kind: "mapreduce"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 5},
		event.Event{Type: event.ItemStarted, Item: "w", Index: 3, Attempt: 1}, event.Event{Type: event.ItemMerging, Item: "w", Index: 3, Attempt: 1, Status: event.Pending, Data: json.RawMessage(`{"result":{"evidence":{}}}`)},
		event.Event{Type: event.ItemStarted, Item: "v", Index: 4, Attempt: 1}, event.Event{Type: event.ItemMerging, Item: "v", Index: 4, Attempt: 1, Status: event.Pending, Data: json.RawMessage(`{"result":{"evidence":{}}}`)},
		event.Event{Type: event.MergeVerified, Status: event.Succeeded, Data: json.RawMessage(`{"items":["v"]}`)}, event.Event{Type: event.MergeVerified, Status: event.Failed, Data: json.RawMessage(`{"items":["w"]}`)},
		event.Event{Type: event.ItemStarted, Index: 5, Attempt: 1}, event.Event{Type: event.ItemFinished, Index: 5, Status: event.DeadLettered, Attempts: 1, Class: "merge_check", Message: "no"},
		event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1}, event.Event{Type: event.ItemMerging, Index: 1, Attempt: 1, Status: event.Pending, Data: json.RawMessage(`{}`)},
		event.Event{Type: event.ItemFinished, Index: 1, Status: event.Succeeded, Attempts: 1, Data: json.RawMessage(
			`{"output":"","merge":"0123456789abcdef","evidence":{"commit":"c","tree":"feedbeefcafe99","base":"b","changed":1,"checks":[{"check":"make <test>","status":"succeeded","exit_code":0}]}}`)},
		event.Event{Type: event.ItemStarted, Index: 2, Attempt: 1},
		event.Event{Type: event.ItemFinished, Index: 2, Status: event.DeadLettered, Attempts: 1, Class: "evidence", Message: "no", Data: json.RawMessage(
			`{"evidence":{"commit":"c","tree":"t","base":"b","changed":1,"refused":["x_test.go"],"checks":[{"check":"vet","status":"failed","exit_code":7}]}}`)},
		event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})
	for path, want := range map[string][]string{
		"/map":     {"evidence passed, merged", "evidence failed", "evidence passed, waits to be merged", "evidence passed, verified", "merge refused", ">Proof<", "<b>2</b> wait to be merged"},
		"/items/0": {"make &lt;test&gt;", "feedbeefcafe", "0123456789ab", "waits in the merge queue"},
		"/items/1": {"must not: ", "x_test.go", "exit status 7"},
	} {
		body := s.page("/runs/" + id + path)
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s has no %q", path, text)
			}
		}
	}
}

// TestAttemptFailedAfterItsSteps: an attempt whose steps succeeded, and whose work could not
// be merged, is not shown as one that succeeded.
func TestAttemptFailedAfterItsSteps(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	step := func(try int) []event.Event {
		return []event.Event{{Type: event.ItemStarted, Item: "a", Index: 1, Attempt: try}, {Type: event.StepStarted, Item: "a", Index: 1, Step: "map.agent_template[0]"},
			{Type: event.AttemptStarted, Item: "a", Index: 1, Step: "map.agent_template[0]", Attempt: 1},
			{Type: event.StepFinished, Item: "a", Index: 1, Step: "map.agent_template[0]", Status: event.Succeeded, Attempts: 1}}
	}
	events := append([]event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 1}}, step(1)...)
	events = append(events, event.Event{Type: event.ItemFinished, Item: "a", Index: 1, Status: event.DeadLettered, Attempt: 1, Attempts: 1, Class: "conflict", Message: "conflict in x"},
		event.Event{Type: event.ItemRequeued, Item: "a", Index: 1})
	events = append(append(events, step(2)...), event.Event{Type: event.ItemFinished, Item: "a", Index: 1, Status: event.Succeeded, Attempt: 2, Attempts: 2}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	body := s.page("/runs/" + s.run(journal.Header{Name: "m", Kind: "mapreduce"}, events...) + "/items/0")
	for _, want := range []string{`Attempt 1 <span class="t-failed">✗ failed</span> <span class="id">after its steps: conflict</span>`, `Attempt 2 <span class="t-succeeded">✓ succeeded</span></h3>`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestMorning: the list says what most items of a run failed of, a run says how it was
// interrupted and what held it, and what failed of a pipeline is a call.
func TestMorning(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	at := time.Now().Add(-time.Hour)
	letter := func(index int, class, message string) event.Event {
		return event.Event{Type: event.ItemFinished, Index: index, Status: event.DeadLettered, Attempts: 1, Class: class, Message: message, Time: at}
	}
	failed := []event.Event{{Type: event.RunStarted, Time: at}, {Type: event.ItemsReady, Total: 4, Time: at}, letter(1, "exit", "bad row 1"), letter(2, "network", "refused"), letter(3, "network", "refused")}
	errs := `{"items":{"total":4,"failed":3,"succeeded":1},"steps":{},"errors":[{"class":"exit","count":1,"example":"bad row 1"},{"class":"network","count":2,"example":"refused"}]}`
	end := event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures, Data: json.RawMessage(errs), Time: at}
	s.run(journal.Header{Name: "first", Kind: "mapreduce", Started: at}, append(failed, end)...)
	end.Time = at.Add(time.Minute) // it was resumed: its events are read
	s.run(journal.Header{Name: "second", Kind: "mapreduce", Started: at}, append(failed, end)...)
	stopped := s.run(journal.Header{Name: "third", Kind: "mapreduce", Started: at}, event.Event{Type: event.RunStarted, Time: at}, event.Event{Type: event.RunFinished, Status: event.Interrupted, Message: "interrupted", Time: at})
	died := s.run(journal.Header{Name: "fourth", Kind: "mapreduce", Started: at}, event.Event{Type: event.RunStarted, Time: at}, event.Event{Type: event.ItemsReady, Total: 4, Time: at},
		event.Event{Type: event.HoldStarted, Message: `the map is held: 5 items failed with "no key"`, DelayMS: 1000, Time: at})
	called := s.run(journal.Header{Name: "fifth", Kind: "pipeline", Started: at}, event.Event{Type: event.RunStarted, Time: at}, event.Event{Type: event.StepStarted, Step: "x.F", Label: "x = F", Time: at},
		event.Event{Type: event.StepFinished, Step: "x.F", Label: "x = F", Status: event.Failed, Message: "no", Time: at}, event.Event{Type: event.RunFinished, Status: event.Failed, Message: "no", Time: at})
	s.list.refresh(t.Context())
	list := s.page("/")
	if n := strings.Count(list, `<span class="sub msg">2 × network, 1 otherwise: refused</span>`); n != 2 {
		t.Errorf("%d runs of the list have their cause, want 2", n)
	}
	if strings.Contains(list, `<span class="sub msg">interrupted</span>`) {
		t.Error("the list says twice that a run was interrupted")
	}
	for id, want := range map[string]string{
		stopped: "It was stopped 1h ago; a resume continues it.",
		died:    "Its process died: it was killed, the machine went down, or its disk was full; the last that it recorded happened 1h ago; a resume continues it. The map is held: 5 items failed with &#34;no key&#34;, since " + at.Local().Format(time.DateTime) + ".",
		called:  "<b class=\"t-failed\">1</b> call",
	} {
		if body := s.page("/runs/" + id); !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestExampleOfACauseIsOfALetter: when the item of the example is mended, the cause shows
// the message of one that is still a letter, on the page of the run, in the list of runs
// and above the letters; and a letter's message is its own, not that of a later note.
func TestExampleOfACauseIsOfALetter(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	events := []event.Event{{Type: event.RunStarted, Label: "m"}, {Type: event.ItemsReady, Total: 6}}
	for i := 1; i <= 6; i++ {
		events = append(events, letters(i, 1, "exit", fmt.Sprintf("cannot open /data/file-%d", i), `{}`)...)
		events = append(events, event.Event{Type: event.Note, Index: i, Message: fmt.Sprintf("item %d failed after 1 attempt: it", i)})
	}
	failed := event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures}
	events = append(events, failed)
	for i := 1; i <= 5; i++ {
		events = append(events, event.Event{Type: event.ItemRequeued, Index: i}, event.Event{Type: event.ItemStarted, Index: i, Attempt: 2},
			event.Event{Type: event.ItemFinished, Index: i, Status: event.Succeeded, Attempts: 2})
	}
	id := s.run(journal.Header{Name: "m", Path: "/w/m.yml", Kind: "mapreduce"}, append(events, failed)...)
	s.list.refresh(t.Context())
	for path, n := range map[string]int{"/": 1, "/runs/" + id: 2, "/runs/" + id + "/dlq": 2} {
		body := s.page(path)
		if path == "/runs/"+id {
			body = head(t, body)
		}
		if got := regexp.MustCompile(`cannot open /data/file-\d|failed after 1 attempt`).FindAllString(body, -1); !slices.Equal(got, slices.Repeat([]string{"cannot open /data/file-6"}, n)) {
			t.Errorf("%s says %q", path, got)
		}
	}
}

// TestWeakCausesNameTheStep: where a message names no cause, the page says which step failed.
func TestWeakCausesNameTheStep(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 6}}
	events = append(events, letters(1, 3, "exit", "exit status 1", `{"steps":[{"step":"fetch","size":1}],"correlation_id":"r/1","step":"map.agent_template[1]","step_label":"cc <a>"}`)...)
	events = append(events, letters(4, 2, "exit", "exit status 1", `{"correlation_id":"r/4","step":"map.agent_template[2]"}`)...)
	events = append(events, letters(6, 1, "exit", "exit status 1: no room", `{"correlation_id":"r/6","step":"map.agent_template[2]","step_label":"upload"}`)...)
	id := s.run(journal.Header{Name: "m", Path: "m.yml", Kind: "mapreduce"}, append(events, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})...)
	for path, named := range map[string][]string{"": {`step "cc <a>": exit status 1`, `step "map.agent_template[2]": exit status 1`}, "/dlq": {"step “cc <a>”: exit status N", "step “map.agent_template[2]”: exit status N"}} {
		body := html.UnescapeString(s.page("/runs/" + id + path))
		for _, want := range named {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in page %q", want, path)
			}
		}
		if strings.Contains(body, `"upload"`) || strings.Contains(body, "“upload”") {
			t.Errorf("page %q names the step where the message says enough", path)
		}
	}
}
