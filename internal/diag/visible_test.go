package diag_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
)

// What turns the direction of writing is shown, and other texts stay as they are.
func TestDirections(t *testing.T) {
	for in, want := range map[string]string{
		"a\u202etxt.live": `a\u202etxt.live`, "\u2066x\u2069\u061c\u200f": `\u2066x\u2069\u061c\u200f`, "שלום … 1\u202f000\n\xff": "שלום … 1\u202f000\n\xff",
	} {
		if got := string(diag.Untwisted([]byte(in))); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	if got := diag.Visible("a\u202eb\u200ec\x1bd"); got != `a\u202eb\u200ec\x1bd` {
		t.Errorf("on a line it is %q", got)
	}
}

// No part of a problem moves the cursor, whatever a file is called.
func TestPrintIsVisible(t *testing.T) {
	var b bytes.Buffer
	p := diag.Problem{Message: "a\x1b[2Jb", Suggestion: "c\x07d\u202ee"}
	p.File, p.Line = "x\x1b]0;t\x07.yml", 1
	diag.Print(&b, p, []byte("k\x1b[0m: v\n"), diag.Style{})
	if strings.ContainsAny(b.String(), "\x1b\x07\u202e") {
		t.Errorf("%q", b.String())
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 64 << 10: "64.0 KiB", 123_456_789: "117.7 MiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB"} {
		if got := diag.Bytes(n); got != want {
			t.Errorf("%d bytes is %q, want %q", n, got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{"": "''", "a-1/b.c": "a-1/b.c", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'"} {
		if got := diag.ShellWord(s); got != want {
			t.Errorf("%q is %s, want %s", s, got, want)
		}
	}
}

// A cut leaves no half of a character.
func TestClip(t *testing.T) {
	for n, want := range []string{"…", "a…", "aé…", "aé漢…", "aé漢x"} {
		if got := diag.Clip("aé漢x", n); got != want {
			t.Errorf("%d characters are %q, want %q", n, got, want)
		}
	}
	for n, want := range []string{"…", "a…", "a…", "aé…", "aé…", "aé…", "aé漢…", "aé漢x"} {
		if got := diag.ClipBytes("aé漢x", n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}

// The lines of a difference that are of the first text, and of both, are the first
// text in its order, but for those that are left out, which are counted; the same of
// the second.
func TestDiff(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var texts [2][]string
		for i := range texts {
			for range 1 + rnd.IntN(30) {
				texts[i] = append(texts[i], strings.Repeat("x", rnd.IntN(4)))
			}
		}
		at := [2]int{}
		changed := 0
		for _, l := range diag.Diff(strings.Join(texts[0], "\n"), strings.Join(texts[1], "\n")) {
			sides := map[byte][]int{'-': {0}, '+': {1}, ' ': {0, 1}, '@': {0, 1}}[l.Sign]
			n := 1
			if l.Sign == '@' {
				if _, err := fmt.Sscanf(l.Text, "%d lines that are the same", &n); err != nil {
					t.Fatalf("%q", l.Text)
				}
				if !slices.Equal(texts[0][at[0]:at[0]+n], texts[1][at[1]:at[1]+n]) {
					t.Fatalf("%q of %q and %q", l.Text, texts[0], texts[1])
				}
			} else if l.Sign != ' ' {
				changed++
			}
			for _, s := range sides {
				if l.Sign != '@' && texts[s][at[s]] != l.Text {
					t.Fatalf("%c %q is not line %d of %q", l.Sign, l.Text, at[s], texts[s])
				}
				at[s] += n
			}
		}
		for s, text := range texts {
			if at[s] != len(text) {
				t.Fatalf("%d of %d lines: %q", at[s], len(text), texts)
			}
		}
		if slices.Equal(texts[0], texts[1]) != (changed == 0) {
			t.Fatalf("%d lines differ: %q", changed, texts)
		}
	}
	if got := diag.Diff(strings.Repeat("a\n", 4000), strings.Repeat("b\n", 4000)); len(got) != 2 || got[0].Sign != '@' {
		t.Errorf("two texts without a common line: %d lines", len(got))
	}
}
