package diag

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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
			b.WriteString(Escaped(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return unicode.IsControl(r) || turns(r) }

// turns says whether a character turns the direction of writing, so that a text reads
// otherwise than it is.
func turns(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// Escaped is how Visible shows a character that it does not let through.
func Escaped(r rune) string {
	if r > 0xff {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\x%02x`, r)
}

// Untwisted is a text in which what turns the direction of writing is shown as an
// escape, as in Visible; nothing else changes. In JSON it has the same meaning.
func Untwisted(text []byte) []byte {
	if !bytes.ContainsFunc(text, turns) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if turns(r) {
			out = append(out, Escaped(r)...)
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
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

// ClipBytes cuts a text that has more than n bytes after these, or before the
// character that the cut would be in.
func ClipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Bytes is a number of bytes as a person reads it.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	for f >= 1<<10 && len(units) > 1 {
		f, units = f/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}

// ShellQuote makes one word of any POSIX shell out of a text.
func ShellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ShellWord is ShellQuote where the text needs it, for a command that a person reads.
func ShellWord(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+:@,=%", c)
	}
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !plain(c) }) {
		return s
	}
	return ShellQuote(s)
}
