package syntax

import "strconv"

func (p *printer) expr(e Expr) {
	if p.full() {
		return
	}
	switch e := e.(type) {
	case *ParenExpr:
		p.at(e.Start)
		p.text("(")
		p.expr(e.X)
		p.at(e.End - 1)
		p.text(")")
	case *FieldExpr:
		p.expr(e.X)
		p.at(e.Field.Start)
		p.text("." + e.Field.Name)
	case *ProjectExpr:
		p.expr(e.X)
		open, closer := "[", "]"
		if e.Braces {
			open, closer = "{", "}"
		}
		p.list(open, closer, e.End, false, len(e.Fields), func(p *printer, i int) { p.name(e.Fields[i]) })
	case *UnaryExpr:
		p.at(e.Start)
		if e.Op == Not {
			p.word("not")
		} else {
			p.text("-")
		}
		p.expr(e.X)
	case *BinaryExpr:
		p.binary(e)
	case *WhenExpr:
		p.broken(e, func(q *printer, sep func()) {
			q.expr(e.X)
			sep()
			q.word("when")
			q.expr(e.Cond)
		})
	case *IfExpr:
		p.ifExpr(e)
	case *BranchExpr:
		p.branch(e)
	case *MatchExpr:
		p.match(e)
	case *LambdaExpr:
		p.lambda(e)
	case *CallExpr:
		p.call(e)
	default:
		p.literal(e)
	}
}

// literal writes a name, a literal, a list or a record.
func (p *printer) literal(e Expr) {
	p.at(e.Extent().Start)
	switch e := e.(type) {
	case *Name:
		p.text(e.Name)
	case *IntLit:
		p.text(strconv.FormatInt(e.Value, 10))
	case *FloatLit:
		p.text(e.Text)
	case *BoolLit:
		p.text(strconv.FormatBool(e.Value))
	case *StringLit:
		p.text(p.f.Text(e.Span))
	case *Interpolation:
		p.interpolation(e)
	case *ListLit:
		p.list("[", "]", e.End, false, len(e.Elems), func(p *printer, i int) { p.expr(e.Elems[i]) })
	case *RecordLit:
		p.list("{", "}", e.End, true, len(e.Fields), func(p *printer, i int) { p.field(e.Fields[i]) })
	default:
		panic(&Unhandled{"the formatter", e})
	}
}

func (p *printer) field(f RecordField) {
	p.name(f.Name)
	if !f.Shorthand {
		p.word(":")
		p.expr(f.Value)
	}
}

// interpolation writes the text as it is in the source, and what is in
// "${…}" on one line. One with comments in it is left alone.
func (p *printer) interpolation(e *Interpolation) {
	if p.hasComment(e.End) {
		for p.hasComment(e.End) {
			p.comments = p.comments[1:]
		}
		p.text(p.f.Text(e.Span))
		return
	}
	flat := p.flat
	p.flat = true
	p.text(`"`)
	for _, part := range e.Parts {
		if part.X == nil {
			p.text(p.f.Text(part.Span))
			continue
		}
		p.text("${")
		p.expr(part.X)
		p.text("}")
	}
	p.text(`"`)
	p.flat = flat
}

// broken writes what line writes: on one line if it fits, else with a line
// end at each separator.
func (p *printer) broken(e Expr, line func(q *printer, sep func())) {
	p.at(leftmost(e))
	if p.fits(e.Extent().End, func(q *printer) { line(q, q.sp) }) {
		line(p, p.sp)
		return
	}
	p.nest(func() { line(p, p.newline) })
}

// leftmost is the offset of the first token that is written of an
// expression: that of "when c then a", which is written "a when c", is in
// the middle of it.
func leftmost(e Expr) int32 { return writtenFirst(e).Extent().Start }

// writtenFirst is the part of an expression that begins with the token which
// is written first.
func writtenFirst(e Expr) Expr {
	for {
		switch x := e.(type) {
		case *FieldExpr:
			e = x.X
		case *ProjectExpr:
			e = x.X
		case *BinaryExpr:
			e = x.X
		case *WhenExpr:
			e = x.X
		case *CallExpr:
			if x.Form == PlainCall {
				return x
			}
			e = x.Args[0]
		default:
			return x
		}
	}
}

// binary writes a chain of operators of one level, all on one line or each
// on its own.
func (p *printer) binary(e *BinaryExpr) {
	operands, ops := chain(e)
	p.broken(e, func(q *printer, sep func()) {
		for i, x := range operands {
			if q.full() {
				return
			}
			if i > 0 {
				sep()
				q.at(ops[i-1].OpSpan.Start)
				q.word(ops[i-1].Op.String())
			}
			q.expr(x)
		}
	})
}

// chain takes a tree of operators of one level apart, from left to right.
func chain(e *BinaryExpr) (operands []Expr, ops []*BinaryExpr) {
	level := bindsAt(e)
	if e.Op == Coalesce { // groups to the right
		for {
			operands, ops = append(operands, e.X), append(ops, e)
			y, ok := e.Y.(*BinaryExpr)
			if !ok || y.Op != Coalesce {
				return append(operands, e.Y), ops
			}
			e = y
		}
	}
	for {
		operands, ops = append(operands, e.Y), append(ops, e)
		x, ok := e.X.(*BinaryExpr)
		if !ok || bindsAt(x) != level {
			operands = append(operands, e.X)
			break
		}
		e = x
	}
	reverse(operands)
	reverse(ops)
	return operands, ops
}

func reverse[T any](s []T) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}

// ifExpr writes "if (c) a else b"; when it does not fit, values on lines of
// their own, and a chain of "else if" as one.
func (p *printer) ifExpr(e *IfExpr) {
	p.at(e.Start)
	p.broken(e, func(q *printer, sep func()) {
		for e := e; !q.full(); {
			q.word("if")
			q.text("(")
			q.expr(e.Cond)
			q.text(")")
			if beginsThen(e.Then) {
				q.sp()
				q.text("then")
			}
			q.nest(func() { sep(); q.expr(e.Then) })
			sep()
			q.text("else")
			next, ok := e.Else.(*IfExpr)
			if !ok {
				q.nest(func() { sep(); q.expr(e.Else) })
				return
			}
			q.sp()
			q.at(next.Start)
			e = next
		}
	})
}

// beginsThen reports whether an expression begins with a variable called
// "then", which after a condition would be read as the word.
func beginsThen(e Expr) bool {
	switch x := writtenFirst(e).(type) {
	case *Name:
		return x.Name == "then"
	case *CallExpr:
		return x.Func.Parts[0].Name == "then"
	}
	return false
}

// block writes "{ cases }", each case on a line of its own.
func (p *printer) block(end int32, n int, item func(i int)) {
	if p.measuring {
		p.room = -1 // a block is not for one line
		return
	}
	p.text("{")
	p.nest(func() {
		for i := range n {
			if i > 0 {
				p.text(",")
			}
			p.newline()
			item(i)
		}
		p.at(end - 1)
	})
	p.newline()
	p.text("}")
}

func (p *printer) branch(e *BranchExpr) {
	p.at(e.Start)
	p.word("branch")
	p.block(e.End, len(e.Cases)+1, func(i int) {
		if i == len(e.Cases) {
			p.at(e.word)
			p.word("otherwise")
			p.word("->")
			p.expr(e.Otherwise)
			return
		}
		p.expr(e.Cases[i].Cond)
		p.sp()
		p.word("->")
		p.expr(e.Cases[i].Value)
	})
}

func (p *printer) match(e *MatchExpr) {
	p.at(e.Start)
	p.word("match")
	p.expr(e.X)
	p.sp()
	p.block(e.End, len(e.Cases), func(i int) {
		p.pattern(e.Cases[i].Pattern)
		p.sp()
		p.word("->")
		p.expr(e.Cases[i].Value)
	})
}

func (p *printer) pattern(pat Pattern) {
	p.at(pat.Extent().Start)
	switch pat := pat.(type) {
	case *RecordPattern:
		p.list("{", "}", pat.End, true, len(pat.Fields), func(p *printer, i int) { p.name(pat.Fields[i]) })
	case *TypePattern:
		p.word("is")
		p.name(pat.Type)
	case *WildcardPattern:
		p.text("_")
	default:
		panic(&Unhandled{"the formatter", pat})
	}
}

func (p *printer) lambda(e *LambdaExpr) {
	p.at(e.Start)
	p.text("(")
	for i, param := range e.Params {
		if i > 0 {
			p.word(",")
		}
		p.name(param.Name)
		if param.Type != nil {
			p.word(":")
			p.typ(param.Type)
		}
	}
	p.text(")")
	p.sp()
	p.word("=>")
	p.expr(e.Body)
}

func (p *printer) call(e *CallExpr) {
	if e.Form == PipeCall {
		p.pipe(e)
		return
	}
	args := e.Args
	if e.Form == MethodCall {
		p.expr(args[0])
		args = args[1:]
		p.at(e.Func.Start)
		p.text(".")
	}
	p.callRest(e, args)
}

// callRest writes "f(args) with options".
func (p *printer) callRest(e *CallExpr, args []Expr) {
	p.qname(e.Func)
	p.list("(", ")", e.argsEnd, false, len(args), func(p *printer, i int) { p.expr(args[i]) })
	if e.With != nil {
		p.sp()
		p.at(e.With.Start)
		p.text("with")
		p.with(e.With)
	}
}

func (p *printer) with(w *WithClause) {
	if !w.Braces {
		p.optionList(w.Options)
		return
	}
	p.sp()
	p.list("{", "}", w.End, true, len(w.Options), func(p *printer, i int) { p.option(w.Options[i]) })
}

// pipe writes "x | f() | g()", all on one line or each call on its own.
func (p *printer) pipe(e *CallExpr) {
	calls := []*CallExpr{e}
	first := e.Args[0]
	for {
		c, ok := first.(*CallExpr)
		if !ok || c.Form != PipeCall {
			break
		}
		calls = append(calls, c)
		first = c.Args[0]
	}
	reverse(calls)
	p.broken(e, func(q *printer, sep func()) {
		q.expr(first)
		for _, c := range calls {
			if q.full() {
				return
			}
			sep()
			q.word("|")
			q.callRest(c, c.Args[1:])
		}
	})
}
