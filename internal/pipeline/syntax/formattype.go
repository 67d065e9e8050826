package syntax

func (p *printer) typ(t TypeExpr) {
	p.at(leftmostType(t))
	switch t := t.(type) {
	case *NamedType:
		p.text(t.Name)
	case *GenericType:
		p.text(t.Name.Name)
		p.list("<", ">", t.End, false, len(t.Args), func(p *printer, i int) { p.typ(t.Args[i]) })
	case *RecordType:
		p.list("{", "}", t.End, true, len(t.Fields), func(p *printer, i int) {
			p.name(t.Fields[i].Name)
			p.word(":")
			p.typ(t.Fields[i].Type)
		})
	case *UnionType:
		p.union(t)
	case *MergeType:
		p.merge(t)
	default:
		panic(&Unhandled{"the formatter", t})
	}
}

// leftmostType is the offset of the first token of a type that is not a
// parenthesis.
func leftmostType(t TypeExpr) int32 {
	for {
		switch x := t.(type) {
		case *UnionType:
			t = x.Members[0]
		case *MergeType:
			t = x.X
		default:
			return t.Extent().Start
		}
	}
}

func (p *printer) union(t *UnionType) {
	line := func(q *printer, sep func()) {
		for i, m := range t.Members {
			if q.full() {
				return
			}
			if i > 0 {
				sep()
				q.word("|")
			}
			_, nested := m.(*UnionType)
			q.groupType(m, nested)
		}
	}
	if p.fits(t.End, func(q *printer) { line(q, q.sp) }) {
		line(p, p.sp)
		return
	}
	p.nest(func() { line(p, p.newline) })
}

func (p *printer) merge(t *MergeType) {
	parts := []TypeExpr{t.Y}
	x := t.X
	for {
		m, ok := x.(*MergeType)
		if !ok {
			break
		}
		parts = append(parts, m.Y)
		x = m.X
	}
	_, union := x.(*UnionType)
	p.groupType(x, union)
	for i := len(parts) - 1; i >= 0 && !p.full(); i-- {
		p.sp()
		p.word("+")
		switch parts[i].(type) {
		case *UnionType, *MergeType:
			p.groupType(parts[i], true)
		default:
			p.typ(parts[i])
		}
	}
}

func (p *printer) groupType(t TypeExpr, parens bool) {
	if !parens {
		p.typ(t)
		return
	}
	p.at(leftmostType(t))
	p.text("(")
	p.typ(t)
	p.text(")")
}
