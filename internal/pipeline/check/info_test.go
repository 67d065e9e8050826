package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

const infoSource = `type Text = String
type Row = {id: Int, tag: Text}
in rows: List<Row>
in n: Int = 1
use stdlib.math as m use stdlib.collection use stdlib.list
policy p = retry: 2, fallback: error.message
n = m.add(n, 1)
ids = map(rows, (r) => r.id + n)
x = match n { is Int -> n, _ -> 0 }
y = if (n > 0) { a: n } else { a: x }
z = match y { {a} -> Trim("${a}") with policy: p }
w = Trim(z) with fallback: (e) => e.class
v = Trim(z) with fallback: error.class, retry: 2
u = rows.id
bad = nothing + n
out n
out total = list-sum(ids)
out { w, v }
`

// resolveAll resolves infoSource as far as it goes: it has errors.
func resolveAll(t *testing.T) (*syntax.File, *check.Info) {
	t.Helper()
	f, _ := syntax.Parse("test.cst", []byte(infoSource))
	info, problems := check.Resolve(f, newEnv(t))
	if !problems.HasErrors() {
		t.Fatal("the source has errors, but none was found")
	}
	return f, info
}

// offsetOf gives the offset of the nth place of a text in a line.
func offsetOf(t *testing.T, f *syntax.File, line int, word string, nth int) int32 {
	t.Helper()
	lines := strings.SplitAfter(string(f.Src), "\n")
	offset := len(strings.Join(lines[:line-1], ""))
	rest := lines[line-1]
	for {
		i := strings.Index(rest, word)
		if i < 0 {
			t.Fatalf("line %d has no %q", line, word)
		}
		if nth--; nth == 0 {
			return int32(offset + i)
		}
		offset, rest = offset+i+len(word), rest[i+len(word):]
	}
}

func TestInfo(t *testing.T) {
	f, info := resolveAll(t)
	for _, c := range []struct {
		line int
		word string
		nth  int
		want string // kind, line of the definition, type; "" for nothing
	}{
		{2, "Text", 1, "type 1 String"},
		{3, "Row", 1, "type 2 {id: Int, tag: String}"},
		{7, "n =", 1, "value 7 Int"},
		{7, "m.", 1, "alias 5 <nil>"},
		{7, "n, 1", 1, "input 4 Int"},
		{8, "rows", 1, "input 3 List<{id: Int, tag: String}>"},
		{8, "r)", 1, "param 8 {id: Int, tag: String}"},
		{8, "r.", 1, "param 8 {id: Int, tag: String}"},
		{8, "n", 1, "value 7 Int"},
		{9, "n,", 1, "value 7 Int"},
		{11, "a}", 1, "binding 11 Int"},
		{11, "a}", 2, "binding 11 Int"},
		{11, "p }", 1, "policy 6 <nil>"},
		{12, "e)", 1, "failure 12"},
		{12, "e.", 1, "failure 12"},
		{13, "error", 1, "failure 13"},
		{15, "nothing", 1, ""},
		{15, "n", 3, "value 7 Int"},
		{16, "n", 1, "value 7 Int"},
		{17, "total", 1, "output 17 Int"},
		{18, "w", 1, "value 12 String"},
	} {
		kinds := []string{"input", "value", "output", "type", "policy", "alias", "param", "binding", "failure"}
		got := ""
		if s, _ := info.At(offsetOf(t, f, c.line, c.word, c.nth)); s != nil {
			got = fmt.Sprintf("%s %d %v", kinds[s.Kind], f.Pos(s.Span.Start).Line, s.Type)
		}
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want+" ")) {
			t.Errorf("line %d %q: got %q, want %q", c.line, c.word, got, c.want)
		}
	}
	s, _ := info.At(offsetOf(t, f, 7, "n =", 1))
	var lines []int
	for _, p := range info.Places(s) {
		lines = append(lines, f.Pos(p.Start).Line)
	}
	if got := fmt.Sprint(lines); got != "[7 8 9 9 10 10 15 16]" {
		t.Errorf("the places of n are on the lines %s", got)
	}
	if c := info.Calls[wordSpan(t, f, 7, "m.add")]; c == nil || c.Full != "stdlib.math.add" {
		t.Errorf("m.add is %+v", c)
	}
	if typ := info.Fields[wordSpan(t, f, 14, "id")]; typ == nil || typ.String() != "Int" {
		t.Errorf("rows.id is of %v", typ)
	}
	var names []string
	for _, s := range info.Visible(offsetOf(t, f, 8, "n", 1)) {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "r n p m rows Row Text" {
		t.Errorf("in the lambda are visible: %s", got)
	}
	for e, typ := range info.Types {
		if typ == nil {
			t.Errorf("%s has no type", f.Text(e.Extent()))
		}
	}
}

func wordSpan(t *testing.T, f *syntax.File, line int, word string) syntax.Span {
	at := offsetOf(t, f, line, word, 1)
	return syntax.Span{Start: at, End: at + int32(len(word))}
}

// What an editor is told is what a run is checked with.
func TestResolveFindsWhatCheckFinds(t *testing.T) {
	f, info := resolveAll(t)
	_, want := check.Check(f, newEnv(t))
	_, got := check.Resolve(f, newEnv(t))
	if got.Error() != want.Error() {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	syntax.InspectFile(f, func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Name); ok && name.Name != "nothing" && info.Uses[name.Span] == nil {
			t.Errorf("%v: nobody knows what %s is", f.Pos(name.Start), name.Name)
		}
		return true
	})
}
