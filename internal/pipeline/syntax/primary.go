package syntax

import (
	"fmt"

	"github.com/bide-dev/bide/internal/option"
)

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
// a field's name and "," or "}" follow. In a match, braces on a line of their own
// with an arrow after them are the pattern of the next case.
func (p *parser) projection() bool {
	if open := p.tok(); p.matching && open.newLine && open.match > 0 {
		if after := p.toks[open.match+1].kind; after == tArrow || after == tFatArrow {
			return false
		}
	}
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
	index, quoted := p.peek(1).kind == tInt, false
	p.items(closer, ctxInside, "a field name", func() {
		if index {
			p.errorTok(CodeSyntax, "lists have no index").Suggest(`"[a, b]" takes fields; use list-first, list-last or list-get(xs, 0) for elements`)
			p.skipItem()
			return
		}
		if t := p.tok(); t.kind == tString {
			quoted = true
			p.errorTok(CodeSyntax, "a field's name stands without quotes").Suggest("write %q", p.f.Text(x.Extent())+"."+p.src[t.start+1:p.stringEnd(t)])
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
		if !index && !quoted {
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
		if t.kind == tString && p.peek(1).kind == tColon {
			p.errorTok(CodeSyntax, "a field's name stands without quotes").Suggest("write %q", p.src[t.start+1:p.stringEnd(t)]+": …")
			p.skipItem()
			return
		}
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
			p.errorAt(Span{t.start, p.peek(1).end}, CodeSyntax, "arguments have no names").Suggest("%s", argumentHint(fn, p.text(t)))
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

// argumentHint says what to write for an argument that has a name: it may be meant as an option.
func argumentHint(fn QName, name string) string {
	k := OptionByName(name)
	if m := option.MeantInCall(name); k == BadOption && m != "" {
		k = OptionByName(m)
	}
	if k == BadOption {
		return "write the values in the order of the parameters"
	}
	return fmt.Sprintf("an option follows the call: write \"%s(…) with %s\"", fn, k.example())
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
		if x.With != nil { // "f(x) with retry: 3 with timeout: 5s" has one clause, as if there were a comma
			p.take()
			p.withOptions(x.With)
			x.With.Span = p.from(x.With.Start)
			x.Span = p.from(x.Start)
			return
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

// lambdaStart reports whether a lambda begins at the current token; one with "->" for its
// arrow is reported when it is read.
func (p *parser) lambdaStart() bool {
	switch t := p.tok(); t.kind {
	case tIdent:
		return p.peek(1).kind == tFatArrow || p.peek(1).kind == tArrow
	case tLParen: // in a branch, "(a) -> b" is a case
		return t.match > 0 && (p.toks[t.match+1].kind == tFatArrow || p.arguments && p.toks[t.match+1].kind == tArrow)
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
	if p.kind() == tArrow {
		p.errorTok(CodeSyntax, `"->" makes no lambda`).Suggest(lambdaHint)
		p.take()
		l.Body = p.expr()
	} else if p.expect(tFatArrow, `"=>"`) {
		l.Body = p.expr()
	} else {
		l.Body = &BadExpr{p.here()}
	}
	l.Span = p.from(start)
	return l
}
