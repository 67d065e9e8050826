//go:build unix

package proc

import (
	"strings"
	"testing"
)

// What a terminal adds to line ends is taken away, however the reads cut it.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	const text, want = "a\r\nb\r\r\nc\rd\n\r\r", "a\nb\r\nc\rd\n\r"
	for size := 1; size <= len(text); size++ {
		var l lineEnds
		var got strings.Builder
		for at := 0; at < len(text); at += size {
			got.Write(l.unix([]byte(text[at:min(at+size, len(text))])))
		}
		if got.String() != want { // the last one waits for what follows
			t.Errorf("in pieces of %d: %q", size, got.String())
		}
	}
}
