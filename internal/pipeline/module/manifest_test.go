package module_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

const good = `modules:
  - name: Search
    version: "2"
    description: finds things
    params: {query: String, limit: Int, options: {deep: Boolean, tags: List<String>}}
    result: [{id: Int, title: String}]
    shell: [search-tool, --json]
    env: {MODE: fast}
    dir: tools
    exit: {success: [0, 1], fatal: 2}
  - name: shop.Say
    params: {text: String, note: Optional<String>}
    result: String
    shell: |
      printf '%s' "$INPUT_TEXT"
    exit: {retryable: [75, "100-110"]}
  - name: Price
    params: {id: String, day: String, count: Int}
    result: Float
    http: {url: "https://prices.example/v1/{id}?day={day}", headers: {X-Day: "{day}"}, output: text}
  - name: Order
    params: {id: Int, who: "{name: String, ...}"}
    result: {ok: Boolean}
    http:
      method: put
      url: https://shop.example/orders/{id}
      status: {retryable: [409, 5xx], success: 2xx}
  - name: Post
    params: {id: Int, text: String}
    result: {ok: Boolean}
    http:
      url: https://shop.example/posts
      body: {id: "{id}", note: "about {text}: {{x}}", list: ["{text}", 3]}
  - name: Review
    params: {diff: String}
    result: {verdict: String}
    agent: {prompt: "Review this: {diff}", provider: other}
  - name: Build
    params: {target: String}
    result: {image: String}
    workflow: build.yml
  - name: Count
    params:
    result: Int
    workflow: {file: count.yml, output: total}
`

func load(t *testing.T) map[string]*module.Definition {
	t.Helper()
	defs, _, problems := module.ParseManifest("dir/modules.yml", []byte(good))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := map[string]*module.Definition{}
	for _, d := range defs {
		m[d.Name] = d
	}
	if len(defs) != 8 || defs[0].Dir != "dir" || defs[1].Pos.Line != 11 {
		t.Fatalf("%d modules, %+v", len(defs), defs[0])
	}
	return m
}

func TestShell(t *testing.T) {
	d := load(t)["Search"]
	sig := types.Signature{Params: d.Params, Result: d.Result}
	if got := sig.String(); got != "(query: String, limit: Int, options: {deep: Boolean, tags: List<String>}) -> List<{id: Int, title: String}>" {
		t.Error(got)
	}
	if !slices.Equal(d.Shell.Argv, []string{"search-tool", "--json"}) || d.Version != "2" || d.Doc != "finds things" || d.Shell.Dir != "tools" || d.Shell.Output != module.JSON {
		t.Errorf("%+v", d.Shell)
	}
	args := []any{"a $(touch x)\n'", int64(3), map[string]any{"deep": true, "tags": []any{"<"}}}
	if got := string(d.Stdin(args)); got != `{"limit":3,"options":{"deep":true,"tags":["<"]},"query":"a $(touch x)\n'"}`+"\n" {
		t.Error(got)
	}
	if got := strings.Join(d.Env(args), "|"); got != `MODE=fast|INPUT_QUERY=a $(touch x)`+"\n"+`'|INPUT_LIMIT=3|INPUT_OPTIONS={"deep":true,"tags":["<"]}` {
		t.Error(got)
	}
	for status, want := range map[int]module.Outcome{0: module.Success, 1: module.Success, 2: module.Fatal, 3: module.Retryable, 127: module.Fatal, 126: module.Fatal, 128: module.Retryable} {
		if got := d.Shell.Exit.Outcome(status); got != want {
			t.Errorf("exit %d is %v", status, got)
		}
	}
	v, err := d.Parse(d.Shell.Output, []byte(`[{"id":1,"title":"t","more":2}]`))
	if err != nil || value.JSON(v) != `[{"id":1,"title":"t"}]` {
		t.Error(v, err)
	}
	for out, want := range map[string]string{
		`oops`:             `the output of Search is no JSON: invalid character 'o' looking for beginning of value; write "output: text"`,
		`[{"id":"x"}]`:     `the output of Search is not a value of type List<{id: Int, title: String}>: [0].id: it must be Int, but is the string "x"; [0]: the field "title" is missing`,
		`[] and then some`: "there is more text after the JSON value",
	} {
		if _, err := d.Parse(module.JSON, []byte(out)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", out, err)
		}
	}
}

func TestShellText(t *testing.T) {
	d := load(t)["shop.Say"]
	if d.Shell.Text == "" || d.Shell.Argv != nil || d.Shell.Output != module.Text {
		t.Errorf("%+v", d.Shell)
	}
	if got := strings.Join(d.Env([]any{"x", nil}), "|"); got != "INPUT_TEXT=x|INPUT_NOTE=" {
		t.Error(got)
	}
	if v, err := d.Parse(module.Text, []byte(" two\nlines\n\n")); err != nil || v != " two\nlines\n" {
		t.Errorf("%q %v", v, err)
	}
	for status, want := range map[int]module.Outcome{0: module.Success, 75: module.Retryable, 105: module.Retryable, 1: module.Fatal} {
		if got := d.Shell.Exit.Outcome(status); got != want {
			t.Errorf("exit %d is %v", status, got)
		}
	}
}

func TestHTTP(t *testing.T) {
	defs := load(t)
	d := defs["Price"]
	url, headers, body := d.Request([]any{"../a b?c", "x&y=1\r\nEvil: 1", int64(3)})
	if url != "https://prices.example/v1/..%2Fa%20b%3Fc?day=x%26y%3D1%0D%0AEvil%3A+1" || fmt.Sprintf("%q", headers) != `[["X-Day" "x&y=1  Evil: 1"]]` || body != nil {
		t.Errorf("%s %q %v", url, headers, body)
	}
	if v, err := d.Parse(d.HTTP.Output, []byte(" 12.5\n")); err != nil || v != 12.5 {
		t.Error(v, err)
	}
	for status, want := range map[int]module.Outcome{200: module.Success, 404: module.Fatal, 429: module.Retryable, 503: module.Retryable, 302: module.Fatal} {
		if got := d.HTTP.Status.Outcome(status); got != want {
			t.Errorf("status %d is %v", status, got)
		}
	}
	d = defs["Order"]
	url, _, body = d.Request([]any{int64(7), map[string]any{"name": "n", "more": int64(1)}})
	if d.HTTP.Method != "PUT" || url != "https://shop.example/orders/7" || value.JSON(body) != `{"who":{"more":1,"name":"n"}}` {
		t.Errorf("%s %s %s", d.HTTP.Method, url, value.JSON(body))
	}
	if o := d.HTTP.Status; o.Outcome(409) != module.Retryable || o.Outcome(429) != module.Fatal || o.Outcome(500) != module.Retryable {
		t.Errorf("%+v", o)
	}
	d = defs["Post"]
	_, _, body = d.Request([]any{int64(7), `a"}`})
	if d.HTTP.Method != "POST" || value.JSON(body) != `{"id":7,"list":["a\"}",3],"note":"about a\"}: {x}"}` {
		t.Errorf("%s %s", d.HTTP.Method, value.JSON(body))
	}
}

func TestAgentAndWorkflow(t *testing.T) {
	defs := load(t)
	a := defs["Review"]
	if got := a.Fill(a.Agent.Prompt, []any{"{diff} {x}"}); got != "Review this: {diff} {x}" || a.Agent.Provider != "other" || a.Agent.Output != module.JSON {
		t.Errorf("%q %+v", got, a.Agent)
	}
	if w := defs["Build"].Workflow; w.File != "build.yml" || w.Output != "" {
		t.Errorf("%+v", w)
	}
	if w := defs["Count"].Workflow; w.File != "count.yml" || w.Output != "total" {
		t.Errorf("%+v", w)
	}
}

func TestBind(t *testing.T) {
	d := load(t)["Count"]
	m := module.Bind(d, func(_ context.Context, got *module.Definition, args []any) (any, error) {
		return int64(len(args)), nil
	})
	if v, err := m.Call(t.Context(), nil); err != nil || v != int64(0) || m.Name() != "Count" || m.Result() != types.Int {
		t.Error(v, err)
	}
	if back, ok := module.Describe(m); !ok || back != d {
		t.Error("Describe does not give the definition")
	}
	if err := module.Validate(m); err != nil {
		t.Error(err)
	}
}

// TestProblems checks that all problems of a manifest come at once, each with
// its line.
func TestProblems(t *testing.T) {
	src := `modules:
  - name: in # want "in is a word of the language"
    params: {q: Strng} # want "Undefined type: Strng"
    result: String
    shell: [x]
  - name: A
    parms: {} # want "Unknown key \"parms\" in a module"
    result: List # want "it takes 1 argument"
    shell: []  # want "shell must be a command"
  - name: A # want "There is already a module A, at line 6"
    result: Int
    shell: x
    http: https://x.example # also want at the module
  - params: {a-b: Int, a_b: Int, 1x: Int} # want "The module has no name" "have the same environment variable INPUT_A_B" "\"1x\" cannot be the name of a parameter" "has no result" "exactly one of"
  - name: B
    result: {a: Int}
    shell: x
    output: text # want "output: text can give a String, Int, Float or Boolean, but the result is {a: Int}"
    exit: {success: [0, 300], fatal: [0], other: 1} # want "\"300\" is no status; write a number from 0 to 255" "Unknown key \"other\" in exit" "The status 0 is in success and in fatal"
  - name: C
    params: {id: Int}
    result: Int
    http:
      url: ftp://x # want "The url must begin with http:// or https://"
      method: FETCH # want "is no HTTP method"
      hdrs: {} # want "Unknown key \"hdrs\" in http"
  - name: D
    params: {host: String}
    result: Int
    http: {url: "https://{host}/x", body: {}} # want "The host of the url must be fixed"
  - name: E
    params: {id: Int}
    result: Int
    http: "https://x.example/{ident}" # want "{ident} is no parameter of E"
    exit: {} # want "The key \"exit\" is for shell modules"
  - name: F
    result: Int
    agent: "" # want "The agent has no prompt"
  - name: G
    result: Int
    workflow: w.yml # want "nothing says which variable of the workflow it is"
  - name: H
    params: [a] # want "params must be a mapping of names to types"
    result: {a: Int, b: Nope} # want "Undefined type: Nope"
    workflow: {output: x} # want "The workflow has no file"
  - name: I
    result: "{a: Int, ...}" # want "A result cannot be an open record"
    http: {url: https://x.example, method: GET, body: {a: 1}} # want "A GET request has no body"
  - text # want "a module must be a mapping" "has no name" "has no result" "exactly one of"
`
	_, _, problems := module.ParseManifest("m.yml", []byte(src))
	got := map[int][]string{}
	for _, p := range problems {
		got[p.Line] = append(got[p.Line], p.Message+"; "+p.Suggestion)
	}
	for i, line := range strings.Split(src, "\n") {
		_, wants, _ := strings.Cut(line, `# want "`)
		if wants == "" {
			continue
		}
		for _, want := range strings.Split(strings.TrimSuffix(wants, `"`), `" "`) {
			want = strings.ReplaceAll(want, `\"`, `"`)
			j := slices.IndexFunc(got[i+1], func(m string) bool { return strings.Contains(m, want) })
			if j < 0 {
				t.Errorf("line %d: nothing contains %q, only %q", i+1, want, got[i+1])
				continue
			}
			got[i+1] = slices.Delete(got[i+1], j, j+1)
		}
	}
	for line, rest := range got {
		for _, m := range rest {
			if !(line == 10 && strings.Contains(m, "exactly one of")) {
				t.Errorf("line %d: unexpected: %s", line, m)
			}
		}
	}
}

func TestNotAManifest(t *testing.T) {
	for src, want := range map[string]string{
		"":                                 "The manifest is empty",
		"a: [":                             "did not find expected",
		"a:\n  b: List<{c: Int}>":          `m.yml:2:13: error: this is not YAML: mapping values are not allowed in this context [yaml-syntax]; put a type`,
		"a:\n- shell: printf '{\"c\": 3}'": `m.yml:2:22: error: this is not YAML: mapping values are not allowed in this context [yaml-syntax]; put quotes around a text that has ": " in it`,
		// A map and a list in one document.
		"modules:\n  - name: A\n    shell: a\n- name: B\n": "m.yml:4:1: error: this is not YAML: did not find expected key [yaml-syntax]; the entries of a list stand below each other: begin this line with 2 blanks, as the entry before it does",
		"- name: A\n  shell: a\nmodules: x\n":              "m.yml:3:1: error: this is not YAML: did not find expected '-' indicator [yaml-syntax]; the lines before it are entries of a list, and this one is none",
		"modules: {A: x}\n- b\n":                           "m.yml:2:1: error: this is not YAML: did not find expected key [yaml-syntax]; the lines before it are keys, and this one is an entry of a list",
		"modules: 3":                                       "modules must be a list",
		"other: []":                                        `Unknown key "other"`,
		"modules: &x [*x]":                                 "contains itself",
		"modules:\n- &x {a: *x}":                           "contains itself",
		"[]":                                               "the manifest must be a mapping",
		"modules:\n- {name: [a]}":                          "name must be a text",
	} {
		_, _, problems := module.ParseManifest("m.yml", []byte(src))
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"A", "a-b", "_x", "shop.orders.Place", "A1"} {
		if err := module.CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "1a", "a b", "a..b", ".a", "a.", "match", "shop.in.x", "é", "-a"} {
		if module.CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add(good)
	f.Add("modules:\n- {name: A, result: Int, shell: x, params: {a: &t {b: Int}, c: *t}}")
	f.Fuzz(func(t *testing.T, src string) {
		defs, _, problems := module.ParseManifest("m.yml", []byte(src))
		for _, d := range defs {
			if err := module.Validate(module.Bind(d, nil)); err != nil {
				t.Errorf("accepted, but: %v", err)
			}
			args := make([]any, len(d.Params))
			for i, p := range d.Params {
				args[i] = types.Zero(p.Type)
			}
			d.Stdin(args)
			d.Env(args)
			if d.HTTP != nil {
				d.Request(args)
			}
		}
		if len(defs) == 0 && len(problems) == 0 && !strings.Contains(src, "modules") {
			t.Error("nothing was read and nothing is wrong")
		}
	})
}

// TestTextBody: a body that is a text is sent as it is; where it is JSON, inputs are escaped for
// their place in it.
func TestTextBody(t *testing.T) {
	for body, want := range map[string]any{
		"'hello {s}'":                module.TextBody(`hello say "hi"` + "\n"),
		"plain":                      module.TextBody("plain"),
		`'{"t": "{s}", "n": {n}}'`:   json.RawMessage(`{"t": "say \"hi\"\n", "n": 3}`),
		`'{"t": {s}, "q\"": "{n}"}'`: json.RawMessage(`{"t": "say \"hi\"\n", "q\"": "3"}`),
		"'{s}'":                      "say \"hi\"\n",
	} {
		defs, _, problems := module.ParseManifest("modules.yml", []byte("modules:\n  - {name: A, params: {s: String, n: Int}, result: String, http: {url: 'http://a.example/x', method: POST, output: text, body: "+body+"}}\n"))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if _, _, got := defs[0].Request([]any{"say \"hi\"\n", int64(3)}); fmt.Sprintf("%T %s", got, got) != fmt.Sprintf("%T %s", want, want) {
			t.Errorf("%s: %T %s", body, got, got)
		}
	}
}
