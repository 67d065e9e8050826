package cli

import (
	"cmp"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// asShown is how a terminal shows a text: escape sequences take no column.
var asShown = displaywidth.Options{ControlSequences: true}

// widthOf is how many columns a text takes on a terminal.
func widthOf(s string) int { return asShown.String(s) }

// cut shortens a text to n columns.
func cut(s string, n int) string { return asShown.TruncateString(s, n, "…") }

// padded is a text with blanks behind it, up to n columns.
func padded(s string, n int) string { return s + strings.Repeat(" ", max(0, n-widthOf(s))) }

// fold breaks a line that is too long for a terminal of a width, 0 for none, at
// blanks where it can, and a word that is too long behind a slash or another mark; what
// follows is indented.
func fold(line string, width int, by string) string {
	if width == 0 {
		return line
	}
	var b strings.Builder
	for room := width; ; room = width - len(by) {
		head, rest := broken(line, room)
		b.WriteString(head)
		if rest == "" {
			return b.String()
		}
		b.WriteString("\n" + by)
		line = rest
	}
}

// mostLines is how many lines of a terminal a text of unknown length takes.
const mostLines = 3

// someLines folds a line as fold does, to three lines at most: what is behind them is cut.
func someLines(line string, width int, by string) string {
	if width == 0 || widthOf(line) <= width {
		return line
	}
	lines := strings.Split(fold(line, width, by), "\n")
	if len(lines) > mostLines {
		rest := strings.TrimPrefix(lines[mostLines-1], by)
		lines = append(lines[:mostLines-1], by+cut(rest+" "+strings.TrimSpace(lines[mostLines]), width-len(by)))
	}
	return strings.Join(lines, "\n")
}

// joints are the marks behind which a word is broken that is too long.
const joints = "/\\-_,;=&?"

// broken is the beginning of a line that fits into room columns, to a blank where
// there is one, else to a joint of the word in the second half of the room, a slash if it
// has one, and what stands behind that. It takes one character at least.
func broken(line string, room int) (head, rest string) {
	used, at, blank, slash, joint := 0, 0, 0, 0, 0
	for g := asShown.StringGraphemes(line); g.Next(); at += len(g.Value()) {
		if used += g.Width(); used > room && at > 0 {
			if g.Value() != " " {
				at = cmp.Or(blank, slash, joint, at)
			}
			return strings.TrimRight(line[:at], " "), strings.TrimLeft(line[at:], " ")
		}
		if g.Value() == " " && strings.TrimLeft(line[:at], " ") != "" {
			blank = at
		}
		if v := g.Value(); used*2 > room && strings.Contains(joints, v) {
			joint = at + len(v)
			if v == "/" {
				slash = joint
			}
		}
	}
	return line, ""
}
