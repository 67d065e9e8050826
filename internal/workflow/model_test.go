package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

func clean(t *testing.T, src string) *workflow.File {
	t.Helper()
	f, problems := parse(t, src)
	if len(problems) > 0 {
		t.Fatalf("%v in\n%s", problems, src)
	}
	return f
}

// brief is a step's action in a few characters: "shell:make".
func brief(s *workflow.Step) string {
	switch a := s.Action.(type) {
	case *workflow.Shell:
		return "shell:" + a.Text.String()
	case *workflow.Claude:
		return "claude" + strings.TrimSuffix("("+a.Provider+")", "()") + ":" + a.Text.String()
	}
	return s.Action.Kind()
}

func briefs(steps []*workflow.Step) string {
	var out []string
	for _, s := range steps {
		out = append(out, brief(s))
	}
	return strings.Join(out, " ")
}

func TestFileShapes(t *testing.T) {
	for _, src := range []string{
		"- shell: a\n- /b\n", "commands: [{shell: a}, /b]", "steps: [{shell: a}, \"/b\"]", "mode: sequential\ncommands: [{shell: a}, {claude: /b}]",
		"mode: normal\ncommands: [{shell: a}, {command: b}]", `{"commands": [{"shell": "a"}, {"name": "b"}]}`, "{\n\t\"commands\": [{\"shell\": \"a\"},\n\t\"/b\"]\n}",
	} {
		f := clean(t, src)
		if f.Kind != workflow.Standard || briefs(f.Steps) != "shell:a claude:/b" {
			t.Errorf("%v %s for\n%s", f.Kind, briefs(f.Steps), src)
		}
	}
	for _, mode := range []string{"", "mode: mapreduce\n", "mode: 'mapreduce'\n", "mode:  \"MapReduce\"\n", "mode: map-reduce\n"} {
		f := clean(t, mode+"map: {input: a.json, agent_template: {commands: [{shell: a}]}}\nsetup: [{shell: s}]\nreduce: {commands: [{shell: r}]}\nmerge: {commands: [{shell: m}], timeout: 60}")
		if f.Kind != workflow.MapReduce || briefs(f.Map.Template.Steps)+briefs(f.Setup.Steps)+briefs(f.Reduce.Steps)+briefs(f.Merge.Steps) != "shell:ashell:sshell:rshell:m" {
			t.Errorf("mode %q: %v", mode, f.Kind)
		}
		if f.Merge.Timeout.D != time.Minute || f.Map.Parallel.N != 10 {
			t.Errorf("merge timeout %v, parallel %v", f.Merge.Timeout, f.Map.Parallel)
		}
	}
	// Words in texts and comments decide nothing.
	f := clean(t, "# mode: mapreduce, template: x\ncommands: [{shell: 'echo mode: mapreduce extends: imports:'}]")
	if f.Kind != workflow.Standard {
		t.Error("a comment made it MapReduce")
	}
}

func TestHandlerForms(t *testing.T) {
	for _, c := range []struct{ form, want string }{
		{"true", "ignore"},
		{"false", "none"},
		{"make clean", "shell:make clean 1 recovery"},
		{"/fix it", "claude:/fix it 1 recovery"},
		{"/bin/repair", "shell:/bin/repair 1 recovery"},
		{"[make clean, /fix]", "shell:make clean claude:/fix 1 recovery"},
		{"[{shell: a}, {claude: /b}]", "shell:a claude:/b 1 recovery"},
		{"{shell: a}", "shell:a 1 recovery"},
		{"{claude: /fix}", "claude:/fix 3 rerun recovery"},
		{"{claude: /fix, max_attempts: 5, fail_workflow: true}", "claude:/fix 5 rerun fail recovery"},
		{"{claude: /fix, max_attempts: 1}", "claude:/fix 1 recovery"},
		{"{shell: a, max_retries: 4}", "shell:a 4 rerun recovery"},
		{"{shell: a, max_attempts: 1}", "shell:a 1 recovery"},
		{"{shell: a, retry_original: true}", "shell:a 2 rerun recovery"},
		{"{shell: a, fail_workflow: true}", "shell:a 1 fail recovery"},
		{"{commands: [{shell: a}, {claude: /b}], strategy: cleanup}", "shell:a claude:/b 1 cleanup"},
		{"{commands: [{claude: /b}], strategy: Fallback, handler_failure_fatal: true, timeout: 30}", "claude:/b 1 fatal fallback 30s"},
		{"{commands: [{claude: /b}], max_attempts: 2}", "claude:/b 2 rerun recovery"},
		{"{write_file: {path: a, content: b}}", "write_file 1 recovery"},
		{"{fail_workflow: false}", "ignore"},
		{"{fail_workflow: true}", "none"},
	} {
		s := onlyStep(t, "commands: [{shell: x, on_failure: "+c.form+"}]")
		if got := briefHandler(s.OnFailure); got != c.want {
			t.Errorf("%s: %s; want %s", c.form, got, c.want)
		}
	}
	s := onlyStep(t, "commands: [{test: {command: make test, on_failure: {claude: /fix}}}]")
	if sh := s.Action.(*workflow.Shell); !sh.Test || briefHandler(s.OnFailure) != "claude:/fix 3 rerun recovery" {
		t.Errorf("test: %+v %s", sh, briefHandler(s.OnFailure))
	}
	s = onlyStep(t, "commands: [{shell: x, on_failure: {shell: y, capture: {why: error.message}, commit_required: true, when: 'ITERATION == 1', timeout: 3}}]")
	if h := s.OnFailure; h.Captures["why"] != "error.message" || !h.CommitRequired || h.Steps[0].When == nil || h.Timeout.D != 3*time.Second {
		t.Errorf("%+v", h)
	}
}

func briefHandler(h *workflow.Handler) string {
	switch {
	case h == nil:
		return "none"
	case h.Ignore:
		return "ignore"
	}
	out := []string{briefs(h.Steps), fmt.Sprint(h.MaxAttempts)}
	for word, on := range map[string]bool{"rerun": h.Rerun} {
		if on {
			out = append(out, word)
		}
	}
	if h.FailWorkflow {
		out = append(out, "fail")
	}
	if h.Fatal {
		out = append(out, "fatal")
	}
	out = append(out, h.Strategy)
	if h.Timeout.Set {
		out = append(out, h.Timeout.D.String())
	}
	return strings.Join(out, " ")
}

func TestStepFields(t *testing.T) {
	s := onlyStep(t, `commands:
  - shell: make
    id: 7
    name: Build ${it}
    timeout_secs: 90
    on_success: [{shell: a}, b]
    on_exit_code: {2: {shell: c}, 3: [{shell: d}], 4: tidy}
    capture_output: out
    capture_streams: {stderr: true, duration: false}
    outputs: {a: {file_pattern: "*.md"}, b: $.x, c: "${shell.output}", d: "*.txt"}
    env: {N: 010, B: true, F: 1.50}
    allow_failure: true
    auto_commit: true
    commit_config: {message_template: m, include_files: ["*.go"], author: "A <a@b>"}
`)
	if s.ID != "7" || s.Name != "Build ${it}" || s.Timeout.D != 90*time.Second || !s.MayFail || s.Path != "commands[0]" {
		t.Errorf("%+v", s)
	}
	if got := briefs(s.OnSuccess) + "|" + briefs(s.OnExitCode[2]) + "|" + briefs(s.OnExitCode[3]) + "|" + briefs(s.OnExitCode[4]); got != "shell:a shell:b|shell:c|shell:d|shell:tidy" {
		t.Errorf("after: %s", got)
	}
	if s.OnExitCode[3][0].Path != "commands[0].on_exit_code.3[0]" {
		t.Errorf("path %s", s.OnExitCode[3][0].Path)
	}
	if s.Capture.Name != "out" || s.Capture.Streams != (workflow.Streams{Stdout: true, Stderr: true, ExitCode: true, Success: true}) {
		t.Errorf("capture %+v", s.Capture)
	}
	if s.Outputs[0].FilePattern != "*.md" || s.Outputs[1].JSONPath != "$.x" || s.Outputs[2].Value == nil || s.Outputs[3].FilePattern != "*.txt" {
		t.Errorf("outputs %+v", s.Outputs)
	}
	var env []string
	for _, e := range s.Env {
		env = append(env, e.Name+"="+e.Text.String())
	}
	if got := strings.Join(env, " "); got != "N=010 B=true F=1.50" {
		t.Errorf("env %s; want the text as written", got)
	}
	if s.AutoCommit.Message.String() != "m" || s.AutoCommit.Include[0] != "*.go" || s.AutoCommit.Author != "A <a@b>" {
		t.Errorf("commit %+v", s.AutoCommit)
	}
}

func TestForeachForms(t *testing.T) {
	for src, want := range map[string]string{
		"{foreach: {foreach: [a, 2], do: [{shell: x}]}}":                                          "list 2, 1 at once",
		"{foreach: {items: [a], do: [{shell: x}], parallel: true}}":                               "list 1, 10 at once",
		"{foreach: {list: [a], do: {shell: x}, parallel: false}}":                                 "list 1, 1 at once",
		"{foreach: {foreach: ls, do: [{shell: x}], parallel: 4, max_items: 3}}":                   "text ls, 4 at once, 3 items",
		"{foreach: {input: a.json, json_path: '$.x', do: [{shell: x}], continue_on_error: true}}": "input a.json $.x, 1 at once, goes on",
		"{foreach: {input: '${last.output}', do: [{shell: x}]}}":                                  "text ${last.output}, 1 at once",
		"{foreach: {input: a.json}, do: [{shell: x}], parallel: 2, continue_on_error: true}":      "input a.json , 2 at once, goes on",
		"{foreach: {input: {command: ls}}, do: [{shell: x}]}":                                     "text ls, 1 at once",
		"{foreach: ls, do: [{shell: x}], parallel: '$N'}":                                         "text ls, $N at once",
		"{foreach: [a, b], do: [{shell: x}], parallel: 2, max_items: 1, continue_on_error: true}": "list 2, 2 at once, 1 items, goes on",
	} {
		s := onlyStep(t, "commands: ["+src+"]")
		f := s.Action.(*workflow.Foreach)
		var b strings.Builder
		switch {
		case f.List != nil:
			fmt.Fprintf(&b, "list %d", len(f.List))
		case f.Input != nil:
			fmt.Fprintf(&b, "input %s %s", f.Input, f.JSONPath)
		default:
			fmt.Fprintf(&b, "text %s", f.Text)
		}
		if f.Parallel.Text != nil {
			fmt.Fprintf(&b, ", %s at once", f.Parallel.Text)
		} else {
			fmt.Fprintf(&b, ", %d at once", f.Parallel.N)
		}
		if f.MaxItems.Set {
			fmt.Fprintf(&b, ", %d items", f.MaxItems.N)
		}
		if f.ContinueOnError {
			b.WriteString(", goes on")
		}
		if b.String() != want {
			t.Errorf("%s: %s; want %s", src, &b, want)
		}
		if s.MayFail || briefs(f.Do) != "shell:x" || f.Do[0].Path != "commands[0].do[0]" {
			t.Errorf("%s: may fail %v, do %s", src, s.MayFail, briefs(f.Do))
		}
	}
	if s := onlyStep(t, "commands: [{foreach: {items: [a], do: [{shell: x}]}, continue_on_error: true}]"); !s.MayFail {
		t.Error("continue_on_error beside a nested foreach is the step's")
	}
}

func TestValidateForms(t *testing.T) {
	for src, want := range map[string]string{
		"{validate: check}":                                       "alone shell:check 100",
		"{validate: /check}":                                      "alone claude:/check 100",
		"{validate: [{shell: a}, /b]}":                            "alone shell:a claude:/b 100",
		"{validate: {shell: a, threshold: 80}}":                   "alone shell:a 80",
		"{validate: {command: a}}":                                "alone shell:a 100",
		"{validate: {commands: [{claude: /a}]}}":                  "alone claude:/a 100",
		"{shell: x, validate: {claude: /a}}":                      "beside claude:/a 100",
		"{claude: /x, validate: {result_file: r.json}}":           "beside  100",
		"{validate: {shell: a, on_incomplete: {claude: /f}}}":     "alone shell:a 100, claude:/f 2 true",
		"{validate: {shell: a, on_incomplete: [{shell: f}, /g]}}": "alone shell:a 100, shell:f claude:/g 2 true",
		"{validate: {shell: a, on_incomplete: {commands: [{shell: f}], max_attempts: 5, fail_workflow: false}}}": "alone shell:a 100, shell:f 5 false",
		"{validate: {shell: a, on_incomplete: {prompt: go on}}}":                                                 "alone shell:a 100,  2 true",
	} {
		s := onlyStep(t, "commands: ["+src+"]")
		v, where := s.Validate, "beside"
		if a, ok := s.Action.(*workflow.Validate); ok {
			v, where = a, "alone"
		}
		got := fmt.Sprintf("%s %s %v", where, briefs(v.Steps), v.Threshold)
		if i := v.OnIncomplete; i != nil {
			got += fmt.Sprintf(", %s %d %v", briefs(i.Steps), i.MaxAttempts, i.FailWorkflow)
		}
		if got != want {
			t.Errorf("%s: %s; want %s", src, got, want)
		}
	}
	s := onlyStep(t, "commands: [{shell: x, step_validate: {commands: [{command: /lint, expect_exit_code: 2}, test -s a, /usr/bin/true], success_criteria: {at_least: 2}, retry_delay: 3}, validation_timeout: 9}]")
	c := s.Check
	if c.Criteria != "at_least" || c.AtLeast != 2 || c.RetryDelay.D != 3*time.Second || c.Timeout.D != 9*time.Second || c.MaxAttempts != 1 {
		t.Errorf("%+v", c)
	}
	if got := brief(c.Commands[0].Step) + " " + brief(c.Commands[1].Step) + " " + brief(c.Commands[2].Step); got != "claude:/lint shell:test -s a shell:/usr/bin/true" {
		t.Errorf("checks %s", got)
	}
}

func TestAgentsAndLegacyPrompts(t *testing.T) {
	f := clean(t, `agents: {codex: {command: [codex, exec, '${prompt}'], output: stream-json}, other: tool --yes}
commands:
  - codex: do it
  - {other: do that, id: o, on_failure: {codex: mend it}}
  - {name: review, args: [fast, $ARG]}
  - {claude: /x, args: [--model, small], skip_permissions: true}
`)
	if got := briefs(f.Steps); got != "claude(codex):do it claude(other):do that claude:/review fast $ARG claude:/x" {
		t.Errorf("steps %s", got)
	}
	if h := f.Steps[1].OnFailure; !h.Rerun || h.MaxAttempts != 3 || brief(h.Steps[0]) != "claude(codex):mend it" {
		t.Errorf("handler %s", briefHandler(h))
	}
	c := f.Steps[3].Action.(*workflow.Claude)
	if !slices.Equal(c.Args, []string{"--model", "small"}) || c.SkipPermissions == nil || !*c.SkipPermissions {
		t.Errorf("%+v", c)
	}
	if a := f.Agents["codex"]; len(a.Command) != 3 || a.Output != "stream-json" || len(f.Agents["other"].Command) != 2 {
		t.Errorf("agents %+v", f.Agents)
	}
}

func TestHTTPForms(t *testing.T) {
	f := clean(t, `commands:
  - http: https://example.org
  - http: {url: 'http://a/${id.x:-1}', method: put, headers: {A: b, C: [d, e]}, body: {n: 1, s: '${v.w:-x}'}, expect: [200, 3xx, 400-404], max_body: 9}
  - http: {url: 'http://a', body: text}
`)
	a, b, c := f.Steps[0].Action.(*workflow.HTTP), f.Steps[1].Action.(*workflow.HTTP), f.Steps[2].Action.(*workflow.HTTP)
	if a.Method != "GET" || a.URL.String() != "https://example.org" || c.Method != "POST" || c.Body.String() != "text" {
		t.Errorf("%+v %+v", a, c)
	}
	if b.Method != "PUT" || len(b.Headers) != 3 || !slices.Equal(b.Expect, []workflow.StatusRange{{200, 200}, {300, 399}, {400, 404}}) || b.MaxBody != 9 {
		t.Errorf("%+v", b)
	}
	body := b.JSON.(map[string]any)
	if _, ok := body["s"].(*template.Text); !ok || body["n"] != int64(1) {
		t.Errorf("body %#v", body)
	}
}

func TestMapForms(t *testing.T) {
	f := clean(t, `env: {N: 3}
map:
  input: [1, {a: b}]
  json_path: "$.items[*]"
  filter: "item.score >= 5 && severity in ['high', 'low']"
  sort_by: item.score DESC NULLS LAST, name
  distinct: item.path
  offset: 2
  max_items: $LIMIT
  max_parallel: ${N}
  label: ${item.path}
  agent_template: [{shell: 'make ${item.a} ${item_id} ${item_index}'}]
  agent_timeout_secs: 600
  timeout_config: {timeout_policy: Hybrid, timeout_action: graceful_terminate, cleanup_grace_period_secs: 5, command_timeouts: {shell: 60, claude: 10m}}
setup:
  commands: [{shell: a}, {shell: b}]
  timeout: $T
  capture_outputs: {x: 0, y: {command_index: 1, source: both, pattern: 'v(\d+)', json_path: $.a, max_size: 10, default: null, multiline: first_line}}
error_policy: {on_item_failure: {custom: tell}, continue_on_failure: false, max_failures: 3, failure_threshold: 0.25, error_collection: {batched: {size: 5}}, circuit_breaker: {timeout: 1m}}
handlers: {tell: [{shell: notify}]}
`)
	m := f.Map
	if len(m.List) != 2 || m.JSONPath != "$.items[*]" || m.Filter == nil || m.SortBy == nil || m.Distinct.String() != "item.path" || m.Offset.N != 2 {
		t.Errorf("%+v", m)
	}
	if m.MaxItems.Text == nil || m.Parallel.Text == nil || m.Label == nil || m.AgentTimeout.D != 10*time.Minute {
		t.Errorf("%+v", m)
	}
	if m.TimeoutPolicy != "hybrid" || m.TimeoutAction != "graceful_terminate" || m.TimeoutGrace.D != 5*time.Second || m.CommandTimeouts["claude"].D != 10*time.Minute {
		t.Errorf("%+v", m)
	}
	if f.Setup.Timeout.Text == nil || len(f.Setup.Outputs) != 2 {
		t.Fatalf("%+v", f.Setup)
	}
	y := f.Setup.Outputs[1]
	if y.Command != 1 || y.Source != "both" || y.Pattern.String() != `v(\d+)` || y.MaxSize != 10 || !y.HasDef || y.Default != nil || y.Multiline != "first_line" {
		t.Errorf("%+v", y)
	}
	p := f.Policy
	if p.OnItemFailure != "custom" || p.Handler != "tell" || p.ContinueOnFailure || p.MaxFailures != 3 || p.FailureThreshold != 0.25 || p.Collection != "batched" || p.BatchSize != 5 || p.Breaker.Timeout != time.Minute {
		t.Errorf("%+v", p)
	}
	f = clean(t, "map: {input: a, agent_template: [{shell: a}]}")
	if p := f.Policy; p.OnItemFailure != "dlq" || !p.ContinueOnFailure || p.FailureThreshold >= 0 || p.Collection != "aggregate" || p.MaxRecoveries != 5 || p.Retry != nil {
		t.Errorf("defaults %+v", p)
	}
	for _, spelling := range []string{"'batched:5'", "{batched: {size: 5}}", "{batched: 5}", "!batched {size: 5}", "{type: batched, size: 5}"} {
		for _, src := range []string{"map: {input: a, agent_template: [{shell: a}]}\nerror_collection: " + spelling, "map: {input: a, error_collection: " + spelling + ", agent_template: [{shell: a}]}"} {
			if f := clean(t, src); f.Policy.Collection != "batched" || f.Policy.BatchSize != 5 {
				t.Errorf("%s: %+v", spelling, f.Policy)
			}
		}
	}
	for _, spelling := range []string{"{custom: tell}", "!custom tell", "tell", "'custom:tell'"} {
		if f := clean(t, "map: {input: a, agent_template: [{shell: a}]}\nhandlers: {tell: [{shell: b}]}\non_item_failure: "+spelling); f.Policy.Handler != "tell" {
			t.Errorf("%s: %+v", spelling, f.Policy)
		}
	}
}

func TestEnvironmentForms(t *testing.T) {
	f := clean(t, `env: {A: 08, B: 1e3, C: {command: date, cache: false}, D: {condition: "A == '08'", when_true: x}}
env_files: [.env, "${A}.env"]
secrets: {S: "${env:TOKEN}", T: TOKEN, U: "a value of ${uuid}", V: {provider: command, key: "pass ${A}"}, W: "${file:/run/w}"}
profiles: {dev: {A: 1, description: d}, prod: {env: {A: 2}, description: p}, none: {}}
active_profile: prod
commands: [{shell: a}]
`)
	if f.Env[0].Text.String() != "08" || f.Env[1].Text.String() != "1e3" || f.Env[2].Command.String() != "date" || f.Env[2].Cache || f.Env[3].Condition == nil {
		t.Errorf("env %+v", f.Env)
	}
	var secrets []string
	for _, s := range f.Secrets {
		secrets = append(secrets, s.Name+"="+s.Provider+":"+s.Key.String())
	}
	if got := strings.Join(secrets, ", "); got != "S=env:TOKEN, T=env:TOKEN, U=value:a value of ${uuid}, V=command:pass ${A}, W=file:/run/w" {
		t.Errorf("secrets %s", got)
	}
	if len(f.Profiles) != 3 || len(f.Profiles["dev"]) != 1 || f.Profiles["prod"][0].Text.String() != "2" || f.Profile != "prod" || len(f.EnvFiles) != 2 {
		t.Errorf("profiles %+v", f.Profiles)
	}
}

// TestWalkReachesEveryPlace counts the steps that are in all places.
func TestWalkReachesEveryPlace(t *testing.T) {
	for _, place := range workflow.Places {
		f := clean(t, inPlace(place, "{shell: needle}"))
		found := 0
		paths := map[string]bool{}
		workflow.Walk(f, func(s *workflow.Step) {
			if paths[s.Path] {
				t.Errorf("%s: two steps at %s", place, s.Path)
			}
			paths[s.Path] = true
			if brief(s) == "shell:needle" {
				found++
			}
		})
		if found != 1 {
			t.Errorf("%s: found %d times", place, found)
		}
	}
}

func TestFormerlyListsIgnoredProtections(t *testing.T) {
	f, _ := parse(t, "commands: [{shell: a, timeout: 3, retry: 2, when: 'true', commit_required: true}]")
	var keys []string
	for _, p := range workflow.Formerly(f) {
		if p.Code != "was-ignored" || p.Line != 1 {
			t.Errorf("%v", p)
		}
		keys = append(keys, strings.Fields(p.Message)[0])
	}
	if got := strings.Join(keys, " "); got != `"timeout" "retry" "when"` {
		t.Errorf("formerly ignored: %s", got)
	}
	f, _ = parse(t, "map: {input: a, agent_template: [{shell: a, commit_required: true}]}\nsetup: [{shell: a, timeout: 3}]")
	if l := workflow.Formerly(f); len(l) != 1 || !strings.Contains(l[0].Message, "commit_required") {
		t.Errorf("%v", l)
	}
	f, _ = parse(t, "isolation: none\ncommands: [{shell: a, timeout: 5}]")
	if l := workflow.Formerly(f); len(l) != 0 {
		t.Errorf("a file that was written for bide has %v", l)
	}
}

// TestForeachNeverEnough: min_items beside the foreach and in it is held to its list.
func TestForeachNeverEnough(t *testing.T) {
	for src, want := range map[string]string{
		"commands:\n- foreach: [a]\n  min_items: 2\n  do: [{shell: x}]":                           "3:3",
		"commands:\n- foreach:\n    items: [a]\n    min_items: 2\n    do: [{shell: x}]":           "4:5",
		"commands:\n- foreach: ls\n  max_items: 1\n  min_items: 2\n  do: [{shell: x}]":            "4:3",
		"commands:\n- foreach: {items: [a, b], max_items: 1}\n  min_items: 2\n  do: [{shell: x}]": "3:3",
		"commands:\n- foreach: ls\n  min_items: 2\n  do: [{shell: x}]":                            "",
		"commands:\n- foreach: [a, b]\n  min_items: 2\n  do: [{shell: x}]":                        "",
	} {
		_, problems := parse(t, src)
		got := ""
		for _, p := range problems {
			got = fmt.Sprintf("%d:%d", p.Pos.Line, p.Pos.Column)
			if p.Code != "min-items" {
				t.Errorf("%s: %v", src, p)
			}
		}
		if got != want {
			t.Errorf("%s: at %q, want %q", src, got, want)
		}
	}
}
