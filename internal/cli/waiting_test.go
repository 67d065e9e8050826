package cli

import (
	"encoding/json"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
)

// TestThePageSaysWhatStatusSays: the list of runs in the dashboard has what waits for
// somebody, in the words of status: what, why, and each command, also that of each cause.
func TestThePageSaysWhatStatusSays(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	run := func(title string, events ...event.Event) string {
		t.Helper()
		j, err := st.Create(journal.Header{Name: title, Kind: "mapreduce", Path: "/" + title + ".yml"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range append([]event.Event{{Type: event.RunStarted}}, events...) {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		return j.Run()
	}
	letter := func(index int, item, class, message string) event.Event {
		return event.Event{Type: event.ItemFinished, Item: item, Index: index, Status: event.DeadLettered, Attempts: 2, Class: class, Message: message, Data: json.RawMessage("{}")}
	}
	end := event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures}
	run("killed", event.Event{Type: event.StepStarted, Step: "commands[0]"})
	run("import", event.Event{Type: event.ItemsReady, Total: 5}, letter(1, "a", "network", "could not resolve host: <data>"), letter(2, "b", "network", "could not resolve host: <data>"), letter(5, "e", "exit", "out of memory"),
		letter(3, "c", "exit", `no "colour" in it`), event.Event{Type: event.ItemFinished, Item: "d", Index: 4, Status: event.Succeeded}, end)
	run("one", event.Event{Type: event.ItemsReady, Total: 1}, letter(1, "x", "timeout", "too slow"), end)
	run("fine", event.Event{Type: event.RunFinished, Status: event.Succeeded})
	ran(t, "status", "--dismiss", run("dismissed", event.Event{Type: event.RunFinished, Status: event.Failed, Message: "no"}))

	var s struct {
		Waiting []struct {
			Title, What   string
			Why, Commands []string
			Causes        []struct{ Why, Filter, Command string }
		}
	}
	if err := json.Unmarshal([]byte(ran(t, "status", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	text := ran(t, "status")
	body := html.UnescapeString(dashed(t, st).until("/", `class="todo"`))
	_, section, _ := strings.Cut(body, `<section class="todos"`)
	section, _, _ = strings.Cut(section, "</section>")
	says := func(want string) {
		t.Helper()
		if !strings.Contains(section, want) {
			t.Errorf("the page does not say %q:\n%s", want, section)
		}
		// What a terminal has in two lines is one sentence.
		words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		if !strings.Contains(words(text), words(want)) {
			t.Errorf("status does not say %q:\n%s", want, text)
		}
	}
	says("3 runs wait for you, and 1 is dismissed")
	if strings.Contains(section, "fine") || strings.Contains(section, "/dismissed") {
		t.Errorf("it tells of runs that do not wait:\n%s", section)
	}
	var titles, filters []string
	for _, w := range s.Waiting {
		titles = append(titles, w.Title)
		says(w.What)
		for _, why := range w.Why {
			says(why)
		}
		for _, c := range w.Commands {
			if !strings.HasPrefix(c, "bide show ") {
				says(c)
			}
		}
		for _, c := range w.Causes {
			says(c.Why)
			says(c.Command)
			filters = append(filters, c.Filter)
		}
	}
	if got := strings.Join(titles, " "); got != "one import killed" {
		t.Errorf("the runs that wait are %s", got)
	}
	if got := strings.Join(filters, "|"); got != `class == "network"|group == "`+failure.Sign("exit", "", "out of memory").ID()+`"|group == "`+failure.Sign("exit", "", `no "colour" in it`).ID()+`"` {
		t.Errorf("the filters of the causes are %s", got)
	}
	// The command of a cause stands below it.
	if !regexp.MustCompile(`2 × network, [^\n]*\n(  +[^\n]*\n)? {10}bide dlq retry [0-9A-Z]{6} --filter 'class == "network"'\n +1 × exit`).MatchString(text) {
		t.Errorf("the commands do not stand below their causes:\n%s", text)
	}
}
