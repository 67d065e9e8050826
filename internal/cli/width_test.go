package cli

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"all of it fits", 14, "all of it fits"},
		{"no terminal, no fold", 0, "no terminal, no fold"},
		{"all of it fits", 13, "all of it|  fits"},
		{"one two", 3, "one|  t|  w|  o"},
		{"  indented stays", 10, "  indented|  stays"},
		{"  unbreakable", 6, "  unbr|  eaka|  ble"},
		{"ab   cd", 4, "ab|  cd"},
		{"日本語 日本", 7, "日本語|  日本"},
		{"日本語", 5, "日本|  語"},
		{"\x1b[1mbold\x1b[0m and thin", 8, "\x1b[1mbold\x1b[0m and|  thin"},
		{"wide", 1, "w|  i|  d|  e"}, // no room: a character a line
		{"see /var/lib/services/parts/file.json: gone", 20, "see|  /var/lib/services/|  parts/file.json:|  gone"},
		{"https://example.org/a-long-name?key=value", 20, "https://example.org/|  a-long-name?key=|  value"},
		{"a_name_that_is_long", 12, "a_name_that_|  is_long"},
		{"01234567890123/56789", 19, "01234567890123/|  56789"},
		{"a/34567890123456789", 12, "a/3456789012|  3456789"}, // a place too near the beginning
		{"\x1b[31m/one/two/three\x1b[0m", 10, "\x1b[31m/one/two/|  three\x1b[0m"},
		{"", 5, ""},
	} {
		got := fold(c.line, c.width, "  ")
		if got = strings.ReplaceAll(got, "\n", "|"); got != c.want {
			t.Errorf("fold(%q, %d): %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

// TestMessage: a command in a message is in one line if it can be.
func TestMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"bide: look: bide show X", 0, "bide: look: bide show X"},
		{"bide: it is over; see bide show X", 27, "bide: it is over;|  see bide show X"},
		{"bide: it is over: `bide show X` says why", 24, "bide: it is over:|  `bide show X` says why"},
		{"bide: merge it with: git merge --no-ff a/b", 26, "bide: merge it|  with: git merge --no-ff|  a/b"},
		{"bide: one|  bide sets two of them", 12, "bide: one|  bide sets|    two of|    them"},
	} {
		if got := strings.ReplaceAll(message(strings.ReplaceAll(c.text, "|", "\n"), c.width), "\n", "|"); got != c.want {
			t.Errorf("message(%q, %d): %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestFoldKeepsAll: whatever stands in a line, all of it is there afterwards, and
// no line is too wide.
func TestFoldKeepsAll(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{" ", "  ", "a", "word", "日本語", "e\u0301", "👨‍👩‍👧", "\x1b[31m", "\x1b[0m", "\x1b", "\xff", "-", "\t"})
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(part, 0, 40).Draw(t, "line"), "")
		width := rapid.IntRange(4, 30).Draw(t, "width")
		bare := strings.NewReplacer(" ", "", "\n", "")
		got := fold(line, width, "  ")
		if bare.Replace(got) != bare.Replace(line) {
			t.Fatalf("fold(%q, %d) is %q", line, width, got)
		}
		for l := range strings.SplitSeq(got, "\n") {
			if widthOf(l) > width {
				t.Fatalf("fold(%q, %d) has a line of %d columns: %q", line, width, widthOf(l), l)
			}
		}
	})
}

// TestWidthOf compares with another implementation.
func TestWidthOf(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "日本語", "e\u0301", "👨‍👩‍👧", "\x1b[1;31mred\x1b[0m", "…✓⠋━", "🇩🇪", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"} {
		if got, want := widthOf(s), ansi.StringWidth(s); got != want {
			t.Errorf("widthOf(%q) = %d, want %d", s, got, want)
		}
		if got := cut(s+" and more", 6); widthOf(got) > 6 {
			t.Errorf("cut(%q, 6) is %q", s, got)
		}
	}
}
