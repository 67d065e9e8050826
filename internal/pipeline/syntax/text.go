package syntax

import (
	"strings"
	"unicode/utf8"
)

// stringEnd is the end of a string's text: before its closing quote, if it
// has one.
func (p *parser) stringEnd(t *token) int32 {
	if t.end-t.start >= 2 && (p.src[t.end-1] == '"' || p.src[t.start] == '\'' || p.src[t.start] == '`') {
		return t.end - 1
	}
	return t.end
}

// closed reports whether a string has its second quote; one that has not is
// known to be wrong.
func (p *parser) closed(t *token) bool {
	return t.kind != tString || t.end-t.start >= 2 && p.src[t.end-1] == '"'
}

// rawString is the text between the quotes, without looking at escapes.
func rawString(s string) string {
	s = s[1:]
	return strings.TrimSuffix(s, `"`)
}

// unescape gives the value of a piece of a string.
func (p *parser) unescape(start, end int32) string {
	s := p.src[start:end]
	n := strings.IndexByte(s, '\\')
	if n < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; n >= 0; n = strings.IndexByte(s, '\\') {
		b.WriteString(s[:n])
		s = s[n+1:]
		if s == "" {
			break
		}
		c := s[0]
		switch c {
		case 'n':
			c = '\n'
		case 't':
			c = '\t'
		case 'r':
			c = '\r'
		case '\\', '"', '$':
		default:
			p.badEscape(end - int32(len(s)))
			c = 0
		}
		if c != 0 {
			b.WriteByte(c)
			s = s[1:]
		}
	}
	b.WriteString(s)
	return b.String()
}

// badEscape reports the escape whose second character is at an offset.
func (p *parser) badEscape(at int32) {
	_, n := utf8.DecodeRuneInString(p.src[at:])
	s := Span{at - 1, at + int32(n)}
	p.errorAt(s, CodeString, "unknown escape %s", quote(p.f.Text(s))).
		Suggest(`the escapes are \n \t \r \\ \" \$; write \\ for a backslash`)
}

// interpolation reads a string with "${…}".
func (p *parser) interpolation() Expr {
	t := p.take()
	e := &Interpolation{}
	outer := p.ctx
	p.ctx = ctxTop
	defer func() { p.ctx = outer }()
	start := t.start
	p.textPart(e, t.start+1, t.end-2)
	for {
		if k := p.kind(); k == tStrMid || k == tStrTail {
			p.errorAt(Span{p.tok().start, p.tok().end}, CodeString, `there is nothing in "${}"`).
				Suggest(`write an expression, or \$ for a dollar sign`)
		} else {
			x := p.expr()
			e.Parts = append(e.Parts, StringPart{Span: x.Extent(), X: x})
			p.holeEnd()
		}
		t = p.tok()
		switch t.kind {
		case tStrMid:
			p.take()
			p.textPart(e, t.start+1, t.end-2)
			continue
		case tStrTail:
			p.take()
			p.textPart(e, min(t.start+1, t.end), p.stringEnd(t))
		}
		e.Span = p.from(start)
		return e
	}
}

// holeEnd goes to the end of a "${…}"; what is before it is an error.
func (p *parser) holeEnd() {
	switch p.kind() {
	case tEOF, tStrMid, tStrTail:
		return
	}
	if t := p.tok(); t.kind != tString && t.kind != tStrHead || p.closed(t) {
		p.unexpected(`"}" or an operator`)
	}
	for {
		switch t := p.tok(); t.kind {
		case tEOF, tStrMid, tStrTail:
			return
		default:
			p.skipBracket(t)
		}
	}
}

// textPart adds a piece of text, if there is any.
func (p *parser) textPart(e *Interpolation, start, end int32) {
	if start < end {
		e.Parts = append(e.Parts, StringPart{Span: Span{start, end}, Text: p.unescape(start, end)})
	}
}
