package syntax

import (
	"github.com/bide-dev/bide/internal/diag"
)

// file reads all declarations.
func (p *parser) file() {
	complete := false // there is an output, or something that may be meant as one
	for p.kind() != tEOF {
		before := p.i
		p.chain, p.ctx = 0, ctxTop
		d := p.decl()
		p.f.Decls = append(p.f.Decls, d)
		switch d.(type) {
		case *OutDecl, *BadDecl:
			complete = true
		}
		if p.kind() != tEOF && !p.declStart(p.i) && !p.freshLine() {
			p.leftover(d)
		}
		if p.i == before {
			p.take()
		}
	}
	p.unnamedOutputs()
	if !complete {
		p.errorAt(p.here(), CodeOutput, "the pipeline has no output").Suggest(`add a line such as "out result"`)
	}
}

// leftover reports what stands after a declaration and is none.
func (p *parser) leftover(d Decl) {
	if _, bad := d.(*BadDecl); !bad {
		switch t := p.tok(); {
		case t.kind == tFatArrow:
			p.unexpected("a declaration or an operator").Suggest(`put the parameters of a lambda in parentheses: "(a, b) => …"`)
		case t.kind == tComma:
			p.unexpected("a declaration or an operator").Suggest("declarations need nothing between them")
		case t.kind == tRParen, t.kind == tRBrack, t.kind == tRBrace:
			p.errorTok(CodeSyntax, "nothing opens this %s", quote(p.text(t))).Suggest("remove it, or add the opening bracket")
		default:
			p.unexpected("a declaration or an operator")
		}
	}
	p.skipDecl()
}

// decl reads one declaration.
func (p *parser) decl() Decl {
	t := p.tok()
	if t.kind.isReserved() && p.peek(1).kind == tAssign {
		return p.assign()
	}
	switch t.kind {
	case tType:
		return p.typeDecl()
	case tUse:
		return p.useDecl()
	case tIn:
		return p.inDecl(t.start, nil)
	case tOut:
		return p.outDecl(t.start, nil)
	case tAt:
		return p.annotated()
	case tIdent:
		if p.peek(1).kind == tAssign {
			return p.assign()
		}
		if next := p.peek(1); p.text(t) == "policy" && next.kind.isWord() && p.peek(2).kind == tAssign {
			return p.policyDecl()
		}
	}
	return p.noDecl()
}

// declWords are the words that begin a declaration.
var declWords = []string{"in", "out", "type", "use", "policy"}

// meant maps words of other languages to ours.
var meant = map[string]string{"input": "in", "output": "out", "import": "use", "return": "out", "emit": "out", "param": "in", "alias": "type"}

// noDecl reports source that is no declaration and passes it.
func (p *parser) noDecl() Decl {
	t, next := p.tok(), p.peek(1)
	start := t.start
	switch word := p.text(t); {
	case t.kind == tIdent && next.kind == tColon:
		return p.typedAssign()
	case t.kind == tIdent && next.kind == tIdent && p.peek(2).kind == tAssign && isBinder(word):
		p.errorTok(CodeSyntax, "an assignment needs no %q", word).Suggest("write %q", p.text(next)+" = …")
		p.take()
		return p.assign()
	case t.kind == tIdent && next.kind.isWord() && !next.newLine:
		d := p.unexpected("a declaration")
		if w := meant[word]; w != "" {
			d.Suggest("did you mean %q?", w)
		} else {
			d.Suggestion = diag.DidYouMean(word, declWords)
		}
		p.take()
	case t.kind == tIdent && (next.kind == tLParen || next.kind == tDot || next.kind == tBar):
		d := p.errorTok(CodeSyntax, "this value has no name").Suggest(`write "name = …" or "out name = …"`)
		p.expr()
		if _, to := p.f.Span(p.from(start)); to > 0 {
			d.To(to)
		}
	default:
		p.unexpected("a declaration").Suggest(`a declaration is "in name: Type", "name = …", "out name", "type Name = …", "use name" or "policy name = …"`)
		p.take()
	}
	p.skipDecl()
	return &BadDecl{p.from(start)}
}

func isBinder(word string) bool {
	switch word {
	case "let", "val", "var", "const", "def", "set":
		return true
	}
	return false
}

// typedAssign reads "name: Type = expr", which is an error, as an
// assignment.
func (p *parser) typedAssign() Decl {
	name, _ := p.name("the name of a value")
	colon := p.take()
	p.typeExpr()
	p.errorAt(p.from(colon.start), CodeSyntax, "an assignment has no type of its own").
		Suggest(`write "%s = …"; an input is declared with "in %s: Type"`, name.Name, name.Name)
	if !p.got(tAssign) {
		p.lastErr = p.tok().start
		p.skipDecl()
		return &BadDecl{p.from(name.Start)}
	}
	value := p.expr()
	return &AssignDecl{p.from(name.Start), name, value}
}

func (p *parser) assign() Decl {
	name, _ := p.nameBeforeAssign()
	p.take() // =
	value := p.expr()
	return p.assigns.new(AssignDecl{p.from(name.Start), name, value})
}

func (p *parser) nameBeforeAssign() (Ident, bool) {
	t := p.take()
	if t.kind.isReserved() {
		p.reservedName(t, "the name of a value")
	}
	return Ident{t.span(), p.text(t)}, true
}

func (p *parser) typeDecl() Decl {
	start := p.take().start
	name, ok := p.name("the name of a type")
	if !ok || !p.expect(tAssign, `"=" and a type`) {
		p.skipDecl()
		return &BadDecl{p.from(start)}
	}
	typ := p.typeExpr()
	return &TypeDecl{p.from(start), name, typ}
}

func (p *parser) useDecl() Decl {
	start := p.take().start
	if k := p.kind(); k != tIdent {
		p.name("the name of a namespace")
		p.skipDecl()
		return &BadDecl{p.from(start)}
	}
	d := &UseDecl{Path: p.qname()}
	if p.got(tAs) {
		if alias, ok := p.name("an alias"); ok {
			d.Alias = &alias
		}
	}
	d.Span = p.from(start)
	return d
}

// qname reads a dotted name; only its first part must not be reserved, and
// the caller has looked at that.
func (p *parser) qname() QName {
	t := p.take()
	p.nameParts.new(Ident{t.span(), p.text(t)})
	n := len(p.nameParts.free)
	q := QName{Parts: p.nameParts.free[n-1 : n : n]}
	for p.kind() == tDot && p.link() {
		p.take()
		part, ok := p.fieldName("a name after the dot")
		if !ok {
			break
		}
		q.Parts = append(q.Parts, part)
	}
	q.Span = p.from(t.start)
	return q
}

func (p *parser) inDecl(start int32, annotations []*Annotation) Decl {
	p.take()
	name, ok := p.name("the name of an input")
	if !ok {
		p.skipDecl()
		return &BadDecl{p.from(start)}
	}
	d := &InDecl{Annotations: annotations, Name: name}
	if p.kind() == tColon {
		p.take()
		d.Type = p.typeExpr()
	} else {
		p.unexpected(`":" and a type`).Suggest(`write "in %s: String", for example`, name.Name)
		d.Type = &BadType{p.here()}
		if p.kind() == tIdent && p.peek(1).kind != tAssign {
			d.Type = p.typeExpr()
		}
	}
	if p.got(tAssign) {
		d.Default = p.expr()
	}
	d.Annotations = append(d.Annotations, p.trailing()...)
	d.Span = p.from(start)
	p.checkAnnotations(d.Annotations, "an input", Example, Source)
	return d
}

func (p *parser) policyDecl() Decl {
	start := p.take().start
	name, _ := p.name("the name of a policy")
	p.take() // =
	options := p.options()
	return &PolicyDecl{p.from(start), name, options}
}
