package lsp

import (
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
)

func typedOptions(t *testing.T) Options {
	env, err := check.NewEnv(stdlib.Samples()...)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Modules: func(string, func(string) ([]byte, error)) (*check.Env, diag.List) { return env, nil }}
}

const typedSource = `in name: String
in rows: List<{id: Int, tag: {text: String}}>
x = Trim(name) with retry: 2, delay: 1s
ids = rows.id
name = string-length(name)
big = filter(ids, (id) => id > name)
bad = nothing + 1
use stdlib.math as m
sum = m.add(name, 1)
out big
`

func TestTypedHover(t *testing.T) {
	o := typedOptions(t)
	for _, c := range []struct {
		line, character int
		want            string // "" for nothing
	}{
		{0, 4, "name: String"},
		{2, 0, "x: String"},
		{2, 6, "Trim(text: String) -> String"},
		{2, 10, "name: String\nin name: String"},
		{2, 21, "retry: 3"}, // what the server knows itself
		{3, 7, "rows: List"},
		{4, 1, "name: Int"},
		{4, 8, "stdlib.string.string-length(value: String) -> Int"},
		{4, 22, "name: String"}, // the one above
		{5, 8, "stdlib.collection.filter"},
		{5, 26, "id: Int"}, // the lambda's own
		{5, 32, "name: Int"},
		{6, 1, "bad = nothing"}, // its type is not known
		{8, 9, "stdlib.math.add"},
		{9, 5, "big: List"},
		{7, 2, ""},
	} {
		replies := session(t, o, open(typedSource), frame("textDocument/hover", 5, at(c.line, c.character)))
		var got string
		if string(replies[1].Result) != "null" {
			got = decode[hover](t, replies[1].Result).Contents.Value
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d:%d: got %s, want %s", c.line, c.character, got, c.want)
		}
	}
}

func TestTypedCompletion(t *testing.T) {
	o := typedOptions(t)
	for _, c := range []struct{ add, want, not string }{
		{"z = Tr", "Trim (text: String) -> String", "name Int"},
		{"z = na", "name Int", "name String"},
		{"z = rows.", "id Int, tag {text: String}", "text String"},
		{"z = rows.tag.", "text String", "id Int"},
		{"z = x.", "", "id Int"},
		{"z = stdlib.", "math , string ", "Trim"},
		{"z = stdlib.math.", "divide (a: N, b: N) -> N", "string-length"},
		{"use std", "stdlib.math ", "stdlib.math.add"},
		{"z = Trim(x) with re", "retry ", "name"},
	} {
		text := typedSource + c.add
		lines := strings.Split(text, "\n")
		replies := session(t, o, open(text), frame("textDocument/completion", 5, at(len(lines)-1, len(lines[len(lines)-1]))))
		var got []string
		for _, item := range decode[[]completionItem](t, replies[1].Result) {
			got = append(got, item.Label+" "+item.Detail)
		}
		for _, want := range strings.Split(c.want, ", ") {
			if want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) && !slices.Contains(got, c.want) {
				t.Errorf("%s: no %q in %q", c.add, want, got)
			}
		}
		if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.not) }) {
			t.Errorf("%s: %q is in %q", c.add, c.not, got)
		}
	}
}

// Nobody knows the modules: the server says what it knows itself.
func TestTypedWithoutModules(t *testing.T) {
	replies := session(t, Options{}, open(typedSource), frame("textDocument/hover", 5, at(2, 10)), frame("textDocument/completion", 6, at(2, 11)))
	if !strings.Contains(string(replies[1].Result), "in name: String") || !strings.Contains(string(replies[2].Result), `"label":"name"`) {
		t.Fatalf("%s\n%s", replies[1].Result, replies[2].Result)
	}
}

func TestFileName(t *testing.T) {
	for uri, want := range map[string]string{"file:///a/b%20c/flow.cst": "/a/b c/flow.cst", "untitled:one/two": "untitled:one/two", "other://host/a/flow.cst": "flow.cst"} {
		if got := fileName(uri); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}
