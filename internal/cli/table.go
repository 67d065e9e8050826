package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/bide-dev/bide/internal/event"
	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// table is rows of aligned columns under a heading.
type table struct {
	head  []string
	rows  [][]string
	right map[int]bool // columns of numbers
	flex  int          // the column that gives way where the terminal is narrow
	paint func(column int, cell string) string
}

const gap = "  "

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = visible(c)
	}
	t.rows = append(t.rows, cells)
}

// empty finds the columns that no row has anything in; they are left out.
func (t *table) empty() []bool {
	out := make([]bool, len(t.head))
	for i := range out {
		out[i] = true
		for _, row := range t.rows {
			out[i] = out[i] && row[i] == ""
		}
	}
	return out
}

// print writes the table, no wider than width where that is not 0.
func (t *table) print(w io.Writer, width int) error {
	widths := make([]int, len(t.head))
	empty := t.empty()
	all := append([][]string{t.head}, t.rows...)
	for _, row := range all {
		for i, c := range row {
			if !empty[i] {
				widths[i] = max(widths[i], runewidth.StringWidth(c))
			}
		}
	}
	if width > 0 {
		total := -len(gap)
		for i, n := range widths {
			if !empty[i] {
				total += n + len(gap)
			}
		}
		if over := total - width; over > 0 {
			widths[t.flex] = max(8, widths[t.flex]-over)
		}
	}
	var b strings.Builder
	for n, row := range all {
		for i, c := range row {
			if empty[i] {
				continue
			}
			if runewidth.StringWidth(c) > widths[i] {
				c = cut(c, widths[i])
			}
			pad := strings.Repeat(" ", widths[i]-runewidth.StringWidth(c))
			if n > 0 && t.paint != nil {
				c = t.paint(i, c)
			}
			switch {
			case t.right[i]:
				b.WriteString(pad + c)
			case i == len(row)-1:
				b.WriteString(c)
			default:
				b.WriteString(c + pad)
			}
			if i < len(row)-1 {
				b.WriteString(gap)
			}
		}
		b.WriteByte('\n')
		if b.Len() > 1<<16 {
			if _, err := io.WriteString(w, b.String()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cut shortens a text to n columns.
func cut(s string, n int) string { return runewidth.Truncate(s, n, "…") }

// columns is the width of the terminal behind w; 0 where there is none.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// visible makes a text of unknown origin fit one line of a terminal: control
// characters, which could move the cursor or colour the rest, are shown as
// spaces or escapes.
func visible(s string) string {
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
	return unicode.IsControl(r) || r == '\u202e' || r == '\u2066' || r == '\u2067' || r == '\u2068'
}

// visibleLines is visible for a text of several lines.
func visibleLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = visible(l)
	}
	return strings.Join(lines, "\n")
}

// indent puts a text of several lines under a heading.
func indent(s, by string) string {
	return by + strings.ReplaceAll(visibleLines(s), "\n", "\n"+by)
}

// palette colours words where w gets colours.
type palette bool

func (a *app) palette(w io.Writer) palette { return palette(a.colours(w)) }

func (p palette) sgr(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p palette) bold(s string) string { return p.sgr("1", s) }
func (p palette) dim(s string) string  { return p.sgr("2", s) }

// status colours the status of a run, a step or an item.
func (p palette) status(s string) string {
	if code := statusCode(strings.TrimSpace(s)); code != "" {
		return p.sgr(code, s)
	}
	return s
}

func statusCode(status string) string {
	switch strings.ReplaceAll(status, " ", "_") {
	case event.Succeeded:
		return "32"
	case event.Failed, event.DeadLettered, unreadable:
		return "31"
	case event.Interrupted, event.CompletedWithFailures, event.Degraded:
		return "33"
	case event.Running:
		return "36"
	case event.Skipped, event.Pending:
		return "2"
	}
	return ""
}

// words is a status for a person.
func words(status string) string { return strings.ReplaceAll(status, "_", " ") }
