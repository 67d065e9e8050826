package syntax

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

// infixes are the operators between two operands that are one token each.
var infixes = [tIs + 1]Op{
	tCoalesce: Coalesce, tOr: Or, tAnd: And,
	tEq: Eq, tNe: Ne, tLt: Lt, tLe: Le, tGt: Gt,
	tPlus: Add, tMinus: Sub, tStar: Mul, tSlash: Div,
}

// infix gives the operator at the current token, its level, and how many
// tokens it has; 0 if there is none.
func (p *parser) infix() (op Op, level, tokens int) {
	switch p.kind() {
	case tBar:
		return BadOp, levelPipe, 1
	case tWhen:
		return BadOp, levelWhen, 1
	case tGt:
		if next := p.peek(1); next.kind == tAssign && next.start == p.tok().end {
			return Ge, levelCompare, 2
		}
	}
	if op = infixes[p.kind()]; op == BadOp {
		return BadOp, 0, 0
	}
	return op, op.level(), 1
}

// level is that of an operator between two operands.
func (o Op) level() int {
	switch o {
	case Coalesce:
		return levelCoalesce
	case Or:
		return levelOr
	case And:
		return levelAnd
	case Add, Sub:
		return levelAdd
	case Mul, Div:
		return levelMul
	}
	return levelCompare
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

// not reads "not x"; level is that of the place where it is.
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
	case tAnd, tOr:
		if next := p.peek(1); next.kind == tLParen && next.start == t.end {
			return p.logicCall()
		}
	}
	return p.noExpr()
}

// noExpr reports that no expression begins at the current token.
func (p *parser) noExpr() Expr {
	t := p.tok()
	if t.kind == tIdent && !t.newLine && p.peek(1).kind == tAssign && p.i > 0 && p.toks[p.i-1].kind == tAssign {
		p.errorTok(CodeSyntax, "an assignment gives a value to one name").Suggest(`compare with "=="; give each name an assignment of its own`)
		return &BadExpr{p.here()}
	}
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

// continues reports whether a reserved word belongs to what is around an
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
