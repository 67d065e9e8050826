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
			events, _ := b.recordedEvents()
			for deadline := time.Now().Add(patience); !slices.ContainsFunc(events, func(e event.Event) bool {
				return e.Type == event.StepFinished && strings.HasSuffix(e.Step, ".do[0]"+flow.last)
			}); events, _ = b.recordedEvents() {
				if time.Now().After(deadline) {
					t.Fatal("the last round's first step is not recorded")
				}
				time.Sleep(2 * time.Millisecond)
			}
			p.crash(t, 0)
			b.quiet()
			lost := ""
			for _, e := range events {
				var d struct {
					File string `json:"output_file"`
				}
				if e.Type == event.StepFinished && lost == "" && json.Unmarshal(e.Data, &d) == nil && d.File != "" {
					lost = d.File
				}
			}
			if !filepath.IsAbs(lost) {
				lost = filepath.Join(b.runDir(), lost)
			}
			if err := os.Truncate(lost, 100); err != nil {
				t.Fatal(err)
			}
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
