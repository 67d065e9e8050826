package diag

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Style colours the parts of a printed problem. The zero Style prints plain
// text.
type Style struct {
	Error, Warning, Place, Hint func(string) string
	Hide                        Hider // nil: the source line is printed as it is
	// Fold breaks a line that is too long for the terminal; what follows is indented.
	// nil: lines are as long as they are.
	Fold  func(line, by string) string
	Width int // of the terminal, in columns; 0: any
}

// Hider replaces what is not to be seen in a line.
type Hider interface {
	String(line string) string
	Place(line string, at int) int // where in String(line) the byte at of line stands
}

func (s Style) apply(f func(string) string, text string) string {
	if f == nil {
		return text
	}
	return f(text)
}

// Print writes a problem with its source line and a caret under the place.
// src is the text of the problem's file; nil leaves the source line out.
func Print(w io.Writer, p Problem, src []byte, st Style) {
	colour := st.Error
	if p.Severity == Warning {
		colour = st.Warning
	}
	var head strings.Builder
	if s := p.Pos.String(); s != "" {
		fmt.Fprintf(&head, "%s: ", st.apply(st.Place, Visible(s)))
	}
	fmt.Fprintf(&head, "%s: %s", st.apply(colour, p.Severity.String()), VisibleLines(p.Message))
	if p.Code != "" {
		fmt.Fprintf(&head, " [%s]", p.Code)
	}
	st.print(w, head.String(), "  ")
	if line, ok := sourceLine(src, p.Line); ok {
		if st.Hide != nil {
			p.Column, p.EndColumn = hidden(line, p.Column, st.Hide), hidden(line, p.EndColumn, st.Hide)
			line = st.Hide.String(line)
		}
		printLine(w, line, p, st.Width)
	}
	if p.Suggestion != "" {
		st.print(w, "  "+st.apply(st.Hint, VisibleLines(p.Suggestion)), "    ")
	}
}

// print writes the lines of a text, none longer than the terminal is wide.
func (s Style) print(w io.Writer, text, by string) {
	for line := range strings.SplitSeq(text, "\n") {
		if s.Fold != nil {
			line = s.Fold(line, by)
		}
		fmt.Fprintln(w, line)
	}
}

// hidden is where a column of a line stands when what is to be hidden is.
func hidden(line string, column int, h Hider) int {
	at, chars := len(line), 0
	for i := range line {
		if chars++; chars == column {
			at = i
			break
		}
	}
	if column < 1 || at == len(line) && column > chars+1 {
		return column
	}
	return utf8.RuneCountInString(h.String(line)[:h.Place(line, at)]) + 1
}

// maxShown is how many characters of a source line are shown around a place.
const maxShown = 120

func printLine(w io.Writer, line string, p Problem, columns int) {
	most := maxShown
	if columns > 0 {
		most = max(10, min(most, columns-len("    ")))
	}
	chars := []rune(line)
	col := min(max(p.Column, 1), len(chars)+1) - 1
	from := 0
	if len(chars) > most && col > most/2 {
		from = col - most/2
	}
	shown := slices.Clone(chars[from:min(len(chars), from+most)])
	if from > 0 {
		shown[0] = '…'
	}
	if n := len(shown); from+n < len(chars) {
		shown[n-1] = '…'
	}
	width := 1
	if p.EndColumn > p.Column {
		width = min(p.EndColumn-p.Column, max(1, len(shown)-(col-from)))
	}
	var pad strings.Builder
	for _, r := range shown[:min(col-from, len(shown))] {
		if r == '\t' {
			pad.WriteByte('\t')
		} else {
			pad.WriteByte(' ')
		}
	}
	fmt.Fprintf(w, "    %s\n    %s%s\n", clean(shown), pad.String(), strings.Repeat("^", width))
}

// clean replaces characters that would move the cursor.
func clean(rs []rune) string {
	var b strings.Builder
	for _, r := range rs {
		if (r < ' ' && r != '\t') || r == 0x7f || r == utf8.RuneError {
			r = '·'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func sourceLine(src []byte, line int) (string, bool) {
	if line < 1 || len(src) == 0 {
		return "", false
	}
	rest := string(src)
	for i := 1; ; i++ {
		text, more, found := strings.Cut(rest, "\n")
		if i == line {
			return strings.TrimSuffix(text, "\r"), true
		}
		if !found {
			return "", false
		}
		rest = more
	}
}
