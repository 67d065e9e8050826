package web

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

// TestCells: a cell tells every status, and that of an unchanged item is none that
// another one may have.
func TestCells(t *testing.T) {
	var x items
	x.grow(1)
	for s := journal.ItemPending; s <= journal.ItemUnchanged; s++ {
		x.set(0, s)
		if got := x.status(0); got != s || x.counts[s] != 1 {
			t.Errorf("%s is read as %s", s, got)
		}
		if s != journal.ItemUnchanged {
			x.attempt(0, 2)
		}
	}
	x.set(0, journal.ItemRunning)
	if x.status(0) != journal.ItemRunning || x.cells[0]>>classShift != 0 {
		t.Errorf("the cell is %b", x.cells[0])
	}
	for i := range 40 { // more classes than have a place
		x.set(0, journal.ItemFailed)
		x.class(0, string(rune('a'+i)))
		if x.status(0) != journal.ItemFailed {
			t.Fatalf("after %d classes the cell is %b", i+1, x.cells[0])
		}
	}
	if n := len(x.classes); n != maxClasses || x.tally().Failed != 1 {
		t.Errorf("%d classes, %+v", n, x.tally())
	}
	if timeline.Sign(event.Unchanged) == timeline.Sign(event.Skipped) || timeline.Sign(event.Unchanged) == timeline.Sign(event.Succeeded) {
		t.Error("the sign of an unchanged item is that of another status")
	}
}

// TestAttemptsInsideItems: what a step of an item tries again within one attempt at
// the item is counted on every page that counts attempts.
func TestAttemptsInsideItems(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 3}}
	tried := func(index, tries int, good bool) {
		events = append(events, event.Event{Type: event.ItemStarted, Index: index, Attempt: 1}, event.Event{Type: event.StepStarted, Index: index, Step: "a[0]"})
		for n := 1; n <= tries; n++ {
			events = append(events, event.Event{Type: event.AttemptStarted, Index: index, Step: "a[0]", Attempt: n})
			if n < tries || !good {
				events = append(events, event.Event{Type: event.AttemptFailed, Index: index, Step: "a[0]", Attempt: n, Class: "exit", DurationMS: 100})
			}
			if n < tries {
				events = append(events, event.Event{Type: event.RetryScheduled, Index: index, Step: "a[0]", Attempt: n, DelayMS: 10})
			}
		}
		status := event.Succeeded
		if !good {
			status = event.DeadLettered
		}
		events = append(events, event.Event{Type: event.StepFinished, Index: index, Step: "a[0]", Status: status, Attempts: tries},
			event.Event{Type: event.ItemFinished, Index: index, Status: status, Attempts: 1, Class: "exit", Data: json.RawMessage(`{}`)})
	}
	tried(1, 1, true)
	tried(2, 4, true)
	tried(3, 3, false)
	id := s.run(journal.Header{Name: "m", Kind: "mapreduce"}, append(events, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})...)
	retries := s.page("/runs/" + id + "/retries")
	for _, want := range []string{
		"<dt>extra attempts</dt><dd>5</dd>", `<dd class="t-succeeded">1</dd>`, `<dd class="t-failed">1</dd>`,
		`<th scope="row" class="r">1</th><td class="r">1</td>`, `<th scope="row" class="r">3</th><td class="r">1</td>`, `<th scope="row" class="r">4</th><td class="r">1</td>`,
	} {
		if !strings.Contains(retries, want) {
			t.Errorf("the page of retries has no %s", want)
		}
	}
	if body := s.page("/runs/" + id + "/dlq"); !strings.Contains(body, `data-of="attempts">3</td>`) {
		t.Error("the dead letter has not three attempts")
	}
	if body := s.page("/runs/" + id + "/items/1"); !strings.Contains(body, "4 attempts") {
		t.Error("the item has not four attempts")
	}
	_, _, cells := s.get(s.in, s.at("/runs/"+id+"/cells"))
	for i, again := range []bool{false, true, true} {
		if cells[i]&cellRetried != 0 != again {
			t.Errorf("the cell of item %d is %08b", i, cells[i])
		}
	}
	err := s.runs.with(id, func(r *run) error {
		return r.look(t.Context(), func() {
			if r.line.ItemTries != 8 || r.items.rescued != 1 {
				t.Errorf("it counts %d attempts at items and %d that were saved, want 8 and 1", r.line.ItemTries, r.items.rescued)
			}
			if r.items.spent < 300*time.Millisecond { // of the second item; the third has taken no time
				t.Errorf("%s were spent in attempts that failed", r.items.spent)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhyRetriesEnded: the pages of an item and of its step say why no further attempt
// followed, unless the number of attempts says it.
func TestWhyRetriesEnded(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 2}}
	for i, reason := range []string{"budget", "attempts"} {
		events = append(events, event.Event{Type: event.ItemStarted, Index: i + 1, Attempt: 1}, event.Event{Type: event.StepStarted, Index: i + 1, Step: "a[0]"},
			event.Event{Type: event.AttemptStarted, Index: i + 1, Step: "a[0]", Attempt: 1},
			event.Event{Type: event.AttemptFailed, Index: i + 1, Step: "a[0]", Attempt: 1, Class: "exit", Status: reason},
			event.Event{Type: event.StepFinished, Index: i + 1, Step: "a[0]", Status: event.Failed, Class: "exit", Attempts: 1},
			event.Event{Type: event.ItemFinished, Index: i + 1, Status: event.DeadLettered, Attempts: 1, Class: "exit", Data: json.RawMessage(`{"retries_ended": "` + reason + `"}`)})
	}
	run := "/runs/" + s.run(journal.Header{Name: "m", Kind: "mapreduce"}, append(events, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})...)
	for path, want := range map[string][]string{
		"/items/0":                    {"no retry: the next delay would exceed the retry budget", "no retry of the item: the next delay would exceed the retry budget"},
		"/items/1":                    nil,
		"/step?path=a%5B0%5D&index=1": {"no retry: the next delay would exceed the retry budget"},
		"/step?path=a%5B0%5D&index=2": nil,
	} {
		body := s.page(run + path)
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
		if want == nil && strings.Contains(body, "no retry") {
			t.Errorf("%s says why retries ended", path)
		}
	}
}

// TestRetriesByPolicy: the waits of items and those of a step in them are of two policies,
// each drawn beside its own band.
func TestRetriesByPolicy(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	const step = "map.agent_template[0]"
	band := func(least, greatest string) json.RawMessage {
		return json.RawMessage(`{"source":"policy","least_ns":` + least + `,"greatest_ns":` + greatest + `}`)
	}
	id := s.run(journal.Header{Name: "m", Path: "m.yml", Kind: "mapreduce", Source: []byte("mode: mapreduce\nmap:\n  input: [1]\n  agent_template:\n    - name: call\n      shell: x\n")},
		event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 1}, event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1},
		event.Event{Type: event.RetryScheduled, Index: 1, Step: step, Attempt: 1, DelayMS: 10, Data: band("0", "20000000")},
		event.Event{Type: event.RetryScheduled, Index: 1, Step: step + "@2", Attempt: 1, DelayMS: 15, Data: band("0", "20000000")},
		event.Event{Type: event.ItemRetry, Index: 1, Attempt: 1, DelayMS: 3000, Data: band("3000000000", "3000000000")},
		event.Event{Type: event.ItemFinished, Index: 1, Status: event.Succeeded, Attempts: 2}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	for of, want := range map[string]string{
		"items":                         `{"attempt":[1],"delay":[3],"band":[[1,3,3]]}`,
		url.QueryEscape(ofItems + step): `{"attempt":[1,1],"delay":[0.01,0.015],"band":[[1,0,0.02]]}`,
		url.QueryEscape(step):           `{"attempt":[],"delay":[],"band":[]}`,
	} {
		var d dots
		if err := json.Unmarshal([]byte(s.page("/runs/"+id+"/retries?data=1&of="+of)), &d); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(struct {
			Attempt []float64    `json:"attempt"`
			Delay   []float64    `json:"delay"`
			Band    [][3]float64 `json:"band"`
		}{d.Attempt, d.Delay, d.Band})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s (%v)", of, got, want, err)
		}
	}
	body := s.page("/runs/" + id + "/retries")
	for _, want := range []string{`<option value="items" selected>work items</option>`, `>call, in work items</option>`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
