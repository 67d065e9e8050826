package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Migration is what of a file is written in an older spelling: the changes that
// write it in the present one, and what is left as it is, which continues to work.
// It is filled by [Load] and [Parse].
type Migration struct {
	src     *source
	done    []Rewrite
	left    []Rewrite
	changes []Change
}

// Rewrite is one place of a file: what is there, and what is to be there.
type Rewrite struct {
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"` // of an expression, in characters from 1
	From   string `json:"from"`
	To     string `json:"to"`

	column, end int // of From, in characters; end is behind it
}

// Done lists the changes, in the order of the file.
func (m *Migration) Done() []Rewrite { return sorted(m.done) }

// Left lists what has an older form that is not rewritten.
func (m *Migration) Left() []Rewrite { return sorted(m.left) }

// sorted orders places, each once: a value may be read several times.
func sorted(list []Rewrite) []Rewrite {
	list = append([]Rewrite{}, list...)
	slices.SortFunc(list, func(a, b Rewrite) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.column, b.column), strings.Compare(a.To, b.To))
	})
	return slices.Compact(list)
}

// Text is the file in the present spelling. Comments and layout are as they were.
func (m *Migration) Text() []byte {
	if m.src == nil {
		return nil
	}
	lines := strings.Split(string(m.src.text), "\n")
	done := m.Done()
	for i := len(done) - 1; i >= 0; i-- { // from the end: the columns before stay
		r := done[i]
		line := []rune(lines[r.Line-1])
		lines[r.Line-1] = string(line[:r.column-1]) + r.To + string(line[r.end-1:])
	}
	return []byte(strings.Join(lines, "\n"))
}

// replace has another text stand in the place of a scalar, or of a key. Nothing
// happens where the node does not stand so in the file that is read.
func (m *Migration) replace(n *node, to string) {
	if m == nil || n == nil || n.text == to || !m.own(n) {
		return
	}
	column, end := n.pos.Column, n.end
	if line := m.src.runes(n.pos.Line); strings.ContainsRune(`"'`, line[column-1]) { // the quotes stay
		column, end = column+1, end-1
	}
	m.done = append(m.done, Rewrite{Line: n.pos.Line, From: n.text, To: to, column: column, end: end})
}

// own reports whether a node is in the file as it is written, on one line: it
// may be of another file, be computed, or have come from an older form.
func (m *Migration) own(n *node) bool {
	if n.src != m.src || n.end <= n.pos.Column || n.pos.Line < 1 {
		return false
	}
	line := m.src.runes(n.pos.Line)
	if n.end-1 > len(line) {
		return false
	}
	return strings.Trim(string(line[n.pos.Column-1:n.end-1]), `"'`) == n.text
}

// prompt makes a step of a text that is a prompt.
func (m *Migration) prompt(n *node) {
	if m == nil || !m.own(n) {
		return
	}
	line := m.src.runes(n.pos.Line)
	if strings.Trim(string(line[:n.pos.Column-1]), "- ") != "" { // a list in brackets, or no list
		m.leave(n, "a prompt that is nothing but a text", "claude: "+short(slashed(n.text)))
		return
	}
	written := string(line[n.pos.Column-1 : n.end-1])
	text := strings.TrimLeft(written, `"'`)
	quote := strings.TrimSuffix(written, text)
	if !strings.HasPrefix(strings.TrimSpace(n.text), "/") {
		text = "/" + strings.TrimLeft(text, " ")
	}
	m.done = append(m.done, Rewrite{Line: n.pos.Line, From: written, To: "claude: " + quote + text, column: n.pos.Column, end: n.end})
}

// leave tells of an older form that stays, and how it would be written.
func (m *Migration) leave(n *node, what, present string) {
	if m == nil || n == nil || n.src != m.src || n.pos.Line < 1 {
		return
	}
	m.left = append(m.left, Rewrite{Line: n.pos.Line, From: what, To: present, column: n.pos.Column})
}

// noteOlder takes an older spelling of a key, unless the present one stands
// beside it.
func (d *decoder) noteOlder(o *object, key *node) {
	if d.migration == nil {
		return
	}
	f, ok := o.field(key.text)
	switch {
	case !ok:
	case f.as != "" && !o.has(f.as):
		d.migration.replace(key, f.as)
	case f.inert != "":
		d.migration.leave(key, fmt.Sprintf("%s has no effect: %s", key.text, f.inert), "nothing; the key can go")
	default:
		d.inUnits(o, key)
	}
}

// inUnits writes a span of time whose key has the unit as a span with its unit.
func (d *decoder) inUnits(o *object, key *node) {
	for suffix, unit := range map[string]string{"_ms": "ms", "_secs": "s"} {
		name, ok := strings.CutSuffix(key.text, suffix)
		if !ok || o.has(name) {
			continue
		}
		if f, known := o.field(name); !known || f.as != "" {
			continue
		}
		val := o.peek(key.text)
		if _, err := strconv.Atoi(val.text); val.kind == intNode && err == nil && d.migration.own(val) {
			d.migration.replace(key, name)
			d.migration.replace(val, val.text+unit)
		}
	}
}
