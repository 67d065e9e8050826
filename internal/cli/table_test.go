package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/journal"
)

func TestTable(t *testing.T) {
	tab := table{head: []string{"A", "NONE", "N", "TEXT"}, right: map[int]bool{2: true}, flex: 3}
	tab.paint = func(col int, s string) string {
		if col == 0 {
			return "<" + s + ">"
		}
		return s
	}
	tab.add("x", "", "7", "short")
	tab.add("日本", "", "123", "a text that is longer than the terminal\x1b[2J\n")
	for width, want := range map[int]string{
		0:  "A       N  TEXT\n<x>       7  short\n<日本>  123  a text that is longer than the terminal\\x1b[2J \n",
		25: "A       N  TEXT\n<x>       7  short\n<日本>  123  a text that i…\n",
		5:  "A       N  TEXT\n<x>       7  short\n<日本>  123  a text …\n",
	} {
		var b strings.Builder
		if err := tab.print(&b, width); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
	}
}

func TestTook(t *testing.T) {
	for ms, want := range map[int64]string{0: "", 7: "7ms", 999: "999ms", 1234: "1.2s", 12_345: "12s", 61_499: "1m1s", 3_661_000: "1h1m"} {
		if got := took(ms); got != want {
			t.Errorf("%d ms is %q, want %q", ms, got, want)
		}
	}
}

// TestGlob compares patterns with what they are to find.
func TestGlob(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"a.go", "b.txt", ".x.go", "sub/c.go", "sub/.d/e.go", "sub/deep/f.go", "sub/deep/f.txt", ".git/g.go", "-n.go"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "sub", "loop")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][]string{
		"*.go":         {"-n.go", "a.go"},
		".*.go":        {".x.go"},
		"**/*.go":      {"-n.go", "a.go", "sub/c.go", "sub/deep/f.go"},
		"./**/f.*":     {"sub/deep/f.go", "sub/deep/f.txt"},
		"sub/**":       {"sub/c.go", "sub/deep/f.go", "sub/deep/f.txt"},
		"**/**/c.go":   {"sub/c.go"},
		"sub/*/f.go":   {"sub/deep/f.go"},
		"sub/.d/*":     {"sub/.d/e.go"},
		"sub":          nil,
		"a.go/x":       nil,
		"none/*":       nil,
		"[ab].*":       {"a.go", "b.txt"},
		`\a.go`:        {"a.go"},
		"sub/deep/f.g": nil,
	} {
		var got []string
		err := glob(dir, pattern, func(s string) error { got = append(got, s); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s finds %q, %v; want %q", pattern, got, err, want)
		}
	}
	var got []string
	if err := glob("", dir+"/**/c.go", func(s string) error { got = append(got, s); return nil }); err != nil || !slices.Equal(got, []string{dir + "/sub/c.go"}) {
		t.Errorf("an absolute pattern finds %q, %v", got, err)
	}
	if err := glob(dir, "a/[", nil); err == nil {
		t.Error("a bad pattern was not refused")
	}
}

// TestLetterNames: every name that the help promises is there in a filter, and
// names of the item where they are not taken.
func TestLetterNames(t *testing.T) {
	l := journal.DeadLetter{Index: 3, ID: "c", Item: []byte(`{"class":"mine","n":7,"tags":["x"]}`), Time: time.Now().Add(-time.Hour), Attempts: 2, Tries: 2, Class: "exit", Message: "no",
		Letter: []byte(`{"correlation_id":"r/3","step":"map.agent_template[0]","step_label":"work","exit_code":9,"worktree":"/w","branch":"b","eligible":true}`)}
	for _, src := range []string{
		`id == "c"`, `index == 2`, `class == "exit"`, `item.class == "mine"`, `n == 7`, `item.n > 6 && n < 8`, `tags contains "x"`, `item.tags[0] == "x"`,
		`message == "no"`, `attempts == 2`, `step starts_with "map."`, `step_label == work`, `exit_code == 9`, `correlation_id == "r/3"`,
		`age > 3500 && age < 3700`, `time < "9"`, `worktree == "/w"`, `branch == "b"`, `eligible`, `!exists(nothing)`,
	} {
		x, err := expr.Parse(src)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		if ok, err := (letterFilter{expr: x}).accept(l); !ok || err != nil {
			t.Errorf("%s: %v, %v", src, ok, err)
		}
	}
	if ok, err := (letterFilter{older: 30 * time.Minute}).accept(l); !ok || err != nil {
		t.Error("a letter of an hour is not older than half of one", err)
	}
	if ok, err := (letterFilter{older: 2 * time.Hour}).accept(l); ok || err != nil {
		t.Error("a letter of an hour is older than two", err)
	}
}
