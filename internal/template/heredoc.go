package template

import (
	"mvdan.cc/sh/v3/syntax"
	"strings"
)

// redirect rewrites the target, or the here-document.
func (r *rewriter) redirect(rd *syntax.Redirect, code codeReader) {
	if rd.Hdoc == nil {
		if rd.Op == syntax.WordHdoc && code.reads() {
			if _, ok := r.has(rd.Word); ok {
				r.stdinWord(rd.Word, code)
			}
			return
		}
		if m, ok := r.has(rd.Word); ok && rd.Op == syntax.RdrIn && code.reads() {
			r.errorAt(m, "", "would choose the file whose code runs")
		}
		r.word(rd.Word, bareWord)
		return
	}
	if _, ok := r.has(rd.Hdoc); !ok {
		return
	}
	if code.reads() {
		r.hereCode(rd, code)
		return
	}
	r.hereText(rd)
}

// hereText is a here-document that is data. A quoted delimiter becomes a plain
// one, and what was literal because of it is escaped.
func (r *rewriter) hereText(rd *syntax.Redirect) {
	literal := r.literalDelimiter(rd)
	if r.quotedOnly != "" && !r.checking {
		in := inHere
		if literal {
			in = inQuotedHere
		}
		r.farCode("", in, rd.Hdoc)
	}
	if !literal {
		was, wasChecking := r.inHere, r.checking
		r.inHere, r.checking = true, true
		r.word(rd.Hdoc, quoted)
		r.inHere, r.checking = was, wasChecking
		return
	}
	delimiter, ok := plainDelimiter(r.src[span1(rd.Word):int(rd.Word.End().Offset())])
	start, end := span(rd.Hdoc)
	r.within(rd.Hdoc, func(_ int, m mark) {
		if !ok {
			r.errorAt(m, "use a delimiter of letters and digits", "is in a here-document with an unusual delimiter")
			return
		}
		if !r.admit(m, quoted) {
			return
		}
		r.plan.slots[m.slot-1].whole = true
		r.edit(start, m.start, escapeHere(r.src[start:m.start]))
		start = m.end
	})
	r.edit(start, end, escapeHere(r.src[start:end]))
	r.edit(span1(rd.Word), int(rd.Word.End().Offset()), delimiter)
}

// literalDelimiter reports whether the delimiter is quoted, so that the body
// is taken literally.
func (r *rewriter) literalDelimiter(rd *syntax.Redirect) bool {
	return strings.ContainsAny(r.src[span1(rd.Word):int(rd.Word.End().Offset())], `'"\`)
}

func plainDelimiter(src string) (string, bool) {
	s := strings.NewReplacer(`'`, "", `"`, "", `\`, "").Replace(src)
	return s, s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r > 127 || !isNameByte(byte(r)) && !strings.ContainsRune("-.+_", r)
	}) < 0
}

// escapeHere makes text literal in a here-document whose delimiter is plain.
// The $ of a bare value's mark counts how often it is escaped.
func escapeHere(text string) string {
	var b strings.Builder
	inMark := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == 0:
			if inMark {
				b.WriteByte('$')
			}
			inMark = !inMark
			b.WriteByte(0)
		case !inMark && (c == '\\' || c == '$' || c == '`'):
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// backquotes becomes $( ), whose inside needs no second layer of backslashes.
func (r *rewriter) backquotes(c *syntax.CmdSubst, at place) {
	if _, ok := r.has(c); !ok {
		return
	}
	start, end := span(c)
	protects := "$`\\"
	if at == quoted {
		protects += `"`
	}
	in := r.child()
	for i := start + 1; i < end-1; i++ {
		if r.src[i] == '\\' && strings.IndexByte(protects, r.src[i+1]) >= 0 {
			i++
		}
		in.copyByte(r, i)
	}
	r.within(c, func(int, mark) {})
	text, ok := in.finish(r)
	if ok {
		r.edit(start, end, "$("+text+"\n)")
	}
}
