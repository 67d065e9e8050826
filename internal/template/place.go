package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bide-dev/bide/internal/expr"
)

// maxCodeNesting bounds code inside code: sh -c 'sh -c "…"'.
const maxCodeNesting = 16

// place is where a word stands, as far as its expansions care.
type place uint8

const (
	bareWords  place = iota // an unquoted value may be several words
	bareWord                // an unquoted value is one word
	quoted                  // double quotes, here-documents: ${V} as it is
	arithmetic              // a value is a number
)

// rewriter rewrites one shell source: the text of a step, or code inside it.
type rewriter struct {
	plan  *plan
	src   string
	marks []mark
	seen  []bool // which marks a rule has dealt with
	edits []edit
	depth int

	// inHere: inside a here-document whose delimiter is plain.
	inHere bool
	// coded: data stands in code inside a word, so that the words are not plain.
	coded bool
	// oneWord has the starts of those marks that stand bare but are one word.
	oneWord []int

	// quotedOnly names the shell whose code all words here become, and which
	// does not see our variables: only |sh values may stand there.
	quotedOnly string
	// foreign names the language whose code all words here become.
	foreign string

	err *expr.SyntaxError
}

// edit replaces src[start:end].
type edit struct {
	start, end int
	text       string
}

// rewrite fills in the plan for a skeleton.
func (p *plan) rewrite(sk *skeleton) {
	if len(p.slots) == 0 {
		p.pieces = []piece{{lit: sk.out.String()}}
	}
	file, err := parseShell(sk.parse.String())
	if err != nil {
		if len(p.slots) > 0 {
			p.err = notShell(err, sk)
		}
		return
	}
	var oneWord []int
	coded := false
	if len(p.slots) > 0 {
		r := &rewriter{plan: p, src: sk.out.String(), marks: sk.marks, seen: make([]bool, len(sk.marks))}
		text := r.file(file)
		if r.err != nil {
			p.err = r.err
			return
		}
		p.pieces, oneWord, coded = split(text), r.oneWord, r.coded
	}
	if !coded {
		p.words = plainWords(sk.out.String(), sk.marks, oneWord, file)
	}
}

func parseShell(src string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(src), "")
}

func notShell(err error, sk *skeleton) *expr.SyntaxError {
	e := &expr.SyntaxError{Message: "the text is not valid shell, so data cannot be put into it safely: " + err.Error(),
		Suggestion: "mend it, or use |raw if what you write is meant to become code"}
	var pe syntax.ParseError
	if errors.As(err, &pe) {
		e.Offset = sk.source(int(pe.Pos.Offset()))
		e.Message = "the text is not valid shell, so data cannot be put into it safely: " + pe.Text
	}
	return e
}

// errorAt keeps the first error.
func (r *rewriter) errorAt(m mark, suggestion, format string, args ...any) {
	if r.err != nil {
		return
	}
	sl := &r.plan.slots[m.slot-1]
	r.err = &expr.SyntaxError{Offset: sl.off, Message: sl.src + " " + fmt.Sprintf(format, args...), Suggestion: suggestion}
}

// file rewrites everything and gives the new source.
func (r *rewriter) file(f *syntax.File) string {
	r.stmts(f.Stmts)
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			r.within(c, func(int, mark) {}) // a comment may say anything
		}
		return true
	})
	for i, m := range r.marks {
		if !r.seen[i] {
			r.errorAt(m, "put it into a variable first: v=${…}", "stands where a value cannot be put safely")
		}
	}
	return r.render(0, len(r.src))
}

// render gives src[start:end] with its edits.
func (r *rewriter) render(start, end int) string {
	slices.SortStableFunc(r.edits, func(a, b edit) int { return a.start - b.start })
	var b strings.Builder
	for _, e := range r.edits {
		if e.start < start || e.end > end {
			continue
		}
		b.WriteString(r.src[start:e.start])
		b.WriteString(e.text)
		start = e.end
	}
	b.WriteString(r.src[start:end])
	return b.String()
}

// take renders a node with the edits since n, and forgets these.
func (r *rewriter) take(n int, start, end int) string {
	sub := &rewriter{src: r.src, edits: slices.Clone(r.edits[n:])}
	r.edits = r.edits[:n]
	return sub.render(start, end)
}

func (r *rewriter) edit(start, end int, text string) {
	r.edits = append(r.edits, edit{start, end, text})
}

func span(n syntax.Node) (start, end int) { return int(n.Pos().Offset()), int(n.End().Offset()) }

// within calls f for each mark inside a node and counts it as dealt with.
func (r *rewriter) within(n syntax.Node, f func(i int, m mark)) {
	start, end := span(n)
	for i, m := range r.marks {
		if m.start >= start && m.end <= end {
			r.seen[i] = true
			f(i, m)
		}
	}
}

// has gives the first mark inside a node.
func (r *rewriter) has(n syntax.Node) (mark, bool) {
	start, end := span(n)
	for _, m := range r.marks {
		if m.start >= start && m.end <= end {
			return m, true
		}
	}
	return mark{}, false
}

func (r *rewriter) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		r.stmt(s)
	}
}

func (r *rewriter) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	code := codeReader{}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		code = r.call(c)
	default:
		r.command(c)
	}
	for _, rd := range s.Redirs {
		r.redirect(rd, code)
	}
}

func (r *rewriter) command(cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.BinaryCmd:
		r.binary(c)
	case *syntax.Block:
		r.stmts(c.Stmts)
	case *syntax.Subshell:
		r.stmts(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			r.stmts(c.Cond)
			r.stmts(c.Then)
		}
	case *syntax.WhileClause:
		r.stmts(c.Cond)
		r.stmts(c.Do)
	case *syntax.ForClause:
		r.loop(c.Loop)
		r.stmts(c.Do)
	case *syntax.CaseClause:
		r.word(c.Word, bareWord)
		for _, item := range c.Items {
			r.words(item.Patterns, bareWord)
			r.stmts(item.Stmts)
		}
	case *syntax.FuncDecl:
		r.stmt(c.Body)
	case *syntax.ArithmCmd:
		r.arith(c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			r.arith(x)
		}
	case *syntax.TestClause:
		r.test(c.X, bareWord)
	case *syntax.DeclClause:
		r.declare(c)
	case *syntax.TimeClause:
		r.stmt(c.Stmt)
	case *syntax.CoprocClause:
		r.stmt(c.Stmt)
	}
}

func (r *rewriter) loop(l syntax.Loop) {
	switch l := l.(type) {
	case *syntax.WordIter:
		r.words(l.Items, bareWords)
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			r.arith(x)
		}
	}
}

// binary is && and || and pipes. What is piped into a shell is code.
func (r *rewriter) binary(c *syntax.BinaryCmd) {
	if c.Op != syntax.Pipe && c.Op != syntax.PipeAll {
		r.stmt(c.X)
		r.stmt(c.Y)
		return
	}
	into := r.readerOf(c.Y)
	wasShell, wasForeign := r.quotedOnly, r.foreign
	switch {
	case into.shell != "":
		r.quotedOnly = into.shell
	case into.language != "":
		r.foreign = into.language
	}
	r.stmt(c.X)
	r.quotedOnly, r.foreign = wasShell, wasForeign
	r.stmt(c.Y)
}

func (r *rewriter) words(ws []*syntax.Word, at place) {
	for _, w := range ws {
		r.word(w, at)
	}
}

func (r *rewriter) word(w *syntax.Word, at place) {
	if w == nil {
		return
	}
	for _, p := range w.Parts {
		r.part(p, at)
	}
}

func (r *rewriter) part(p syntax.WordPart, at place) {
	switch p := p.(type) {
	case *syntax.SglQuoted:
		r.singleQuoted(p, at)
	case *syntax.DblQuoted:
		inside := quoted
		if at == arithmetic {
			inside = at
		}
		for _, q := range p.Parts {
			r.part(q, inside)
		}
	case *syntax.ParamExp:
		r.param(p, at)
	case *syntax.CmdSubst:
		if p.Backquotes {
			r.backquotes(p, at)
			return
		}
		r.stmts(p.Stmts)
	case *syntax.ProcSubst:
		r.stmts(p.Stmts)
	case *syntax.ArithmExp:
		r.arith(p.X)
	}
}

// singleQuoted leaves the quotes for each value: 'a '"${V1}"' b'.
func (r *rewriter) singleQuoted(q *syntax.SglQuoted, at place) {
	r.within(q, func(_ int, m mark) {
		if at == quoted { // "${y:+'…'}": the quotes are but characters
			if r.admit(m, at) {
				r.plan.slots[m.slot-1].whole = true
			}
			return
		}
		if q.Dollar && strings.Contains(r.src[span1(q):m.start], `\'`) {
			r.errorAt(m, `use double quotes`, `stands in $'…' behind a \', which shells read in different ways`)
			return
		}
		reopen := "'"
		if q.Dollar {
			reopen = "$'"
		}
		if !r.admit(m, at) {
			return
		}
		r.plan.slots[m.slot-1].whole = true
		r.edit(m.start, m.end, `'"`+expansion(m.slot)+`"`+reopen)
	})
}

func span1(n syntax.Node) int { start, _ := span(n); return start }

// admit applies the rules that hold whatever the quotes.
func (r *rewriter) admit(m mark, at place) bool {
	r.coded = r.coded || r.quotedOnly != ""
	sl := &r.plan.slots[m.slot-1]
	switch {
	case r.quotedOnly != "" && !sl.sh:
		r.errorAt(m, "write ${"+inner(sl.src)+"|sh} to quote it for that shell, or |raw to let it be code",
			"becomes code of %s, which does not see its variable", r.quotedOnly)
		return false
	case r.foreign != "":
		sl.number = r.foreign
	}
	if at == arithmetic {
		sl.integer = true
	}
	return true
}

// inner is the reference without its ${ }.
func inner(src string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(src, "$"), "{"), "}")
}

// param is an expansion: one of ours, or one of the shell's that may hold ours.
func (r *rewriter) param(p *syntax.ParamExp, at place) {
	start, end := span(p)
	for i, m := range r.marks {
		if m.start == start && m.end == end {
			r.seen[i] = true
			r.value(m, at)
			return
		}
	}
	r.arith(p.Index)
	if p.Slice != nil {
		r.arith(p.Slice.Offset)
		r.arith(p.Slice.Length)
	}
	if p.Repl != nil {
		r.word(p.Repl.Orig, bareWord)
		r.word(p.Repl.With, bareWord)
	}
	if p.Exp == nil {
		return
	}
	switch p.Exp.Op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix,
		syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		if m, ok := r.has(p); ok && r.inHere {
			r.errorAt(m, "do it before, and put the result into the here-document",
				"stands in a pattern inside a here-document, which shells read in different ways")
			return
		}
		at = bareWord // the word is a pattern, also inside double quotes
	default:
		if at == bareWords {
			at = bareWord
		}
	}
	r.word(p.Exp.Word, at)
}

// value is one of our expansions.
func (r *rewriter) value(m mark, at place) {
	if !r.admit(m, at) {
		return
	}
	sl := &r.plan.slots[m.slot-1]
	switch {
	case at == quoted || at == arithmetic:
		sl.whole = true
	case r.quotedOnly != "":
		sl.whole = true
		r.edit(m.start, m.end, `"`+expansion(m.slot)+`"`)
	case sl.sh:
		sl.word = true
		r.edit(m.start, m.end, `"${`+strings.TrimSuffix(sl.name, "=")+`_W}"`)
	case at == bareWord:
		sl.whole = true
		r.oneWord = append(r.oneWord, m.start)
		r.edit(m.start, m.end, `"`+expansion(m.slot)+`"`)
	default:
		r.edit(m.start, m.end, bareMark(m.slot))
	}
}

func (r *rewriter) arith(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		r.arith(x.X)
		r.arith(x.Y)
	case *syntax.UnaryArithm:
		r.arith(x.X)
	case *syntax.ParenArithm:
		r.arith(x.X)
	case *syntax.Word:
		r.word(x, arithmetic)
	}
}

func (r *rewriter) test(x syntax.TestExpr, at place) {
	switch x := x.(type) {
	case *syntax.Word:
		r.word(x, at)
	case *syntax.ParenTest:
		r.test(x.X, bareWord)
	case *syntax.UnaryTest:
		if m, ok := r.has(x); ok && (x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar) {
			r.errorAt(m, "", "would choose the variable that %s looks at, which can run code", x.Op)
		}
		r.test(x.X, bareWord)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			at = arithmetic
		}
		r.test(x.X, at)
		r.test(x.Y, at)
	}
}

func (r *rewriter) assign(a *syntax.Assign, at place) {
	r.arith(a.Index)
	r.word(a.Value, at)
	if a.Array == nil {
		return
	}
	for _, e := range a.Array.Elems {
		r.arith(e.Index)
		r.word(e.Value, bareWords)
	}
}

// declare is export, local, declare and their kin: data may be a value there,
// but not a name, whose subscript would be run.
func (r *rewriter) declare(c *syntax.DeclClause) {
	at := bareWord
	for _, a := range c.Args {
		if a.Naked && a.Value != nil {
			if m, ok := r.has(a.Value); ok && !r.assigns(a.Value, m) {
				r.errorAt(m, "write name=${…}", "would choose the variable that %s sets", c.Variant.Value)
			}
			opt := r.src[span1(a.Value):int(a.Value.End().Offset())]
			if strings.HasPrefix(opt, "-") && strings.Contains(opt, "i") {
				at = arithmetic // declare -i evaluates what is assigned
			}
		}
		r.assign(a, at)
	}
}

// assigns reports whether NAME= stands in w before the mark.
func (r *rewriter) assigns(w *syntax.Word, m mark) bool {
	text := strings.TrimLeft(r.src[span1(w):m.start], `"'`)
	end := nameEnd(text, 0)
	return end > 0 && strings.HasPrefix(text[end:], "=")
}

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
	if !r.literalDelimiter(rd) {
		was := r.inHere
		r.inHere = true
		r.word(rd.Hdoc, quoted)
		r.inHere = was
		return
	}
	delimiter, ok := plainDelimiter(r.src[span1(rd.Word):int(rd.Word.End().Offset())])
	start, end := span(rd.Hdoc)
	r.within(rd.Hdoc, func(_ int, m mark) {
		if !ok {
			r.errorAt(m, "use a delimiter of letters and digits", "stands in a here-document with an unusual delimiter")
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
