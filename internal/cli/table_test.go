package cli

import (
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

// TestTableBlocks: on a narrow terminal nothing of a row is cut or left out.
func TestTableBlocks(t *testing.T) {
	tab := table{head: []string{"A", "NONE", "N", "TEXT"}, right: map[int]bool{2: true}, flex: 3, drop: []int{2}, block: true, most: map[int]int{0: 4}}
	tab.add("first", "", "7", "short")
	tab.add("second", "", "123", "a text that is longer than the terminal")
	two := table{head: []string{"COUNT", "STEP"}, flex: 1, block: true}
	two.add("7", "a step with a long name")
	for _, c := range []struct {
		table
		width int
		want  string
	}{
		{tab, 0, "A     N    TEXT\nfir…  7    short\nsec…  123  a text that is longer than the terminal\n"},
		{tab, 59, "first\n  n: 7\n  text: short\nsecond\n  n: 123\n  text: a text that is longer than the terminal\n"},
		{tab, 30, "first\n  n: 7\n  text: short\nsecond\n  n: 123\n  text: a text that is longer\n    than the terminal\n"},
		{two, 59, "COUNT  STEP\n7      a step with a long name\n"},
		{two, 25, "COUNT: STEP\n7: a step with a long\n  name\n"},
	} {
		var b strings.Builder
		c.right = nil
		if err := c.print(&b, c.width); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != c.want {
			t.Errorf("width %d:\n%s\nwant\n%s", c.width, got, c.want)
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
