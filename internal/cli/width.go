package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/clipperhouse/displaywidth"
)

// asShown measures a text as a terminal shows it: escape sequences take no column.
var asShown = displaywidth.Options{ControlSequences: true}

// widthOf is how many columns a text takes on a terminal.
func widthOf(s string) int { return asShown.String(s) }

// cut shortens a text to n columns.
func cut(s string, n int) string { return asShown.TruncateString(s, n, "…") }

// padded appends blanks to a text, up to n columns.
func padded(s string, n int) string { return s + strings.Repeat(" ", max(0, n-widthOf(s))) }

// fold breaks a line that is longer than width, 0 for no limit. It breaks at blanks if it can,
// and a word that is too long after a slash or another mark. It indents what follows.
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

// tell writes a message of bide to standard error, no wider than the terminal.
func (s *streams) tell(format string, args ...any) {
	fmt.Fprintln(s.err, message("bide: "+fmt.Sprintf(format, args...), s.columns(s.err)))
}

// message folds the lines of a text for a person. It breaks no command in them that fits into
// a line, so that it can be copied.
func message(text string, width int) string {
	if width == 0 {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		by := line[:len(line)-len(strings.TrimLeft(line, " "))] + "  "
		line = commandIn().ReplaceAllStringFunc(line, func(c string) string { return strings.ReplaceAll(c, " ", hardBlank) })
		lines = append(lines, strings.ReplaceAll(fold(line, width, by), hardBlank, " "))
	}
	return strings.Join(lines, "\n")
}

// commandIn finds a command in a message: in quotes, or after what introduces one.
var commandIn = pattern.Lazy("(`|\"|: |see |with )(bide|git) [^`\";,()]*")

// hardBlank is a blank at which fold breaks a line only if there is no other.
const hardBlank = "\u00a0"

// mostLines is how many lines of a terminal a text of unknown length may take.
const mostLines = 3

// someLines folds a line as fold does, to at most mostLines lines, and cuts the rest.
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

// joints are the marks after which a word that is too long is broken.
const joints = "/\\-_,;=&?"

// blanks are what a broken line has at neither side of its end.
const blanks = " " + hardBlank

// broken splits a line whose head must fit into room columns: at a blank if there is one, else
// after a mark in the second half of the room, preferably a slash. The head has at least one
// character.
func broken(line string, room int) (head, rest string) {
	used, at, blank, hard, slash, joint := 0, 0, 0, 0, 0, 0
	for g := asShown.StringGraphemes(line); g.Next(); at += len(g.Value()) {
		if used += g.Width(); used > room && at > 0 {
			if g.Value() != " " {
				at = cmp.Or(blank, hard, slash, joint, at)
			}
			return strings.TrimRight(line[:at], blanks), strings.TrimLeft(line[at:], blanks)
		}
		if g.Value() == " " && strings.TrimLeft(line[:at], " ") != "" {
			blank = at
		}
		if g.Value() == hardBlank {
			hard = at
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
