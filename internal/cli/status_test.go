package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Whatever holds up a run in progress, status says it as show does.
func TestStatusSaysWhatHoldsUpARun(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	j, err := st.Create(journal.Header{Name: "w", Kind: "mapreduce", Path: "/w.yml"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	record := func(list ...event.Event) {
		t.Helper()
		for i := range list {
			list[i].Time = time.Now()
		}
		if err := j.RecordAll(list); err != nil {
			t.Fatal(err)
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	why := func() (list []string) {
		t.Helper()
		var s struct {
			Running []struct{ Why []string }
		}
		if err := json.Unmarshal([]byte(printed(t, "status", "--json")), &s); err != nil || len(s.Running) != 1 || s.Running[0].Why == nil {
			t.Fatal(s, err)
		}
		// What a terminal has in two lines is one sentence.
		words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		text, show := words(printed(t, "status")), words(printed(t, "show"))
		for _, w := range s.Running[0].Why {
			if !strings.Contains(text, w) || !strings.Contains(show, w) {
				t.Errorf("%q is not in\n%s\nor not in\n%s", w, text, show)
			}
		}
		return s.Running[0].Why
	}
	record(event.Event{Type: event.RunStarted}, event.Event{Type: event.PhaseStarted, Phase: "map", Total: 6})
	if got := why(); len(got) > 0 {
		t.Errorf("nothing holds it up, and status says %q", got)
	}
	record(
		event.Event{Type: event.HoldStarted, Phase: "map", Data: json.RawMessage(`{"message":"connection refused","items":3,"since":"2026-01-02T03:04:05Z","until":"2026-01-02T03:05:05Z"}`)},
		event.Event{Type: event.RunControlled, Label: journal.Pause},
		event.Event{Type: event.RunPaused, DelayMS: 36_000_000},
	)
	got := why()
	for _, want := range []string{`the map is held: 3 items failed with "connection refused", since 2026-`, "paused since ", "agents are held back by a rate limit until "} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("held up by %q", got)
	}
}

// TestWeakCausesNameTheStep: items that fail with nothing but an exit status are told by the
// step that failed, at the end of the run and in show, whatever becomes of them.
func TestWeakCausesNameTheStep(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	for policy, more := range map[string]string{"dlq": "", "skip": "", "custom:note": "handlers: {note: [{shell: 'true'}]}\n"} {
		dir := t.TempDir()
		write(t, dir, "weak.yml", `
name: weak
mode: mapreduce
map:
  input: 'seq 9'
  max_parallel: 1
  agent_template:
    - name: build
      shell: "test $((${item} % 3)) != 0"
    - name: upload
      shell: "test ${item} != 4 || { echo no room >&2; exit 1; }; test ${item} != 5"
error_policy: {on_item_failure: "`+policy+`", continue_on_failure: true}
`+more)
		out, msg, status := bide("run", filepath.Join(dir, "weak.yml"))
		if status != 3 {
			t.Fatalf("status %d: %s", status, msg)
		}
		shown, _, _ := bide("show", "last")
		for _, says := range []string{out + msg, shown} {
			for _, want := range []string{
				`3 × exit of step "build", for example item 2 (3): exit status 1`,
				`1 × exit of step "upload", for example item 4 (5): exit status 1`,
				`1 × exit, for example item 3 (4): exit status 1: no room`,
			} {
				if !strings.Contains(says, want) {
					t.Errorf("on_item_failure: %s: no %q in\n%s", policy, want, says)
				}
			}
		}
	}
}

// TestUnreadableRunsAreTold: a run whose journal cannot be read is none that nobody needs to
// look at: status lists it, and whoever names no run hears that it is passed over.
func TestUnreadableRunsAreTold(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "once.yml", "- shell: test -e mended\n")
	for range 2 {
		if _, _, status := bide("run", "once.yml", "--quiet"); status != 1 {
			t.Fatal("the run did not fail")
		}
	}
	runs, err := os.ReadDir(filepath.Join(home, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	older, newer := runs[0].Name(), runs[1].Name()
	short := func(run string) string { return run[len(run)-6:] }
	for _, file := range []string{"summary", "journal.db-wal", "journal.db-shm"} {
		_ = os.Remove(filepath.Join(home, "runs", newer, file))
	}
	write(t, filepath.Join(home, "runs", newer), "journal.db", "no journal")

	out, _, _ := bide("status")
	for _, want := range []string{"2 runs wait for you", short(newer) + " a run: cannot be read", "this is no journal of bide", "bide show " + short(newer), "bide show " + short(older)} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("status has no %q:\n%s", want, out)
		}
	}
	passed := "bide: run " + short(newer) + " is newer, and its journal cannot be read: " + short(older) + " (once.yml) is taken\n"
	for _, args := range [][]string{{"show"}, {"show", "last"}, {"logs"}, {"resume"}, {"rerun", "--from", "1"}} {
		if _, msg, _ := bide(args...); !strings.Contains(msg, passed) {
			t.Errorf("%q: no %q in\n%s", args, passed, msg)
		}
	}
	if _, msg, _ := bide("show", older); strings.Contains(msg, "newer") {
		t.Errorf("a run that is named passes over none: %s", msg)
	}
	if out, msg, status := bide("status", "--dismiss", short(newer)); status != 0 {
		t.Errorf("%s%s", out, msg)
	}
	if out, _, _ := bide("status"); !strings.Contains(out, "1 run waits for you, and 1 is dismissed") || strings.Contains(out, short(newer)) {
		t.Errorf("after it is dismissed:\n%s", out)
	}
	if _, msg, _ := bide("show"); strings.Contains(msg, "newer") {
		t.Errorf("status reports a dismissed run once more: %s", msg)
	}
}
