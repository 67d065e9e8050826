package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

const library = `
workflows:
  default: {env: {A: base}, steps: [{shell: one}]}
templates:
  hello: {parameters: [who], steps: [{shell: 'hi ${who}'}]}
`

// target is what the step of a workflow calls.
func target(t *testing.T, s *workflow.Step) *workflow.SubWorkflow {
	t.Helper()
	c, ok := s.Action.(*workflow.Call)
	if !ok || c.Target == nil {
		t.Fatalf("the step %s calls nothing", s.Path)
	}
	return c.Target
}

func TestInlineWorkflows(t *testing.T) {
	read := files{"lib.yml": library}.read
	f, problems := workflow.Parse("flow.yml", []byte(`
imports: [{path: lib.yml, alias: lib}]
retry_defaults: {attempts: 4}
agents: {helper: {command: [helper, '${prompt}']}}
templates:
  check:
    parameters: [{name: level, type: integer}, {name: what, default: all}]
    steps: [{shell: 'check ${what}', timeout: '${level}'}, {helper: look}]
workflows:
  main:
    extends: lib.default
    env: {B: own}
    steps:
      - {use: check, with: {level: 3}}
      - {workflow: tail}
      - {use: lib.hello, with: {who: you}}
  tail: {depends_on: first, commands: [{use: check, with: {level: 5, what: some}}]}
  first: [{shell: f}]
`), workflow.Options{ReadFile: read})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	runs := map[string]bool{}
	var main *workflow.File
	for _, w := range f.Workflows {
		runs[w.Name] = w.Run
		if w.Name == "main" {
			main = w.File
		}
	}
	if !runs["main"] || runs["tail"] || runs["first"] {
		t.Errorf("by themselves run %v, want main alone", runs)
	}
	if len(main.Env) != 2 || len(main.Steps) != 3 {
		t.Fatalf("main has %d variables and %d steps, want those of what it extends as well", len(main.Env), len(main.Steps))
	}
	check := target(t, main.Steps[0]).File
	if got := briefs(check.Steps); got != "shell:check ${what} claude(helper):look" {
		t.Errorf("the template is %s", got)
	}
	if d := check.Steps[0].Timeout.D.Seconds(); d != 3 {
		t.Errorf("the timeout is %v, want what level is given", d)
	}
	if r := check.Steps[0].Retry; r == nil || r.Attempts != 4 {
		t.Errorf("the retry defaults of the file do not hold in a template: %+v", r)
	}
	again := target(t, target(t, main.Steps[1]).File.Steps[0]).File
	if d := again.Steps[0].Timeout.D.Seconds(); d != 5 {
		t.Errorf("the timeout of the other use is %v", d)
	}
	if got := briefs(target(t, main.Steps[2]).File.Steps); got != "shell:hi ${who}" {
		t.Errorf("the imported template is %s", got)
	}
}

func TestInlineWorkflowProblems(t *testing.T) {
	for _, c := range []struct{ name, src, code, text string }{
		{"unknown template", "templates: {check: [{shell: a}]}\ncommands: [{use: chek}]", "unknown-workflow", `did you mean "check"`},
		{"a template without steps", "templates: {check: {description: b}}\ncommands: [{use: check}]", "missing-key", "no steps"},
		{"a parameter without a value", "templates: {check: {parameters: [x], steps: [{shell: '${x}'}]}}\ncommands: [{use: check}]", "missing-parameter", "with: of the step"},
		{"a circle", "templates: {a: [{use: b}], b: [{use: a}]}\ncommands: [{use: a}]", "import-cycle", "calls itself"},
		{"it extends itself", "workflows: {a: {extends: a, steps: [{shell: x}]}}", "import-cycle", "extends itself"},
		{"a mistake in an unused one", "templates: {a: [{shel: x}]}\ncommands: [{shell: y}]", "no-action", `did you mean "shell"`},
		{"an agent by the keys of others", "agents: {stub: {command: cat}}\ncommands: [{agent: stub, prompt: do it}]", "no-action", `key of its step: - stub: "do it"`},
		{"an agent that nobody defines", "commands: [{agent: mine, prompt: do it}]", "no-action", `- mine: "do it", with mine defined under agents:`},
		{"a prompt alone", "commands: [{prompt: do it}]", "no-action", `- claude: "do it"`},
		{"one never called", "workflows: {main: [{shell: x}], other: [{shell: y}]}", "never-run", "call it with a step"},
		{"two of one name", "templates: {a: [{shell: x}]}\nworkflows: {a: [{shell: x}]}\ncommands: [{shell: y}]", "duplicate-name", "another name"},
		{"a map inside", "workflows: {a: {source: map.yml}}\ncommands: [{shell: y}]", "unsupported", "has a map"},
		{"a merge inside", "workflows: {a: {source: merge.yml}}\ncommands: [{shell: y}]", "unsupported", "has a merge block"},
		{"workflows inside", "workflows: {a: {source: lib.yml}}\ncommands: [{shell: y}]", "unsupported", "workflows of its own"},
		{"a step of an unknown entry", "imports: [{path: lib.yml, alias: lib}]\nworkflows: {main: {extends: lib.defalt, steps: [{shell: x}]}}", "unknown-workflow", `did you mean "default"`},
	} {
		read := files{
			"lib.yml": library, "map.yml": "map: {input: [1], agent_template: [{shell: x}]}",
			"merge.yml": "commands: [{shell: x}]\nmerge: [{shell: x}]",
		}.read
		_, problems := workflow.Parse("flow.yml", []byte(c.src), workflow.Options{ReadFile: read})
		found := false
		for _, p := range problems {
			found = found || p.Code == c.code && strings.Contains(p.Message+" "+p.Suggestion, c.text)
		}
		if !found {
			t.Errorf("%s: the problems are %v, want %s with %q", c.name, problems, c.code, c.text)
		}
	}
}

// TestCalledWithItsParameters: a workflow that is only called need not have the
// values of its parameters where it is listed.
func TestCalledWithItsParameters(t *testing.T) {
	read := files{"need.yml": "parameters: {required: [x]}\ncommands: [{shell: '${x}'}]"}.read
	for src, wrong := range map[string]bool{
		"workflows: {need: {source: need.yml}}\ncommands: [{workflow: need, with: {x: 1}}]": false,
		"workflows: {need: {source: need.yml}}\ncommands: [{workflow: need}]":               true,
		"workflows: {need: {source: need.yml}}\ncommands: [{shell: y}]":                     true,
	} {
		if _, problems := workflow.Parse("flow.yml", []byte(src), workflow.Options{ReadFile: read}); problems.HasErrors() != wrong {
			t.Errorf("%s\n%v", src, problems)
		}
	}
}

// TestManyUses: a file cannot grow without bound by using its templates.
func TestManyUses(t *testing.T) {
	step := "{shell: a, env: {A: b, C: d}}, "
	big := "templates: {a: [" + strings.Repeat(step, 1000) + "]}\ncommands: [" + strings.Repeat("{use: a}, ", 200) + "]"
	deep := "templates:\n  t0: [{shell: a}]\n"
	for i := range 12 {
		deep += fmt.Sprintf("  t%d: [{use: t%d}, {use: t%d}, {use: t%d}]\n", i+1, i, i, i)
	}
	for src, code := range map[string]string{big: "too-large", deep + "commands: [{use: t12}]": "too-many-files"} {
		_, problems := parse(t, src)
		found := false
		for _, p := range problems {
			found = found || p.Code == code
		}
		if !found {
			t.Errorf("no error %s of %d problems for\n%.200s", code, len(problems), src)
		}
	}
}
