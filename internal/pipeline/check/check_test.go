package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// extra are the modules of the test sources beside the samples.
func extra(t testing.TB) []module.Module {
	def := func(name, result string, params ...string) module.Module {
		d := &module.Definition{Name: name, Version: "1", Result: mustType(t, result)}
		for i := 0; i < len(params); i += 2 {
			d.Params = append(d.Params, types.Param{Name: params[i], Type: mustType(t, params[i+1])})
		}
		return module.Bind(d, nil)
	}
	return []module.Module{
		def("Search", "List<{id: Int, title: String, score: Float}>", "query", "String", "limit", "Int"),
		def("Summarize", "String", "hits", "List<{title: String}>"),
		def("Fetch", "String", "id", "Int"),
		def("Ping", "Boolean"),
		def("Stream", "Seq<Int>", "n", "Int"),
		def("Measure", "Float", "text", "String"),
		def("Classify", "{ok: Int} | {failure: String}", "text", "String"),
		def("Anything", "String", "who", "{name: String, ...}"),
		def("WithOptions", "String", "options", "{name: String, note: Optional<String>}"),
		def("Prices", "Map<String, Float>", "day", "String"),
		def("Maybe", "Optional<Int>", "text", "String"),
		def("one.clash", "Int", "x", "Int"),
		def("two.clash", "Int", "x", "Int"),
		def("shop.orders.Place", "Int", "x", "Int"),
	}
}

func mustType(t testing.TB, text string) *types.Type {
	t.Helper()
	typ, err := types.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func newEnv(t testing.TB) *check.Env {
	t.Helper()
	env, err := check.NewEnv(append(stdlib.Samples(), extra(t)...)...)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// run parses and checks; the parser's problems are among the result's.
func run(env *check.Env, src string) (*check.Program, diag.List) {
	f, problems := syntax.Parse("test.cst", []byte(src))
	p, more := check.Check(f, env)
	return p, append(problems, more...)
}

var wantComment = regexp.MustCompile(`# want ((?:"(?:[^"\\]|\\.)*"\s*)+)$`)
var quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// TestFiles checks the sources of testdata. A case begins with "---" and its
// name. Each `# want "text" "text"` names what the problems of its line must
// contain, one text a problem, with the code and the severity before the
// message. "# compat" in the name checks in that mode.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	env, compat := newEnv(t), newEnv(t)
	compat.Compat = true
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split("\n"+string(data), "\n--- ")[1:] {
			name, src, _ := strings.Cut(c, "\n")
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				if strings.Contains(name, "# compat") {
					checkWants(t, compat, src)
				} else {
					checkWants(t, env, src)
				}
			})
		}
	}
}

func checkWants(t *testing.T, env *check.Env, src string) {
	want := map[int][]string{}
	for i, line := range strings.Split(src, "\n") {
		if m := wantComment.FindStringSubmatch(line); m != nil {
			for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
				want[i+1] = append(want[i+1], strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1]))
			}
		}
	}
	program, problems := run(env, src)
	if (program == nil) != problems.HasErrors() {
		t.Errorf("program is nil: %v, but errors: %v", program == nil, problems)
	}
	for _, p := range problems {
		text := fmt.Sprintf("%s %s: %s; %s", p.Severity, p.Code, p.Message, p.Suggestion)
		i := slices.IndexFunc(want[p.Line], func(w string) bool { return strings.Contains(text, w) })
		if i < 0 {
			t.Errorf("line %d: unexpected: %s", p.Line, text)
			continue
		}
		want[p.Line] = slices.Delete(want[p.Line], i, i+1)
		if p.EndColumn != 0 && p.EndColumn <= p.Column {
			t.Errorf("line %d: the span is empty: %+v", p.Line, p)
		}
	}
	for line, ws := range want {
		for _, w := range ws {
			t.Errorf("line %d: nothing contains %q", line, w)
		}
	}
}
