package engine_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestWorkflowStep: a step that runs another workflow, with its own arguments, outputs and
// variables.
func TestWorkflowStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("lib/build.yml", `
name: build
parameters: {required: [{name: what, type: string}], optional: [{name: level, type: number, default: 2}]}
env: {STAGE: 'of ${what}'}
commands:
  - shell: echo "${what} ${level} $STAGE ${outer|default:unseen}" >> @EV@/x
    id: inner
  - shell: "true"
    capture: outer
`)
	r := b.run(`
imports: [{path: lib/build.yml, alias: build}]
env: {STAGE: main}
commands:
  - shell: echo kept
    capture: outer
  - workflow: build
    with: {what: "${outer}"}
    id: called
  - workflow: build
    with: {what: b, level: 7}
  - workflow: lib/build.yml
    with: {what: c}
  - shell: echo "$STAGE ${outer} ${inner.output|default:none}" > @EV@/after
`)
	r.status(event.Succeeded)
	r.want("x", "kept 2 of kept kept\nb 7 of b kept\nc 2 of c kept")
	r.want("after", "main kept none")
}

// TestWorkflowStepFails: if a called workflow fails, the step fails, with the step's
// retries and handlers.
func TestWorkflowStepFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("sub.yml", "commands: [{shell: echo a >> @EV@/n; test $(wc -l < @EV@/n) -ge 3}]\n")
	r := b.run(`
imports: [{path: sub.yml, alias: sub}]
commands:
  - workflow: sub
    retry: {attempts: 2, initial_delay: 1ms}
    on_failure: {shell: echo handled > @EV@/h}
  - workflow: sub
  - workflow: sub
    timeout: 1h
`)
	r.status(event.Succeeded)
	r.want("n", "a\na\na\na")
	r.want("h", "handled")
}

// TestWorkflows: the workflows that run before the steps, in the order of their
// dependencies, with inputs and outputs.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("first.yml", "commands: [{shell: 'echo first >> @EV@/order; echo 1.2', capture: version}, {shell: 'true'}]\n")
	b.write("second.yml", "parameters: {optional: [{name: v, default: none}, {name: w, default: none}]}\ncommands: [{shell: 'echo second ${v} ${w} $(basename \"$PWD\") >> @EV@/order'}]\n")
	b.write("bad.yml", "commands: [{shell: 'echo bad >> @EV@/order; exit 1'}]\n")
	b.write("slow.yml", "commands: [{shell: sleep 60}]\n")
	b.write("sub/file", "")
	r := b.run(`
workflows:
  second: {source: second.yml, depends_on: [first], inputs: {v: first.version}, with: {w: text}, working_dir: sub}
  first: {source: first.yml, outputs: [version]}
  bad: {source: bad.yml, continue_on_error: true, depends_on: second}
  slow: {source: slow.yml, continue_on_error: true, timeout: 200ms, depends_on: bad}
commands:
  - shell: echo "main ${version} ${first.version}" >> @EV@/order
`)
	r.status(event.Succeeded)
	r.want("order", "first\nsecond 1.2 text sub\nbad\nmain 1.2 1.2")
	b = newBench(t)
	b.write("bad.yml", "commands: [{shell: exit 1}]\n")
	r = b.run("workflows: {bad: {source: bad.yml}}\ncommands: [{shell: echo a > @EV@/x}]")
	r.status(event.Failed)
	r.want("x", "-")
}

// TestWorkflowsInParallel: two workflows run at once, each waiting for the other.
func TestWorkflowsInParallel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wait := strings.Replace(wait, "seq 200", "seq 1200", 1)
	b.write("a.yml", "commands: [{shell: '"+wait+"touch @EV@/a; wait @EV@/b'}]\n")
	b.write("b.yml", "commands: [{shell: '"+wait+"touch @EV@/b; wait @EV@/a'}]\n")
	b.run("workflows:\n  a: {source: a.yml, parallel: true}\n  b: {source: b.yml, parallel: true}\ncommands: [{shell: 'true'}]\n").status(event.Succeeded)
}

// TestCalledWorkflowsCount: agents and commits of a called workflow are known before the
// run begins.
func TestCalledWorkflowsCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	b.write("sub.yml", "commands: [{shell: 'pwd > @EV@/where; echo a > f; git add f; git commit -qm f', commit_required: true}]\n")
	r := b.run("imports: [{path: sub.yml, alias: sub}]\ncommands: [{workflow: sub}]\n")
	r.status(event.Succeeded)
	if r.file("where") == b.dir {
		t.Error("the called workflow's commit was made in the user's own tree")
	}
	b = newBench(t)
	b.write("sub.yml", "agents: {x: {command: [no-such-agent]}}\ncommands: [{shell: touch @EV@/x}, {claude: /say a}]\n")
	b.opt.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + b.dir}
	if _, err := b.try(t.Context(), "workflows: {sub: {source: sub.yml}}\ncommands: [{shell: 'true'}]\n"); err == nil || !strings.Contains(err.Error(), "claude") {
		t.Errorf("the error is %v, want one that names claude", err)
	}
}

// TestCalledFileSettings: agents, env_files, secrets, profiles and timeout in the file of a
// called workflow have an effect in it.
func TestCalledFileSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("sub.env", "F=file\nE=file\n")
	b.write("sub.yml", `
agents: {echoer: {command: [echo, said]}}
env: {E: env, P: env}
env_files: [sub.env]
profiles: {ci: {P: profile}}
secrets: {S: {provider: command, key: echo topsecret}}
commands:
  - echoer: you
  - shell: echo "$E $F $P ${last.output}" > @EV@/x; echo "$S" | rev > @EV@/s; echo "${S}"
`)
	b.load.Profile = "ci"
	r := b.run("profiles: {ci: {}}\nimports: [{path: sub.yml, alias: sub}]\ncommands: [{workflow: sub}, {shell: 'echo \"${F:-gone}\" > @EV@/after'}]\n")
	r.status(event.Succeeded)
	r.want("x", "env file profile said you")
	r.want("s", "tercespot")
	r.want("after", "gone")
	if strings.Contains(r.shown, "topsecret") || !strings.Contains(r.shown, "***") {
		t.Errorf("shown: %q", r.shown)
	}
	b = newBench(t)
	b.write("slow.yml", "timeout: 200ms\ncommands: [{shell: sleep 60}]\n")
	r = b.run("imports: [{path: slow.yml, alias: slow}]\ncommands: [{workflow: slow}]\n")
	r.status(event.Failed)
	if r.sum.Class != "timeout" {
		t.Errorf("class %s: %s", r.sum.Class, r.sum.Message)
	}
}

// TestImportsAndExtends: imported steps, and values from the file that is extended.
func TestImportsAndExtends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("base.yml", "env: {A: base, B: base}\ncommands: [{shell: 'echo \"$A $B\" >> @EV@/x'}]\n")
	r := b.run("extends: base.yml\nenv: {B: own}\n")
	r.status(event.Succeeded)
	r.want("x", "base own")

	b = newBench(t)
	b.write("more.yml", "commands: [{shell: echo imported >> @EV@/x, name: one}]\n")
	r = b.run("imports: [more.yml]\ncommands: [{shell: echo own >> @EV@/x}]\n")
	r.status(event.Succeeded)
	if got := r.file("x"); !strings.Contains(got, "own") {
		t.Errorf("x is %q", got)
	}
}

// TestTemplate: a file with parameters that are filled in and changed.
func TestTemplate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("ci.yml", `
parameters: {required: [{name: what, type: string}], optional: [{name: n, type: number, default: 1}]}
commands:
  - shell: echo "${what} ${n}" >> @EV@/x
  - shell: echo second >> @EV@/x; exit 1
`)
	r := b.run(`
template:
  name: ci
  source: ci.yml
  with: {what: filled, n: 5}
  override: {commands.1.shell: echo changed >> @EV@/x}
`)
	r.status(event.Succeeded)
	r.want("x", "filled 5\nchanged")
}

// TestParameters: --param goes before --param-file, which goes before defaults; all are
// typed. A name that is no parameter is left for the run.
func TestParameters(t *testing.T) {
	t.Parallel()
	const text = `
parameters:
  required: [{name: a, type: string, description: d}]
  optional: [{name: n, type: number, default: 1.50}, {name: l, type: array, default: [x, y]}, {name: yes, type: boolean, default: false}, {name: d, type: string, default: low}]
commands:
  - shell: echo "${a} ${n} ${l} ${yes} ${d} ${later:-run}" > @EV@/x
  - shell: echo on > @EV@/y
    when: ${yes}
`
	b := newBench(t)
	b.load.Params = map[string]string{"a": "given", "yes": "true"}
	b.load.ParamFile = map[string]any{"a": "file", "d": "file"}
	b.opt.Params, b.opt.ParamFile = b.load.Params, b.load.ParamFile
	r := b.run(text)
	r.status(event.Succeeded)
	r.want("x", "given 1.50 x, y true file run")
	r.want("y", "on")
}

// TestInlineWorkflows: templates and workflows that are written in the file run with the
// values that they are called with, also after a resume. Those that nothing calls do not
// run.
func TestInlineWorkflows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	src := `
templates:
  say:
    parameters: [who, {name: how, default: hello}]
    steps: [{shell: 'echo "${how} ${who}" >> @EV@/x'}]
workflows:
  main:
    env: {WHO: main}
    steps:
      - {use: say, with: {who: "a'b $(echo no)"}}
      - shell: echo out
        capture: got
      - {use: say, with: {who: '${got} $WHO', how: bye}}
      - {shell: test -e @EV@/go}
      - {workflow: tail}
  tail: {steps: [{use: say, with: {who: tail}}]}
  unused: [{use: say, with: {who: nobody}}]
`
	r := b.run(src)
	r.status(event.Failed)
	r.want("x", "hello a'b $(echo no)\nbye out main")
	b.touch("go")
	again := b.resume(t.Context())
	again.status(event.Succeeded)
	again.want("x", "hello a'b $(echo no)\nbye out main\nhello tail")
}

// TestCommandSetsVariables: a command appends lines to the file that BIDE_OUTPUT (and
// PRODIGY_OUTPUT) names. They are variables of the steps after it, and of the calling
// workflow if the outputs name them. They never reach another attempt.
func TestCommandSetsVariables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("build.yml", `
commands:
  - shell: |
      echo artifact=out/$(echo a).tar >> $PRODIGY_OUTPUT
      printf 'passed=true\n\nempty=\nkept=a = b\r\n' >> "$BIDE_OUTPUT"
  - shell: echo "${artifact} ${passed} [${empty}] ${kept}" > @EV@/inside
`)
	r := b.run(`
workflows: {build: {source: build.yml, outputs: [artifact]}}
commands:
  - shell: echo "${build.artifact} ${artifact} ${passed|default:unseen}" > @EV@/x
  - shell: echo "tries=$(wc -l < @EV@/n 2>/dev/null || echo 0)" >> $BIDE_OUTPUT; echo >> @EV@/n; test $(wc -l < @EV@/n) -ge 3
    retry: {attempts: 3, initial_delay: 1ms}
  - shell: echo "${tries}" > @EV@/tries; ls "$(dirname "$BIDE_OUTPUT")" | grep -v "[a-z]" > @EV@/left; true
    clear_env: true
  - foreach: [p, q]
    do: [{shell: 'echo "got=${item}" >> $BIDE_OUTPUT'}, {shell: 'echo "${got}" >> @EV@/each'}]
  - claude: /sh echo said=hello >> $PRODIGY_OUTPUT
  - shell: echo "${said}" > @EV@/said
    when: said == 'hello'
`)
	r.status(event.Succeeded)
	r.want("inside", "out/a.tar true [] a = b")
	r.want("x", "out/a.tar out/a.tar unseen")
	r.want("tries", "2")
	r.want("left", "")
	r.want("each", "p\nq")
	r.want("said", "hello")

	r = newBench(t).run("commands: [{shell: 'echo no equals >> $BIDE_OUTPUT', on_failure: {shell: 'echo \"${error.message}\" > @EV@/why'}}]")
	r.status(event.Succeeded)
	if why := r.file("why"); !strings.Contains(why, "no equals") || !strings.Contains(why, "NAME=value") {
		t.Errorf("the error is %q", why)
	}
}
