package diag_test

import (
	"bytes"
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
