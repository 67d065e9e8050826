package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// modules writes the manifest beside the pipeline of a bench.
func (b *bench) modules(text string) {
	b.t.Helper()
	b.write("modules.yml", "modules:\n"+indent(2, text))
}

// pipeline runs a pipeline text, which must have no errors, to its end.
func (b *bench) pipeline(text string, inputs map[string]any) *ran {
	b.t.Helper()
	r, err := b.tryPipeline(context.Background(), text, inputs)
	if err != nil {
		b.t.Fatalf("the run could not begin: %v\n%s", err, b.fill(text))
	}
	return r
}

// tryPipeline is pipeline for a run that may fail to begin: it then gives the error.
func (b *bench) tryPipeline(ctx context.Context, text string, inputs map[string]any) (*ran, error) {
	b.t.Helper()
	b.write("flow.cst", text)
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	p, problems := dataflow.Load(filepath.Join(b.dir, "flow.cst"), "", os.ReadFile)
	if problems.HasErrors() {
		b.t.Fatalf("the pipeline has errors: %v\n%s", problems.Err(), b.fill(text))
	}
	r := &ran{bench: b}
	var mu sync.Mutex
	opt := b.opt
	opt.Dir, opt.Store, opt.Pipeline, opt.Inputs = b.dir, store, p, inputs
	opt.Sinks = append(slices.Clone(opt.Sinks), event.SinkFunc(func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == event.Output {
			r.shown += e.Message
			return
		}
		r.events = append(r.events, e)
	}))
	r.sum, err = engine.Run(ctx, opt)
	return r, err
}

// gave checks an output of the pipeline.
func (r *ran) gave(name string, want any) {
	r.t.Helper()
	got, err := json.Marshal(r.sum.Outputs[name])
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		r.t.Fatal(err)
	}
	if string(got) != string(w) {
		r.t.Errorf("the output %s is %.300s, want %.300s%s", name, got, w, r.story())
	}
}

// stepEvents gives the events of a step and a type.
func (r *ran) stepEvents(step string, typ event.Type) []event.Event {
	return slices.DeleteFunc(r.of(typ), func(e event.Event) bool { return e.Step != step })
}

// end is the step_finished of a step.
func (r *ran) end(step string) event.Event {
	r.t.Helper()
	list := r.stepEvents(step, event.StepFinished)
	if len(list) != 1 {
		r.t.Fatalf("%s has %d ends%s", step, len(list), r.story())
	}
	return list[0]
}

// badTexts are values that mean something to shells, to JSON, or to templates.
var badTexts = []string{
	"", " ", "plain", "$(touch pwned)", "`touch pwned`", "; touch pwned;", "'; touch pwned; '", `"; touch pwned; "`, `\"; touch pwned`,
	"${EV} $EV ${query}", "{t} {{t}}", "two\nlines\n", "tab\tand\rreturn", "ünï \u2028 🎈", "-n", "--help", "*", "~", "%s%n", "a\\nb", "\x1b[31m",
}

func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// TestShellModulesGetTheirInputsAsData: on standard input as JSON, and in the environment
// unchanged, whatever they contain.
func TestShellModulesGetTheirInputsAsData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(`
- name: Stdin
  params: {t: String, n: Int}
  result: {t: String, n: Int}
  shell: [cat]
- name: Env
  params: {t: String}
  result: String
  shell: printf '%sx' "$INPUT_T"
- name: Argv
  params: {t: String}
  result: String
  shell: [sh, -c, 'printf "%s %s %s x" "$0" "$1" "$INPUT_T"', "{t}", "$INPUT_T"]
- name: Others
  params: {list: "List<Int>", flag: Boolean, maybe: "Optional<String>", some-name: Float}
  result: {list: "List<Int>", text: String}
  env: {OWN: from the manifest}
  shell: |
    printf '{"list": %s, "text": "%s|%s|%s|%s"}' "$INPUT_LIST" "$INPUT_FLAG" "$INPUT_MAYBE" "$INPUT_SOME_NAME" "$OWN"
`)
	texts := slices.Concat(hostile, badTexts)
	r := b.pipeline(`
in ts: List<String>
in maybe: Optional<String>
out stdin = map(ts, (t) => Stdin(t, 7))
out env = map(ts, (t) => Env(t))
out argv = map(ts, (t) => Argv(t))
out others = Others([1, 2], true, maybe, 1.5)
`, map[string]any{"ts": anyList(texts)})
	r.status(event.Succeeded)
	var stdin, env, argv []any
	for _, h := range texts {
		stdin = append(stdin, map[string]any{"t": h, "n": 7})
		env = append(env, h+"x")
		argv = append(argv, "{t} $INPUT_T "+h+" x")
	}
	r.gave("stdin", stdin)
	r.gave("env", env)
	r.gave("argv", argv)
	r.gave("others", map[string]any{"list": []int{1, 2}, "text": "true||1.5|from the manifest"})
	if _, err := os.Stat(filepath.Join(b.dir, "pwned")); err == nil {
		t.Error("an input was run as code")
	}
}

// TestShellModulesWithLargeInputsAndOutputs: inputs that are too large for an environment
// come on standard input, and results are whole.
func TestShellModulesWithLargeInputsAndOutputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(`
- name: Echo
  params: {t: String}
  result: {t: String}
  shell: [cat]
- name: Env
  params: {t: String}
  result: String
  shell: printf %s "$INPUT_T"
- name: Large
  params: {n: Int}
  result: String
  shell: head -c "$INPUT_N" /dev/zero | tr '\0' x
- name: Chatty
  result: String
  shell: head -c 3000000 /dev/zero | tr '\0' e >&2; echo fine
`)
	large := strings.Repeat("0123456789abcdef", 1<<16)
	r := b.pipeline(`
in large: String
in nul: String
out a = Echo(large).t
out b = Echo(nul).t
out c = Env(large) with fallback: error.message
out d = Env(nul) with fallback: error.message, retry: 3
out e = Large(3000000)
out f = Chatty()
out g = Large(70000000) with fallback: error.message, retry: 3
`, map[string]any{"large": large, "nul": "a\x00b"})
	r.status(event.Succeeded)
	r.gave("a", large)
	r.gave("b", "a\x00b")
	for _, name := range []string{"c", "d"} {
		if s := fmt.Sprint(r.sum.Outputs[name]); !strings.Contains(s, "INPUT_T") || !strings.Contains(s, "standard input") {
			t.Errorf("%s: %s", name, s)
		}
	}
	if n := r.end("d").Attempts; n != 1 {
		t.Errorf("an input that the environment cannot hold is tried %d times", n)
	}
	r.gave("e", strings.Repeat("x", 3000000))
	r.gave("f", "fine")
	if s := fmt.Sprint(r.sum.Outputs["g"]); !strings.Contains(s, "larger than 64 MiB") {
		t.Errorf("an output that is too large: %.200s", s)
	}
	if n := r.end("g").Attempts; n != 1 {
		t.Errorf("an output that is too large is tried %d times", n)
	}
}

// TestExitStatusesOfModules counts from outside what exit statuses mean.
func TestExitStatusesOfModules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const script = `
  params: {key: String, code: Int}
  result: Int
  shell: echo x >> "$EV/$INPUT_KEY"; echo "$INPUT_CODE"; exit "$INPUT_CODE"
`
	b.modules("- name: Bare" + script + "- name: Named" + script + "  exit: {success: [0, 3], retryable: [75, \"80-82\"], fatal: [64]}\n" +
		"- name: Fatal" + script + "  exit: {fatal: [0, 2]}\n")
	var text, want = strings.Builder{}, map[string]int{}
	for _, c := range []struct {
		module string
		code   int
		ok     bool
		made   int
	}{
		{"Bare", 0, true, 1}, {"Bare", 1, false, 3}, {"Bare", 126, false, 1}, {"Bare", 127, false, 1}, {"Named", 127, false, 1},
		{"Named", 0, true, 1}, {"Named", 3, true, 1}, {"Named", 75, false, 3}, {"Named", 81, false, 3}, {"Named", 64, false, 1}, {"Named", 1, false, 1},
		{"Fatal", 2, false, 1}, {"Fatal", 1, false, 3}, {"Fatal", 0, false, 1},
	} {
		name := fmt.Sprintf("%s-%d", c.module, c.code)
		answer := -1
		if c.ok {
			answer = c.code
		}
		fmt.Fprintf(&text, "out %s%d = %s(\"%s\", %d) with retry: 2, fallback: -1\n", strings.ToLower(c.module), c.code, c.module, name, c.code)
		want[name] = c.made
		want[fmt.Sprintf("%s%d", strings.ToLower(c.module), c.code)] = answer
	}
	r := b.pipeline(text.String(), nil)
	r.status(event.Succeeded)
	for name, n := range want {
		if strings.Contains(name, "-") {
			if got := strings.Count(r.file(name), "x"); got != n {
				t.Errorf("%s was run %d times, want %d", name, got, n)
			}
			continue
		}
		r.gave(name, n)
	}
}

// TestAModuleThatTakesTooLongIsEnded, with all that it started.
func TestAModuleThatTakesTooLongIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(`
- name: Slow
  result: String
  shell: (sleep 300 & sleep 300) & sleep 300
`)
	r := b.pipeline(`out a = Slow() with retry: 1, timeout: 2s`, nil)
	r.status(event.Failed)
	b.quiet()
	if n := len(r.of(event.AttemptFailed)); n != 2 {
		t.Errorf("%d attempts failed, want 2", n)
	}
	if r.sum.Class != "timeout" || !strings.Contains(r.sum.Message, "flow.cst:1:9") || !strings.Contains(r.sum.Message, "after 2s") {
		t.Errorf("%s: %s", r.sum.Class, r.sum.Message)
	}
}

// TestWhatModulesSayIsShownLive: standard error is shown while the command is running.
// Standard output is the result and is not shown.
func TestWhatModulesSayIsShownLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(`
- name: Talk
  result: String
  shell: echo the result; echo hello >&2; n=0; until [ -e $EV/heard ] || [ $n -gt 10000 ]; do sleep 0.01; n=$((n+1)); done; test -e $EV/heard
`)
	b.opt.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) {
		if e.Type == event.Output && strings.Contains(e.Message, "hello") {
			if err := os.WriteFile(filepath.Join(b.ev, "heard"), nil, 0o644); err != nil {
				t.Error(err)
			}
			if e.Step != "a" || e.Label != "stderr" {
				t.Errorf("it is of %s, %s", e.Step, e.Label)
			}
		}
	})}
	r := b.pipeline("out a = Talk()", nil)
	r.status(event.Succeeded)
	r.gave("a", "the result")
	if r.shown != "hello\n" {
		t.Errorf("shown: %q", r.shown)
	}
}

// TestResultsOfModulesAreChecked: a result that is not of the declared type fails the
// attempt, with a message that says what to do.
func TestResultsOfModulesAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(`
- {name: NoJSON, result: {a: Int}, shell: echo hello}
- {name: WrongType, result: {a: Int}, shell: "echo '{\"a\": \"one\"}'"}
- {name: NoNumber, result: Int, output: text, shell: echo many}
- {name: Nothing, result: Int, shell: "true"}
`)
	r := b.pipeline(`
out a = NoJSON() with on_error: wrap
out b = WrongType() with on_error: wrap
out c = NoNumber() with on_error: wrap
out d = Nothing() with on_error: wrap
`, nil)
	r.status(event.Succeeded)
	for name, parts := range map[string][]string{
		"a": {"the output of NoJSON is no JSON", "output: text"}, "b": {"the output of WrongType", "a", "Int"},
		"c": {"the output of NoNumber", "many"}, "d": {"the output of Nothing"},
	} {
		text, err := json.Marshal(r.sum.Outputs[name])
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if !strings.Contains(string(text), p) {
				t.Errorf("%s: %q is not in %s", name, p, text)
			}
		}
	}
}
