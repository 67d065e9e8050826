package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// A power cut may keep the record of a step and lose the file with its output. Then the
// step runs again, with its round, and nothing else does.
func TestLostOutputOfARound(t *testing.T) {
	t.Parallel()
	const rounds = `foreach: [a, b, c]
    id: loop
    do:
      - shell: echo ${item} >> $EV/log; head -c 40000 /dev/zero | tr '\0' ${item}
        capture: text
      - shell: if [ ${item} = c ] && [ ! -e $EV/on ]; then touch $EV/there; sleep 100; fi; echo "${text}" | wc -c >> $EV/sizes; echo "${text}"
`
	for name, flow := range map[string]struct{ text, last string }{
		"of the run":  {"commands:\n  - " + rounds, "@2"},
		"of an item":  {"mode: mapreduce\nmap:\n  input: [x]\n  agent_template:\n  - " + rounds, "@2"},
		"in a second": {"commands:\n  - foreach: [z]\n    do:\n    - " + strings.ReplaceAll(rounds, "\n    ", "\n      "), "@0@2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", flow.text)
			p := b.start("bide", "run", "-q", "flow.yml")
			b.appears("there")
			events := b.recorded("the end of the last round's first step", func(e event.Event) bool {
				return e.Type == event.StepFinished && strings.HasSuffix(e.Step, ".do[0]"+flow.last)
			})
			p.crash(t, 0)
			b.quiet()
			b.loseOutput(events)
			if err := os.WriteFile(filepath.Join(b.ev, "on"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := b.start("bide", "resume", "-q")
			if status := r.wait(t); status != 0 {
				t.Fatalf("exit status %d: %s", status, r.text())
			}
			if got := fmt.Sprint(b.lines()); got != "[a b c a]" {
				t.Errorf("the steps ran for %s, want a once more", got)
			}
			sizes, err := os.ReadFile(filepath.Join(b.ev, "sizes"))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range strings.Fields(string(sizes)) {
				if n != "40001" {
					t.Errorf("a step reads %s bytes of the one before it, want 40001", n)
				}
			}
		})
	}
}

// TestLostOutputInACalledFile: where the step that called the file has ended, what it gave is on record,
// and nothing runs again; the record says so, and every step has its end.
func TestLostOutputInACalledFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("part.yml", "commands:\n  - shell: echo x >> $EV/log; head -c 40000 /dev/zero | tr '\\0' x\n    capture: text\n  - shell: echo \"${text}\" | wc -c\n    capture: size\n")
	b.write("flow.yml", "imports: [{path: part.yml, alias: part}]\ncommands:\n  - {foreach: [1], do: [{workflow: part, capture: size}]}\n  - shell: if [ ! -e $EV/on ]; then touch $EV/there; sleep 100; fi\n")
	p := b.start("bide", "run", "-q", "flow.yml")
	b.appears("there")
	events := b.recorded("the last step", func(e event.Event) bool { return e.Type == event.StepStarted && e.Step == "commands[1]" })
	p.crash(t, 0)
	b.quiet()
	b.loseOutput(events)
	if err := os.WriteFile(filepath.Join(b.ev, "on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.start("bide", "resume", "-q")
	if status := r.wait(t); status != 0 {
		t.Fatalf("exit status %d: %s", status, r.text())
	}
	events, state := b.recordedEvents()
	if !slices.ContainsFunc(events, func(e event.Event) bool {
		return e.Type == event.Note && strings.Contains(e.Message, "the step around it has ended")
	}) {
		t.Error("nothing says that an output was lost")
	}
	for path, s := range state.Steps {
		if s.Status != event.Succeeded {
			t.Errorf("%s is %s", path, s.Status)
		}
	}
	if got := fmt.Sprint(b.lines()); got != "[x]" {
		t.Errorf("the step ran %s times", got)
	}
}

// recorded waits until the run has a fact on record, and gives its facts.
func (b *bench) recorded(what string, is func(event.Event) bool) []event.Event {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if events, _ := b.recordedEvents(); slices.ContainsFunc(events, is) {
			return events
		}
		if time.Now().After(deadline) {
			b.t.Fatal(what + " is not recorded")
		}
	}
}

// loseOutput cuts the first file with the output of a step of the run.
func (b *bench) loseOutput(events []event.Event) {
	b.t.Helper()
	for _, e := range events {
		var d struct {
			File string `json:"output_file"`
		}
		if e.Type != event.StepFinished || json.Unmarshal(e.Data, &d) != nil || d.File == "" {
			continue
		}
		if !filepath.IsAbs(d.File) {
			d.File = filepath.Join(b.runDir(), d.File)
		}
		if err := os.Truncate(d.File, 100); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	b.t.Fatal("no output is in a file")
}
