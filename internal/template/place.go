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

// place is where a word is, as far as its expansions care.
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

	// bareOnly: this is code of a far shell, looked at to see that each |sh value
	// is a word of its own there, and nothing that is parsed once more.
	bareOnly bool
	checking bool // inside such a look; words need no second one
	// inHere: inside a here-document whose delimiter is plain.
	inHere bool
	// coded: data is in code inside a word, so that the words are not plain.
	coded bool
	// oneWord has the starts of those marks that stand bare but are one word.
	oneWord []int

	// quotedOnly names the shell whose code all words here become, and which
	// does not see our variables: only |sh values may be there.
	quotedOnly string
	// foreign names the language whose code all words here become.
	foreign string

	// functions are those that this source defines.
	functions map[string]bool

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

// NotShell begins the message about a text that no shell would read; what follows is why.
const NotShell = "the text is not valid shell, so data cannot be put into it safely: "

func notShell(err error, sk *skeleton) *expr.SyntaxError {
	e := &expr.SyntaxError{Message: NotShell + err.Error(),
		Suggestion: "mend it, or use |raw if what you write is meant to become code"}
	var pe syntax.ParseError
	if errors.As(err, &pe) {
		e.Offset = sk.source(int(pe.Pos.Offset()))
		e.Message = NotShell + pe.Text
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
	r.functions = definedFunctions(f)
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
		if m, ok := r.has(c.X); ok && r.twice(m) {
			return
		}
		r.quotedOnly = into.shell
	case into.language != "":
		r.foreign = into.language
	}
	r.stmt(c.X)
	r.quotedOnly, r.foreign = wasShell, wasForeign
	r.stmt(c.Y)
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

// assigns reports whether NAME= is in w before the mark.
func (r *rewriter) assigns(w *syntax.Word, m mark) bool {
	text := strings.TrimLeft(r.src[span1(w):m.start], `"'`)
	end := nameEnd(text, 0)
	return end > 0 && strings.HasPrefix(text[end:], "=")
}
