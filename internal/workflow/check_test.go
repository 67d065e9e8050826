package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// What a variable of a known form does not have is an unknown name, in conditions as
// well, and stops a run.
func TestMembersThatNothingSets(t *testing.T) {
	const file = `mode: mapreduce
setup:
  - {id: one, shell: echo}
  - {id: two, shell: echo, capture: two}
  - {id: three, shell: echo, capture_format: json, capture: three}
map:
  input: [{a: 1}]
  agent_template:
    - {shell: "echo ${item.a}", on_failure: {shell: "echo USE"}}
reduce:
  - {shell: "true", when: "WHEN"}
`
	for _, c := range []struct{ use, when, want string }{
		{"${error.mesage}", "true", `did you mean "error.message"?`},
		{"${error.message} ${two.anything} ${three.x} ${item.b}", "true", ""},
		{"${one.outpt}", "true", `did you mean "one.output"?`},
		{"${shell.exitcode}", "true", `did you mean "shell.exit_code"?`},
		{"${last.foo}", "true", "it has output, stderr"},
		{"${steps.one.output}", "true", `did you mean "one.output"?`},
		{"${item_idx}", "true", `did you mean "item_id"?`},
		{"${version-1}", "true", "did you mean ${version:-1}?"},
		{"${one.outpt:-x}", "true", ""},
		{"x", "${map.sucessful} == 2", `did you mean "map.successful"?`},
		{"x", "map.sucessful == 2", `did you mean "map.successful"?`},
		{"x", "map.results[0].item.anything == 2", ""},
		{"x", "${item.a} == 2", "map.results"}, // there is no item
	} {
		text := strings.NewReplacer("USE", c.use, "WHEN", c.when).Replace(file)
		f, problems := parse(t, text)
		if c.want == "" {
			if f == nil || len(problems) > 0 {
				t.Errorf("%s, %s: %v", c.use, c.when, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Suggestion, c.want) {
			t.Errorf("%s, %s: %v, want %s", c.use, c.when, problems, c.want)
		}
	}
}

// capture_output: true sets a variable of its own.
func TestCapturedOutputIsKnown(t *testing.T) {
	if _, problems := parse(t, "- {shell: a, capture_output: true}\n- {shell: 'echo ${CAPTURED_OUTPUT}'}\n"); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	if _, problems := parse(t, "- {shell: a, capture_output: false}\n- {shell: 'echo ${CAPTURED_OUTPUT}'}\n"); len(problems) != 1 {
		t.Errorf("%v", problems)
	}
}

// What a foreach counts is there after it, and what belongs to a round is not.
func TestForeachIsCounted(t *testing.T) {
	const loop = "commands:\n  - foreach: {items: [a], do: [{shell: 'echo ${item}'}]}\n"
	for _, c := range []struct {
		text string
		told int
	}{
		{loop + "  - shell: echo ${foreach.succeeded} ${foreach.failed} ${foreach.skipped} ${foreach.total} ${foreach.results[0].output}\n", 0},
		{loop + "  - shell: echo ${foreach.item} ${foreach.index}\n", 2},
		{"- shell: echo ${foreach.succeeded}\n", 1},
	} {
		_, problems := workflow.Parse("w.yml", []byte(c.text), workflow.Options{ToRun: true})
		if len(problems) != c.told {
			t.Errorf("%s: %v, want %d", c.text, problems, c.told)
		}
		for _, p := range problems {
			if p.Code != "misplaced-variable" || p.Severity != diag.Error {
				t.Errorf("%s: %v", c.text, p)
			}
		}
	}
}

// What bash alone has is warned of where steps run with dash, and nowhere else.
func TestBashInSh(t *testing.T) {
	const file = "commands:\n  - shell: echo ok\n  - foreach: {input: [a], do: [{shell: 'if [[ ${item} == a ]]; then echo yes; fi'}]}\n"
	for sh, want := range map[string]string{"dash": "3:32: warning: [[ … ]] is bash's", "bash": "", "busybox": ""} {
		_, problems := workflow.Parse("w.yml", []byte(file), workflow.Options{Sh: sh})
		var told []string
		for _, p := range problems {
			if p.Code == "bash-in-sh" {
				told = append(told, p.Error())
			}
		}
		if (want == "") != (len(told) == 0) || len(told) > 1 || want != "" && !strings.Contains(told[0], want) {
			t.Errorf("%s: %q", sh, told)
		}
	}
}

// What a shell text opens and does not close is told where it is; what the shell sets is no
// name that nothing sets.
func TestUnclosedShell(t *testing.T) {
	_, problems := workflow.Parse("w.yml", []byte("commands:\n  - shell: |\n      echo ok\n      echo ${ab\n  - claude: say ${ab\n  - shell: echo $BIDE_OUTPUT ${BIDE_OUTPUT} \"${BIDE_ITEM}\" ${BIDE_OUTPT}\n"), workflow.Options{})
	want := []string{"4:12: warning: the shell will refuse this command: `${` has no matching `}`", "6:60: warning: nothing sets the variable BIDE_OUTPT"}
	if len(problems) != len(want) {
		t.Fatalf("%v", problems)
	}
	for i, p := range problems {
		if !strings.Contains(p.Error(), want[i]) {
			t.Errorf("%s, want %s", p, want[i])
		}
	}
}

// A rate of failures that never counts, because the map has too few items, is told with
// what does the same for so few.
func TestThresholdOfFewItems(t *testing.T) {
	const file = "map:\n  input: [1, 2, 3, 4]\n  agent_template: [{shell: 'true'}]\nerror_policy: {failure_threshold: %s}\n"
	for text, want := range map[string]string{
		fmt.Sprintf(file, "0.3"): "4:16: warning: failure_threshold never stops this map: it counts once 10 items have finished, and there are 4 at most",
		"map:\n  input: x.json\n  max_items: 10\n  agent_template: [{shell: 'true'}]\nerror_policy: {failure_threshold: 0.3}\n": "",
	} {
		_, problems := workflow.Parse("w.yml", []byte(text), workflow.Options{})
		if len(problems) > 1 || (want == "") != (len(problems) == 0) || want != "" && !(strings.Contains(problems[0].Error(), want) && strings.Contains(problems[0].Error(), "max_failures: 2,")) {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// A handler that the retry policy keeps from running is told. Behind a fallback it runs: when
// the fallback fails too.
func TestHandlerBehindARetryPolicy(t *testing.T) {
	for end, want := range map[string]string{
		"continue":                        "1:26: warning: this on_failure never runs: the retry policy's on_failure is continue, which comes first",
		"stop":                            "",
		"{fallback: {command: echo low}}": "",
	} {
		_, problems := parse(t, "- {shell: a, on_failure: {shell: b}, retry: {on_failure: "+end+"}}\n")
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), want)) {
			t.Errorf("%s: %v, want %s", end, problems, want)
		}
	}
}
