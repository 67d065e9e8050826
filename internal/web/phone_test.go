package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestOneButtonForOneThing: where one cause stands for all dead letters, one button runs
// them again; with two causes there is one for each, and one for all.
func TestOneButtonForOneThing(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	run := func(causes int) string {
		events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 9}}
		for i := range causes {
			events = append(events, letters(1+2*i, 2, []string{"exit", "network"}[i], "no", `{}`)...)
		}
		return s.run(journal.Header{Name: "one", Kind: "mapreduce"}, append(events, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})...)
	}
	for causes, want := range map[int]int{1: 1, 2: 3} {
		id := run(causes)
		if n := strings.Count(head(t, s.page("/runs/"+id)), `action="/runs/`+id+`/retry"`); n != want {
			t.Errorf("%d causes have %d buttons, want %d", causes, n, want)
		}
		if body := head(t, s.page("/runs/"+id+"/map")); !strings.Contains(body, "dead letters</button>") {
			t.Errorf("the map of a run with %d causes has no button for all", causes)
		}
	}
}

// TestMessagesHaveTheirCommandsAsCode: what is between backticks is code, and what is
// markup in it is text.
func TestMessagesHaveTheirCommandsAsCode(t *testing.T) {
	t.Parallel()
	if got, want := string(prose("by `bide <b>`, & so")), "by <code>bide &lt;b&gt;</code>, &amp; so"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s := serve(t, Options{})
	id := s.run(journal.Header{Name: "left", Kind: "mapreduce"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 1},
		event.Event{Type: event.Note, Class: event.Unmerged, Message: "work of items is left in 2 branches, not merged: see `bide worktree ls`"},
		event.Event{Type: event.Note, Message: "look at `bide show`"}, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})
	if text := head(t, s.page("/runs/"+id)); strings.Contains(text, "`") || !strings.Contains(text, "not merged: see <code>bide worktree ls</code>.") || !strings.Contains(text, "look at <code>bide show</code>") {
		t.Errorf("the page of a run has backticks: %s", text)
	}
	status, _, body := s.get(s.in, s.at("/runs/01M8BWXQP7Z9V47N7B39Q7JF7Q"))
	if status != http.StatusNotFound || !strings.Contains(body, "removed by <code>bide clean</code>") || strings.Contains(body, "`") {
		t.Errorf("%d: %s", status, body)
	}
}

// TestStepsHaveTheirNames: the history of an item names the step that is tried again as the
// rest of the page does, and Compare says of a map with failed items what the timeline says.
func TestStepsHaveTheirNames(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	const step = "map.agent_template[0]"
	at := func(e event.Event) event.Event { e.Item, e.Index, e.Phase = "a", 1, "map"; return e }
	id := s.run(journal.Header{Name: "named", Kind: "mapreduce", Source: []byte("name: named\nmap:\n  input: [a]\n  agent_template: [{name: fetch, shell: 'false'}]\n")},
		event.Event{Type: event.RunStarted}, event.Event{Type: event.PhaseStarted, Phase: "map"}, event.Event{Type: event.ItemsReady, Total: 1},
		at(event.Event{Type: event.ItemStarted, Attempt: 1}), at(event.Event{Type: event.StepStarted, Step: step, Label: "fetch"}),
		at(event.Event{Type: event.AttemptStarted, Step: step, Label: "fetch", Attempt: 1}), at(event.Event{Type: event.AttemptFailed, Step: step, Label: "fetch", Attempt: 1, Class: "exit", Message: "no"}),
		at(event.Event{Type: event.RetryScheduled, Step: step, Attempt: 1, DelayMS: 50}), at(event.Event{Type: event.AttemptStarted, Step: step, Label: "fetch", Attempt: 2}),
		at(event.Event{Type: event.StepFinished, Step: step, Label: "fetch", Status: event.Failed, Attempts: 2, Class: "exit", Message: "no"}),
		at(event.Event{Type: event.ItemFinished, Status: event.DeadLettered, Attempts: 1, Class: "exit", Message: "no", Data: json.RawMessage(`{}`)}),
		event.Event{Type: event.PhaseFinished, Phase: "map", Status: event.Succeeded}, event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures})
	if body := s.page("/runs/" + id + "/items/0"); !strings.Contains(body, "fetch: attempt 2 follows in 50ms") {
		t.Error("the history does not name the step")
	}
	body := s.page("/compare?a=" + id + "&b=" + id)
	if _, steps, _ := strings.Cut(body, "<h2>Steps</h2>"); strings.Contains(steps, "s-succeeded") || !strings.Contains(steps, "s-completed_with_failures") {
		t.Errorf("Compare says of the map:\n%s", steps)
	}
	if n := strings.Count(body, `<option value="`+id+`" selected>`); n != 2 {
		t.Errorf("%d sides have their run chosen, want 2", n)
	}
}
