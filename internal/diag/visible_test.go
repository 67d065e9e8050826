package diag_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
)

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
