package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestAPipelineStep: inputs come from `with`, and later steps read outputs as JSON.
func TestAPipelineStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(tries)
	b.write("fetch.cst", `
in key: String
in n: Int = 1
in tags: List<String> = []
got = Tries(key, n) with retry: 3
out got
out count = n + 1
out tags
`)
	r := b.run(`
commands:
  - shell: echo '$(touch pwned)'
    capture: word
  - pipeline: fetch.cst
    with: {key: "${word}", n: 2, tags: [a, "b c"]}
    id: fetch
    capture: result
    capture_format: json
  - shell: printf '%s|%s|%s' "${result.got}" "${result.count}" "${result.tags[1]}" > $EV/end
  - shell: printf '%s' '${fetch.output}' > $EV/json
`)
	r.status(event.Succeeded)
	r.want("end", "did $(touch pwned)|3|b c")
	r.want("json", `{"count":3,"got":"did $(touch pwned)","tags":["a","b c"]}`)
	if got := r.course("commands[1]/got"); !strings.HasPrefix(got, "step_started, attempt_started 1") || !strings.HasSuffix(got, "step_finished succeeded 3") {
		t.Errorf("the call inside the step: %s", got)
	}
	if got := r.course("commands[1]"); !strings.HasSuffix(got, "step_finished succeeded 1") {
		t.Errorf("the step: %s", got)
	}
}

// TestPipelineStepsInListsAndMaps: each round and each item has its own calls.
func TestPipelineStepsInListsAndMaps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(tries)
	b.write("fetch.cst", "in key: String\nout got = Tries(key, 1) with retry: 3\n")
	r := b.run(`
mode: mapreduce
setup:
  - foreach: [a, b, c]
    do:
      - pipeline: fetch.cst
        with: {key: "f${item}"}
      - shell: echo '${last.output}' >> $EV/each
map:
  input: [{id: x}, {id: y}, {id: z}]
  max_parallel: 2
  agent_template:
    - pipeline: fetch.cst
      with: {key: "m${item.id}"}
      capture: got
      capture_format: json
    - shell: echo "${got.got}" > $EV/item-${item.id}
`)
	r.status(event.Succeeded)
	r.want("each", "{\"got\":\"did fa\"}\n{\"got\":\"did fb\"}\n{\"got\":\"did fc\"}")
	for _, id := range []string{"x", "y", "z"} {
		r.want("item-"+id, "did m"+id)
	}
	for _, key := range []string{"fa", "fb", "fc", "mx", "my", "mz"} {
		if n := r.times(key); n != 2 {
			t.Errorf("%s was tried %d times, want 2", key, n)
		}
	}
}

// TestAPipelineStepThatFails says which call failed, where, and why; a retry of
// the step runs the pipeline again.
func TestAPipelineStepThatFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(tries)
	b.write("fetch.cst", "in key: String\nbefore = Tries(\"before\", 0)\nout got = Tries(key, 3) with retry: 1\nout before\n")
	r := b.run(`
commands:
  - pipeline: fetch.cst
    with: {key: one}
    retry: {attempts: 3, initial_delay: 5ms}
  - pipeline: fetch.cst
    with: {key: two}
    on_failure: {shell: "printf '%s' \"${step.error}\" > $EV/handled; printf '%s' '${last.output}' > $EV/partial"}
`)
	r.status(event.Failed)
	if n := r.times("one"); n != 4 {
		t.Errorf("the call was made %d times, want 4: two rounds of two", n)
	}
	if got := r.end("commands[0]"); got.Status != event.Succeeded || got.Attempts != 2 {
		t.Errorf("the step that is retried: %+v", got)
	}
	for _, want := range []string{"fetch.cst:3:11: got = Tries: failed after 2 attempts", "busy: two", "flow.yml:"} {
		if !strings.Contains(r.sum.Message, want) {
			t.Errorf("%q is not in %q", want, r.sum.Message)
		}
	}
}

// TestAPipelineStepWithWrongInputs: the file is known only when the step runs. Wrong inputs
// are not retried.
func TestAPipelineStepWithWrongInputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(tries)
	b.write("fetch.cst", "in key: String\nin n: Int\nout got = Tries(key, n)\n")
	r := b.run(`
commands:
  - shell: echo fetch.cst
    capture_output: which
  - pipeline: ${which}
    with: {ky: one, n: many}
    retry: {attempts: 3, initial_delay: 5ms}
`)
	r.status(event.Failed)
	for _, want := range []string{"input key is missing", "no input named ky", "key", "input n"} {
		if !strings.Contains(r.sum.Message, want) {
			t.Errorf("%q is not in %q", want, r.sum.Message)
		}
	}
	if n := len(r.of(event.AttemptStarted)); n != 2 { // one of each step
		t.Errorf("%d attempts", n)
	}
	r.want("log", "-")
}

// TestWrongPipelineFilesAreReportedBeforeTheRun, with their own positions.
func TestWrongPipelineFilesAreReportedBeforeTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(tries)
	b.write("bad.cst", "in key: String\nout got = Trys(key, 1)\nout other = Tries(1, key)\n")
	_, err := b.try(context.Background(), `
commands:
  - shell: touch $EV/began
  - foreach: [1]
    do:
      - pipeline: bad.cst
        with: {key: a}
`)
	text := fmt.Sprint(err)
	for _, want := range []string{"bad.cst:2:11", "Trys", "bad.cst:3:"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(b.ev, "began")); err == nil {
		t.Error("the run began")
	}
}

// TestTextsBecomeInputs: a captured value is a text. If an input is a number or a list, the
// text is parsed as one.
func TestTextsBecomeInputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("sum.cst", "in a: Int\nin l: List<Int>\nin s: String\nout sum = a + 1\nout l\nout s\n")
	r := b.run(`
commands:
  - shell: echo 41
    capture: n
  - pipeline: sum.cst
    with: {a: "${n}", l: "[1, 2]", s: "${n}"}
  - shell: printf '%s' '${last.output}' > $EV/end
`)
	r.status(event.Succeeded)
	r.want("end", `{"l":[1,2],"s":"41","sum":42}`)
}

// TestATimeoutAroundAPipelineStep: the timeout ends the step's calls. It is a failure of
// the step and not an interrupt.
func TestATimeoutAroundAPipelineStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules("- {name: Long, result: String, shell: sleep 300}\n")
	b.write("long.cst", "out a = Long() with retry: 9, fallback: \"no\"\n")
	r := b.run("commands:\n  - pipeline: long.cst\n    timeout: 150ms\n    retry: {attempts: 2, initial_delay: 1ms}\n")
	r.status(event.Failed)
	b.quiet()
	if n := len(r.stepEvents("commands[0]", event.AttemptFailed)); n != 2 || r.sum.Class != "timeout" {
		t.Errorf("%d attempts failed, %s: %s", n, r.sum.Class, r.sum.Message)
	}
}

// TestPipelinesThatRunEachOther: they end with an error.
func TestPipelinesThatRunEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules("- {name: Again, result: String, workflow: {file: again.yml, output: x}}\n")
	b.write("again.yml", "commands:\n  - pipeline: flow.cst\n    capture: x\n")
	r := b.pipeline("out a = Again()\n", nil)
	r.status(event.Failed)
	if !strings.Contains(r.sum.Message, "more than 6 deep") {
		t.Errorf("it says %.500s", r.sum.Message)
	}
}

// TestWhatIsInsideWorkflowModulesIsChecked: the pipelines and agents in their steps, before
// anything starts.
func TestWhatIsInsideWorkflowModulesIsChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(`
- {name: Steps, result: String, workflow: {file: steps.yml, output: x}}
- {name: Ask, result: String, agent: {prompt: hello, provider: other}}
- {name: First, result: String, shell: touch $EV/began}
`)
	b.write("steps.yml", "agents: {mine: {command: [no-such-program]}}\ncommands:\n  - pipeline: bad.cst\n  - mine: hello\n    capture: x\n")
	b.write("bad.cst", "out a = Nothing()\n")
	_, err := b.tryPipeline(context.Background(), "out a = First()\nout b = Steps()\n", nil)
	for _, want := range []string{"bad.cst:1:9", "no-such-program", `asks the agent "other"`, "modules.yml:4:"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(b.ev, "began")); err == nil {
		t.Error("the run began")
	}
}
