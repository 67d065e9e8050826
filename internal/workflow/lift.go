package workflow

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Change is a change of several lines, which writes an older form in the present
// one.
type Change struct {
	Rewrite
	last int      // line that goes; the first is that of the rewrite
	with []string // what is there then
}

// Changes lists changes of several lines, the last of the file first. No two of
// them share a line: what is around another one comes when the file is read
// again.
func (m *Migration) Changes() []Change {
	list := slices.Clone(m.changes)
	slices.SortStableFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Line, a.Line), cmp.Compare(b.column, a.column))
	})
	out, from := list[:0], math.MaxInt
	for _, c := range list {
		if c.last < from {
			out, from = append(out, c), c.Line
		}
	}
	return out
}

// WithChanges is a text with changes, which come as [Migration.Changes] has them:
// those that are left out may have come before.
func WithChanges(text []byte, list []Change) []byte {
	lines := strings.Split(string(text), "\n")
	for _, c := range list {
		with := slices.Clone(c.with)
		for i := range with {
			if strings.HasSuffix(lines[c.Line-1], "\r") {
				with[i] += "\r"
			}
		}
		lines = slices.Replace(lines, c.Line-1, c.last, with...)
	}
	return []byte(strings.Join(lines, "\n"))
}

// lift is a key of a map that goes: what stood below it is beside it.
type lift struct {
	key, val *node
	head     string // what stands in the place of the key; "" for nothing
	// pairs are what moves. The text of a key is its name from then on, its place
	// that of the key which is written.
	pairs []pair
	as    map[*node]string // values that are written otherwise; nil: none
}

// lift notes a lift, or that the form stays where it cannot be written so.
func (m *Migration) lift(l lift, what, present string) {
	if m == nil || l.key.src != m.src {
		return
	}
	last, lines, ok := l.lines(m.src)
	if !ok {
		m.leave(l.key, what, present)
		return
	}
	m.change(l.key, what, present, last, lines)
}

func (m *Migration) change(n *node, what, present string, last int, with []string) {
	m.changes = append(m.changes, Change{
		Rewrite: Rewrite{Line: n.pos.Line, From: what, To: present, column: n.pos.Column},
		last:    last, with: with,
	})
}

// lines are what is in the place of the key, to the last line of its value; ok
// is false where it is written in a way that is not known here.
func (l lift) lines(src *source) (last int, out []string, ok bool) {
	at := l.key.pos.Line
	line := []rune(src.line(at))
	if l.key.end-1 > len(line) || !l.moves() {
		return 0, nil, false
	}
	lead, rest := string(line[:l.key.pos.Column-1]), string(line[l.key.end-1:])
	value, isKey := strings.CutPrefix(strings.TrimLeft(rest, " "), ":")
	if !isKey {
		return 0, nil, false
	}
	last = at
	switch alone := strings.Trim(lead, " -") == ""; {
	case l.val.pos.Line > at || l.below():
		if out, last, ok = l.block(src, lead, value); !ok || !alone {
			return 0, nil, false
		}
	default:
		to, found := flowEnd(line, l.key.end-1)
		texts, known := l.flow(src)
		if !found || !known {
			return 0, nil, false
		}
		if !alone {
			out = []string{lead + strings.Join(texts, ", ") + string(line[to:])}
			break
		}
		if len(texts) == 0 || !isComment(string(line[to:])) {
			return 0, nil, false
		}
		out = []string{lead + texts[0] + string(line[to:])}
		for _, t := range texts[1:] {
			out = append(out, blanks(lead)+t)
		}
	}
	return last, out, true
}

// moves reports whether everything that moves is written in this file, once.
func (l lift) moves() bool {
	return !slices.ContainsFunc(l.pairs, func(p pair) bool {
		return p.key.src != l.key.src || p.val.src != l.key.src || p.key.pos.Line < l.key.pos.Line || p.key.end == 0
	})
}

// below reports whether the value begins below its key, although it may have a tag
// beside it.
func (l lift) below() bool {
	return slices.ContainsFunc(l.pairs, func(p pair) bool { return p.key.pos.Line > l.key.pos.Line })
}

// flow gives what is in the place of a key whose value is in brackets.
func (l lift) flow(src *source) (texts []string, ok bool) {
	if l.head != "" {
		texts = append(texts, l.head)
	}
	for _, p := range l.pairs {
		t, ok := l.written(src, p.val, l.key.pos.Line)
		if !ok {
			return nil, false
		}
		texts = append(texts, p.key.text+": "+t)
	}
	return texts, true
}

// written is how a value is written that is on one line.
func (l lift) written(src *source, n *node, line int) (string, bool) {
	if text, ok := l.as[n]; ok {
		return text, true
	}
	if n.pos.Line != line {
		return "", false
	}
	chars := src.runes(line)
	from, to := n.pos.Column-1, n.end-1
	if !n.scalar() {
		var ok bool
		if to, ok = flowEnd(chars, from); !ok {
			return "", false
		}
	}
	if from < 0 || to < from || to > len(chars) || n.tag != "" {
		return "", false
	}
	text := string(chars[from:to])
	if n.scalar() && strings.Trim(text, `"'`) != n.text {
		return "", false
	}
	return text, true
}

// flowEnd is where the brackets end that open first at or after a place of a line.
func flowEnd(line []rune, from int) (end int, ok bool) {
	depth, quote := 0, rune(0)
	for i := from; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

// block gives what is in the place of a key whose value is below it, and
// the last line of that.
func (l lift) block(src *source, lead, value string) (out []string, last int, ok bool) {
	last = l.end(src)
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "!") { // the tag is in the head
		_, value, _ = strings.Cut(value, " ")
		value = strings.TrimSpace(value)
	}
	if !isComment(value) {
		return nil, 0, false
	}
	switch indent := blanks(lead); {
	case l.head != "":
		if value != "" {
			value = " " + value
		}
		out, lead = append(out, lead+l.head+value), indent
	case value != "":
		out = append(out, indent+value)
	}
	starts, gone := l.keys()
	shift := 0
	if len(l.pairs) > 0 {
		shift = l.pairs[0].key.pos.Column - l.key.pos.Column
	}
	for n := l.key.pos.Line + 1; n <= last; n++ {
		line := src.runes(n)
		if g, is := gone[n]; is {
			texts, comment, known := l.leftOf(src, g, n)
			if !known {
				return nil, 0, false
			}
			switch {
			case comment != "" && len(texts) > 0:
				texts[0] += " " + comment
			case comment != "":
				out = append(out, blanks(lead)+comment)
			}
			for _, t := range texts {
				out, lead = append(out, lead+t), blanks(lead)
			}
			continue
		}
		p, begins := starts[n]
		if !begins {
			out = append(out, string(line[min(shift, indentOf(line)):]))
			continue
		}
		shift = p.key.pos.Column - l.key.pos.Column
		if indentOf(line) != p.key.pos.Column-1 || shift < 0 {
			return nil, 0, false
		}
		rest := string(line[p.key.end-1:])
		if text, ok := l.as[p.val]; ok {
			rest = ": " + text + string(line[p.val.end-1:])
		}
		out, lead = append(out, lead+p.key.text+rest), blanks(lead)
	}
	return out, last, true
}

// keys gives the lines on which what moves begins, and those whose own key goes.
func (l lift) keys() (starts map[int]pair, gone map[int]*node) {
	starts, gone = map[int]pair{}, map[int]*node{}
	for _, p := range l.pairs {
		starts[p.key.pos.Line] = p
	}
	for _, p := range l.val.pairs {
		k := p.key
		if s, moved := starts[k.pos.Line]; moved && s.key.pos == k.pos {
			continue
		}
		gone[k.pos.Line] = k
		delete(starts, k.pos.Line)
	}
	return starts, gone
}

// leftOf gives what of a line stays whose own key goes: what moves out of its
// brackets, and its comment.
func (l lift) leftOf(src *source, key *node, n int) (texts []string, comment string, ok bool) {
	line := src.runes(n)
	to := key.end - 1
	if indentOf(line) != key.pos.Column-1 {
		return nil, "", false
	}
	inside := false
	for _, p := range l.pairs {
		if p.key.pos.Line == n {
			t, ok := l.written(src, p.val, n)
			if !ok {
				return nil, "", false
			}
			texts, inside = append(texts, p.key.text+": "+t), true
		}
	}
	if val := l.val.get(key.text); inside || val != nil && !val.scalar() && val.pos.Line == n && l.val != val {
		if to, ok = flowEnd(line, to); !ok {
			return nil, "", false
		}
	} else if val != nil && val.scalar() && val.kind != nullNode {
		if val.pos.Line != n || val.end == 0 || val.end-1 > len(line) {
			return nil, "", false
		}
		to = val.end - 1
	}
	comment = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(line[to:])), ":"))
	return texts, comment, isComment(comment)
}

// end is the last line of what is below the key.
func (l lift) end(src *source) int {
	last := l.key.pos.Line
	for n := last + 1; n <= strings.Count(string(src.text), "\n")+1; n++ {
		line := src.runes(n)
		text := strings.TrimSpace(string(line))
		switch deeper := indentOf(line) >= l.key.pos.Column; {
		case text == "":
		case deeper:
			last = n
		case !strings.HasPrefix(text, "#"):
			return last
		}
	}
	return last
}

func isComment(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.HasPrefix(text, "#")
}

func indentOf(line []rune) int {
	n := 0
	for n < len(line) && line[n] == ' ' {
		n++
	}
	return n
}

// blanks are as many as the characters of a text.
func blanks(text string) string { return strings.Repeat(" ", len([]rune(text))) }

// liftInto has what is in a map inside a step written as keys of the step, some
// by other names.
func (d *decoder) liftInto(step *object, key string, n *node, names map[string]string, what, present string) {
	if d.migration == nil {
		return
	}
	l := lift{key: step.keyNode(key), val: n}
	for _, p := range n.pairs {
		k := *p.key
		if name, ok := names[k.text]; ok {
			k.text = name
		}
		if n, err := strconv.Atoi(p.val.text); err == nil && p.key.text == "retries" && d.migration.own(p.val) {
			l.as = map[*node]string{p.val: strconv.Itoa(n + 1)} // it counts all attempts
		}
		if k.text != key && step.has(k.text) {
			d.migration.leave(n, what, present)
			return
		}
		l.pairs = append(l.pairs, pair{&k, p.val})
	}
	d.migration.lift(l, what, present)
}

// unwrap has a workflow that stands one level deeper written at the top level.
func (m *Migration) unwrap(tree *node) {
	if unwrapped(tree) == tree {
		return
	}
	var shape fileShape
	fileTable.look(tree, &shape)
	inner := shape.wrapped.val
	l := lift{val: inner, pairs: inner.pairs}
	mixed := false
	for _, p := range tree.pairs {
		if p.val == inner {
			l.key = p.key
		} else if inner.get(p.key.text) != nil {
			mixed = true
		}
	}
	switch what, present := "the whole workflow is under workflow:", "its keys at the top level"; {
	case inner.kind == listNode:
		m.replace(l.key, "commands")
	case mixed:
		m.leave(inner, what, present)
	default:
		m.lift(l, what, present)
	}
}

// liftPrompt has a prompt by its name, which has args or other keys beside it,
// written as an action.
func (m *Migration) liftPrompt(name, words written, inputs bool, text string) {
	key, n := name.key, name.val
	what, present := "a prompt by its name", "claude: "+short(text)
	if m == nil {
		return
	}
	if !m.own(n) || inputs || !m.own(key) || key.pos.Line != n.pos.Line {
		m.leave(n, what, present)
		return
	}
	line := m.src.runes(n.pos.Line)
	with := []string{string(line[:key.pos.Column-1]) + "claude: '" + strings.ReplaceAll(text, "'", "''") + "'" + string(line[n.end-1:])}
	last := n.pos.Line
	if args := words.val; args != nil {
		comment, ok := m.alone(words.key, args)
		if !ok || args.pos.Line <= last {
			m.leave(n, what, present)
			return
		}
		for last++; last < args.pos.Line; last++ {
			with = append(with, m.src.line(last))
		}
		with = append(with, comment...)
	}
	m.change(key, what, present, last, with)
}

// alone gives what stays of a line that has nothing but a key and its value: its
// comment, if there is one.
func (m *Migration) alone(key, val *node) (comment []string, ok bool) {
	line := m.src.runes(key.pos.Line)
	end := val.end - 1
	if !val.scalar() {
		end, ok = flowEnd(line, key.end-1)
	} else {
		ok = m.own(val)
	}
	if !ok || val.pos.Line != key.pos.Line || indentOf(line) != key.pos.Column-1 || !isComment(string(line[end:])) {
		return nil, false
	}
	if text := strings.TrimSpace(string(line[end:])); text != "" {
		comment = []string{string(line[:key.pos.Column-1]) + text}
	}
	return comment, true
}
