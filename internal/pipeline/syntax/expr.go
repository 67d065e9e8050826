package syntax

import "strconv"

// The levels of binding, from the loosest. An operand at one level holds
// only operators of that level or tighter ones.
const (
	levelPipe = iota + 1
	levelCoalesce
	levelWhen
	levelOr
	levelAnd
	levelNot
	levelCompare
	levelAdd
	levelMul
	levelUnary
)

// expr reads an expression.
func (p *parser) expr() Expr { return p.exprAt(levelPipe) }

// exprAt reads a lambda, or an expression of operators from a level on.
func (p *parser) exprAt(level int) Expr {
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.here()}
	}
	if p.lambdaStart() {
		return p.lambda()
	}
	return p.operators(level, nil)
}

// infix gives the operator at the current token, its level, and how many
// tokens it has; 0 if there is none.
func (p *parser) infix() (op Op, level, tokens int) {
	switch p.kind() {
	case tBar:
		return BadOp, levelPipe, 1
	case tCoalesce:
		return Coalesce, levelCoalesce, 1
	case tWhen:
		return BadOp, levelWhen, 1
	case tOr:
		return Or, levelOr, 1
	case tAnd:
		return And, levelAnd, 1
	case tEq:
		return Eq, levelCompare, 1
	case tNe:
		return Ne, levelCompare, 1
	case tLt:
		return Lt, levelCompare, 1
	case tLe:
		return Le, levelCompare, 1
	case tGt:
		if next := p.peek(1); next.kind == tAssign && next.start == p.tok().end {
			return Ge, levelCompare, 2
		}
		return Gt, levelCompare, 1
	case tPlus:
		return Add, levelAdd, 1
	case tMinus:
		return Sub, levelAdd, 1
	case tStar:
		return Mul, levelMul, 1
	case tSlash:
		return Div, levelMul, 1
	}
	return BadOp, 0, 0
}

// operators reads operands joined by operators of at least a level. left is
// the first operand if it has been read already.
func (p *parser) operators(level int, left Expr) Expr {
	start := p.tok().start
	if left != nil {
		start = left.Extent().Start
	} else if p.kind() == tNot {
		left = p.not(level)
	} else {
		left = p.unary()
	}
	last := levelUnary + 1 // the level of left's own operator
	for {
		op, at, tokens := p.infix()
		if tokens == 0 || at < level || !p.link() {
			return left
		}
		opSpan := Span{p.tok().start, p.peek(tokens - 1).end}
		if at == last && (at == levelCompare || at == levelWhen) {
			p.chained(at, opSpan)
		}
		if at == levelPipe {
			left = p.pipe(start, left)
			continue
		}
		for range tokens {
			p.take()
		}
		switch at {
		case levelWhen:
			left = &WhenExpr{X: left, Cond: p.operand(levelOr)}
			left.(*WhenExpr).Span = p.from(start)
		case levelCoalesce:
			left = p.binary(start, op, opSpan, left, levelCoalesce)
		default:
			left = p.binary(start, op, opSpan, left, at+1)
		}
		last = at
	}
}

func (p *parser) binary(start int32, op Op, opSpan Span, x Expr, level int) Expr {
	y := p.operand(level)
	return &BinaryExpr{p.from(start), op, opSpan, x, y}
}

// operand reads the right side of an operator.
func (p *parser) operand(level int) Expr {
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.here()}
	}
	return p.operators(level, nil)
}

func (p *parser) chained(level int, op Span) {
	if level == levelCompare {
		p.errorAt(op, CodeSyntax, "comparisons do not chain").Suggest(`write "a < b and b < c"`)
		return
	}
	p.errorAt(op, CodeSyntax, `"when" does not chain`).Suggest(`write "x when a and b"`)
}

// not reads "not x"; level is that of the place where it stands.
func (p *parser) not(level int) Expr {
	t := p.tok()
	if level > levelNot {
		p.errorAt(t.span(), CodeSyntax, `"not" binds looser than the operator before it`).Suggest("put the part with %q in parentheses", "not")
	}
	p.take()
	x := p.operand(levelNot)
	return &UnaryExpr{p.from(t.start), Not, x}
}

// unary reads "-x", or an operand with its fields and projections.
func (p *parser) unary() Expr {
	t := p.tok()
	if t.kind != tMinus {
		return p.postfix(p.primary())
	}
	p.take()
	if k := p.kind(); k == tInt || k == tFloat {
		return p.postfix(p.number(t.start, true))
	}
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.here()}
	}
	x := p.unary()
	return &UnaryExpr{p.from(t.start), Neg, x}
}

// number reads an integer or a decimal number; a sign before it has been
// passed.
func (p *parser) number(start int32, negative bool) Expr {
	t := p.take()
	text := p.text(t)
	if negative {
		text = "-" + text
	}
	s := p.from(start)
	if t.kind == tFloat {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.errorAt(s, CodeNumber, "%s is too large for a Float", quote(text)).Suggest("the largest is about 1.8e308")
		}
		return &FloatLit{s, f, text}
	}
	n, ok := p.integer(s, text)
	if !ok {
		return &BadExpr{s}
	}
	return &IntLit{s, n}
}

// integer converts an integer's text, with its sign.
func (p *parser) integer(s Span, text string) (int64, bool) {
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 1 && digits[0] == '0' {
		p.errorAt(s, CodeNumber, "%s begins with a zero", quote(text)).Suggest("leave out the zeros at the front")
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.errorAt(s, CodeNumber, "%s is out of the range of Int", quote(text)).
			Suggest("an Int lies between -9223372036854775808 and 9223372036854775807")
		return 0, false
	}
	return n, true
}

// primary reads an operand without its fields and projections.
func (p *parser) primary() Expr {
	switch t := p.tok(); t.kind {
	case tIdent:
		if p.peek(1).kind != tAssign {
			return p.path()
		}
	case tInt, tFloat:
		return p.number(t.start, false)
	case tQuantity:
		return p.misplacedQuantity()
	case tString:
		p.take()
		return &StringLit{t.span(), p.unescape(t.start+1, p.stringEnd(t))}
	case tStrHead:
		return p.interpolation()
	case tTrue, tFalse:
		p.take()
		return &BoolLit{t.span(), t.kind == tTrue}
	case tLBrack:
		list := &ListLit{}
		p.items(tRBrack, ctxInside, "an element", func() { list.Elems = append(list.Elems, p.expr()) })
		list.Span = p.from(t.start)
		return list
	case tLBrace:
		return p.record()
	case tLParen:
		return p.paren()
	case tIf:
		return p.ifExpr()
	case tWhen:
		return p.whenThen()
	case tBranch:
		return p.branch()
	case tMatch:
		return p.match()
	}
	return p.noExpr()
}

// noExpr reports that no expression begins at the current token.
func (p *parser) noExpr() Expr {
	t := p.tok()
	if t.kind.isReserved() && !t.newLine && !p.continues(t.kind) {
		p.errorTok(CodeReserved, "%q is a reserved word and cannot be the name of a value", p.text(t)).
			Suggest("reserved words may name fields only")
		p.take()
		return &BadExpr{t.span()}
	}
	d := p.unexpected("an expression")
	if d.Suggestion == "" && t.kind == tFatArrow {
		d.Suggest(`write a lambda as "(x) => …"`)
	}
	return &BadExpr{p.here()}
}

// continues reports whether a reserved word belongs to what stands around an
// expression that is missing, so that it must not be passed in its place.
func (p *parser) continues(k kind) bool {
	switch k {
	case tElse, tOtherwise, tAnd, tOr, tWith, tAs:
		return true
	}
	return false
}

func (p *parser) misplacedQuantity() Expr {
	t := p.take()
	text := p.text(t)
	if _, ok := readDuration(text); ok {
		p.errorAt(t.span(), CodeDuration, "a duration such as %s stands only in options", quote(text)).
			Suggest(`durations go into a with clause: "with timeout: %s"`, text)
	} else {
		p.errorAt(t.span(), CodeNumber, "%s is neither a number nor a name", quote(text)).
			Suggest("a name begins with a letter; a number has digits, a fraction and an exponent only")
	}
	return &BadExpr{t.span()}
}

// path reads a variable, its fields, or the call of a dotted name.
func (p *parser) path() Expr {
	last := 0
	for p.peek(last+1).kind == tDot && p.peek(last+2).kind.isWord() {
		if p.peek(last+2).newLine && p.peek(last+3).kind == tAssign {
			break // the next declaration; the field is missing
		}
		last += 2
	}
	if p.peek(last+1).kind == tLParen {
		start := p.tok().start
		return p.call(start, p.qname(), nil, PlainCall)
	}
	t := p.take()
	var e Expr = p.names.new(Name{t.span(), p.text(t)})
	for ; last > 0 && p.link(); last -= 2 {
		p.take() // .
		f := p.take()
		e = &FieldExpr{p.from(t.start), e, Ident{f.span(), p.text(f)}}
	}
	return e
}

// postfix reads the fields, projections and method calls after an operand.
func (p *parser) postfix(e Expr) Expr {
	start := e.Extent().Start
	for {
		t := p.tok()
		switch t.kind {
		case tDot:
			if !p.link() {
				return e
			}
			p.take()
			name, ok := p.fieldName("a field name after the dot")
			if !ok {
				return e
			}
			if p.kind() == tLParen {
				e = p.call(start, QName{name.Span, []Ident{name}}, []Expr{e}, MethodCall)
				continue
			}
			e = &FieldExpr{p.from(start), e, name}
		case tLBrack, tLBrace:
			if t.kind == tLBrace && !p.projection() || !p.link() {
				return e
			}
			e = p.project(start, e)
		case tLParen:
			if _, bad := e.(*BadExpr); bad {
				return e
			}
			p.errorTok(CodeSyntax, "only a function's name can be called").Suggest("give the value a name first")
			p.items(tRParen, ctxInside, "an argument", func() { p.expr() })
			e = &BadExpr{p.from(start)}
		case tWith:
			p.misplacedWith(e)
		default:
			return e
		}
	}
}

// projection reports whether "{" after an operand begins a projection: then
// a field's name and "," or "}" follow.
func (p *parser) projection() bool {
	return p.peek(1).kind.isWord() && (p.peek(2).kind == tComma || p.peek(2).kind == tRBrace)
}

// project reads "[a, b]" or "{a, b}" after an operand.
func (p *parser) project(start int32, x Expr) Expr {
	open := p.tok()
	closer := tRBrack
	if open.kind == tLBrace {
		closer = tRBrace
	}
	e := &ProjectExpr{X: x, Braces: open.kind == tLBrace}
	index := p.peek(1).kind == tInt
	p.items(closer, ctxInside, "a field name", func() {
		if index {
			p.errorTok(CodeSyntax, "lists have no index").Suggest(`"[a, b]" takes fields; use list-first or list-last for elements`)
			p.skipItem()
			return
		}
		if name, ok := p.fieldName("a field name"); ok {
			e.Fields = append(e.Fields, name)
		} else {
			p.skipItem()
		}
	})
	e.Span = p.from(start)
	if len(e.Fields) == 0 {
		if !index {
			p.errorAt(e.Span, CodeSyntax, "a projection needs a field").Suggest(`write "[name]"`)
		}
		return &BadExpr{e.Span}
	}
	return e
}

// paren reads "(expr)".
func (p *parser) paren() Expr {
	open := p.tok()
	outer := p.ctx
	p.ctx = ctxInside
	p.take()
	var x Expr
	if p.kind() == tRParen {
		p.errorAt(Span{open.start, p.tok().end}, CodeSyntax, "there is nothing between the parentheses").Suggest("write an expression")
		x = &BadExpr{p.here()}
	} else {
		x = p.expr()
	}
	p.ctx = outer
	switch {
	case p.got(tRParen):
	case p.stop():
		p.notClosed(open, tRParen)
	default:
		p.unexpected(`")"`)
		if m := int(open.match); m >= p.i {
			p.i = m
			p.take()
		}
	}
	return &ParenExpr{p.from(open.start), x}
}

// record reads "{a: x, b}".
func (p *parser) record() Expr {
	start := p.tok().start
	r := &RecordLit{}
	p.items(tRBrace, ctxRecord, "a field", func() {
		t := p.tok()
		name, ok := p.fieldName("a field name")
		if !ok {
			p.skipItem()
			return
		}
		f := RecordField{Name: name}
		switch k := p.kind(); {
		case k == tColon:
			p.take()
			f.Value = p.expr()
		case k == tAssign:
			p.unexpected(`":" and a value`).Suggest(`write %q`, name.Name+": …")
			p.take()
			f.Value = p.expr()
		default:
			if t.kind.isReserved() {
				p.reservedName(t, "the name of a value")
			}
			f.Value, f.Shorthand = &Name{name.Span, name.Name}, true
		}
		r.Fields = append(r.Fields, f)
	})
	r.Span = p.from(start)
	return r
}

// call reads the arguments and options of a call. The function's name has
// been passed; args are the arguments before the parentheses.
func (p *parser) call(start int32, fn QName, args []Expr, form CallForm) Expr {
	c := p.calls.new(CallExpr{Func: fn, Args: args, Form: form})
	if args == nil {
		c.Args = make([]Expr, 0, 2)
	}
	p.items(tRParen, ctxInside, "an argument", func() {
		if t := p.tok(); t.kind.isWord() && (p.peek(1).kind == tColon || p.peek(1).kind == tAssign) {
			p.errorAt(Span{t.start, p.peek(1).end}, CodeSyntax, "arguments have no names").Suggest("write the values in the order of the parameters")
			p.take()
			p.take()
		}
		before := p.i
		arg := p.expr()
		if p.i > before {
			c.Args = append(c.Args, arg)
		}
	})
	c.argsEnd = p.lastEnd
	if p.kind() == tWith {
		c.With = p.withClause()
	}
	c.Span = p.from(start)
	return c
}

// pipe reads "| f(x)" after its left side.
func (p *parser) pipe(start int32, left Expr) Expr {
	p.take()
	if p.kind() != tIdent {
		p.unexpected(`a call after "|"`).Suggest(`write "xs | map((x) => …)", for example`)
		return left
	}
	fn := p.qname()
	if p.kind() != tLParen {
		p.errorAt(fn.Span, CodeSyntax, `%s after "|" is not called`, quote(fn.String())).Suggest("write %q", fn.String()+"()")
		return &BadExpr{p.from(start)}
	}
	return p.postfix(p.call(start, fn, []Expr{left}, PipeCall))
}

// misplacedWith reports a with clause that belongs to no call, and passes
// it.
func (p *parser) misplacedWith(e Expr) {
	t := p.tok()
	switch x := e.(type) {
	case *CallExpr:
		if x.With != nil {
			p.errorTok(CodeOption, "this call has a with clause already").Suggest(`separate its options with ","`)
		}
	case *ParenExpr:
		p.errorTok(CodeOption, "a with clause belongs to a call").Suggest("move it into the parentheses, behind the call")
	case *BadExpr:
		p.lastErr = t.start
	default:
		p.errorTok(CodeOption, "a with clause belongs to a call, and this is none").Suggest("write f(…) with …")
	}
	p.withClause()
}

// lambdaStart reports whether a lambda begins at the current token.
func (p *parser) lambdaStart() bool {
	switch t := p.tok(); t.kind {
	case tIdent:
		return p.peek(1).kind == tFatArrow
	case tLParen:
		return t.match > 0 && p.toks[t.match+1].kind == tFatArrow
	}
	return false
}

func (p *parser) lambda() Expr {
	start := p.tok().start
	l := &LambdaExpr{}
	if p.kind() == tIdent {
		name, _ := p.name("the name of a parameter")
		l.Params = []Param{{Name: name}}
	} else {
		p.items(tRParen, ctxInside, "a parameter", func() {
			name, ok := p.name("the name of a parameter")
			if !ok {
				p.skipItem()
				return
			}
			param := Param{Name: name}
			if p.got(tColon) {
				param.Type = p.typeExpr()
			}
			l.Params = append(l.Params, param)
		})
	}
	if p.expect(tFatArrow, `"=>"`) {
		l.Body = p.expr()
	} else {
		l.Body = &BadExpr{p.here()}
	}
	l.Span = p.from(start)
	return l
}
