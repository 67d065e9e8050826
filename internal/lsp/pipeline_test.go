package lsp

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
)

const flowText = `type Row = {id: Int, name: String}
in rows: List<Row>
in n: Int = 1
use stdlib.math as m
use stdlib.collection
policy p = retry: 2, delay: 1s
ids = map(rows, (r) => r.id + n)
total = m.add(n, 2)
x = Trim("${total}") with policy: p, fallback: error.message
y = { total, name: x }
out total
out y
out sum = total
`

// session1 opens one pipeline in a folder of its own.
func session1(t testing.TB, text string) (*client, string) {
	t.Helper()
	uri := fileURI(filepath.Join(t.TempDir(), "flow.cst"))
	c := connect(t, full())
	c.open(uri, text)
	return c, uri
}

func TestProblemsOfTheChecker(t *testing.T) {
	c, uri := session1(t, flowText)
	if got := messages(c.problems[uri]); got != "" {
		t.Fatalf("of a good file: %s", got)
	}
	c.write(uri, "in x: )\ny = Trm(\"a\")\nout y")
	if got := messages(c.problems[uri]); !strings.Contains(got, `0:6 expected a type`) || !strings.Contains(got, `1:4 Undefined function: Trm; did you mean "Trim"?`) {
		t.Fatal(got)
	}
}

func TestDefinitionAndReferences(t *testing.T) {
	c, uri := session1(t, flowText)
	for _, x := range []struct {
		word        string
		nth         int
		def, places string
	}{
		{"n)", 1, "2:3", "2:3 6:30 7:14"},
		{"rows, (r", 1, "1:3", "1:3 6:10"},
		{"r.id", 1, "6:17", "6:17 6:23"},
		{"Row>", 1, "0:5", "0:5 1:14"},
		{"p, fallback", 1, "5:7", "5:7 8:34"},
		{"m.add", 1, "3:19", "3:19 7:8"},
		{"total}", 1, "7:0", "7:0 8:12 9:6 10:4 12:10"},
		{"error.m", 1, "8:37", "8:47"},
		{"Trim", 1, "", ""}, // the library's
	} {
		if got := lines(decode[[]location](t, c.ask("textDocument/definition", place(uri, flowText, x.word, x.nth)))); got != x.def {
			t.Errorf("%s is defined at %s, want %s", x.word, got, x.def)
		}
		if got := lines(decode[[]location](t, c.ask("textDocument/references", place(uri, flowText, x.word, x.nth)))); got != x.places {
			t.Errorf("%s stands at %s, want %s", x.word, got, x.places)
		}
	}
	p := with(place(uri, flowText, "n)", 1), "context", map[string]any{"includeDeclaration": false})
	if got := lines(decode[[]location](t, c.ask("textDocument/references", p))); got != "6:30 7:14" {
		t.Errorf("without the definition: %s", got)
	}
}

func TestRename(t *testing.T) {
	c, uri := session1(t, flowText)
	// A variable that is an output and a field as well keeps its name there.
	p := place(uri, flowText, "total = m", 1)
	if got := string(c.ask("textDocument/prepareRename", p)); !strings.Contains(got, `"start":{"line":7,"character":0},"end":{"line":7,"character":5}`) {
		t.Error(got)
	}
	edit := decode[workspaceEdit](t, c.ask("textDocument/rename", with(p, "newName", "whole")))
	got := applied(t, flowText, edit.Changes[uri])
	want := strings.NewReplacer("total = m", "whole = m", "${total}", "${whole}", "{ total,", "{ total: whole,", "out total", "out total = whole", "sum = total", "sum = whole").Replace(flowText)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c.write(uri, got)
	if got := messages(c.problems[uri]); got != "" {
		t.Error(got)
	}
	c.write(uri, flowText)
	for word, name := range map[string]string{"n)": "rows", "r.id": "n", "rows": "when", "x =": "a b", "Trim": "y"} {
		if _, failure := c.try("textDocument/rename", with(place(uri, flowText, word, 1), "newName", name)); failure == nil || failure.Code != codeInvalidParams {
			t.Errorf("%s was renamed to %s: %v", word, name, failure)
		}
	}
	const pattern = "in r: {a: Int}\nx = match r { {a} -> a }\nout x"
	c.write(uri, pattern)
	if _, failure := c.try("textDocument/rename", with(place(uri, pattern, "a }", 1), "newName", "b")); failure == nil {
		t.Error("the field of a pattern was renamed")
	}
}

func TestPipelineSymbols(t *testing.T) {
	c, uri := session1(t, flowText)
	var got []string
	for _, s := range decode[[]documentSymbol](t, c.ask("textDocument/documentSymbol", place(uri, flowText, "type", 1))) {
		got = append(got, s.Name+":"+s.Detail)
	}
	want := []string{"Row:{id: Int, name: String}", "rows:List<{id: Int, name: String}>", "n:Int", "m:", "p:", "ids:List<Int>", "total:Int", "x:String", "y:{total: Int, name: String}", "sum:Int"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestSignatureHelp(t *testing.T) {
	c, uri := session1(t, "")
	for text, want := range map[string]string{
		"use stdlib.math as m\nx = m.add(1, ^":   "stdlib.math.add(a: N, b: N) -> N|1",
		"x = Replace(^":                          "Replace(text: String, find: String, replace: String) -> String|0",
		"x = Replace(\"a,(\", [1, 2], ^)\nout x": "Replace(text: String, find: String, replace: String) -> String|2",
		"in t: String\nx = t | Replace(\"a\", ^": "Replace(text: String, find: String, replace: String) -> String|2",
		"in t: String\nx = t.Replace(^":          "Replace(text: String, find: String, replace: String) -> String|1",
		"x = Trim(Trim(\"a\"), ^":                "Trim(text: String) -> String|1",
		"x = nothing(^":                          "",
		"x = (1 + ^":                             "",
		"x = ^":                                  "",
	} {
		before, after, _ := strings.Cut(text, "^")
		c.write(uri, before+after)
		d := &document{}
		d.setText(before)
		r := c.ask("textDocument/signatureHelp", map[string]any{"textDocument": map[string]any{"uri": uri}, "position": d.position(len(before))})
		got := ""
		if string(r) != "null" {
			h := decode[signatureHelp](t, r)
			got = fmt.Sprintf("%s|%d", h.Signatures[0].Label, h.ActiveParameter)
			for _, p := range h.Signatures[0].Parameters {
				if part := h.Signatures[0].Label[p.Label[0]:p.Label[1]]; !strings.Contains(part, ": ") {
					t.Errorf("a parameter is %q", part)
				}
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestInlayHints(t *testing.T) {
	c, uri := session1(t, flowText)
	p := with(place(uri, flowText, "type", 1), "range", textRange{position{6, 0}, position{7, 99}})
	var got []string
	for _, h := range decode[[]inlayHint](t, c.ask("textDocument/inlayHint", p)) {
		got = append(got, fmt.Sprintf("%d:%d %s", h.Position.Line, h.Position.Character, h.Label))
	}
	want := []string{"6:3 : List<Int>", "6:18 : {id: Int, name: String}", "7:5 : Int", "7:17 b:"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestSemanticTokens(t *testing.T) {
	const text = "# é\nin x: Int\nz = map([x], (a) => a.b) with retry: 2, backoff: fixed\ns = \"one\ntwo ${x}\"\npolicy p = retry: 1\n"
	c, uri := session1(t, text)
	data := decode[semanticTokens](t, c.ask("textDocument/semanticTokens/full", place(uri, text, "in", 1))).Data
	if len(data)%5 != 0 {
		t.Fatal(len(data))
	}
	all := strings.Split(text, "\n")
	line, character := 0, 0
	var got []string
	for i := 0; i < len(data); i += 5 {
		if data[i] > 0 {
			line, character = line+data[i], 0
		}
		character += data[i+1]
		word := string([]rune(all[line])[character : character+data[i+2]])
		got = append(got, word+"/"+tokenTypes[data[i+3]]+strings.Repeat("!", data[i+4]))
	}
	want := []string{"# é/comment", "in/keyword", "x/variable!", "Int/type", "z/variable!", "=/operator", "map/function", "x/variable", "a/parameter!", "=>/operator", "a/parameter", "b/property",
		"with/keyword", "retry/property", "2/number", "backoff/property", "fixed/enumMember", "s/variable!", "=/operator", "\"one/string", "two ${/string", "x/variable", "}\"/string",
		"policy/keyword", "p/enumMember!", "=/operator", "retry/property", "1/number"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// Every "did you mean" is an edit that mends what it is said of.
func TestQuickFixes(t *testing.T) {
	c, uri := session1(t, "")
	for text, want := range map[string]string{
		"x = Trm(\"a\")\nout x":                                               "x = Trim(\"a\")\nout x",
		"in name: String\nx = nam\nout x":                                     "in name: String\nx = name\nout x",
		"x = Trim(\"a\") with retyr: 3\nout x":                                "x = Trim(\"a\") with retry: 3\nout x",
		"x = Trim(\"a\") with attempts: 3\nout x":                             "x = Trim(\"a\") with retry: 3\nout x",
		"x = Trim(\"a\") with backoff: linaer\nout x":                         "x = Trim(\"a\") with backoff: linear\nout x",
		"x = Trim(\"a\") with retry_on: [netwrok]\nout x":                     "x = Trim(\"a\") with retry_on: [network]\nout x",
		"in x: Strng\nout x":                                                  "in x: String\nout x",
		"x = stdlib.mth.add(1, 2)\nout x":                                     "x = stdlib.math.add(1, 2)\nout x",
		"x = stdlib.math.ad(1, 2)\nout x":                                     "x = stdlib.math.add(1, 2)\nout x",
		"use stdlib.string\nx = add(1, 2)\nout x":                             "use stdlib.math\nuse stdlib.string\nx = add(1, 2)\nout x",
		"in r: {name: Int}\nx = r.nmae\nout x":                                "in r: {name: Int}\nx = r.name\nout x",
		"in r: {name: Int}\nx = r[nmae]\nout x":                               "in r: {name: Int}\nx = r[name]\nout x",
		"policy flaky = retry: 1\nx = Trim(\"a\") with policy: flakey\nout x": "policy flaky = retry: 1\nx = Trim(\"a\") with policy: flaky\nout x",
		"@exampel(1)\nin x: Int\nout x":                                       "@example(1)\nin x: Int\nout x",
		"in a: {name: Int}\nx = match a { {nmae} -> 1 }\nout x":               "",
	} {
		c.write(uri, text)
		d := &document{}
		d.setText(text)
		actions := decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{End: d.position(len(text))}}))
		got := ""
		if len(actions) > 0 {
			got = applied(t, text, actions[0].Edit.Changes[uri])
		}
		if got != want {
			t.Errorf("%q: got %q, want %q; %s", text, got, want, messages(c.problems[uri]))
			continue
		}
		if c.write(uri, got); strings.Contains(messages(c.problems[uri]), "did you mean") {
			t.Errorf("%q: %s", got, messages(c.problems[uri]))
		}
	}
}

// What is wrong with a manifest is told at its places in it; it is read when it
// changes, on the disk or in the editor, and not before.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	uri, manifestURI := fileURI(filepath.Join(dir, "flow.cst")), fileURI(filepath.Join(dir, "modules.yml"))
	manifest := filepath.Join(dir, "modules.yml")
	put := func(text string) {
		if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reads := 0
	o := full()
	modules := o.Modules
	o.Modules = func(path string, read func(string) ([]byte, error)) (*check.Env, diag.List) {
		reads++
		return modules(path, read)
	}
	c := connect(t, o)
	const text = "x = Fetch(1)\nout x"
	c.open(uri, text)
	if got := messages(c.problems[uri]); !strings.Contains(got, "Undefined function: Fetch; modules are declared in "+manifest+", which is not there") {
		t.Fatal(got)
	}
	put("modules:\n  - name: Fetch\n    params: {id: Int}\n    result: Strng\n    shell: [fetch]\n    exti: 1\n")
	c.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{}})
	if got := messages(c.problems[manifestURI]); got != "3:12 Undefined type: Strng; did you mean \"String\"?\n5:4 Unknown key \"exti\" in a module; did you mean \"exit\"?" {
		t.Fatalf("%s", got)
	}
	if got := messages(c.problems[uri]); !strings.Contains(got, "types and calls are not checked: there are errors in "+manifest) {
		t.Fatal(got)
	}
	put("modules:\n  - name: Fetch\n    description: Fetches one.\n    params: {id: Int}\n    result: String\n    shell: [fetch]\n")
	reads = 0
	for i := range 20 {
		c.write(uri, text+strings.Repeat(" ", i))
	}
	if reads != 1 {
		t.Errorf("the manifest was read %d times for one change of it and 20 of the pipeline", reads)
	}
	if got := messages(c.problems[uri]) + messages(c.problems[manifestURI]); got != "" {
		t.Error(got)
	}
	if got := string(c.ask("textDocument/hover", place(uri, text, "Fetch", 1))); !strings.Contains(got, "Fetch(id: Int) -\\u003e String") || !strings.Contains(got, "Fetches one.") {
		t.Error(got)
	}
	at := decode[[]location](t, c.ask("textDocument/definition", place(uri, text, "Fetch", 1)))
	if len(at) != 1 || at[0].URI != manifestURI || at[0].Range.Start.Line != 1 {
		t.Errorf("%+v", at)
	}
	// An open manifest counts as it is in the editor, saved or not.
	c.open(manifestURI, "modules:\n  - name: Fetch\n    params: {id: String}\n    result: String\n    shell: [fetch]\n")
	if got := messages(c.problems[uri]); !strings.Contains(got, "Type mismatch: expected String, got Int") {
		t.Error(got)
	}
	c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": manifestURI}})
	if got := messages(c.problems[uri]); got != "" {
		t.Error(got)
	}
}

func TestURIs(t *testing.T) {
	for _, name := range []string{"/a/b c/flow.cst", "/a/é#%/x.yml"} {
		uri := fileURI(name)
		if _, err := url.Parse(uri); err != nil || fileName(uri) != name {
			t.Errorf("%s: %s %s %v", name, uri, fileName(uri), err)
		}
	}
}
