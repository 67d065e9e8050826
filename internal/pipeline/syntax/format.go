package syntax

import (
	"bytes"
	"unicode/utf8"
)

const (
	lineWidth = 100 // characters that a line should not go beyond
	indentBy  = "  "
)

// Format prints a file in its canonical form. Each declaration begins on a
// line of its own; what fits on a line of 100 characters is on one, what
// does not is broken at its outermost list or operators; at most one blank
// line is kept between declarations; comments stay where they are; sugar
// ("if c then a else b", "x => e", "List[T]", trailing commas) is written out
// in its plain form.
//
// The result parses to the same tree, and formatting it again changes
// nothing. The source of a file that had errors is returned as it is. It panics
// with an [Unhandled] rather than leave anything out.
func Format(f *File) []byte {
	if f.faulty {
		return bytes.Clone(f.Src)
	}
	p := &printer{f: f, comments: f.Comments}
	for _, d := range f.Decls {
		p.decl(d)
	}
	p.depth = 0
	p.newline()
	p.flush(int32(len(f.Src)) + 1)
	if len(p.out) > 0 && p.out[len(p.out)-1] != '\n' {
		p.out = append(p.out, '\n')
	}
	return p.out
}

// printer writes a tree. Blanks and line ends are not written before the
// next piece of text is known, so that no line ends with a blank and a
// comment can still go behind what was written.
type printer struct {
	f        *File
	out      []byte
	column   int // characters on the current line
	depth    int // of the indentation
	comments []Comment

	pending   bool // a line ends before the next text
	pendingIn int  // the indentation of the line that then begins
	blank     bool // an empty line is before it
	space     bool // a blank is before the next text, if it does not begin a line
	commented bool // the current line ends with a comment

	// flat forbids breaking lines; in "${…}" and when measuring.
	flat bool
	// room is what measuring has left; see fits.
	measuring bool
	room      int
}

// text writes a piece of text.
func (p *printer) text(s string) {
	if p.measuring {
		p.measure(s)
		return
	}
	switch {
	case p.pending:
		p.breakLine()
	case p.space && p.column > 0:
		p.out = append(p.out, ' ')
		p.column++
	}
	p.space = false
	p.out = append(p.out, s...)
	if n := bytes.LastIndexByte([]byte(s), '\n'); n >= 0 {
		p.column = utf8.RuneCountInString(s[n+1:])
	} else {
		p.column += utf8.RuneCountInString(s)
	}
}

// sp asks for a blank before the next text.
func (p *printer) sp() { p.space = true }

// word writes a text with a blank after it.
func (p *printer) word(s string) {
	p.text(s)
	p.sp()
}

// newline asks for a line end before the next text.
func (p *printer) newline() {
	if p.flat {
		p.sp()
		return
	}
	p.pending, p.pendingIn = true, p.depth
}

// breakLine writes the line end that was asked for.
func (p *printer) breakLine() {
	if len(p.out) > 0 {
		p.out = append(p.out, '\n')
		if p.blank {
			p.out = append(p.out, '\n')
		}
		for range p.pendingIn {
			p.out = append(p.out, indentBy...)
		}
		p.column = p.pendingIn * len(indentBy)
	}
	p.pending, p.blank, p.space, p.commented = false, false, false, false
}

// at is called before what begins at an offset: the comments before it are
// written first.
func (p *printer) at(offset int32) {
	if !p.measuring && len(p.comments) > 0 && p.comments[0].Start < offset {
		p.flush(offset)
	}
}

// flush writes the comments before an offset.
func (p *printer) flush(offset int32) {
	for len(p.comments) > 0 && p.comments[0].Start < offset {
		c := p.comments[0]
		p.comments = p.comments[1:]
		wasPending, in := p.pending, p.pendingIn
		switch {
		case wasPending:
		case p.column == 0:
			in = p.depth
		default:
			in = p.depth + 1
		}
		if !c.OwnLine && p.column > 0 && !p.commented {
			p.out = append(append(p.out, ' '), c.Text...)
			p.commented = true
			p.pending, p.pendingIn = true, in
			continue
		}
		p.pending, p.pendingIn = wasPending || p.column > 0, in
		p.blank = in == 0 && wasPending && p.blankBefore(c.Start)
		p.text(c.Text)
		p.commented, p.pending, p.pendingIn = true, true, in
	}
}

// blankBefore reports whether an empty line is before the line of an
// offset, with nothing but blanks before the offset.
func (p *printer) blankBefore(offset int32) bool {
	lines := 0
	for i := offset - 1; i >= 0; i-- {
		switch p.f.Src[i] {
		case '\n':
			if lines++; lines == 2 {
				return true
			}
		case ' ', '\t', '\r':
		default:
			return false
		}
	}
	return false
}

// hasComment reports whether a comment will be written within a node.
func (p *printer) hasComment(end int32) bool {
	return len(p.comments) > 0 && p.comments[0].Start < end
}

// fits reports whether what f prints fits on the current line. end is the
// offset where it ends in the source.
func (p *printer) fits(end int32, f func(*printer)) bool {
	if p.flat {
		return true
	}
	if p.hasComment(end) {
		return false
	}
	column := p.column
	if p.pending {
		column = p.pendingIn * len(indentBy)
	} else if p.space {
		column++
	}
	m := printer{f: p.f, flat: true, measuring: true, room: lineWidth - column}
	f(&m)
	return m.room >= 0
}

// measure takes the width of a text from the room left.
func (p *printer) measure(s string) {
	if p.space {
		p.room--
		p.space = false
	}
	// A string of several lines fits if its first line does.
	if n := bytes.IndexByte([]byte(s), '\n'); n >= 0 {
		s = s[:n]
	}
	p.room -= utf8.RuneCountInString(s)
}

// full reports whether measuring may stop.
func (p *printer) full() bool { return p.measuring && p.room < 0 }

// nest writes with one more indentation.
func (p *printer) nest(f func()) {
	p.depth++
	f()
	p.depth--
}

// list writes items between brackets: on one line if they fit, else each on
// a line of its own. open and end are the offsets of the opening bracket and
// after the closing one; pad says that blanks are inside the brackets when
// they are on one line.
func (p *printer) list(open, closer string, end int32, pad bool, n int, item func(p *printer, i int)) {
	flat := func(q *printer) {
		q.text(open)
		q.space = pad && n > 0
		for i := 0; i < n && !q.full(); i++ {
			if i > 0 {
				q.word(",")
			}
			item(q, i)
		}
		q.space = pad && n > 0
		q.text(closer)
	}
	if p.fits(end, flat) {
		flat(p)
		return
	}
	p.text(open)
	p.nest(func() {
		for i := range n {
			if i > 0 {
				p.text(",")
			}
			p.newline()
			item(p, i)
		}
		p.at(end - 1)
	})
	p.newline()
	p.text(closer)
}

func (p *printer) decl(d Decl) {
	s := d.Extent()
	p.depth = 0
	p.newline()
	p.flush(s.Start)
	p.pendingIn = 0
	p.blank = p.blankBefore(s.Start)
	p.breakLine()
	switch d := d.(type) {
	case *TypeDecl:
		p.word("type")
		p.name(d.Name)
		p.sp()
		p.word("=")
		p.typ(d.Type)
	case *InDecl:
		p.annotations(d.Annotations)
		p.word("in")
		p.name(d.Name)
		p.word(":")
		p.typ(d.Type)
		if d.Default != nil {
			p.sp()
			p.word("=")
			p.expr(d.Default)
		}
	case *OutDecl:
		p.annotations(d.Annotations)
		p.word("out")
		if d.Name != nil {
			p.name(*d.Name)
			p.sp()
			p.word("=")
		}
		p.expr(d.Value)
	case *UseDecl:
		p.word("use")
		p.qname(d.Path)
		if d.Alias != nil {
			p.sp()
			p.word("as")
			p.name(*d.Alias)
		}
	case *AssignDecl:
		p.name(d.Name)
		p.sp()
		p.word("=")
		p.expr(d.Value)
	case *PolicyDecl:
		p.word("policy")
		p.name(d.Name)
		p.sp()
		p.text("=")
		p.optionList(d.Options)
	default:
		panic(&Unhandled{"the formatter", d})
	}
}

func (p *printer) name(id Ident) {
	p.at(id.Start)
	p.text(id.Name)
}

func (p *printer) qname(q QName) {
	p.at(q.Start)
	p.text(q.String())
}

func (p *printer) annotations(list []*Annotation) {
	for _, a := range list {
		p.at(a.Start)
		switch {
		case a.Kind == Example:
			p.list("@"+a.Name.Name+"(", ")", a.End, false, 1, func(p *printer, _ int) { p.expr(a.Value) })
		default:
			p.list("@"+a.Name.Name+"(", ")", a.End, false, len(a.Args)+1, func(p *printer, i int) {
				if i == 0 {
					p.text(`"` + a.Connector + `"`)
					return
				}
				p.field(a.Args[i-1])
			})
		}
		p.depth = 0
		p.newline()
	}
}
