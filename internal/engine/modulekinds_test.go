package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/event"
)

// served is an HTTP server on loopback that counts its requests.
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

// TestHTTPModules: the requests that are made, and what the answers mean.
func TestHTTPModules(t *testing.T) {
	t.Parallel()
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

// TestAgentModules: usage counts, rate limits pause without using up an attempt, answers
// are parsed, and inputs are not templates.
func TestAgentModules(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	_, problems := dataflow.Load(filepath.Join(b.dir, "flow.cst"), "", os.ReadFile)
	text := fmt.Sprint(problems.Err())
	for _, want := range []string{
		"modules.yml:3:", "has a map", "modules.yml:4:", "needs the parameter other", "wrong.yml:1:", `did you mean "shell"`, "gone.yml",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}
