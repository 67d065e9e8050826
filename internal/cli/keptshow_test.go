package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// What is shown of a run that is over is the same whether it was kept or is folded: of one
// that ended, of one that was interrupted, and of one that was killed.
func TestShownFromWhatWasKept(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	const items, rounds = 400, 12
	at := time.Now().Add(-time.Hour).UTC()
	for _, ends := range []string{event.CompletedWithFailures, event.Interrupted, event.Failed, event.Succeeded, ""} {
		j, err := st.Create(journal.Header{Name: "w" + ends, Kind: "mapreduce", Path: "/w.yml", Params: json.RawMessage(`{"a":"1"}`)})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = j.PutItems(t.Context(), func(yield func(event.Item, error) bool) {
			for i := range items {
				if !yield(event.Item{Index: i + 1, ID: fmt.Sprint(i), Data: json.RawMessage(fmt.Sprintf(`{"name":"n%d"}`, i))}, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		list := []event.Event{
			{Type: event.RunStarted, Label: "w"},
			{Type: event.PhaseStarted, Phase: "setup"},
			{Type: event.StepStarted, Step: "setup[0]", Label: "make it", Attempt: 1},
			{Type: event.AttemptStarted, Step: "setup[0]", Attempt: 1},
			{Type: event.StepFinished, Step: "setup[0]", Status: event.Succeeded, Attempts: 2, DurationMS: 70, Data: json.RawMessage(`{"waited_ms":5,"recovered":true}`)},
			{Type: event.PhaseFinished, Phase: "setup", Status: event.Succeeded},
			{Type: event.Note, Message: "something to know"},
			{Type: event.RunPaused, DelayMS: 36_000_000},
			{Type: event.HoldStarted, Data: json.RawMessage(`{"cause":"x","since":"2026-01-02T03:04:05Z","next":"2026-01-02T03:04:05Z"}`)},
			{Type: event.PhaseStarted, Phase: "map"},
		}
		for n := range rounds * items {
			e := event.Event{Phase: "map", Index: n%items + 1, Item: fmt.Sprint(n % items), Attempt: n/items + 1}
			started, again := e, e
			started.Type, again.Type, again.Step = event.ItemStarted, event.AttemptStarted, "map.agent_template[0]"
			if n%7 > 0 {
				again.Attempt = 1
			}
			list = append(list, started, again)
			switch e.Attempts = e.Attempt; {
			case n/items < rounds-1:
				e.Type, e.Class, e.Message = event.ItemRetry, "exit", "exit status 7"
			case n%40 == 0:
				e.Type, e.Status, e.Class, e.Message = event.ItemFinished, event.DeadLettered, "exit", "exit status 7"
				e.Data = json.RawMessage(`{"class":"exit","message":"exit status 7","step":"map.agent_template[0]","exit_code":7,"attempt":12,"eligible":true,"correlation_id":"c"}`)
			default:
				e.Type, e.Status = event.ItemFinished, event.Succeeded
			}
			list = append(list, e)
		}
		list = append(list, event.Event{Type: event.Note, Class: event.Unmerged, Label: "bide worktree merge x", Message: "work is left; merge it with: bide worktree merge x"})
		if ends != "" {
			list = append(list, event.Event{Type: event.RunFinished, Status: ends, Message: "why", DurationMS: 900})
		}
		for i := range list {
			at = at.Add(time.Millisecond)
			list[i].Time = at
		}
		if err := j.RecordAll(list); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files := func(pattern string) []string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(home, "runs", "*", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	shown := func() (out []string) {
		t.Helper()
		for n := range 5 {
			for _, args := range []string{"show", "show --json", "dlq list", "dlq list --json", "dlq show"} {
				words := append(strings.Fields(args), fmt.Sprint("last-", n))
				if args == "dlq show" {
					words = append(words, "40")
				}
				out = append(out, printed(t, words...))
			}
		}
		return append(out, printed(t, "status"), printed(t, "status", "--json"), printed(t, "runs"), printed(t, "runs", "--json"))
	}
	first := shown()
	if len(files("summary-*")) != 15 {
		t.Fatalf("kept are %v", files("summary-*"))
	}
	for _, want := range []string{"make it", "something to know", "10 dead letters", "rate limit"} {
		if all := strings.Join(first, "\n"); !strings.Contains(all, want) {
			t.Errorf("nowhere is %q", want)
		}
	}
	second := shown()
	for _, name := range files("summary*") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	third := shown()
	for i := range first {
		if first[i] != third[i] || second[i] != third[i] {
			t.Errorf("%d: it was\n%s\nkept it is\n%s\nfolded\n%s", i, first[i], second[i], third[i])
		}
	}
	was := files("summary-show")
	text, err := os.ReadFile(was[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(was[1], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shown(); strings.Join(got, "") != strings.Join(third, "") {
		t.Error("what is kept of one run is shown of another")
	}
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errw bytes.Buffer
	if status := cli.Main(args, strings.NewReader(""), &out, &errw); status != 0 {
		t.Fatalf("%q: exit status %d: %s", args, status, errw.String())
	}
	return out.String() + errw.String()
}
