package engine_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// cell is the evidence that a field of a step has an effect: steps that leave files in ev.
// Lines that end in #F have the field. Lines that end in #B are used only when the field is
// left out; then the evidence must be different. Text "-" means that there is no such file.
type cell struct {
	field string
	steps string
	want  map[string]string
	git   bool
	// event, if not nil, is evidence in the events of the run.
	event func(*ran) bool
}

type evidence = map[string]string

// wait waits for a file, for some 10 s.
const wait = `wait() { for i in $(seq 200); do [ -e "$1" ] && return 0; sleep 0.05; done; return 1; }; `

var cells = []cell{
	{field: "shell", want: evidence{"x": "a"}, steps: `
- claude: /say nothing #B
- shell: echo a > @EV@/x #F`},
	{field: "claude", want: evidence{"x": "a"}, steps: `
- shell: "true" #B
- claude: /sh echo a > @EV@/x #F`},
	{field: "command", want: evidence{"x": "a"}, steps: `
- shell: "true" #B
- command: sh echo a > @EV@/x #F`},
	{field: "http", want: evidence{"x": "200 hello of GET /greeting"}, steps: `
- shell: "true" #B
- http: "@URL@/greeting" #F
  id: h
- shell: echo "${h.status} ${h.output}" > @EV@/x`},
	{field: "write_file", want: evidence{"x": "hello"}, steps: `
- shell: "true" #B
- write_file: {path: w/x.txt, content: hello, create_dirs: true} #F
- shell: cat w/x.txt > @EV@/x`},
	{field: "foreach", want: evidence{"x": "a\nb"}, steps: `
- shell: "true" #B
- foreach: {items: [a, b], do: [{shell: 'echo ${item} >> @EV@/x'}]} #F`},
	{field: "do", want: evidence{"x": "0 a 2\n1 b 2"}, steps: `
- shell: "true" #B
- foreach: [a, b] #F
  do: #F
    - shell: echo ${index} ${foreach.item} ${total} >> @EV@/x #F`},
	{field: "parallel", want: evidence{"x": "a"}, steps: `
- foreach: [a, b]
  parallel: 2 #F
  do:
    - shell: ` + wait + `touch @EV@/at-${item}; if [ ${item} = a ]; then wait @EV@/at-b && echo a > @EV@/x; fi
      continue_on_error: true`},
	{field: "max_items", want: evidence{"x": "a"}, steps: `
- foreach: [a, b]
  max_items: 1 #F
  do:
    - shell: echo ${item} >> @EV@/x`},
	{field: "min_items", want: evidence{"x": "a"}, steps: `
- foreach: 'echo note >&2'
  min_items: 0 #F
  do:
    - shell: echo ${item} >> @EV@/x
- shell: echo a >> @EV@/x`},
	{field: "validate", want: evidence{"x": "0 b"}, steps: `
- shell: "true"
  validate: {shell: 'echo "{\"score\": 0, \"missing\": [\"b\"]}"', on_incomplete: {shell: 'echo ${validation.score} ${validation.missing} > @EV@/x', max_attempts: 1, fail_workflow: false}} #F`},
	{field: "goal_seek", want: evidence{"x": "3"}, steps: `
- shell: "true" #B
- goal_seek: {goal: three, shell: echo a >> @EV@/n, validate: {shell: 'echo "score: $(($(wc -l < @EV@/n) * 30))"'}, threshold: 80, max_attempts: 5} #F
- shell: wc -l < @EV@/n | tr -d ' ' > @EV@/x`},
	{field: "test", want: evidence{"x": "1 3"}, steps: `
- shell: "true" #B
- test: {command: exit 3, on_failure: {shell: 'echo ${test.attempt} ${test.exit_code} > @EV@/x'}} #F`},
	{field: "workflow", want: evidence{"x": "called with b"}, steps: `
- shell: "true" #B
- workflow: callee #F
  with: {letter: b} #F`},
	{field: "with", want: evidence{"x": "called with c"}, steps: `
- workflow: callee
  with: {letter: c} #F`},
	{field: "parameters", want: evidence{"x": "called with d"}, steps: `
- workflow: callee
  parameters: {letter: d} #F`},
	{field: "args", want: evidence{"x": "fast"}, steps: `
- name: sh
  args: [echo, fast, '>', '@EV@/x'] #F`},
	{field: "inputs", want: evidence{"x": "I was asked: /hello the-spec"}, steps: `
- name: hello
  inputs: {spec: {from: the-spec, pass_as: {argument: {position: 0}}}} #F
  capture: answer
- shell: echo "${answer}" > @EV@/x`},
	{field: "skip_permissions", want: evidence{"x": "true"}, steps: `
- claude: /argv
  skip_permissions: true #F
  capture: argv
- shell: case "${argv}" in *--dangerously-skip-permissions*) echo true > @EV@/x;; esac`},
	{field: "id", want: evidence{"x": "hi 0 true"}, steps: `
- shell: echo hi
  id: greet #F
- shell: echo "${greet.output} ${greet.exit_code} ${greet.success}" > @EV@/x`},
	{field: "name", steps: `
- shell: "true"
  name: Say nothing #F`,
		event: func(r *ran) bool {
			return slices.ContainsFunc(r.of(event.StepFinished), func(e event.Event) bool { return e.Label == "Say nothing" })
		}},
	{field: "when", want: evidence{"x": "-", "y": "a"}, steps: `
- shell: echo a > @EV@/x
  when: 1 > 2 #F
- shell: echo a > @EV@/y
  when: 2 > 1`},
	{field: "condition", want: evidence{"x": "-", "y": "a"}, steps: `
- shell: echo a > @EV@/x
  condition: "'a' == 'b'" #F
- shell: echo a > @EV@/y`},
	{field: "if", want: evidence{"x": "-", "y": "a"}, steps: `
- shell: echo a > @EV@/x
  if: false #F
- shell: echo a > @EV@/y`},
	{field: "timeout", want: evidence{"x": "-", "y": "late"}, steps: `
- shell: echo a > @EV@/x #B
- shell: sleep 300; echo a > @EV@/x #F
  timeout: 100ms #F
  on_failure: {shell: echo late > @EV@/y}`},
	{field: "timeout_secs", want: evidence{"x": "-", "y": "late"}, steps: `
- shell: echo a > @EV@/x #B
- shell: sleep 300; echo a > @EV@/x #F
  timeout_secs: 0.1 #F
  on_failure: {shell: echo late > @EV@/y}`},
	{field: "timeout_by_attempt", want: evidence{"x": "-", "y": "late"}, steps: `
- shell: echo a > @EV@/x #B
- shell: sleep 300; echo a > @EV@/x #F
  timeout_by_attempt: [100ms] #F
  on_failure: {shell: echo late > @EV@/y}`},
	{field: "stall_timeout", want: evidence{"x": "-", "y": "late"}, steps: `
- shell: echo a > @EV@/x #B
- shell: sleep 300; echo a > @EV@/x #F
  stall_timeout: 100ms #F
  on_failure: {shell: echo late > @EV@/y}`},
	{field: "env_by_attempt", want: evidence{"x": "low"}, steps: `
- shell: echo "$LEVEL" > @EV@/x
  env_by_attempt: [{LEVEL: low}] #F`},
	{field: "continue_session", want: evidence{"x": "1"}, steps: `
- claude: '/sh tr "\\0" "\\n" < /proc/$PPID/cmdline | grep -cx -- --resume > @EV@/x; test "$BIDE_ATTEMPT" = 2'
  retry: {attempts: 2, initial_delay: 1ms}
  continue_session: true #F`},
	{field: "retry", want: evidence{"n": "a\na\na", "y": "a"}, steps: `
- shell: echo a >> @EV@/n; test $(wc -l < @EV@/n) -ge 3
  retry: {attempts: 3, initial_delay: 1ms} #F
- shell: echo a > @EV@/y`},
	{field: "retry_config", want: evidence{"n": "a\na\na", "y": "a"}, steps: `
- shell: echo a >> @EV@/n; test $(wc -l < @EV@/n) -ge 3
  retry_config: {attempts: 3, initial_delay: 1ms} #F
- shell: echo a > @EV@/y`},
	{field: "max_attempts", want: evidence{"n": "a\na", "y": "a"}, steps: `
- shell: echo a >> @EV@/n; test $(wc -l < @EV@/n) -ge 2
  max_attempts: 2 #F
- shell: echo a > @EV@/y`},
	{field: "on_failure", want: evidence{"x": "3 oops", "y": "a"}, steps: `
- shell: echo oops >&2; exit 3
  on_failure: {shell: 'echo "${error.exit_code} ${error.stderr}" > @EV@/x'} #F
- shell: echo a > @EV@/y`},
	{field: "on_success", want: evidence{"x": "fine"}, steps: `
- shell: echo fine
  on_success: {shell: 'echo "${shell.output}" > @EV@/x'} #F`},
	{field: "on_exit_code", want: evidence{"x": "seven", "z": "zero", "y": "a"}, steps: `
- shell: exit 7
  on_exit_code: {7: {shell: echo seven > @EV@/x}, 8: {shell: echo eight > @EV@/x}} #F
- shell: exit 0
  on_exit_code: {0: {shell: echo zero > @EV@/z}} #F
- shell: echo a > @EV@/y`},
	{field: "capture", want: evidence{"x": "hi 0 true"}, steps: `
- shell: echo hi
  capture: got #F
- shell: echo "${got} ${got.exit_code} ${got.success}" > @EV@/x`},
	{field: "capture_output", want: evidence{"x": "hi"}, steps: `
- shell: echo hi
  capture_output: got #F
- shell: echo "${got}" > @EV@/x`},
	{field: "capture_format", want: evidence{"x": "b of a, b, c"}, steps: `
- shell: echo a; echo b; echo c
  capture: got
  capture_format: lines #F
- shell: echo "${got[1]} of ${got}" > @EV@/x`},
	{field: "capture_streams", want: evidence{"x": "err"}, steps: `
- shell: echo out; echo err >&2
  capture: got
  capture_streams: stderr #F
- shell: echo "${got}" > @EV@/x`},
	{field: "output_file", want: evidence{"x": "hi\nthere"}, steps: `
- shell: echo hi; echo there
  output_file: "@EV@/x" #F`},
	{field: "outputs", want: evidence{"x": "made.md b"}, steps: `
- shell: "echo > made.md; echo '{\"a\": \"b\"}'"
  id: s
  outputs: {report: {file_pattern: '*.md'}, letter: {json_path: $.a}} #F
- shell: echo "${s.report} ${letter}" > @EV@/x`},
	{field: "step_validate", want: evidence{"x": "bad"}, steps: `
- shell: "true"
  step_validate: exit 1 #F
  on_failure: {shell: echo bad > @EV@/x}`},
	{field: "skip_validation", want: evidence{"x": "-", "y": "a"}, steps: `
- shell: "true"
  step_validate: exit 1
  skip_validation: true #F
  on_failure: {shell: echo bad > @EV@/x}
- shell: echo a > @EV@/y`},
	{field: "validation_timeout", want: evidence{"x": "bad"}, steps: `
- shell: "true"
  step_validate: sleep 300 #F
  validation_timeout: 100ms #F
  on_failure: {shell: echo bad > @EV@/x}`},
	{field: "ignore_validation_failure", want: evidence{"x": "-", "y": "a"}, steps: `
- shell: "true"
  step_validate: exit 1
  ignore_validation_failure: true #F
  on_failure: {shell: echo bad > @EV@/x}
- shell: echo a > @EV@/y`},
	{field: "env", want: evidence{"x": "3 own"}, steps: `
- shell: echo "$LEVEL $EV" > @EV@/x
  env: {LEVEL: 3, EV: own} #F`},
	{field: "working_dir", want: evidence{"x": "sub"}, steps: `
- shell: mkdir -p sub
- shell: basename "$PWD" > @EV@/x
  working_dir: sub #F`},
	{field: "cwd", want: evidence{"x": "sub"}, steps: `
- shell: mkdir -p sub
- shell: basename "$PWD" > @EV@/x
  cwd: sub #F`},
	{field: "clear_env", want: evidence{"x": "none"}, steps: `
- shell: echo ${EV:-none} > '@EV@/x'
  clear_env: true #F`},
	{field: "commit_required", git: true, want: evidence{"x": "no commit", "y": "a"}, steps: `
- shell: "true"
  commit_required: true #F
  on_failure: {shell: echo no commit > @EV@/x}
- shell: echo b >> b.txt && git add b.txt && git commit -qm b
  commit_required: true #F
- shell: echo a > @EV@/y`},
	{field: "auto_commit", git: true, want: evidence{"x": "b.txt"}, steps: `
- shell: echo b > b.txt
  auto_commit: true #F
- shell: git log --format= --name-only -1 > @EV@/x`},
	{field: "commit_config", git: true, want: evidence{"x": "made 42 by A <a@example.org>"}, steps: `
- shell: echo b > b.txt; echo c > c.log; echo 42
  auto_commit: true
  commit_config: {message_template: 'made ${shell.output}', author: 'A <a@example.org>', exclude_files: ['*.log']} #F
- shell: git log --format='%s by %an <%ae>' -1 > @EV@/x; git status --porcelain > @EV@/left`},
	{field: "continue_on_error", want: evidence{"y": "a"}, steps: `
- shell: exit 1
  continue_on_error: true #F
- shell: echo a > @EV@/y`},
	{field: "allow_failure", want: evidence{"y": "a"}, steps: `
- shell: exit 1
  allow_failure: true #F
- shell: echo a > @EV@/y`},
	{field: "ignore_errors", want: evidence{"y": "a"}, steps: `
- shell: exit 1
  ignore_errors: true #F
- shell: echo a > @EV@/y`},
	{field: "fail_workflow", want: evidence{"y": "a"}, steps: `
- shell: exit 1
  fail_workflow: false #F
- shell: echo a > @EV@/y`},
	{field: "metadata", want: evidence{"n": "m\nm\nm", "y": "a"}, steps: `
- shell: echo $M >> @EV@/n; exit 1
  env: {}
  metadata: {retries: 2, env: {M: m}, continue_on_error: true} #F
  retry: {attempts: 1} #B
- shell: echo a > @EV@/y`},
}

// elsewhere has the fields of a step that the table leaves out, and why.
var elsewhere = map[string]string{
	"pipeline":    "the tests of the dataflow engine",
	"use":         "the tests of templates: the file has to define one",
	"template":    "the tests of templates: the file has to define one",
	"handler":     "an error of the file",
	"limits":      "what a machine has, with other processes beside it: limits.txtar",
	"priority":    "what a machine has, with other processes beside it: priority.txtar",
	"description": "for people; nothing reads it",
}

// placesOfSteps are the places in a file where a step can be: workflow.Places, and the
// steps of another workflow that is called or run before.
var placesOfSteps = append(slices.Clone(workflow.Places), "workflow", "workflows")

// inPlace gives files with steps at a place. The first is the workflow.
func inPlace(place, steps string) map[string]string {
	const calls = "imports: [{path: callee.yml, alias: callee}]\n"
	head := ""
	if strings.Contains(steps, "workflow: callee") {
		head = calls
	}
	at := func(n int) string { return indent(n, strings.Trim(steps, "\n")) }
	main := ""
	switch place {
	case "commands":
		main = "commands:\n" + at(2)
	case "setup":
		main = "setup:\n" + at(2) + "map: {input: [1], agent_template: [{shell: 'true'}]}\n"
	case "agent_template":
		main = "map:\n  input: [1]\n  agent_template:\n" + at(4)
	case "reduce":
		main = "map: {input: [1], agent_template: [{shell: 'true'}]}\nreduce:\n" + at(2)
	case "finally":
		main = "commands: [{shell: 'true'}]\nfinally:\n" + at(2)
	case "merge":
		main = "commands:\n  - shell: echo work > work && git add work && git commit -qm work\nmerge:\n" + at(2)
	case "on_failure":
		main = "commands:\n  - shell: exit 1\n    on_failure:\n      commands:\n" + at(8)
	case "on_success":
		main = "commands:\n  - shell: 'true'\n    on_success:\n" + at(6)
	case "on_exit_code":
		main = "commands:\n  - shell: exit 9\n    on_exit_code:\n      9:\n" + at(8)
	case "do":
		main = "commands:\n  - foreach: [once]\n    do:\n" + at(6)
	case "validate":
		main = "commands:\n  - validate:\n      threshold: 0\n      commands:\n" + at(8)
	case "on_incomplete":
		main = "commands:\n  - validate:\n      shell: exit 1\n      on_incomplete:\n        max_attempts: 1\n        fail_workflow: false\n        commands:\n" + at(10)
	case "handlers":
		main = "map: {input: [1], agent_template: [{shell: exit 1}]}\non_item_failure: {custom: one}\nhandlers:\n  one:\n" + at(4)
	case "workflow":
		return map[string]string{"flow.yml": "imports: [{path: sub.yml, alias: sub}]\ncommands: [{workflow: sub}]\n", "sub.yml": head + "commands:\n" + at(2)}
	case "workflows":
		return map[string]string{"flow.yml": "workflows: {sub: {source: sub.yml}}\ncommands: [{shell: 'true'}]\n", "sub.yml": head + "commands:\n" + at(2)}
	default:
		panic("no such place: " + place)
	}
	return map[string]string{"flow.yml": head + main}
}

// variant gives a cell's steps with the field or without it.
func variant(steps string, with bool) string {
	var b strings.Builder
	for line := range strings.Lines(steps) {
		text := strings.TrimRight(line, "\n")
		field, isField := strings.CutSuffix(text, " #F")
		bare, isBare := strings.CutSuffix(field, " #B")
		if isField && !with || isBare && with {
			continue
		}
		b.WriteString(bare + "\n")
	}
	return b.String()
}

// try runs a cell in a place and says what is wrong.
func (c *cell) try(t *testing.T, place string, with bool) string {
	t.Helper()
	b := newBench(t)
	if c.git || place == "merge" {
		b.git()
		if place != "merge" {
			b.opt.Isolation = "none"
		}
	}
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/later" && asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if _, err := w.Write([]byte("hello of " + q.Method + " " + q.URL.Path)); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	b.url = srv.URL
	b.write("callee.yml", "parameters: {optional: [{name: letter, default: a}]}\ncommands: [{shell: 'echo called with ${letter} > @EV@/x'}]\n")
	files := inPlace(place, variant(c.steps, with))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.write(name, files[name])
	}
	if c.git || place == "merge" {
		b.output("git add . && git commit -qm files")
	}
	tape := &Tape{}
	var local *step.Executor
	dir := "" // where the steps are
	b.opt.Composed = func(x *step.Executor) {
		local = x
		dir, _ = x.Values.(*environ.Environment).Scope.Get("PROJECT_ROOT").(string)
		x.Actions, x.Rand = Taping{Actions: x.Actions, Tape: tape}, luck
		if x.Git != nil {
			x.Git.Repo = TapingRepo{Repo: x.Git.Repo, Tape: tape}
		}
	}
	r := b.run(files["flow.yml"])
	var wrong []string
	// With real processes, a deadline is over at a different moment each time:
	// TestFlowsUnderVirtualPorts compares that.
	if !strings.Contains(c.steps, "deadline") {
		wrong = append(wrong, r.virtually(local, tape, dir, strings.Contains(c.steps, "parallel:"))...)
		wrong = append(wrong, r.replayed(simulate.Program{File: b.parse(files["flow.yml"])})...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.want)) {
		if got := r.file(name); got != c.want[name] {
			wrong = append(wrong, filepath.Base(name)+" is "+quote(got)+", want "+quote(c.want[name]))
		}
	}
	if c.event != nil && !c.event(r) {
		wrong = append(wrong, "the event is missing")
	}
	if len(wrong) == 0 {
		return ""
	}
	return strings.Join(wrong, "; ") + r.story() + "\n" + b.fill(files["flow.yml"]+files["sub.yml"])
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"` }

// TestFieldInPlace runs a file for each field of a step in each place where a step can be,
// and checks what the step left outside of the run.
func TestFieldInPlace(t *testing.T) {
	t.Parallel()
	for _, c := range cells {
		t.Run(c.field, func(t *testing.T) {
			t.Parallel()
			for _, place := range placesOfSteps {
				t.Run(place, func(t *testing.T) {
					t.Parallel()
					if wrong := c.try(t, place, true); wrong != "" {
						t.Error(wrong)
					}
				})
			}
		})
	}
}

// TestEvidenceNeedsField shows that the evidence of each cell proves something: a program
// that ignores the field would not leave it.
func TestEvidenceNeedsField(t *testing.T) {
	t.Parallel()
	for _, c := range cells {
		t.Run(c.field, func(t *testing.T) {
			t.Parallel()
			if c.try(t, "commands", false) == "" {
				t.Error("the evidence is there without the field, too")
			}
		})
	}
}

// TestTableIsWhole fails when a field of a step has no row in the table.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, c := range cells {
		rows[c.field] = true
	}
	for _, f := range workflow.Fields() {
		if f.Object != "step" || f.Inert != "" || elsewhere[f.Key] != "" {
			continue
		}
		if !rows[f.Key] {
			t.Errorf("no row for the field %s", f.Key)
		}
		delete(rows, f.Key)
	}
	for name := range rows {
		t.Errorf("the table has a row for %s, which is no field of a step with an effect", name)
	}
}
