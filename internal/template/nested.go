package template

import (
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"mvdan.cc/sh/v3/syntax"
)

// code rewrites a word that is shell code.
func (r *rewriter) code(w *syntax.Word, remote bool, of string) {
	m, ok := r.has(w)
	if !ok {
		r.word(w, bareWords)
		return
	}
	if r.twice(m) {
		return
	}
	if remote {
		was, wasChecking := r.quotedOnly, r.checking
		r.quotedOnly = of
		r.farCode("", inWord, w)
		r.checking = true
		r.word(w, bareWords)
		r.quotedOnly, r.checking = was, wasChecking
		return
	}
	r.coded = true
	in := r.child()
	before := len(r.edits)
	for _, p := range w.Parts {
		in.addPart(r, p, inWord)
	}
	r.within(w, func(int, mark) {})
	r.edits = r.edits[:before]
	text, ok := in.finish(r)
	if !ok {
		return
	}
	if r.err == nil && strings.Contains(r.src[span1(w):int(w.End().Offset())], opaqueMark) {
		r.errorAt(m, "", "is in code that holds a control character")
	}
	start, end := span(w)
	r.edit(start, end, in.requote(text))
}

// twice refuses data that would be parsed as code more than once: |sh quotes
// it for one shell.
func (r *rewriter) twice(m mark) bool {
	if r.quotedOnly == "" && !r.bareOnly {
		return false
	}
	r.errorAt(m, "hand it over as an argument of the inner code", "becomes code of a shell inside a shell, and |sh quotes for one of them")
	return true
}

// farCode looks at a word, or a here-document's body, as code of a shell that
// does not see our variables: each |sh value must be a word of its own there.
func (r *rewriter) farCode(prefix string, in context, w *syntax.Word) {
	m, _ := r.has(w)
	c := &codeText{buf: []byte(prefix)}
	before, was := len(r.edits), r.checking
	r.checking = true
	for _, p := range w.Parts {
		c.addPart(r, p, in)
	}
	r.edits, r.checking = r.edits[:before], was
	f, err := parseShell(string(c.buf))
	if err != nil {
		r.errorAt(m, "mend it, or use |raw if what you write is meant to become code", "is in code that is not valid shell: %v", err)
		return
	}
	look := &rewriter{plan: r.plan, src: string(c.buf), marks: c.marks, seen: make([]bool, len(c.marks)), depth: r.depth + 1, bareOnly: true}
	look.file(f)
	if r.err == nil {
		r.err = look.err
	}
}

// stdinWord is a here-string that a shell runs.
func (r *rewriter) stdinWord(w *syntax.Word, code codeReader) {
	if code.language != "" {
		was := r.foreign
		r.foreign = code.language
		r.word(w, bareWord)
		r.foreign = was
		return
	}
	r.code(w, code.remote, code.shell)
}

// hereCode is a here-document that a shell or another interpreter runs.
func (r *rewriter) hereCode(rd *syntax.Redirect, code codeReader) {
	if m, ok := r.has(rd.Hdoc); ok && r.twice(m) {
		return
	}
	if code.language != "" || code.remote {
		wasShell, wasForeign := r.quotedOnly, r.foreign
		if r.foreign = code.language; code.shell != "" {
			r.quotedOnly = code.shell
		}
		r.hereText(rd)
		r.quotedOnly, r.foreign = wasShell, wasForeign
		return
	}
	in := r.child()
	start, end := span(rd.Hdoc)
	before := len(r.edits)
	literal := r.literalDelimiter(rd)
	if literal {
		for i := start; i < end; i++ {
			in.copyByte(r, i)
		}
	} else {
		for _, p := range rd.Hdoc.Parts {
			in.addPart(r, p, inHere)
		}
	}
	r.within(rd.Hdoc, func(int, mark) {})
	r.edits = r.edits[:before]
	text, ok := in.finish(r)
	if !ok {
		return
	}
	if !literal {
		pieces := in.pieces(text)
		for i := range pieces {
			if i%2 == 0 {
				pieces[i] = escapeHere(pieces[i])
			}
		}
		text = strings.Join(pieces, "")
	}
	r.edit(start, end, text)
}

// codeText is code inside a word: what the inner shell will read, where our
// values are in it, and expansions of the outer shell, whose text we cannot
// know and which stand as marks of their own.
type codeText struct {
	buf    []byte
	marks  []mark
	opaque []opaque
}

type opaque struct {
	src   string
	quote bool
}

const opaqueMark = "\x01"

// context is where a piece of code is in the outer source.
type context uint8

const (
	inWord context = iota
	inDouble
	inHere
	inQuotedHere
)

// protected are the bytes before which a backslash is not itself.
func (c context) protected() string {
	if c == inDouble {
		return "$`\"\\\n"
	}
	return "$`\\\n"
}

func (r *rewriter) child() *codeText { return &codeText{} }

// copyByte takes one byte of the outer source, and a mark with its bytes.
func (c *codeText) copyByte(r *rewriter, i int) {
	for _, m := range r.marks {
		if m.start == i {
			c.marks = append(c.marks, mark{len(c.buf), len(c.buf) + m.end - m.start, m.slot})
		}
	}
	c.buf = append(c.buf, r.src[i])
}

// addPart takes a part of a word, or of a here-document's body.
func (c *codeText) addPart(r *rewriter, p syntax.WordPart, in context) {
	start, end := span(p)
	if in == inQuotedHere {
		for i := start; i < end; i++ {
			c.copyByte(r, i)
		}
		return
	}
	switch p := p.(type) {
	case *syntax.Lit:
		for i := start; i < end; i++ {
			if r.src[i] == '\\' && i+1 < end && (in == inWord || strings.IndexByte(in.protected(), r.src[i+1]) >= 0) {
				if i++; r.src[i] == '\n' {
					continue
				}
			}
			c.copyByte(r, i)
		}
		return
	case *syntax.SglQuoted:
		if !p.Dollar {
			for i := start + 1; i < end-1; i++ {
				c.copyByte(r, i)
			}
			return
		}
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			c.addPart(r, q, inDouble)
		}
		return
	case *syntax.ParamExp:
		for _, m := range r.marks {
			if m.start == start && m.end == end {
				for i := start; i < end; i++ {
					c.copyByte(r, i)
				}
				return
			}
		}
	}
	// What such an expansion comes to is code, and no quoting of data in it can
	// be right for a place that we do not see.
	if m, ok := r.has(p); ok {
		r.errorAt(m, "do that before, into a variable, and hand the variable over", "is in an expansion whose result becomes code")
	}
	c.buf = append(c.buf, opaqueMark+strconv.Itoa(len(c.opaque))+opaqueMark...)
	c.opaque = append(c.opaque, opaque{r.src[start:end], in != inWord})
}

// finish rewrites the code.
func (c *codeText) finish(r *rewriter) (string, bool) {
	in := &rewriter{plan: r.plan, src: string(c.buf), marks: c.marks, seen: make([]bool, len(c.marks)),
		depth: r.depth + 1, quotedOnly: r.quotedOnly, foreign: r.foreign, bareOnly: r.bareOnly}
	if len(c.marks) == 0 {
		return in.src, true
	}
	if in.depth > maxCodeNesting {
		r.errorAt(c.marks[0], "", "is in code nested more than %d deep", maxCodeNesting)
		return "", false
	}
	f, err := parseShell(in.src)
	if err != nil {
		r.errorAt(c.marks[0], "mend it, or use |raw if what you write is meant to become code",
			"is in code that is not valid shell: %v", err)
		return "", false
	}
	text := in.file(f)
	if r.err == nil {
		r.err = in.err
	}
	return text, in.err == nil
}

// pieces splits rewritten code into literal text and, at odd places, the
// expansions of the outer shell.
func (c *codeText) pieces(text string) []string {
	parts := strings.Split(text, opaqueMark)
	for i := 1; i < len(parts); i += 2 {
		if n, err := strconv.Atoi(parts[i]); err == nil && n < len(c.opaque) {
			parts[i] = c.opaque[n].src
		}
	}
	return parts
}

// requote makes one word of the outer shell out of rewritten code.
func (c *codeText) requote(text string) string {
	var b strings.Builder
	for i, p := range strings.Split(text, opaqueMark) {
		if i%2 == 0 {
			if p != "" {
				b.WriteString(diag.ShellQuote(p))
			}
			continue
		}
		n, err := strconv.Atoi(p)
		if err != nil || n >= len(c.opaque) {
			continue
		}
		if c.opaque[n].quote {
			b.WriteString(`"` + c.opaque[n].src + `"`)
		} else {
			b.WriteString(c.opaque[n].src)
		}
	}
	if b.Len() == 0 {
		return "''"
	}
	return b.String()
}
