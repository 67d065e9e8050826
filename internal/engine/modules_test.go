package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// tryPipeline is pipeline; a run that could not begin is its error.
func (b *bench) tryPipeline(ctx context.Context, text string, inputs map[string]any) (*ran, error) {
	b.t.Helper()
	b.write("flow.cst", text)
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	p, problems := engine.LoadPipeline(filepath.Join(b.dir, "flow.cst"), "", os.ReadFile)
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

// TestShellModulesGetTheirInputsAsData: on standard input as JSON, in the
// environment as they are, whatever they are made of.
func TestShellModulesGetTheirInputsAsData(t *testing.T) {
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
	r := b.pipeline(`
in ts: List<String>
in maybe: Optional<String>
out stdin = map(ts, (t) => Stdin(t, 7))
out env = map(ts, (t) => Env(t))
out argv = map(ts, (t) => Argv(t))
out others = Others([1, 2], true, maybe, 1.5)
`, map[string]any{"ts": anyList(badTexts)})
	r.status(event.Succeeded)
	var stdin, env, argv []any
	for _, h := range badTexts {
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

// TestShellModulesWithLargeInputsAndOutputs: what no environment can hold comes
// on standard input, and results are whole.
func TestShellModulesWithLargeInputsAndOutputs(t *testing.T) {
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

// TestExitStatusesOfModules: what they mean is counted from outside.
func TestExitStatusesOfModules(t *testing.T) {
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
		{"Bare", 0, true, 1}, {"Bare", 1, false, 3}, {"Bare", 127, false, 3},
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

// TestAModuleThatTakesTooLongIsEnded: with all that it started.
func TestAModuleThatTakesTooLongIsEnded(t *testing.T) {
	b := newBench(t)
	b.modules(`
- name: Slow
  result: String
  shell: echo x >> $EV/log; (sleep 300 & sleep 300) & sleep 300
`)
	began := time.Now()
	r := b.pipeline(`out a = Slow() with retry: 1, timeout: 150ms`, nil)
	r.status(event.Failed)
	if took := time.Since(began); took < 300*time.Millisecond || took > 60*time.Second {
		t.Errorf("it took %v", took)
	}
	b.quiet()
	r.want("log", "x\nx")
	if r.sum.Class != "timeout" || !strings.Contains(r.sum.Message, "flow.cst:1:9") || !strings.Contains(r.sum.Message, "150ms") {
		t.Errorf("%s: %s", r.sum.Class, r.sum.Message)
	}
}

// TestWhatModulesSayIsShownLive: standard error comes while the command still
// runs; standard output is the result and is not shown.
func TestWhatModulesSayIsShownLive(t *testing.T) {
	b := newBench(t)
	b.modules(`
- name: Talk
  result: String
  shell: echo the result; echo hello >&2; n=0; until [ -e $EV/heard ] || [ $n -gt 1000 ]; do sleep 0.01; n=$((n+1)); done; test -e $EV/heard
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

// TestResultsOfModulesAreChecked: what is not of the declared type fails the
// attempt, with a message that says what to do.
func TestResultsOfModulesAreChecked(t *testing.T) {
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

// served is an HTTP server on loopback that counts what it is asked.
type served struct {
	mu  sync.Mutex
	log []string // method, path with query, body, header X-Test
}

func (s *served) of(prefix string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.log {
		if strings.HasPrefix(l, prefix) {
			out = append(out, l)
		}
	}
	return out
}

func serve(t *testing.T, answer func(w http.ResponseWriter, q *http.Request, n int)) (*served, string) {
	s := &served{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		key := q.Method + " " + q.URL.EscapedPath()
		n := len(s.of(key+" ")) + 1
		s.mu.Lock()
		s.log = append(s.log, strings.Join([]string{key, q.URL.RawQuery, string(body), q.Header.Get("X-Test")}, " | "))
		s.mu.Unlock()
		answer(w, q, n)
	}))
	t.Cleanup(srv.Close)
	return s, srv.URL
}

// TestHTTPModules: what is asked, and what the answers mean.
func TestHTTPModules(t *testing.T) {
	s, url := serve(t, func(w http.ResponseWriter, q *http.Request, n int) {
		var code int
		switch _, err := fmt.Sscanf(q.URL.Path, "/status/%d", &code); {
		case err == nil:
			w.WriteHeader(code)
		case strings.HasPrefix(q.URL.Path, "/later") && n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		case strings.HasPrefix(q.URL.Path, "/large"):
			w.Write([]byte(strings.Repeat("y", 2_000_000)))
		default:
			fmt.Fprintf(w, `{"name": "it", "n": %d}`, n)
		}
	})
	b := newBench(t)
	b.url = url
	b.modules(`
- name: Item
  params: {id: String, q: String, h: String}
  result: {name: String, n: Int}
  http: {url: "@URL@/item/{id}?q={q}&fixed=1", headers: {X-Test: "<{h}>"}}
- name: Make
  params: {id: String, count: Int}
  result: {n: Int, name: String}
  http: {method: POST, url: "@URL@/make", body: {name: "{id}", deep: [{text: "is {id}, {count}"}], count: "{count}"}}
- name: All
  params: {id: String, list: "List<Int>"}
  result: {n: Int, name: String}
  http: {method: PUT, url: "@URL@/all/{id}"}
- name: Status
  params: {code: Int}
  result: String
  http: "@URL@/status/{code}"
- name: Mapped
  params: {code: Int, again: Int}
  result: String
  http: {method: DELETE, url: "@URL@/status/{code}?again={again}", status: {success: [200, 404], retryable: [418]}}
- {name: Later, result: {n: Int, name: String}, http: "@URL@/later"}
- {name: Large, result: String, http: "@URL@/large"}
- {name: Refused, result: String, http: "http://127.0.0.1:1/"}
`)
	evil := "../../other?x=1&y=2#z\n%2e ü"
	r := b.pipeline(`
in evil: String
out item = Item(evil, evil, evil)
out make = Make(evil, 3)
out all = All("a b", [1, 2])
out statuses = map([200, 400, 404, 408, 425, 429, 500, 503], (c) => Status(c) with retry: 1, fallback: "class " + error.class)
out mapped = map([200, 404, 418, 500, 503], (c) => Mapped(c, 1) with retry: 2, fallback: "class " + error.class)
later = Later() with retry: 1, delay: 10ms
out later2 = later.n
out large = Large()
out refused = Refused() with retry: 1, fallback: error.class
`, map[string]any{"evil": evil})
	r.status(event.Succeeded)
	for _, want := range []string{
		"GET /item/..%2F..%2Fother%3Fx=1&y=2%23z%0A%252e%20%C3%BC | q=..%2F..%2Fother%3Fx%3D1%26y%3D2%23z%0A%252e+%C3%BC&fixed=1 |  | <../../other?x=1&y=2#z %2e ü>",
		`POST /make |  | {"count":3,"deep":[{"text":"is ../../other?x=1&y=2#z\n%2e ü, 3"}],"name":"../../other?x=1&y=2#z\n%2e ü"} | `,
		`PUT /all/a%20b |  | {"list":[1,2]} | `,
	} {
		if got := s.of(strings.SplitN(want, " |", 2)[0]); len(got) != 1 || got[0] != want {
			t.Errorf("the server was asked\n%q\nwant\n%q", got, want)
		}
	}
	for code, n := range map[int]int{200: 1, 400: 1, 404: 1, 408: 2, 425: 2, 429: 2, 500: 2, 503: 2} {
		if got := len(s.of(fmt.Sprintf("GET /status/%d ", code))); got != n {
			t.Errorf("status %d: %d requests, want %d", code, got, n)
		}
	}
	for code, n := range map[int]int{200: 1, 404: 1, 418: 3, 500: 1, 503: 1} {
		if got := len(s.of(fmt.Sprintf("DELETE /status/%d ", code))); got != n {
			t.Errorf("mapped status %d: %d requests, want %d", code, got, n)
		}
	}
	r.gave("later2", 2)
	r.gave("large", strings.Repeat("y", 2_000_000))
	waits := r.stepEvents("later", event.RetryScheduled)
	if len(waits) != 1 || waits[0].DelayMS < 900 {
		t.Errorf("Retry-After: 1 gives the waits %+v", waits)
	}
	if n := r.end("refused").Attempts; n != 2 {
		t.Errorf("a refused connection was tried %d times, want 2", n)
	}
}

// TestAgentModules: usage counts, rate limits pause without using up an
// attempt, answers are parsed, inputs are no templates.
func TestAgentModules(t *testing.T) {
	b := newBench(t)
	b.modules(`
- {name: Say, params: {t: String}, result: String, agent: "/say {t}"}
- {name: Count, params: {t: String}, result: {n: Int}, agent: {prompt: '/say {{"n": {t}}}', output: json}}
- {name: Limit, result: String, agent: "/limit @EV@/limited 1"}
- {name: Fail, params: {t: String}, result: String, agent: "/fail {t}"}
`)
	r := b.pipeline(`
in t: String
out say = Say(t)
out count = Count("3").n
out bad = Count("x") with on_error: wrap
out limit = Limit()
out failed = Fail("no") with retry: 1, fallback: error.message
`, map[string]any{"t": "${EV} $(touch pwned) {t}"})
	r.status(event.Succeeded)
	r.gave("say", "${EV} $(touch pwned) {t}")
	r.gave("count", 3)
	r.gave("limit", "open again")
	if s := fmt.Sprint(r.sum.Outputs["failed"]); !strings.Contains(s, "no") {
		t.Errorf("the failure says %q", s)
	}
	if s := fmt.Sprint(r.sum.Outputs["bad"]); !strings.Contains(s, "no JSON") {
		t.Errorf("an answer that is no JSON: %s", s)
	}
	if len(r.of(event.RunPaused)) == 0 || r.end("limit").Attempts != 1 {
		t.Errorf("the rate limit: %d pauses, %d attempts", len(r.of(event.RunPaused)), r.end("limit").Attempts)
	}
	if n := len(r.stepEvents("failed", event.AttemptStarted)); n != 2 {
		t.Errorf("%d attempts of the agent that fails, want 2", n)
	}
	u := r.sum.Usage
	if asked := len(r.of(event.AgentUsage)); u == nil || u.Calls != asked || u.Calls < 6 || u.CostUSD != 0.25*float64(u.Calls) {
		t.Errorf("usage %+v, %d events", u, asked)
	}
}

const rowsFlow = `
parameters:
  table: {type: string, required: true}
  size: {type: number, default: 2}
commands:
  - shell: echo "query $table" >> $EV/log; test $(grep -c query $EV/log) -ge 2
    retry: {attempts: 3, initial_delay: 1ms}
  - shell: echo "${table} has ${size} rows"
    capture: text
  - shell: echo "${size}"
    capture: rows
`

// TestWorkflowModules: a workflow is called with its parameters, with its own
// retries, its steps on record, and its variables as the result.
func TestWorkflowModules(t *testing.T) {
	b := newBench(t)
	b.write("rows.yml", rowsFlow)
	b.write("broken.yml", `
parameters: {key: {type: string, required: true}}
commands:
  - shell: echo before >> $EV/broken
  - shell: echo work >> $EV/broken; test $(grep -c work $EV/broken) -ge 2
    name: work on ${key}
  - shell: echo done
    capture: result
`)
	b.modules(`
- {name: Rows, params: {table: String, size: Int}, result: {rows: Int, text: String}, workflow: rows.yml}
- {name: Text, params: {table: String}, result: String, workflow: {file: rows.yml, output: text}}
- {name: Broken, params: {key: String}, result: String, workflow: {file: broken.yml, output: result}}
- {name: Unset, params: {table: String}, result: String, workflow: {file: rows.yml, output: nothing}}
`)
	r := b.pipeline(`
rows = Rows("$(touch pwned)", 40)
out rows
out text = Text(rows.text)
out broken = Broken("it") with retry: 1
out unset = Unset("a") with retry: 3, on_error: wrap
`, nil)
	r.status(event.Succeeded)
	r.gave("rows", map[string]any{"rows": 40, "text": "$(touch pwned) has 40 rows"})
	r.gave("text", "$(touch pwned) has 40 rows has 2 rows")
	r.gave("broken", "done")
	if s := fmt.Sprint(r.sum.Outputs["unset"]); !strings.Contains(s, "did not set its output nothing") {
		t.Errorf("an output that is not set: %s", s)
	}
	if n := len(r.stepEvents("unset", event.AttemptStarted)); n != 1 {
		t.Errorf("a workflow without its output is run %d times", n)
	}
	r.want("broken", "before\nwork\nbefore\nwork")
	if got := r.end("broken").Attempts; got != 2 {
		t.Errorf("the call of the workflow took %d attempts, want 2", got)
	}
	p := b.start("bide", "show")
	if status := p.wait(t); status != 0 {
		t.Fatalf("show: %d: %s", status, p.text())
	}
	for _, want := range []string{"commands[0]/rows", "commands[2]/rows", "commands[1]/broken", "rows = Rows", "commands[1]@2/broken"} {
		if !strings.Contains(p.text(), want) {
			t.Errorf("show has no %q:\n%s", want, p.text())
		}
	}
}

// TestAWorkflowThatCannotBeAModule is refused before anything starts.
func TestAWorkflowThatCannotBeAModule(t *testing.T) {
	b := newBench(t)
	b.write("map.yml", "mode: mapreduce\nmap: {input: [1], agent_template: [{shell: echo}]}\n")
	b.write("needs.yml", "parameters: {other: {type: string, required: true}}\ncommands: [{shell: echo}]\n")
	b.write("wrong.yml", "commands: [{shel: echo}]\n")
	b.modules(`
- {name: Map, result: String, workflow: {file: map.yml, output: x}}
- {name: Needs, result: String, workflow: {file: needs.yml, output: x}}
- {name: Wrong, result: String, workflow: {file: wrong.yml, output: x}}
- {name: Gone, result: String, workflow: {file: gone.yml, output: x}}
`)
	b.write("flow.cst", "out a = Map()\n")
	_, problems := engine.LoadPipeline(filepath.Join(b.dir, "flow.cst"), "", os.ReadFile)
	text := fmt.Sprint(problems.Err())
	for _, want := range []string{
		"modules.yml:3:", "has a map", "modules.yml:4:", "needs the parameter other", "wrong.yml:1:", `did you mean "shell"`, "gone.yml",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}
