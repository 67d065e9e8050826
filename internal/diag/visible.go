package diag

import (
	"fmt"
	"strings"
	"unicode"
)

// Visible makes a text of unknown origin fit one line of a terminal: control
// characters, which could move the cursor or colour the rest, are shown as
// spaces or escapes, and so are those that turn the direction of writing.
func Visible(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case unprintable(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// VisibleLines is Visible for a text of several lines.
func VisibleLines(s string) string {
	if !strings.Contains(s, "\n") {
		return Visible(s)
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Visible(l)
	}
	return strings.Join(lines, "\n")
}

// Clip cuts a text that has more than n characters after these.
func Clip(s string, n int) string {
	at := 0
	for i := range s {
		if at++; at > n {
			return s[:i] + "…"
		}
	}
	return s
}
