package template

import (
	"mvdan.cc/sh/v3/syntax"
	"strings"
)

func (r *rewriter) words(ws []*syntax.Word, at place) {
	for _, w := range ws {
		r.word(w, at)
	}
}

func (r *rewriter) word(w *syntax.Word, at place) {
	if w == nil {
		return
	}
	if _, ok := r.has(w); ok && r.quotedOnly != "" && !r.checking {
		r.farCode(anyCommand+" ", inWord, w) // an argument, or text that is printed
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
		if r.bareOnly {
			at = quoted
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
	if r.bareOnly && (at == quoted || at == arithmetic) {
		r.errorAt(m, "take it out of the quotes", "must be a word of its own in code of another shell")
		return false
	}
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
				"is in a pattern inside a here-document, which shells read in different ways")
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
	if a.Name != nil && a.Value != nil && r.commandVar(a.Name.Value, a.Value) {
		return
	}
	r.word(a.Value, at)
	if a.Array == nil {
		return
	}
	for _, e := range a.Array.Elems {
		r.arith(e.Index)
		r.word(e.Value, bareWords)
	}
}
