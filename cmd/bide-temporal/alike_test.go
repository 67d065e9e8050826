package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
	"go.yaml.in/yaml/v3"
)

// alike are files with what they say of a run on Temporal that a run on one machine
// says too.
var alike = map[string]struct {
	flow, text string
	items      int
	// loose: how many items have ended depends on who was faster.
	loose bool
	files map[string]string // beside it
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
  agent_timeout: 4s
  timeout_config: {timeout_action: fail}
  agent_template:
    - shell: test "${item.n}" -ne 1 || sleep 60
`, items: 4, loose: true},
	"timeout of the workflow": {text: `
timeout: 6s
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: test "${item.n}" -lt 2 || sleep 60 # two items have so long to end
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
	"keys of the file": {text: `
name: whole
description: all of it
mode: mapreduce
extends: base.yml
imports: [{path: other.yml, alias: other}]
env: {PORT: 8080}
env_files: [.env]
secrets: {HERE: '${env:HOME}'}
profiles: {ci: {LEVEL: debug}}
active_profile: ci
parameters: {level: {type: string, default: low}}
defaults: {level: high}
variables: {depth: 3}
templates: {twice: {steps: [{shell: echo twice >> handled}]}}
workflows: {first: {source: first.yml}}
worktree: {copy: [.env]}
auto_commit: false
durability: strict
skip_permissions: true
allow_failed_items: true
retry_defaults: {attempts: 2, initial_delay: 10ms}
max_wait: 1h
start_delay: 10ms
isolation: none
max_parallel: 2
max_cost: 10
handlers: {tidy: [{shell: 'echo "tidy ${item.id}" >> handled'}]}
on_item_failure: {custom: tidy}
setup:
  timeout: 1m
  capture_outputs: {made: 0}
  commands:
    - shell: echo made
map:
  input: items.jsonl
  agent_template:
    - shell: echo "${item.n} ${level} ${depth} ${made} $PORT $LEVEL $FROM ${HERE}" >> handled; test "${item.n}" -ne 2
reduce:
  - use: twice
  - workflow: other
  - shell: echo "${map.successful}" > result
finally:
  - shell: echo "$BIDE_STATUS" >> result
`, items: 4, files: map[string]string{".env": "FROM=file\n", "base.yml": "env: {PORT: 1, MORE: 2}\ncommands: [{shell: echo base}]\n",
		"first.yml": "commands: [{shell: echo first >> handled}]\n", "other.yml": "name: other\ncommands: [{shell: echo other >> handled}]\n"}},
	"keys of the map": {text: `
mode: mapreduce
map:
  input: list.json
  input_type: json
  json_path: '$.items[*]'
  filter: n >= 1
  sort_by: n DESC
  distinct: item.n
  offset: 1
  max_items: 3
  min_items: 3
  max_parallel: 1
  label: 'no ${item.n}'
  agent_timeout: 10m
  timeout_config: {command_timeouts: {shell: 3}, timeout_policy: hybrid, cleanup_grace_period: 1s, timeout_action: skip}
  retry_on_failure: 1
  start_delay: 10ms
  agent_template:
    - shell: echo "${item.n}" >> handled; case ${item.n} in 2) sleep 30;; 3) test "$BIDE_ATTEMPT" = 2;; esac
`, files: map[string]string{"list.json": `{"items": [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}, {"n": 3}, {"n": 4}]}`}},
	"times in seconds": {text: `
mode: mapreduce
map:
  input: {command: 'echo a; echo b', format: lines}
  max_parallel: 1
  timeout_per_agent: 3s
  retry: {attempts: 2, initial_delay: 10ms}
  timeout_config: {agent_timeout_secs: 60, cleanup_grace_period_secs: 1, timeout_action: dlq}
  agent_template:
    - shell: echo "${item}" >> handled; test "${item}" = a || sleep 30
`},
	"error_policy": {text: `
mode: mapreduce
map:
  input: {file: items.jsonl, format: jsonl}
  max_parallel: 1
  agent_timeout_secs: 60
  agent_template:
    - shell: echo "${item.n}" >> handled; test "${item.n}" -ne 3 -a "${item.n}" -ne 4
  error_policy:
    on_item_failure: dlq
    retry_config: {attempts: 2, initial_delay: 10ms}
    continue_on_failure: true
    max_failures: 9
    failure_threshold: 0.9
    error_collection: {type: batched, size: 2}
    circuit_breaker: {failure_threshold: 50, timeout: 1s}
    max_recoveries: 2
`, items: 8},
	"the first failure": {text: `
mode: mapreduce
continue_on_failure: false
error_collection: {batched: {size: 3}}
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: echo "${item.n}" >> handled; test "${item.n}" -ne 2
`, items: 5},
	"standard": {text: `
mode: standard
max_iterations: 3
template: {name: ci, source: ci.yml, with: {level: low}, override: {timeout: 600}}
`, files: map[string]string{"ci.yml": "parameters: {optional: [{name: level}]}\ncommands: [{shell: 'echo ${level} ${workflow.iteration} >> handled'}]\n"}},
	"evidence": {text: `
mode: mapreduce
isolation: worktree
map:
  input: items.jsonl
  max_parallel: 2
  retry_config: {attempts: 2, initial_delay: 10ms}
  agent_template:
    - shell: |
        printf %s "${evidence.output}" | tail -n 1 > ${item.id}
        test "${item.n}" -ne 2 || echo changed > items.jsonl
  evidence:
    checks: ['test ${item.id} = i0 || grep "not shown" ${item.id} || { echo not shown; exit 1; }']
    protect: [items.jsonl]
`, items: 3},
	"the older form": {text: `
workflow: {commands: [{shell: echo older > result}]}
`},
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
			here := newPlaceOf(t, c.flow, c.text, c.items, c.files)
			opt := here.options(c.flow)
			opt.Store = here.home
			there := newPlaceOf(t, c.flow, c.text, c.items, c.files)
			var sum *engine.Summary
			var err error
			var both sync.WaitGroup // most of them wait for much of their time
			both.Go(func() { sum, err = engine.Run(context.Background(), opt) })
			there.env.ExecuteWorkflow(Run, there.input())
			both.Wait()
			if err != nil {
				t.Fatal(err)
			}
			here.run = sum.Run
			there.result()
			if a, b := here.told(c.loose), there.told(c.loose); a != b {
				t.Errorf("on one machine:\n%s\non Temporal:\n%s", a, b)
			}
		})
	}
}

// refused are keys that are refused, with a file that has them.
var refused = map[string]string{
	"merge":          "mode: mapreduce\nisolation: none\nmap: {input: [1], agent_template: [{shell: a}]}\nmerge: [{shell: a}]\n",
	"merge_queue":    "mode: mapreduce\nisolation: none\nmap: {input: [1], agent_template: [{shell: a}]}\nmerge_queue: {verify: a}\n",
	"limits":         "mode: mapreduce\nmap: {input: [1], limits: gpu, agent_template: [{shell: a}]}\n",
	"canary":         "mode: mapreduce\nmap: {input: [1], canary: 1, agent_template: [{shell: a}]}\n",
	"same_error":     "mode: mapreduce\nmap: {input: [1], agent_template: [{shell: a}]}\nerror_policy: {same_error: true}\n",
	"item_budget":    "mode: mapreduce\nmap: {input: [1], item_budget: {time: 1m}, agent_template: [{shell: a}]}\n",
	"skip_unchanged": "mode: mapreduce\nmap: {input: [1], skip_unchanged: true, agent_template: [{shell: a}]}\n",
}

// keysOf are the keys of a YAML text, wherever they stand.
func keysOf(t *testing.T, text string) map[string]bool {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				keys[c.Value] = true
			}
			walk(c)
		}
	}
	walk(&doc)
	return keys
}

// TestEveryKey: a key of a file, a map or an error policy means on Temporal what it
// means on one machine, which TestAlike shows of a file that has it, or it is
// refused. None is passed over; what a step has is the executor's, which is the same.
func TestEveryKey(t *testing.T) {
	keys := map[string]bool{}
	for _, c := range alike {
		if c.flow == "" {
			maps.Copy(keys, keysOf(t, c.text))
		}
	}
	for key, text := range refused {
		if !keysOf(t, text)[key] {
			t.Errorf("the file of %s has no such key", key)
		}
		f, problems := workflow.Parse("flow.yml", []byte(text), workflow.Options{})
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		list := cluster.Refused(f, "", "")
		if !list.HasErrors() || list[0].Line == 0 || list[0].Suggestion == "" {
			t.Errorf("%s: %v", key, list)
		}
		keys[key] = true
	}
	objects := []string{"workflow", "block", "map", "map_input", "timeout_config", "error_policy", "on_item_failure", "error_batch", "worktree"}
	for _, f := range workflow.Fields() {
		same := strings.HasPrefix(f.Doc, "the same as ")
		if slices.Contains(objects, f.Object) && f.Inert == "" && !same && !keys[f.Key] {
			t.Errorf("%s.%s: no file of TestAlike has it, and it is not refused", f.Object, f.Key)
		}
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
	return strings.ReplaceAll(b.String(), p.run, "RUN")
}
