package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/charmbracelet/x/ansi"
)

func init() { time.Local = time.UTC }

var makeScreens = flag.Bool("make-screens", false, "write the files of testdata/screens")

// TestScreens keeps what people see as text: each screen at 80 and at 200 columns,
// with and without colour. They are looked at when they change.
func TestScreens(t *testing.T) {
	home := screenHome(t)
	recordRuns(t, home)
	show := func(args ...string) func(*app) { return func(a *app) { a.exit(a.commandLine(args)) } }
	for name, screen := range map[string]func(*app){
		"help": show("--help"), "run-help": show("run", "--help"), "batch-help": show("batch", "--help"), "runs": show("runs"), "status": show("status"),
		"show-steps": show("show", "release"), "show-map": show("show", screenRuns[1]), "dlq-list": show("dlq", "list", screenRuns[1]), "dlq-show": show("dlq", "show", screenRuns[1], "src/parser/expressions.go"),
		"dlq-stats": show("dlq", "stats", screenRuns[1]), "progress": progress, "live": live, "wrong": show("rnu"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{40, 60} { // half a window, a phone
				if strings.HasSuffix(name, "help") || name == "wrong" {
					break
				}
				var out bytes.Buffer
				screen(&app{streams: streams{in: strings.NewReader(""), out: &out, err: &out, width: width, color: "always"}})
				for i, line := range strings.Split(ansi.Strip(out.String()), "\n") {
					if n := ansi.StringWidth(line); n > width && !strings.HasPrefix(strings.TrimSpace(line), "bide ") && !strings.Contains(line, home) {
						t.Errorf("line %d is %d columns wide, of %d: %s", i+1, n, width, line)
					}
				}
			}
			for _, width := range []int{80, 200} {
				var plain, coloured bytes.Buffer
				screen(&app{streams: streams{in: strings.NewReader(""), out: &plain, err: &plain, width: width}})
				screen(&app{streams: streams{in: strings.NewReader(""), out: &coloured, err: &coloured, width: width, color: "always"}})
				got := strings.ReplaceAll(coloured.String(), home, "HOME")
				text := ansi.Strip(got)
				if name != "live" && text != strings.ReplaceAll(plain.String(), home, "HOME") {
					t.Errorf("at %d columns colour changes the text", width)
				}
				for i, line := range strings.Split(text, "\n") {
					if n := ansi.StringWidth(line); n > width && !strings.HasPrefix(line, "  bide ") && !strings.HasPrefix(line, "state ") {
						t.Errorf("line %d is %d columns wide, of %d: %s", i+1, n, width, line)
					}
				}
				file := filepath.Join("testdata", "screens", fmt.Sprintf("%s-%d.txt", name, width))
				seen := strings.ReplaceAll(got, "\x1b", "␛")
				if *makeScreens {
					if err := os.WriteFile(file, []byte(seen), 0o644); err != nil {
						t.Fatal(err)
					}
				} else if want, err := os.ReadFile(file); err != nil || string(want) != seen {
					t.Errorf("%s is not what is shown (%v): look at the difference, and run the test with -make-screens\n%s", file, err, seen)
				}
			}
		})
	}
}

// TestNarrow: on a terminal of 40 columns nothing is wider, and what a person looks for
// is still there.
func TestNarrow(t *testing.T) {
	home := t.TempDir()
	t.Setenv("BIDE_HOME", home)
	recordRuns(t, home)
	file := filepath.Join(t.TempDir(), "flow.yml")
	if err := os.WriteFile(file, []byte("- shell: \"true\"\n  retry_confg: { attempts: 3 }\n- shell: echo ${a_variable_that_nobody_sets_anywhere} and more text behind it\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "good.yml"), []byte("- shell: make all of it\n  retry_config: { attempts: 3 }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nested.yml": "- shell: make all of it\n  on_failure:\n    shell: make some of it at least, whatever it takes\n    on_failure:\n      claude: please mend what there is to mend\n      on_failure: {shell: echo something long that nobody reads}\n",
		"ci.yml":     "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest-with-a-name\n    steps:\n      - uses: x/y\n      - {run: make, if: github.ref == 'refs/heads/main'}\n",
	} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"wrong command": {[]string{"rnu"}, []string{"\n  did you mean \"run\"?\n"}},
		"wrong flag":    {[]string{"run", file, "--perhaps"}, []string{"no flag --perhaps;\n  see bide run --help\n"}},
		"wrong topic":   {[]string{"docs", "a-word-that-no-page-explains-nowhere"}, []string{"there is no topic"}},
		"no file":       {[]string{"run", "none.yml"}, []string{"nothing was\n  run\n"}},
		"explain":       {[]string{"explain", filepath.Join(filepath.Dir(file), "nested.yml")}, []string{"        claude      please mend what\n", "line 6"}},
		"docs":          {[]string{"docs", "exit-status"}, []string{"Exit statuses"}},
		"docs commands": {[]string{"docs", "commands"}, []string{"\n    Runs dead letters again in the same\n    run: with new attempts, under the\n    same correlation ids, and with their\n", "\n      bide run review.yml --map\n          'src/*.go' --max-parallel 4\n"}},
		"docs command":  {[]string{"docs", "dlq", "retry"}, []string{"\n    Runs dead letters again in the same\n    run: with new attempts,"}},
		"docs word":     {[]string{"docs", "retry_on"}, []string{"network"}},
		"migrate":       {[]string{"migrate", filepath.Join(filepath.Dir(file), "ci.yml")}, []string{"  # GitHub's uses: x/y is left out;\n  #   write what it does as shell:\n", "left out; write\n    what it does"}},
		"proof":         {[]string{"proof", screenRuns[1]}, []string{"has no evidence"}},
		"runs":          {[]string{"runs"}, []string{"REVEW1  completed with failures\n        review of all packages of the\n        project\n        2 of 4 items, 2 failed\n"}},
		"help":          {[]string{"--help"}, []string{"  status      Show what is running, what\n              failed and why"}},
		"run help":      {[]string{"batch", "--help"}, []string{"Runs a command"}},
		"events":        {[]string{"events", screenRuns[1]}, []string{"item_finished"}},
		"limits":        {[]string{"limits"}, []string{"bide limits set"}},
		"gantt":         {[]string{"show", screenRuns[1], "--gantt"}, []string{"█", "ran"}},
		"dlq show":      {[]string{"dlq", "show", screenRuns[1], "src/parser/expressions.go"}, []string{"bide dlq retry REVEW1 --item"}},
		"dlq list":      {[]string{"dlq", "list", screenRuns[1]}, []string{"src/parser/expressions.go\n  attempts: 1\n  class: timeout\n", "  step: claude /review\n  message: thinking about the types of\n    all expressions in the file, one\n    after the other\n", "after the cause is mended:\n    bide dlq retry REVEW1\n"}},
		"steps":         {[]string{"show", "release"}, []string{"commands[4]\n  status: tolerated\n  attempts: 1\n  took: 1s\n  what: announce: exit status 1: "}},
		"show":          {[]string{"show", screenRuns[1]}, []string{"  bide dlq list REVEW1\n", "  bide logs REVEW1\n"}},
		"check":         {[]string{"check", file}, []string{"retry_confg"}},
		"simulate":      {[]string{"simulate", filepath.Join(filepath.Dir(file), "good.yml"), "--seeds", "20"}, []string{"\nsucceed: ", "assuming that", "\n… of the worst in 100: "}},
		"docs list":     {[]string{"docs"}, []string{"coming-from: Coming from another tool\n", "concepts: Maps, dead letters, attempts,\n  secrets"}},
		"compare": {[]string{"simulate", filepath.Join(filepath.Dir(file), "good.yml"), "--compare", filepath.Join(filepath.Dir(file), "nested.yml"), "--seeds", "20"},
			[]string{"\nmakespan, median\n  good.yml: ", "\n… of the worst in 100\n  good.yml: "}},
		"init":   {[]string{"init", filepath.Join(filepath.Dir(file), "new")}, []string{"\n      bide explain "}},
		"status": {[]string{"status"}, []string{"for you\n"}},
		"clean":  {[]string{"clean", "--older-than", "10000d"}, []string{"REVEW1\n  status: completed with failures\n", "  what: kept: it is not old enough\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			a := &app{streams: streams{in: strings.NewReader(""), out: &b, err: &b, width: 40}}
			a.exit(a.commandLine(c.args))
			out := b.String()
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("there is no %q in\n%s", want, out)
				}
			}
			for i, line := range strings.Split(out, "\n") {
				if n := ansi.StringWidth(line); n > 40 && !strings.HasPrefix(strings.TrimSpace(line), "bide ") && !strings.Contains(line, string(filepath.Separator)) {
					t.Errorf("line %d is %d columns wide: %s", i+1, n, line)
				}
			}
		})
	}
	var b bytes.Buffer
	narrow := &streams{err: &b, width: 40}
	narrow.question("Remove runs that ended how long ago, at least (as in 30d)?")
	if want := "Remove runs that ended how long ago, at\n  least (as in 30d)? "; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	for _, n := range []int{0, 3, 200} {
		if text := barText("a-workflow-with-a-long-name-of-its-file.yml", n, 200, 40); ansi.StringWidth(text) >= 40 || !strings.HasSuffix(text, fmt.Sprintf(" %d of 200", n)) {
			t.Errorf("%q", text)
		}
	}
	if text := barText("a.yml", 100, 200, 0); text != "a.yml "+strings.Repeat("█", 20)+strings.Repeat("░", 20)+" 100 of 200" {
		t.Errorf("%q", text)
	}
}

// TestColumns: where the output is no terminal, COLUMNS says how wide it may be.
func TestColumns(t *testing.T) {
	var b bytes.Buffer
	for text, want := range map[string]int{"40": 40, "": 0, "-1": 0, "wide": 0} {
		t.Setenv("COLUMNS", text)
		if got := (&streams{}).columns(&b); got != want {
			t.Errorf("COLUMNS=%s is %d columns, want %d", text, got, want)
		}
	}
}

// The run ids of the recorded runs.
var screenRuns = []string{"01M7ZZZZZZAAAAAAAAAARE1EA5", "01M7ZZZZZZBBBBBBBBBBREVEW1"}

// recordRuns makes two runs: one of steps that ended in every way, and a map.
func recordRuns(t *testing.T, home string) {
	t.Helper()
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(n int, name, kind, file string, events []event.Event, items ...string) {
		j, err := st.Create(journal.Header{Run: screenRuns[n], Name: name, Kind: kind, Path: "/home/ada/project/" + file, Dir: "/home/ada/project", Started: noon})
		if err != nil {
			t.Fatal(err)
		}
		if len(items) > 0 {
			_, _, err = j.PutItems(t.Context(), func(yield func(event.Item, error) bool) {
				for i, id := range items {
					if !yield(event.Item{Index: i + 1, ID: id, Data: json.RawMessage(`{"path":"` + id + `"}`)}, nil) {
						return
					}
				}
			})
		}
		if err == nil {
			err = j.RecordAll(events)
		}
		if err = joined(err, j.Close()); err != nil {
			t.Fatal(err)
		}
	}
	begin(0, "release", "standard", "release.yml", stepEvents())
	begin(1, "review of all packages of the project", "mapreduce", "workflows/review.yml", mapEvents(), screenItems...)
}

func joined(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

var screenItems = []string{"README.md", "src/parser/expressions.go", "src/parser/statements_of_a_file_with_a_long_name.go", "docs/日本語.md"}

func stepEvents() []event.Event {
	list := []event.Event{{Type: event.RunStarted, Label: "release", Time: at(0), Run: screenRuns[0]}}
	step := func(n int, label string, from, to float64, end event.Event, more string) {
		path := fmt.Sprintf("commands[%d]", n)
		if end.Status != event.Skipped {
			list = append(list, event.Event{Type: event.StepStarted, Step: path, Label: label, Time: at(from)}, event.Event{Type: event.AttemptStarted, Step: path, Label: label, Attempt: 1, Time: at(from)})
		}
		if end.Attempts > 1 {
			list = append(list, event.Event{Type: event.AttemptFailed, Step: path, Label: label, Attempt: 1, Class: "network", Message: "curl: (6) Could not resolve host: registry.example.org", Time: at(from + 1), DurationMS: 1000},
				event.Event{Type: event.RetryScheduled, Step: path, Label: label, Attempt: 1, DelayMS: 2000, Time: at(from + 1)},
				event.Event{Type: event.AttemptStarted, Step: path, Label: label, Attempt: 2, Time: at(from + 3)})
		}
		end.Type, end.Step, end.Label, end.Time, end.DurationMS = event.StepFinished, path, label, at(to), int64((to-from)*1000)
		if more != "" {
			end.Data = json.RawMessage(more)
		}
		list = append(list, end)
	}
	step(0, "make test", 0, 95, event.Event{Status: event.Succeeded, Attempts: 1}, "")
	step(1, "push the image to the registry", 95, 100, event.Event{Status: event.Succeeded, Attempts: 2}, `{"waited_ms":2000}`)
	step(2, "curl -fsS https://mirror.example.org/releases/latest/checksums.txt -o checksums.txt && sha256sum -c checksums.txt", 100, 101, event.Event{Status: event.Degraded, Attempts: 1}, "")
	step(3, "make docs", 101, 102, event.Event{Status: event.Succeeded, Attempts: 1}, `{"recovered":true}`)
	step(4, "announce", 102, 103, event.Event{Status: event.Failed, Attempts: 1, Class: "exit", Message: "exit status 1: no such channel"}, `{"tolerated":true}`)
	step(5, "publish on Sundays", 103, 103, event.Event{Status: event.Skipped}, "")
	return append(list, event.Event{Type: event.Note, Message: "the working tree has changes that are not committed", Time: at(103)},
		event.Event{Type: event.RunFinished, Status: event.Succeeded, DurationMS: 103000, Time: at(103), Data: json.RawMessage(`{}`)})
}

func mapEvents() []event.Event {
	list := []event.Event{{Type: event.RunStarted, Label: "review of all packages of the project", Time: at(0), Run: screenRuns[1]},
		{Type: event.ItemsReady, Total: len(screenItems), Time: at(0.5)}, {Type: event.PhaseStarted, Phase: "map", Time: at(1)}}
	var ends []event.Event
	for i, id := range screenItems {
		begun := event.Event{Type: event.ItemStarted, Phase: "map", Item: id, Label: id, Index: i + 1, Attempt: 1, Time: at(1)}
		end := event.Event{Type: event.ItemFinished, Phase: "map", Item: id, Label: id, Index: i + 1, Attempts: 1, Status: event.Succeeded, DurationMS: 4000, Time: at(5)}
		if i == 1 || i == 2 {
			l := mapper.Letter{Failure: failure.Failure{Class: "timeout", Message: "timed out after 5m: claude /review " + id, Stderr: "reading 14 files\nthinking about the types of all expressions in the file, one after the other"},
				CorrelationID: "run/" + fmt.Sprint(i+1), Attempt: 1, At: at(1), DurationMS: 4000, Step: "agent_template[0]", StepLabel: "claude /review", Eligible: true}
			b, err := json.Marshal(l)
			if err != nil {
				panic(err)
			}
			end.Status, end.Class, end.Message, end.Data = event.DeadLettered, "timeout", l.Message, b
		}
		list, ends = append(list, begun), append(ends, end)
	}
	return append(append(list, ends...), event.Event{Type: event.PhaseFinished, Phase: "map", Status: event.Succeeded, Time: at(6), DurationMS: 5000},
		event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures, DurationMS: 6000, Time: at(6), Data: json.RawMessage(`{}`)})
}

// progress is what a run tells where there is no terminal.
func progress(a *app) {
	for _, events := range [][]event.Event{stepEvents(), mapEvents()} {
		d := &plainDisplay{app: a, output: true}
		for _, e := range events {
			d.Emit(e)
		}
		s := &engine.Summary{Run: events[0].Run, Status: events[len(events)-1].Status, DurationMS: 103000}
		s.Steps.Succeeded, s.Steps.Degraded, s.Steps.Recovered, s.Steps.Tolerated, s.Steps.Skipped = 2, 1, 1, 1, 1
		if s.Run == screenRuns[1] {
			s.MapReduce, s.Letters = true, 2
			s.Items = event.ItemCounts{Total: 4, Succeeded: 2, Failed: 2}
			s.Errors = []journal.Cause{{Class: "timeout", Count: 2, Item: screenItems[1], Example: "timed out after 5m: claude /review " + screenItems[1]}}
		}
		d.close(s)
	}
}

// live is the block of lines that stands at the bottom of a terminal.
func live(a *app) {
	b := newBoard()
	for i, events := range [][]event.Event{stepEvents()[:7], mapEvents()[:8]} {
		for _, e := range events {
			b.take(e)
		}
		for _, line := range b.lines(at([]float64{97, 6}[i]), a.width, 10) {
			fmt.Fprintln(a.out, line)
		}
		fmt.Fprintln(a.out)
		b = newBoard()
	}
}

// screenHome is a home with a short path, whatever TMPDIR is: a long one would be folded.
func screenHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "bide-screens")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("BIDE_HOME", home)
	return home
}
