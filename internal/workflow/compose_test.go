package workflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// load composes main.yml out of some files.
func load(fs files, opt workflow.Options) (*workflow.File, diag.List) {
	opt.ReadFile, opt.Sh = fs.read, "bash"
	return workflow.Load("main.yml", opt)
}

func loadClean(t *testing.T, fs files, opt workflow.Options) *workflow.File {
	t.Helper()
	f, problems := load(fs, opt)
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, fs["main.yml"])
	}
	return f
}

func params(f *workflow.File) string {
	var out []string
	for _, p := range f.Params {
		if p.HasValue {
			out = append(out, fmt.Sprintf("%s=%v(%T)", p.Name, p.Value, p.Value))
		} else {
			out = append(out, p.Name+"?")
		}
	}
	return strings.Join(out, " ")
}

func TestExtends(t *testing.T) {
	fs := files{
		"main.yml":           "extends: middle\nenv: {B: 2, C: 3}\nretry_defaults: {attempts: 4}\n",
		"bases/middle.yml":   "extends: ../root.yaml\nname: middle\nenv: {A: 9, B: 1}\ncommands: [{shell: middle}]\n",
		"root.yaml":          "name: root\nmax_iterations: 7\nenv: {A: 1}\nsteps: [{shell: root}]\n",
		"unused/middle.yml":  "commands: [{shell: no}]",
		"templates/main.yml": "commands: [{shell: no}]",
	}
	f := loadClean(t, fs, workflow.Options{})
	if briefs(f.Steps) != "shell:middle" || f.Name != "middle" || f.MaxIterations != 7 || f.Steps[0].Retry.Attempts != 4 {
		t.Errorf("%s %q %d", briefs(f.Steps), f.Name, f.MaxIterations)
	}
	var env []string
	for _, e := range f.Env {
		env = append(env, e.Name+"="+e.Text.String())
	}
	if got := strings.Join(env, " "); got != "A=9 B=2 C=3" {
		t.Errorf("env %s", got)
	}
	if f.Steps[0].Pos.File != "bases/middle.yml" || f.Steps[0].Pos.Line != 4 {
		t.Errorf("place %v", f.Steps[0].Pos)
	}
	if len(f.Others) != 2 || f.Others["root.yaml"] == nil || f.Others["bases/middle.yml"] == nil {
		t.Errorf("others %v", f.Others)
	}
}

// TestComposedSpellings: two files say the same under any spellings of a key, and the
// steps of an import come before the file's own wherever steps stand.
func TestComposedSpellings(t *testing.T) {
	const base = "timeout: 10m\nretry_defaults: {max_attempts: 3, initial_delay: 2s}\nworkflows: {w: [{shell: base}]}\ncommands: [{shell: base}]\n"
	const older = "timeout_secs: 600\nretry_defaults: {attempts: 3, initial_delay_ms: 2000}\nsub_workflows: {w: [{shell: base}]}\nsteps: [{shell: base}]\n"
	for _, c := range []struct{ base, own string }{
		{base, "timeout_secs: 30\nretry_defaults: {attempts: 5}\nsub_workflows: {w: [{shell: own}]}\nsteps: [{workflow: w}]\n"},
		{older, "timeout: 30s\nretry_defaults: {max_attempts: 5}\nworkflows: {w: [{shell: own}]}\ncommands: [{workflow: w}]\n"},
	} {
		f := loadClean(t, files{"base.yml": c.base, "main.yml": "extends: base.yml\n" + c.own}, workflow.Options{})
		retry := f.Steps[0].Action.(*workflow.Call).Target.File.Steps[0].Retry
		if got := briefs(f.Steps[0].Action.(*workflow.Call).Target.File.Steps); f.Timeout.D != 30*time.Second || got != "shell:own" || retry.Attempts != 5 || retry.Initial != 2*time.Second {
			t.Errorf("%s: %v, %s, %d attempts after %v", c.own, f.Timeout.D, got, retry.Attempts, retry.Initial)
		}
	}
	for _, path := range []string{"timeout", "timeout_secs", "reduce.0.timeout", "reduce.0.timeout_secs", "setup.commands.0.timeout", "setup.steps.0.timeout_secs", "map.agent_timeout", "setup.timeout_secs"} {
		f := loadClean(t, files{
			"main.yml": "template: {source: t.yml, override: {" + path + ": 30}}\n",
			"t.yml":    "mode: mapreduce\ntimeout: 10m\nsetup: {steps: [{shell: s, timeout: 10m}], timeout: 10m}\nmap: {input: [a], agent_template: [{shell: a}], agent_timeout_secs: 600}\nreduce: [{shell: c, timeout_secs: 600}]\n",
		}, workflow.Options{})
		n := 0
		for _, d := range []time.Duration{f.Timeout.D, f.Reduce.Steps[0].Timeout.D, f.Map.AgentTimeout.D, f.Setup.Timeout.D, f.Setup.Steps[0].Timeout.D} {
			if d == 30*time.Second {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d timeouts are 30s", path, n)
		}
	}
	fs := files{
		"main.yml": "imports: [lib.yml]\ncommands: [{shell: own}]\nfinally: [{shell: own}]\n",
		"lib.yml":  "setup: {steps: [{name: a, shell: a}, {name: b, shell: b}]}\nsteps: [{name: c, shell: c}]\nfinally: {commands: [{name: f, shell: f}]}\n",
	}
	for change, want := range map[string][2]string{
		"[lib.yml]":                            {"shell:a shell:b shell:c shell:own", "shell:f shell:own"},
		"[{path: lib.yml, selective: [b, f]}]": {"shell:b shell:own", "shell:f shell:own"},
		"[{path: lib.yml, selective: [c]}]":    {"shell:c shell:own", "shell:own"},
	} {
		f := loadClean(t, files{"lib.yml": fs["lib.yml"], "main.yml": strings.Replace(fs["main.yml"], "[lib.yml]", change, 1)}, workflow.Options{})
		if got := [2]string{briefs(f.Steps), briefs(f.Finally.Steps)}; got != want {
			t.Errorf("%s: %q, want %q", change, got, want)
		}
	}
}

func TestTemplates(t *testing.T) {
	fs := files{
		"main.yml": `name: mine
template:
  name: instance
  source: ci
  with: {env: prod, replicas: 3}
  override: {commands.0.timeout: 600, max_iterations: 2, env: {X: y}}
commands: [{shell: own}]
`,
		"templates/ci.yml": `name: ci
parameters:
  required: [{name: env, type: String, validation: "matches('^(dev|prod)$')"}]
  optional: [{name: replicas, type: number, default: 1}, {name: wait, default: 30}]
env: {A: b}
commands:
  - shell: echo ${env} ${replicas}
    timeout: 5
  - shell: slow
    timeout: ${wait}
`,
	}
	f := loadClean(t, fs, workflow.Options{Params: map[string]string{"wait": "90"}})
	if briefs(f.Steps) != "shell:echo ${env} ${replicas} shell:slow shell:own" || f.Name != "mine" || f.MaxIterations != 2 {
		t.Errorf("%s %q", briefs(f.Steps), f.Name)
	}
	if f.Steps[0].Timeout.D != 10*time.Minute || f.Steps[1].Timeout.D != 90*time.Second {
		t.Errorf("timeouts %v %v", f.Steps[0].Timeout, f.Steps[1].Timeout)
	}
	if got := params(f); got != "env=prod(string) replicas=3(int64) wait=90(int64)" {
		t.Errorf("params %s", got)
	}
	if len(f.Env) != 1 || f.Env[0].Name != "X" {
		t.Errorf("env %+v", f.Env)
	}
	for change, want := range map[string]string{
		"source: {file: templates/ci.yml}": "",
		"source: https://a.b/c.yml":        "unsupported",
		"source: nowhere":                  "missing-file",
	} {
		fs2 := files{"main.yml": strings.Replace(fs["main.yml"], "source: ci", change, 1), "templates/ci.yml": fs["templates/ci.yml"]}
		_, problems := load(fs2, workflow.Options{})
		if code := firstCode(problems); code != want {
			t.Errorf("%s: %q; want %q: %v", change, code, want, problems)
		}
	}
	fs["main.yml"] = strings.Replace(fs["main.yml"], "env: prod", "env: test", 1)
	if _, problems := load(fs, workflow.Options{}); firstCode(problems) != "bad-parameter" {
		t.Errorf("%v", problems)
	}
	fs["main.yml"] = strings.Replace(fs["main.yml"], "commands.0.timeout", "commands.9.timeout", 1)
	if _, problems := load(fs, workflow.Options{}); !strings.Contains(problems.Error(), "bad-override") {
		t.Errorf("%v", problems)
	}
}

func firstCode(l diag.List) string {
	for _, p := range l {
		if p.Severity == diag.Error {
			return p.Code
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	fs := files{
		"main.yml":       "imports: [lib/setup.yml, {path: lib/tools.yml, selective: [lint]}]\ncommands: [{shell: own}]\nenv: {A: mine}\n",
		"lib/setup.yml":  "imports: [{path: deeper.yml}]\nname: setup\nenv: {A: theirs, B: b}\ncommands: [{shell: setup}]\n",
		"lib/deeper.yml": "- shell: deeper\n",
		"lib/tools.yml":  "commands: [{shell: l, id: lint}, {shell: f, id: format}]\n",
	}
	f := loadClean(t, fs, workflow.Options{})
	if got := briefs(f.Steps); got != "shell:deeper shell:setup shell:l shell:own" {
		t.Errorf("steps %s", got)
	}
	if f.Env[0].Text.String() != "mine" || len(f.Env) != 2 {
		t.Errorf("env %+v", f.Env)
	}
	fs["main.yml"] = "imports: [{path: lib/setup.yml, alias: prep}]\ncommands: [{workflow: prep, with: {level: 3, who: '${item:-x}'}}]\n"
	f = loadClean(t, fs, workflow.Options{})
	c := f.Steps[0].Action.(*workflow.Call)
	if len(f.Steps) != 1 || briefs(c.Target.File.Steps) != "shell:deeper shell:setup" || len(c.With) != 2 {
		t.Errorf("%+v", c)
	}
	if got := params(c.Target.File); got != "level=3(int64) who?" {
		t.Errorf("params %s", got)
	}
	for main, want := range map[string]string{
		"imports: [{path: none.yml}]\ncommands: [{shell: a}]":                                          "missing-file",
		"imports: [{alias: a}]\ncommands: [{shell: a}]":                                                "missing-key",
		"imports: [{path: lib/tools.yml, selective: [lnt]}]\ncommands: [{shell: a}]":                   "unknown-name",
		"imports: [{path: lib/tools.yml, alias: tools}]\ncommands: [{workflow: tolls}]":                "unknown-workflow",
		"commands: [{workflow: lib/tools.yml}]":                                                        "",
		"imports: [{path: a.yml}]\ncommands: [{shell: a}]":                                             "import-cycle",
		"imports: [{path: lib/tools.yml}]\ncommands: [{shell: a}]\nextends: main.yml":                  "import-cycle",
		"workflows: {again: {source: main.yml}}\ncommands: [{shell: a}]":                               "import-cycle",
		"imports: [{path: lib/tools.yml, alias: tools}, {path: b.yml}]\ncommands: [{workflow: tools}]": "bad-duration",
	} {
		fs["main.yml"] = main
		fs["a.yml"] = "imports: [{path: c.yml}]\ncommands: []"
		fs["c.yml"] = "imports: [{path: a.yml}]\ncommands: []"
		fs["b.yml"] = "commands: [{shell: a, timeout: soon}]"
		_, problems := load(fs, workflow.Options{})
		if got := firstCode(problems); got != want {
			t.Errorf("%s\n%q; want %q: %v", main, got, want, problems)
		}
		if want == "import-cycle" && !strings.Contains(problems.Error(), "→") {
			t.Errorf("no chain in %v", problems)
		}
		if want == "bad-duration" && problems[0].File != "b.yml" {
			t.Errorf("place %v", problems)
		}
	}
}

func TestParameterShapes(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"{required: [a], optional: [b]}", "a=1(int64) b?"},
		{"{required: [{name: a, type: string}], optional: [{name: b, type: Number, default: 2}]}", "a=1(string) b=2(int64)"},
		{"{definitions: {a: {type: integer}, b: {type: boolean, default: true}}}", "a=1(int64) b=true(bool)"},
		{"{a: {type: any, required: true}, b: {default: [x]}, c: low}", "a=1(int64) b=[x]([]interface {}) c=low(string)"},
		{"{a: , b: 3}", "a=1(int64) b=3(int64)"},
		{"[a, {name: b, default: {x: 1}}]", "a=1(int64) b=map[x:1](map[string]interface {})"},
	} {
		fs := files{"main.yml": "parameters: " + c.src + "\ncommands: [{shell: 'echo ${a}'}]\n"}
		f := loadClean(t, fs, workflow.Options{Params: map[string]string{"a": "1"}})
		if got := params(f); got != c.want {
			t.Errorf("%s: %s; want %s", c.src, got, c.want)
		}
	}
}

func TestParameterValues(t *testing.T) {
	const src = `parameters:
  optional:
    - {name: n, type: integer, default: 1, validation: "value >= 1 && value <= 10"}
    - {name: s, type: string, default: low, enum: [low, high]}
    - {name: b, type: boolean}
    - {name: l, type: array}
defaults: {n: 2, extra: x}
commands: [{shell: "a ${other:-}"}]
`
	for _, c := range []struct {
		texts  map[string]string
		values map[string]any
		want   string
	}{
		{nil, nil, "n=2(int64) s=low(string) b? l? extra=x(string)"},
		{nil, map[string]any{"n": int64(3)}, "n=3(int64) s=low(string) b? l? extra=x(string)"},
		{map[string]string{"n": "4", "b": "true", "l": `["x", 1]`}, map[string]any{"n": int64(3)}, "n=4(int64) s=low(string) b=true(bool) l=[x 1]([]interface {}) extra=x(string)"},
		{map[string]string{"n": "11"}, nil, "refuses"},
		{map[string]string{"n": "x"}, nil, "is no integer"},
		{map[string]string{"n": "1.5"}, nil, "is no integer"},
		{map[string]string{"s": "mid"}, nil, `one of ["low","high"]`},
		{map[string]string{"b": "yes"}, nil, "is no boolean"},
		{nil, map[string]any{"b": "true"}, "of type boolean"},
		{map[string]string{"other": "1"}, nil, "n=2(int64) s=low(string) b? l? extra=x(string) other=1(int64)"},
		{map[string]string{"extr": "1"}, nil, `did you mean "extra"`},
		{map[string]string{"unheard": "1"}, nil, `nothing in the workflow uses the parameter "unheard"`},
	} {
		f, problems := load(files{"main.yml": src}, workflow.Options{Params: c.texts, ParamFile: c.values})
		got := params(f)
		if len(problems) > 0 {
			got = problems.Error()
		}
		if got != c.want && !(len(problems) > 0 && strings.Contains(got, c.want)) {
			t.Errorf("%v %v: %s; want %s", c.texts, c.values, got, c.want)
		}
	}
	_, problems := load(files{"main.yml": "parameters: {required: [env]}\ncommands: [{shell: a}]"}, workflow.Options{})
	if firstCode(problems) != "missing-parameter" || !strings.Contains(problems[0].Suggestion, "--param env=VALUE") || problems[0].Column != 25 {
		t.Errorf("%v", problems)
	}
}

// TestParametersInTypedPlaces has parameters where numbers, durations and
// booleans stand; texts keep them for the run.
func TestParametersInTypedPlaces(t *testing.T) {
	fs := files{"main.yml": `parameters: {n: 3, wait: 2m, yes: true, secs: 7, kind: linear}
env: {other: a, later: 5s}
map:
  input: a.json
  max_parallel: ${n}
  agent_timeout: ${secs}s
  agent_template:
    - shell: echo ${n} ${other}
      timeout: ${wait}
      commit_required: ${yes}
      retry: {attempts: "${n}", backoff: "${kind}", initial_delay_secs: $secs}
    - shell: b
      timeout: ${later}
`}
	f := loadClean(t, fs, workflow.Options{Params: map[string]string{"n": "5"}})
	a := f.Map.Template.Steps[0]
	if f.Map.Parallel.N != 5 || f.Map.AgentTimeout.D != 7*time.Second || a.Timeout.D != 2*time.Minute || !a.CommitRequired || a.Retry.Attempts != 5 {
		t.Errorf("%+v %+v %+v", f.Map, a, a.Retry)
	}
	if delays(a.Retry.Backoff, 2) != "7s 14s" {
		t.Errorf("delays %s", delays(a.Retry.Backoff, 2))
	}
	if got := brief(a); got != "shell:echo ${n} ${other}" {
		t.Errorf("the text became %s", got)
	}
	if tm := f.Map.Template.Steps[1].Timeout; tm.Text == nil || tm.Unit != time.Second {
		t.Errorf("a variable of the run: %+v", tm)
	}
	_, problems := load(files{"main.yml": "commands: [{shell: a, retry: {attempts: '${later}'}}]"}, workflow.Options{})
	if !strings.Contains(problems.Error(), "only stand here if it is a parameter") {
		t.Errorf("%v", problems)
	}
}

func TestSubWorkflows(t *testing.T) {
	fs := files{
		"main.yml": `defaults: {level: low}
env: {STAGE: x}
workflows:
  deploy: {source: sub/deploy.yml, inputs: {artifact: "${build.path}", stage: STAGE, who: production}, depends_on: [test], parallel: true, timeout: 1800, working_dir: ./sub}
  build: {source: sub/build.yml, parameters: {level: 9}, outputs: [path]}
  test: sub/build.yml
commands: [{shell: 'echo ${build.path}'}, {workflow: build, with: {level: 2}}]
`,
		"sub/build.yml":  "parameters: {required: [level]}\ncommands: [{shell: 'make ${level}'}]\n",
		"sub/deploy.yml": "parameters: {required: [artifact, stage]}\ncommands: [{shell: 'put ${artifact} ${stage}'}]\n",
	}
	f := loadClean(t, fs, workflow.Options{})
	var names []string
	for _, w := range f.Workflows {
		names = append(names, w.Name)
	}
	if got := strings.Join(names, " "); got != "test build deploy" {
		t.Errorf("order %s", got)
	}
	deploy, build, test := f.Workflows[2], f.Workflows[1], f.Workflows[0]
	if deploy.Inputs["stage"] != "STAGE" || len(deploy.Inputs) != 1 || len(deploy.With) != 2 || !deploy.Parallel || deploy.Timeout.D != 30*time.Minute || params(deploy.File) != "artifact? stage? who=production(string)" {
		t.Errorf("deploy %+v %s", deploy, params(deploy.File))
	}
	if params(build.File) != "level=9(int64)" || !build.Run || params(test.File) != "level=low(string)" || !test.Run {
		t.Errorf("build %s, test %s", params(build.File), params(test.File))
	}
	f2 := loadClean(t, files{"main.yml": "workflows: {a: b.yml, c: b.yml}\ncommands: [{workflow: a}]", "b.yml": "- shell: x"}, workflow.Options{})
	if f2.Workflows[0].Run || !f2.Workflows[1].Run {
		t.Errorf("what a step calls runs by itself, or what none calls does not: %+v %+v", f2.Workflows[0], f2.Workflows[1])
	}
	if c := f.Steps[1].Action.(*workflow.Call); params(c.Target.File) != "level=2(int64)" {
		t.Errorf("call %s", params(c.Target.File))
	}
	for main, want := range map[string]string{
		"workflows: {a: {source: sub/build.yml, depends_on: [b], with: {level: 1}}, b: {source: sub/build.yml, depends_on: a, with: {level: 1}}}\ncommands: [{shell: x}]": "dependency-cycle",
		"workflows: {a: {source: sub/build.yml, depends_on: [c], with: {level: 1}}}\ncommands: [{shell: x}]":                                                              "unknown-workflow",
		"workflows: {a: {source: sub/build.yml}}\ncommands: [{shell: x}]":                                                                                                 "missing-parameter",
		"workflows: {a: {with: {level: 1}}}\ncommands: [{shell: x}]":                                                                                                      "missing-key",
	} {
		fs["main.yml"] = main
		if _, problems := load(fs, workflow.Options{}); firstCode(problems) != want {
			t.Errorf("%s\n%v; want %s", main, problems, want)
		}
	}
}

// TestResumeReadsTheRecordedTexts loads a file again from what File keeps.
func TestResumeReadsTheRecordedTexts(t *testing.T) {
	fs := files{"main.yml": "extends: base.yml\nenv: {A: 1}\n", "base.yml": "commands: [{shell: a}]\n"}
	first := loadClean(t, fs, workflow.Options{})
	recorded := files{}
	for path, text := range first.Others {
		recorded[path] = string(text)
	}
	second, problems := workflow.Parse(first.Path, first.Source, workflow.Options{ReadFile: recorded.read})
	if len(problems) > 0 || !sameModel(first, second) {
		t.Errorf("%v", problems)
	}
}

func TestProfiles(t *testing.T) {
	fs := files{"main.yml": "profiles: {dev: {A: 1}}\nactive_profile: dev\ncommands: [{shell: a}]"}
	if f := loadClean(t, fs, workflow.Options{}); f.Profile != "dev" {
		t.Errorf("profile %q", f.Profile)
	}
	if _, problems := load(fs, workflow.Options{Profile: "dew"}); firstCode(problems) != "unknown-profile" || !strings.Contains(problems[0].Suggestion, "dev") {
		t.Errorf("%v", problems)
	}
}
