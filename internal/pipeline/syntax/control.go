package syntax

// ifExpr reads "if (c) a else b" and "if c then a else b".
func (p *parser) ifExpr() Expr {
	start := p.take().start
	cond := p.condition()
	then := p.arm()
	return p.elsePart(start, cond, then)
}

// arm reads a value of an if. Braces around it are an error, unless they are
// those of a record.
func (p *parser) arm() Expr {
	if !p.braced() {
		return p.expr()
	}
	open := p.tok()
	if !p.bracedIf {
		p.errorTok(CodeSyntax, "the values of an if stand without braces").Suggest(`write "if (condition) a else b"`)
	}
	p.bracedIf = true
	p.take()
	x := p.expr()
	if !p.got(tRBrace) {
		p.notClosed(open, tRBrace)
	}
	p.upTo(x)
	return x
}

// braced reports whether "{" begins here and no record.
func (p *parser) braced() bool {
	if p.kind() != tLBrace || p.peek(1).kind == tRBrace {
		return false
	}
	switch p.peek(2).kind {
	case tColon, tComma, tRBrace, tAssign:
		return !p.peek(1).kind.isWord()
	}
	return true
}

// condition reads the condition of an if, with the word "then" if there is
// one.
func (p *parser) condition() Expr {
	if p.kind() != tLParen || p.lambdaStart() {
		cond := p.expr()
		if !p.then() && !p.braced() {
			p.unexpected(`"then" after the condition`).Suggest(`write "if (condition) a else b"`)
		}
		return cond
	}
	paren := p.paren()
	if p.then() || !p.continued() {
		return paren.(*ParenExpr).X
	}
	// The parentheses hold only the beginning of the condition.
	cond := p.operators(levelPipe, p.postfix(paren))
	if !p.then() && !p.braced() {
		p.unexpected(`"then" after the condition`).Suggest("put the whole condition in parentheses")
	}
	return cond
}

// continued reports whether what follows a closing parenthesis can only go
// on with the expression before it.
func (p *parser) continued() bool {
	switch k := p.kind(); k {
	case tMinus, tWhen:
		return false // both may begin an expression
	case tDot:
		return true
	default:
		_, _, n := p.infix()
		return n > 0
	}
}

// then passes the word "then". It is not reserved: where it could only be a
// variable it is left alone.
func (p *parser) then() bool {
	if !p.isIdent(p.tok(), "then") || !p.peek(1).kind.beginsExpr() {
		return false
	}
	p.take()
	return true
}

func (p *parser) elsePart(start int32, cond, then Expr) Expr {
	e := &IfExpr{Cond: cond, Then: then}
	defer func() { p.bracedIf = false }()
	if p.got(tElse) {
		e.Else = p.arm()
	} else {
		p.unexpected(`"else"`).Suggest(`every "if" has an "else"; for an optional value write "x when condition"`)
		e.Else = &BadExpr{p.here()}
	}
	e.Span = p.from(start)
	return e
}

// whenThen reads "when c then a else b" and "when c then a".
func (p *parser) whenThen() Expr {
	start := p.take().start
	cond := p.operand(levelOr)
	if !p.then() {
		p.unexpected(`"then" after the condition`).Suggest(`write "x when condition", or "when condition then a else b"`)
		return &BadExpr{p.from(start)}
	}
	then := p.expr()
	if p.kind() == tElse {
		return p.elsePart(start, cond, then)
	}
	return &WhenExpr{p.from(start), group(then, levelOr), group(cond, levelOr)}
}

// group puts parentheses around an operand that a rewritten form would read
// differently without them.
func group(e Expr, level int) Expr {
	if bindsAt(e) >= level && !open(e) {
		return e
	}
	return &ParenExpr{e.Extent(), e}
}

// bindsAt is the level of an expression's own operator.
func bindsAt(e Expr) int {
	switch e := e.(type) {
	case *LambdaExpr:
		return 0
	case *CallExpr:
		if e.Form == PipeCall {
			return levelPipe
		}
	case *WhenExpr:
		return levelWhen
	case *BinaryExpr:
		return e.Op.level()
	case *UnaryExpr:
		if e.Op == Not {
			return levelNot
		}
		return levelUnary
	}
	return levelUnary + 1
}

// open reports whether an expression would swallow an operator written after
// it: its last part is an if, a lambda or a with clause.
func open(e Expr) bool {
	for {
		switch x := e.(type) {
		case *IfExpr, *LambdaExpr:
			return true
		case *CallExpr:
			return x.With != nil
		case *BinaryExpr:
			e = x.Y
		case *WhenExpr:
			e = x.Cond
		case *UnaryExpr:
			e = x.X
		default:
			return false
		}
	}
}

// logicCall reads "and(a, b)" and "or(a, b)" as the operators. The parentheses
// stay, as the operators bind looser than a call.
func (p *parser) logicCall() Expr {
	word := p.take()
	op, level := And, levelAnd
	if word.kind == tOr {
		op, level = Or, levelOr
	}
	var args []Expr
	p.items(tRParen, ctxInside, "an argument", func() { args = append(args, p.expr()) })
	span := p.from(word.start)
	if len(args) != 2 {
		p.errorAt(span, CodeSyntax, "%q takes two values", p.text(word)).Suggest(`write "a %s b"`, p.text(word))
		return &BadExpr{span}
	}
	return &ParenExpr{span, &BinaryExpr{span, op, word.span(), group(args[0], level), group(args[1], level+1)}}
}

// branch reads "branch { cond -> x, …, otherwise -> z }". "=>" stands for
// "->", and a line end for the comma.
func (p *parser) branch() Expr {
	start := p.take().start
	b := &BranchExpr{}
	if p.kind() != tLBrace {
		p.unexpected(`"{" after "branch"`)
		return &BadExpr{p.from(start)}
	}
	defer p.inCases(false)()
	p.cases(func() {
		if b.Otherwise != nil {
			p.errorTok(CodeSyntax, `nothing follows "otherwise"`).Suggest(`make "otherwise" the last case`)
			p.skipItem()
			return
		}
		if p.kind() == tOtherwise || p.kind() == tElse && (p.peek(1).kind == tArrow || p.peek(1).kind == tFatArrow) {
			if p.kind() == tElse {
				p.unexpected(`"otherwise"`).Suggest(`write "otherwise -> …"`)
			}
			b.word = p.take().start
			b.Otherwise = p.caseValue(-1)
			return
		}
		if next := p.peek(1); p.isIdent(p.tok(), "otherwise-") && next.kind == tGt && next.start == p.tok().end {
			p.hyphenArrow(p.tok())
			p.take()
			p.take()
			b.Otherwise = p.expr()
			return
		}
		first := p.i
		var cond Expr
		if p.kind() == tIdent && p.lambdaStart() {
			cond = p.operand(levelPipe) // "c => x" is a case, not a lambda
		} else {
			cond = p.expr()
		}
		b.Cases = append(b.Cases, BranchCase{cond, p.caseValue(first)})
	})
	b.Span = p.from(start)
	if b.Otherwise == nil {
		p.errorAt(Span{start, start + int32(len("branch"))}, CodeSyntax, `this branch has no "otherwise"`).
			Suggest(`end it with "otherwise -> value"`)
		b.Otherwise = &BadExpr{Span{b.End, b.End}}
	}
	return b
}

// caseValue reads "-> value" or "=> value". first is the index of the case's
// first token, -1 if it is a word.
func (p *parser) caseValue(first int) Expr {
	if p.got(tArrow) || p.got(tFatArrow) {
		return p.expr()
	}
	if p.kind() == tColon {
		p.unexpected(`"->"`).Suggest(`write "->" between a case and its value`)
		p.take()
		return p.expr()
	}
	if first >= 0 && !p.gaveUp {
		for _, t := range p.toks[first:p.i] {
			if t.kind == tIdent && p.src[t.end-1] == '-' && p.src[t.end:min(int(t.end)+1, len(p.src))] == ">" {
				p.hyphenArrow(&t)
				return &BadExpr{p.here()}
			}
		}
	}
	p.unexpected(`"->"`).Suggest(`a case is "condition -> value"`)
	return &BadExpr{p.here()}
}

// hyphenArrow reports "name->", where the hyphen belongs to the name.
func (p *parser) hyphenArrow(t *token) {
	p.errorAt(Span{t.end - 1, t.end + 1}, CodeSyntax, "the hyphen belongs to the name %s here", quote(p.text(t))).
		Suggest(`put a blank before "->"`)
}

// match reads "match x { pattern -> value, … }", with "=>" and line ends as
// in a branch.
func (p *parser) match() Expr {
	start := p.take().start
	m := &MatchExpr{X: p.operand(levelUnary)}
	if p.kind() != tLBrace {
		p.unexpected(`"{" and the cases of the match`)
		return &BadExpr{p.from(start)}
	}
	defer p.inCases(true)()
	p.cases(func() {
		pat := p.pattern()
		m.Cases = append(m.Cases, MatchCase{pat, p.caseValue(-1)})
	})
	m.Span = p.from(start)
	if len(m.Cases) == 0 {
		p.errorAt(m.Span, CodeSyntax, "this match has no case").Suggest(`write "pattern -> value"`)
	}
	return m
}

// inCases notes that what follows are the cases of a match, or of a branch, and
// gives what notes that they have ended.
func (p *parser) inCases(ofMatch bool) (end func()) {
	outer := p.matching
	p.matching = ofMatch
	return func() { p.matching = outer }
}

// patternForms ends messages about patterns.
const patternForms = `a pattern is "{field, …}", "is Type" or "_"`

// pattern reads the left side of a match case.
func (p *parser) pattern() Pattern {
	t := p.tok()
	switch {
	case t.kind == tLBrace:
		r := &RecordPattern{}
		p.items(tRBrace, ctxInside, "a field", func() { p.patternField(r) })
		r.Span = p.from(t.start)
		if len(r.Fields) == 0 && p.lastErr != p.tok().start {
			p.errorAt(r.Span, CodePattern, "a record pattern needs a field").Suggest(`write "_" to match everything`)
		}
		return r
	case t.kind == tIs:
		p.take()
		name, ok := p.name("a type")
		if !ok {
			return &BadPattern{p.from(t.start)}
		}
		return &TypePattern{p.from(t.start), name}
	case p.isIdent(t, "_"):
		p.take()
		return &WildcardPattern{t.span()}
	}
	return p.noPattern()
}

func (p *parser) patternField(r *RecordPattern) {
	name, ok := p.name("a field name")
	if !ok {
		p.skipItem()
		return
	}
	r.Fields = append(r.Fields, name)
	if p.kind() == tColon {
		p.errorTok(CodePattern, "a field of a pattern has no value of its own").Suggest(`write "{%s}" and compare %s in the case`, name.Name, name.Name)
		p.skipItem()
	}
}

// noPattern reports a pattern of another language and passes it.
func (p *parser) noPattern() Pattern {
	t := p.tok()
	switch next := p.peek(1); {
	case t.kind == tIdent && next.kind == tLParen:
		d := p.errorAt(t.span(), CodePattern, "there is no pattern %s", quote(p.text(t)+"(…)"))
		switch p.text(t) {
		case "Some", "None", "Right", "Left", "Ok", "Err":
			d.Suggest(`give an optional value a default with "??"; %s`, patternForms)
		default:
			d.Suggest("%s", patternForms)
		}
	case t.kind == tIdent:
		p.errorAt(t.span(), CodePattern, "a name alone is no pattern").Suggest(`write "is %s" to match a type; %s`, p.text(t), patternForms)
	case t.kind == tOtherwise || t.kind == tElse:
		p.errorAt(t.span(), CodePattern, "%q belongs to branch", p.text(t)).Suggest(`write "_" to match everything else`)
	case t.kind.beginsExpr():
		p.errorAt(t.span(), CodePattern, "a value is no pattern").Suggest(`compare values with branch; %s`, patternForms)
	default:
		p.unexpected("a pattern").Suggest("%s", patternForms)
	}
	for p.kind() != tArrow && p.kind() != tFatArrow && p.kind() != tComma && p.kind() != tRBrace && !p.stop() {
		p.skipBracket(p.tok())
	}
	return &BadPattern{p.from(t.start)}
}
