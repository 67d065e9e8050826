package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// alike are files with what they say of a run on Temporal that a run on one machine
// says too.
var alike = map[string]struct {
	flow, text string
	items      int
	// loose: how many items have ended depends on who was faster.
	loose bool
}{
	"dead letters": {text: `
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: test "${item.n}" -ne 3
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, items: 6},
	"handler": {text: `
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo said-${item.n}; exit ${item.n}
      capture_output: said
error_policy:
  on_item_failure:
    custom: tidy
handlers:
  tidy:
    - shell: echo "${item.id} ${error.exit_code} ${error.attempts}" >> handled
    - shell: test "${item.n}" -ne 2
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, items: 4},
	"timeout_action fail": {text: `
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_timeout: 2s
  timeout_config: {timeout_action: fail}
  agent_template:
    - shell: test "${item.n}" -ne 1 || sleep 60
`, items: 4, loose: true},
	"timeout of the workflow": {text: `
timeout: 3s
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: test "${item.n}" -lt 2 || sleep 60
finally:
  - shell: echo "$BIDE_STATUS" > result
`, items: 4},
	"errors as they come": {text: `
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: test "${item.n}" -lt 2
error_policy: {error_collection: immediate}
`, items: 4},
	"errors in batches": {text: `
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: test "${item.n}" -lt 1
error_policy: {error_collection: "batched:2"}
`, items: 4},
	"max_tokens": {text: `
max_tokens: 3000
agents: {codex: {command: [sh, -c, 'echo done; echo x >> asked; printf "tokens used\n1,000\n" >&2', '${prompt}']}}
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - codex: look at ${item.n}
`, items: 8},
	"max_tokens of setup": {text: `
max_tokens: 3000
agents: {codex: {command: [sh, -c, 'echo done; echo x >> asked; printf "tokens used\n1,000\n" >&2', '${prompt}']}}
mode: mapreduce
setup:
  - codex: look
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - codex: look at ${item.n}
`, items: 8},
	"max_failures": {text: `
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: exit 4
error_policy: {max_failures: 2}
`, items: 6},
	"a pipeline": {flow: "flow.cst", text: `a = Trim(" x ")
b = Trim(a)
out a
out b
`},
}

// TestAlike: a run on Temporal ends as a run of the same file on one machine, with
// the same dead letters, notes of failures and files.
func TestAlike(t *testing.T) {
	for name, c := range alike {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.flow == "" {
				c.flow = "flow.yml"
			}
			here := newPlaceOf(t, c.flow, c.text, c.items)
			opt := here.options(c.flow)
			opt.Store = here.home
			sum, err := engine.Run(context.Background(), opt)
			if err != nil {
				t.Fatal(err)
			}
			here.run = sum.Run
			there := newPlaceOf(t, c.flow, c.text, c.items)
			there.env.ExecuteWorkflow(Run, there.input())
			there.result()
			if a, b := here.told(c.loose), there.told(c.loose); a != b {
				t.Errorf("on one machine:\n%s\non Temporal:\n%s", a, b)
			}
		})
	}
}

// told is what is to be alike of a run.
func (p *place) told(loose bool) string {
	p.t.Helper()
	var b strings.Builder
	r, err := p.home.Read(p.run)
	if err != nil {
		p.t.Fatal(err)
	}
	st, err := r.State(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	items, message := fmt.Sprintf("%+v", st.Items.Counts()), st.Message
	if loose {
		items, message = "", strings.Split(message, ";")[0]
	}
	fmt.Fprintf(&b, "%s, %s: %s\n%s\n", st.Status, st.Class, message, items)
	var facts []string
	for e, err := range r.Events(context.Background(), 1, journal.EventFilter{Types: []event.Type{event.ItemFinished, event.Note}}) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Index > 0 && e.Status != event.Interrupted {
			facts = append(facts, fmt.Sprintf("%s %s %s %s: %s (%s)", e.Type, e.Item, e.Status, e.Class, e.Message, e.Phase))
		}
	}
	if err := r.Close(); err != nil {
		p.t.Fatal(err)
	}
	slices.Sort(facts)
	fmt.Fprintln(&b, strings.Join(facts, "\n"))
	for _, name := range []string{"result", "handled", "asked"} {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			p.t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		slices.Sort(lines)
		fmt.Fprintf(&b, "%s: %q\n", name, lines)
	}
	return b.String()
}
