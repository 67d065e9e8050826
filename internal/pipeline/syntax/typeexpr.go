package syntax

// typeExpr reads a type: "|" binds looser than "+", both group to the left.
func (p *parser) typeExpr() TypeExpr {
	defer p.leave()
	if !p.enter() {
		return &BadType{p.here()}
	}
	start := p.tok().start
	first := p.mergeType()
	if p.kind() != tBar {
		return first
	}
	u := &UnionType{Members: []TypeExpr{first}}
	for p.kind() == tBar && p.link() {
		p.take()
		u.Members = append(u.Members, p.mergeType())
	}
	u.Span = p.from(start)
	return u
}

func (p *parser) mergeType() TypeExpr {
	start := p.tok().start
	x := p.primType()
	for p.kind() == tPlus && p.link() {
		p.take()
		y := p.primType()
		x = &MergeType{p.from(start), x, y}
	}
	return x
}

func (p *parser) primType() TypeExpr {
	t := p.tok()
	switch {
	case t.kind == tIdent:
		p.take()
		name := Ident{t.span(), p.text(t)}
		if p.kind() == tLt || p.kind() == tLBrack {
			return p.genericType(name)
		}
		if p.kind() == tQuestion {
			p.errorTok(CodeCharacter, `there is no type %s`, quote(name.Name+"?")).Suggest("write %q", "Optional<"+name.Name+">")
			p.take()
		}
		return &NamedType{t.span(), name.Name}
	case t.kind == tLBrack:
		return p.bracketType(t)
	case t.kind == tLBrace:
		r := &RecordType{}
		p.items(tRBrace, ctxInside, "a field", func() {
			if f, ok := p.typeField(); ok {
				r.Fields = append(r.Fields, f)
			}
		})
		r.Span = p.from(t.start)
		return r
	case t.kind == tLParen:
		p.take()
		inner := p.typeExpr()
		if !p.got(tRParen) {
			p.notClosed(t, tRParen)
		}
		p.upTo(inner)
		return inner
	case t.kind.isReserved() && !p.declStart(p.i) && !t.newLine:
		p.reservedName(t, "a type")
		p.take()
		return &BadType{t.span()}
	}
	p.unexpected("a type")
	return &BadType{p.here()}
}

func (p *parser) typeField() (TypeField, bool) {
	name, ok := p.fieldName("a field name")
	if !ok {
		return TypeField{}, false
	}
	if p.kind() == tIdent && !p.tok().newLine {
		p.unexpected(`":" and a type`).Suggest("write %q", name.Name+": "+p.text(p.tok()))
		return TypeField{name, p.typeExpr()}, true
	}
	if !p.expect(tColon, `":" and a type`) {
		return TypeField{Name: name, Type: &BadType{p.here()}}, true
	}
	return TypeField{name, p.typeExpr()}, true
}

// genericName reports whether a type of this name has types in brackets.
func genericName(name string) bool {
	switch name {
	case "List", "Seq", "Candidates", "Optional", "Map":
		return true
	}
	return false
}

// bracketType reads "[T]", which is no type, as the list that it is meant to
// be.
func (p *parser) bracketType(open *token) TypeExpr {
	p.take()
	inner := p.typeExpr()
	if !p.got(tRBrack) {
		p.notClosed(open, tRBrack)
		return &BadType{p.from(open.start)}
	}
	s := p.from(open.start)
	p.errorAt(s, CodeSyntax, "a list type is not written with brackets alone").Suggest("write %q", "List<"+p.f.Text(inner.Extent())+">")
	return &BadType{s}
}

// genericType reads "<T, …>" or "[T, …]" after a name.
func (p *parser) genericType(name Ident) TypeExpr {
	g := &GenericType{Name: name}
	if p.kind() == tLBrack {
		p.items(tRBrack, ctxInside, "a type", func() { g.Args = append(g.Args, p.typeExpr()) })
		g.Span = p.from(name.Start)
		if len(g.Args) == 0 && genericName(name.Name) {
			p.errorAt(g.Span, CodeSyntax, "%s needs a type between the brackets", name.Name).Suggest("write %q", name.Name+"<String>")
		} else if len(g.Args) == 0 {
			p.errorAt(g.Span, CodeSyntax, "there is no type %s", quote(name.Name+"[]")).Suggest("write %q", "List<"+name.Name+">")
		}
		return g
	}
	open := p.take()
	for {
		g.Args = append(g.Args, p.typeExpr())
		if p.got(tComma) {
			if p.got(tGt) {
				break
			}
			continue
		}
		if !p.got(tGt) {
			p.notClosed(open, tGt)
		}
		break
	}
	g.Span = p.from(name.Start)
	return g
}
