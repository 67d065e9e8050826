package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
)

// table is rows of aligned columns under a heading.
type table struct {
	head  []string
	rows  [][]string
	right map[int]bool // columns of numbers
	flex  int          // the first column to become narrower on a narrow terminal
	also  []int        // then these become narrower
	drop  []int        // then these are left out, one after the other
	last  []int        // then these become narrower
	spare []int        // then these are left out
	block bool         // a row is a block of lines where flex and also are not enough, and on a terminal below narrowWidth where a cell would be cut
	most  map[int]int  // the width above which a cell of a column is cut, but not in a block
	keep  map[int]int  // the width that columns keep until nothing else can become narrower
	paint func(column int, cell string) string
}

const gap = "  "

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = visible(c)
	}
	t.rows = append(t.rows, cells)
}

// empty finds the columns that have no value in any row; they are left out.
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

// fit makes columns narrower until the table fits, the least important first. It is false if
// the rows are to be blocks.
func (t *table) fit(widths []int, empty []bool, width int) bool {
	over := func() int {
		total := -len(gap)
		for i, n := range widths {
			if !empty[i] {
				total += n + len(gap)
			}
		}
		return total - width
	}
	if t.block && width < narrowWidth {
		return over() <= 0 && !t.cuts(empty)
	}
	give := append([]int{t.flex}, t.also...)
	natural, keep := slices.Clone(widths), t.keep
	narrow := func(least int) bool {
		copy(widths, natural)
		for _, column := range give {
			if n := over(); n > 0 && !empty[column] {
				widths[column] = max(min(max(least, keep[column]), widths[column]), widths[column]-n)
			}
		}
		return over() <= 0
	}
	for _, column := range t.drop {
		if narrow(13) {
			return true
		}
		empty[column] = true
	}
	if narrow(13) || t.block {
		return over() <= 0
	}
	give = append(give, t.last...)
	if narrow(8) {
		return true
	}
	for _, column := range t.spare {
		if empty[column] = true; narrow(8) {
			return true
		}
	}
	give, keep = slices.Concat(t.last, []int{t.flex}, t.also), nil
	narrow(8)
	return true
}

// cuts reports whether a cell is wider than its column may be.
func (t *table) cuts(empty []bool) bool {
	for column, most := range t.most {
		if !empty[column] && slices.ContainsFunc(t.rows, func(row []string) bool { return widthOf(row[column]) > most }) {
			return true
		}
	}
	return false
}

// blocks writes each row as lines: the first cell, and below it the others with their
// headings, folded. Of a table of two columns, the two cells stand in one line.
func (t *table) blocks(w io.Writer, empty []bool, width int) error {
	var b strings.Builder
	if len(t.head) == 2 && t.head[0] != "" {
		b.WriteString(fold(t.head[0]+": "+t.head[1], width, gap) + "\n")
	}
	for _, row := range t.rows {
		if len(row) == 2 {
			b.WriteString(fold(row[0]+": "+row[1], width, gap) + "\n")
			continue
		}
		b.WriteString(fold(row[0], width, gap) + "\n")
		for i, c := range row {
			if i > 0 && !empty[i] && c != "" {
				head := t.head[i]
				if strings.ToUpper(head) == head { // else it is a name, and not a word of ours
					head = strings.ToLower(head)
				}
				if t.paint != nil {
					c = t.paint(i, c)
				}
				b.WriteString(fold(gap+head+": "+c, width, gap+gap) + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// print writes the table, at most width columns wide unless width is 0.
func (t *table) print(w io.Writer, width int) error {
	widths := make([]int, len(t.head))
	empty := t.empty()
	all := append([][]string{t.head}, t.rows...)
	for _, row := range all {
		for i, c := range row {
			if !empty[i] {
				widths[i] = max(widths[i], widthOf(c))
			}
		}
	}
	for i, most := range t.most {
		widths[i] = min(widths[i], most)
	}
	if width > 0 && !t.fit(widths, empty, width) {
		return t.blocks(w, t.empty(), width)
	}
	end := len(empty) - 1
	for end > 0 && empty[end] {
		end--
	}
	var b strings.Builder
	for n, row := range all {
		for i, c := range row {
			if empty[i] {
				continue
			}
			if widthOf(c) > widths[i] {
				c = cut(c, widths[i])
			}
			pad := strings.Repeat(" ", widths[i]-widthOf(c))
			if n > 0 && t.paint != nil {
				c = t.paint(i, c)
			}
			switch {
			case t.right[i]:
				b.WriteString(pad + c)
			case i == end:
				b.WriteString(c)
			default:
				b.WriteString(c + pad)
			}
			if i < end {
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

// columns is the width of the terminal behind w. If there is no terminal, or it does not know
// its width, COLUMNS decides; 0 means no limit.
func (s *streams) columns(w io.Writer) int {
	if s.width > 0 {
		return s.width
	}
	width, _ := terminalSize(w)
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); width == 0 && err == nil {
		return max(n, 0)
	}
	return width
}

// narrowWidth is the width of a terminal, in columns, below which unnecessary words are left
// out.
const narrowWidth = 60

// hint writes what a person can do next. It never breaks a command, so that it can be copied:
// a command that is too long gets the next line.
func hint(w io.Writer, width int, what, command string) { hintAt(w, width, "  ", what, command) }

// hintAt is like hint, with another indentation.
func hintAt(w io.Writer, width int, by, what, command string) {
	between := " "
	if width > 0 && len(by)+len(": ")+widthOf(what)+widthOf(command) > width {
		between = "\n" + by + "  "
	}
	fmt.Fprintf(w, "%s%s:%s%s\n", by, what, between, command)
}

// visible makes a text of unknown origin safe for one line of a terminal.
func visible(s string) string { return diag.Visible(s) }

// visibleLines is visible for a text of several lines.
func visibleLines(s string) string {
	return diag.VisibleLines(strings.TrimRight(s, "\n"))
}

// indent indents a text of several lines.
func indent(s, by string) string {
	return by + strings.ReplaceAll(visibleLines(s), "\n", "\n"+by)
}

// parts are the parts of a line.
type parts []string

// add adds a part if say is true.
func (p *parts) add(say bool, format string, args ...any) {
	if say {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// palette colours words if it is true.
type palette bool

func (s *streams) palette(w io.Writer) palette { return palette(s.colours(w)) }

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
	case strings.ReplaceAll(notMerged, " ", "_"), event.Interrupted, event.CompletedWithFailures, event.Degraded, event.Recovered, event.Tolerated, event.Incomplete:
		return "33"
	case event.Running:
		return "36"
	case event.Skipped, event.Unchanged, event.Pending:
		return "2"
	}
	return ""
}

// words is a status for a person.
func words(status string) string { return strings.ReplaceAll(status, "_", " ") }
