package diag_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
)

func TestPrint(t *testing.T) {
	src := []byte("commands:\n\t- shell: ls\n  timout: 30s\n")
	var l diag.List
	l.Warnf(diag.Pos{File: "a.yml", Line: 3, Column: 3}, "unknown-key", "unknown key %q", "timout").To(9).Suggest("did you mean %q?", "timeout")
	l.Errorf(diag.Pos{File: "a.yml", Line: 2, Column: 4}, "x", "bad step")
	l.Errorf(diag.Pos{File: "a.yml"}, "", "no name")
	l.Sort()
	var b strings.Builder
	for _, p := range l {
		diag.Print(&b, p, src, diag.Style{})
	}
	want := `a.yml: error: no name
a.yml:2:4: error: bad step [x]
    	- shell: ls
    	  ^
a.yml:3:3: warning: unknown key "timout" [unknown-key]
      timout: 30s
      ^^^^^^
  did you mean "timeout"?
`
	if b.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", b.String(), want)
	}
	if e, w := l.Count(); e != 2 || w != 1 {
		t.Errorf("Count = %d, %d; want 2, 1", e, w)
	}
}

func TestOnlyWarningsAreNoError(t *testing.T) {
	var l diag.List
	l.Warnf(diag.Pos{}, "w", "careful")
	if err := l.Err(); err != nil {
		t.Errorf("Err = %v, want nil", err)
	}
	l.Errorf(diag.Pos{}, "e", "wrong")
	if l.Err() == nil {
		t.Error("Err = nil although there is an error")
	}
}

func TestJSON(t *testing.T) {
	var l diag.List
	l.Errorf(diag.Pos{File: "f", Line: 2, Column: 7}, "c", "m").Suggest("s")
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"line":2,"column":7,"severity":"error","code":"c","message":"m","suggestion":"s"}]`
	if string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

// A column beyond the line, a line beyond the file and control characters must
// not upset the printing.
func TestOddPlaces(t *testing.T) {
	for _, p := range []diag.Pos{{Line: 1, Column: 99}, {Line: 9, Column: 1}, {Line: 1, Column: -4}, {Line: -1}} {
		var b strings.Builder
		diag.Print(&b, diag.Problem{Pos: p, EndColumn: 200, Message: "m"}, []byte("a\x1b[2Jb\xff"), diag.Style{})
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("%v: a control character of the source was printed: %q", p, b.String())
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"timeout", "retry_config", "max_parallel", "when", "on_failure"}
	for word, want := range map[string]string{
		"timout": "timeout", "retryConfig": "retry_config", "maxparallel": "max_parallel", "wehn": "when", "banana": "", "on-failure": "on_failure", "x": "",
		"whne": "when", "hwne": "when", "wean": "", "set": "", // half of the letters are others
	} {
		if got := diag.Nearest(word, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

type starred struct{}

func (starred) String(line string) string { return strings.ReplaceAll(line, "secret", "*") }

func (s starred) Place(line string, at int) int { return len(s.String(line[:at])) }

// The caret is under its place where something before it is hidden.
func TestHiddenLine(t *testing.T) {
	var b strings.Builder
	p := diag.Problem{Pos: diag.Pos{Line: 1, Column: 13}, EndColumn: 16, Message: "m"}
	diag.Print(&b, p, []byte("ä: secret, x: abc"), diag.Style{Hide: starred{}})
	p.Column, p.EndColumn = 99, 0
	diag.Print(&b, p, []byte("secret"), diag.Style{Hide: starred{}})
	const want = "1:13: error: m\n    ä: *, x: abc\n           ^^^\n1:99: error: m\n    *\n     ^\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

func TestInnerColon(t *testing.T) {
	for line, want := range map[string]int{
		`  - shell: printf '{"title": 3}'`: 28, "a: b: c": 5, "  b: List<{c: Int}>": 13, "a: b": 2, "a:": 0, "": 0, "ä: x: y": 6, "a: http://x": 2,
	} {
		if got := diag.InnerColon(line); got != want {
			t.Errorf("InnerColon(%q) = %d, want %d", line, got, want)
		}
	}
}
