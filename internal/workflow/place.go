package workflow

import "github.com/bide-dev/bide/internal/diag"

// at gives the place in the file of the byte at offset of a scalar's value, as
// well as the spelling allows: exact in plain, quoted and literal scalars,
// the nearest place in folded ones.
func (n *node) at(offset int) diag.Pos {
	offset = min(max(offset, 0), len(n.text))
	if n.src == nil || len(n.text) == 0 {
		return n.pos
	}
	w := walker{n: n, line: n.pos.Line}
	if n.block {
		w.startBlock()
	} else {
		w.text = n.src.runes(w.line)
		w.col = n.pos.Column - 1
		w.skipOpening()
	}
	return w.walk(n.text[:offset])
}

// walker goes through the source of a scalar beside its value.
type walker struct {
	n         *node
	line, col int // col counts from 0
	indent    int // of a | or > scalar
	text      []rune
	quote     rune
}

// startBlock goes to the first line of a | or > scalar that has text.
func (w *walker) startBlock() {
	for range 10000 {
		w.line++
		w.text = w.n.src.runes(w.line)
		w.col = indentOf(w.text)
		w.indent = w.col
		if w.col < len(w.text) || w.line >= len(w.n.src.lines) {
			return
		}
	}
}

// skipOpening steps over a tag or anchor and the opening quote.
func (w *walker) skipOpening() {
	for w.col < len(w.text) && (w.text[w.col] == '!' || w.text[w.col] == '&') {
		for w.col < len(w.text) && w.text[w.col] != ' ' {
			w.col++
		}
		for w.col < len(w.text) && w.text[w.col] == ' ' {
			w.col++
		}
	}
	if w.n.quoted && w.col < len(w.text) {
		w.quote = w.text[w.col]
		w.col++
	}
}

// nextLine goes to the first character of the next line.
func (w *walker) nextLine() bool {
	if w.line >= len(w.n.src.lines) {
		return false
	}
	w.line++
	w.text = w.n.src.runes(w.line)
	w.col = indentOf(w.text)
	if w.n.block {
		w.col = min(w.col, w.indent) // what is indented further belongs to the text
	}
	return true
}

// walk steps over a part of the value and gives the place behind it.
func (w *walker) walk(part string) diag.Pos {
	for _, r := range part {
		w.continued()
		if w.escaped() { // \n too, which ends no line of the file
			w.step(r)
			continue
		}
		if r == '\n' || (r == ' ' && w.col >= len(w.text)) {
			if !w.nextLine() {
				break
			}
			continue
		}
		if w.col >= len(w.text) && !w.nextLine() {
			break
		}
		w.step(r)
	}
	w.continued()
	return diag.Pos{File: w.n.pos.File, Line: w.line, Column: w.col + 1}
}

// continued steps over the end of a line that continues in the next.
func (w *walker) continued() {
	for w.escaped() && w.col+1 == len(w.text) && w.nextLine() {
	}
}

// escaped reports whether an escape of a double-quoted scalar is next.
func (w *walker) escaped() bool {
	return w.quote == '"' && w.col < len(w.text) && w.text[w.col] == '\\'
}

// step goes over the spelling of one character.
func (w *walker) step(r rune) {
	switch {
	case w.quote == '\'' && r == '\'' && w.col+1 < len(w.text) && w.text[w.col] == '\'':
		w.col += 2
	case w.escaped() && w.col+1 < len(w.text):
		if n, ok := map[rune]int{'x': 4, 'u': 6, 'U': 10}[w.text[w.col+1]]; ok {
			w.col += n
		} else {
			w.col += 2
		}
	default:
		w.col++
	}
	w.col = min(w.col, len(w.text))
}
