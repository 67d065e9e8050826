package syntax

import "github.com/bide-dev/bide/internal/diag"

// outDecl reads an output: "out name", "out name = expr", "out r.f",
// "out r{a, b}", "out {a, b: expr}", and "out expr" of anything else.
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
		d.Outputs, d.Unnamed = p.outputs(d.Value)
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

// outputs names the outputs of "out expr", and tells whether the name had to be
// made up.
func (p *parser) outputs(e Expr) (list []Output, unnamed bool) {
	switch e := Unparen(e).(type) {
	case *Name:
		return []Output{{Ident{e.Span, e.Name}, e}}, false
	case *FieldExpr:
		return []Output{{e.Field, e}}, false
	case *ProjectExpr:
		if !isPath(e.X) {
			p.noOutputName(e)
		} else {
			for _, f := range e.Fields {
				list = append(list, Output{f, &FieldExpr{Span: f.Span, X: e.X, Field: f}})
			}
		}
		return list, false
	case *RecordLit:
		for _, f := range e.Fields {
			list = append(list, Output{f.Name, f.Value})
		}
		if len(list) == 0 {
			p.noOutputName(e)
		}
		return list, false
	case *BadExpr:
		return nil, false
	}
	return []Output{{Ident{e.Extent(), UnnamedOutput}, e}}, true
}

func (p *parser) noOutputName(e Expr) *diag.Problem {
	return p.errorAt(e.Extent(), CodeOutput, "this output has no name").Suggest(`write "out name = …"`)
}

// unnamedOutputs refuses an output without a name where another has the name
// that it would get.
func (p *parser) unnamedOutputs() {
	taken := 0
	var unnamed []*OutDecl
	for _, d := range p.f.Decls {
		d, ok := d.(*OutDecl)
		if !ok {
			continue
		}
		if d.Unnamed {
			unnamed = append(unnamed, d)
			continue
		}
		for _, o := range d.Outputs {
			if o.Name.Name == UnnamedOutput {
				taken++
			}
		}
	}
	for i, d := range unnamed {
		if i > 0 || taken > 0 {
			p.noOutputName(d.Value)
		}
	}
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
