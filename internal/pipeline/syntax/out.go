package syntax

// outDecl reads an output: "out name", "out name = expr", "out r.f",
// "out r{a, b}", "out {a, b: expr}".
func (p *parser) outDecl(start int32, annotations []*Annotation) Decl {
	p.take()
	d := &OutDecl{Annotations: annotations}
	switch t := p.tok(); {
	case t.kind.isWord() && p.peek(1).kind == tAssign:
		name, _ := p.name("the name of an output")
		p.take()
		d.Name = &name
		d.Value = p.expr()
		d.Outputs = []Output{{name, d.Value}}
	case p.declStart(p.i) && t.newLine || t.kind == tEOF:
		p.unexpected("the name of an output")
		d.Value = &BadExpr{p.here()}
	case t.kind.isReserved() && !p.keywordExpr():
		p.reservedName(t, "the name of an output")
		p.take()
		d.Value = &BadExpr{t.span()}
	default:
		d.Value = p.expr()
		d.Outputs = p.outputs(d.Value)
	}
	d.Span = p.from(start)
	p.checkAnnotations(d.Annotations, "an output", Sink)
	return d
}

// keywordExpr reports whether the reserved word at the current token begins
// an expression: it may, and something that is no new declaration follows.
func (p *parser) keywordExpr() bool {
	next := p.peek(1)
	return p.kind().beginsExpr() && next.kind.beginsExpr() && !(next.newLine && p.declStart(p.i+1))
}

// outputs names the outputs of "out expr".
func (p *parser) outputs(e Expr) []Output {
	switch e := Unparen(e).(type) {
	case *Name:
		return []Output{{Ident{e.Span, e.Name}, e}}
	case *FieldExpr:
		return []Output{{e.Field, e}}
	case *ProjectExpr:
		if !isPath(e.X) {
			break
		}
		var list []Output
		for _, f := range e.Fields {
			list = append(list, Output{f, &FieldExpr{Span: f.Span, X: e.X, Field: f}})
		}
		return list
	case *RecordLit:
		var list []Output
		for _, f := range e.Fields {
			list = append(list, Output{f.Name, f.Value})
		}
		if len(list) > 0 {
			return list
		}
	case *BadExpr:
		return nil
	}
	p.errorAt(e.Extent(), CodeOutput, "this output has no name").Suggest(`write "out name = …"`)
	return nil
}

// isPath reports whether an expression is a variable or a field of one.
func isPath(e Expr) bool {
	for {
		switch x := Unparen(e).(type) {
		case *Name:
			return true
		case *FieldExpr:
			e = x.X
		default:
			return false
		}
	}
}
