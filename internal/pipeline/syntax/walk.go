package syntax

// Inspect calls f for a node and, where f returns true, for the nodes inside
// it, in the order of the source as far as the tree has it. Names (Ident)
// and the parts of structures that are no nodes of their own (fields,
// parameters, cases) are not visited; what they hold is.
func Inspect(n Node, f func(Node) bool) {
	if !f(n) {
		return
	}
	switch n := n.(type) {
	case Decl:
		inspectDecl(n, f)
	case TypeExpr:
		inspectType(n, f)
	case Expr:
		inspectExpr(n, f)
	case *Annotation:
		if n.Value != nil {
			Inspect(n.Value, f)
		}
		for _, a := range n.Args {
			Inspect(a.Value, f)
		}
	case *WithClause:
		for _, o := range n.Options {
			Inspect(o, f)
		}
	case *Option:
		Inspect(n.Value, f)
	case *ExprValue:
		Inspect(n.X, f)
	case *RulesValue:
		for _, r := range n.Rules {
			for _, o := range r.Options {
				Inspect(o, f)
			}
		}
	case Pattern, OptionValue: // nothing is inside them
	default:
		panic(&Unhandled{"the walk over a tree", n})
	}
}

// InspectFile calls Inspect for every declaration.
func InspectFile(file *File, f func(Node) bool) {
	for _, d := range file.Decls {
		Inspect(d, f)
	}
}

func inspectDecl(d Decl, f func(Node) bool) {
	switch d := d.(type) {
	case *TypeDecl:
		Inspect(d.Type, f)
	case *InDecl:
		for _, a := range d.Annotations {
			Inspect(a, f)
		}
		Inspect(d.Type, f)
		if d.Default != nil {
			Inspect(d.Default, f)
		}
	case *OutDecl:
		for _, a := range d.Annotations {
			Inspect(a, f)
		}
		Inspect(d.Value, f)
	case *AssignDecl:
		Inspect(d.Value, f)
	case *PolicyDecl:
		for _, o := range d.Options {
			Inspect(o, f)
		}
	case *UseDecl, *BadDecl:
	default:
		panic(&Unhandled{"the walk over a tree", d})
	}
}

func inspectType(t TypeExpr, f func(Node) bool) {
	switch t := t.(type) {
	case *GenericType:
		for _, a := range t.Args {
			Inspect(a, f)
		}
	case *RecordType:
		for _, field := range t.Fields {
			Inspect(field.Type, f)
		}
	case *UnionType:
		for _, m := range t.Members {
			Inspect(m, f)
		}
	case *MergeType:
		Inspect(t.X, f)
		Inspect(t.Y, f)
	case *NamedType, *BadType:
	default:
		panic(&Unhandled{"the walk over a tree", t})
	}
}

func inspectExpr(e Expr, f func(Node) bool) {
	switch e := e.(type) {
	case *Interpolation:
		for _, part := range e.Parts {
			if part.X != nil {
				Inspect(part.X, f)
			}
		}
	case *ListLit:
		for _, x := range e.Elems {
			Inspect(x, f)
		}
	case *RecordLit:
		for _, field := range e.Fields {
			Inspect(field.Value, f)
		}
	case *ParenExpr:
		Inspect(e.X, f)
	case *FieldExpr:
		Inspect(e.X, f)
	case *ProjectExpr:
		Inspect(e.X, f)
	case *UnaryExpr:
		Inspect(e.X, f)
	case *BinaryExpr:
		Inspect(e.X, f)
		Inspect(e.Y, f)
	case *WhenExpr:
		Inspect(e.X, f)
		Inspect(e.Cond, f)
	case *IfExpr:
		Inspect(e.Cond, f)
		Inspect(e.Then, f)
		Inspect(e.Else, f)
	case *LambdaExpr:
		for _, p := range e.Params {
			if p.Type != nil {
				Inspect(p.Type, f)
			}
		}
		Inspect(e.Body, f)
	case *CallExpr:
		for _, a := range e.Args {
			Inspect(a, f)
		}
		if e.With != nil {
			Inspect(e.With, f)
		}
	default:
		inspectCases(e, f)
	}
}

func inspectCases(e Expr, f func(Node) bool) {
	switch e := e.(type) {
	case *BranchExpr:
		for _, c := range e.Cases {
			Inspect(c.Cond, f)
			Inspect(c.Value, f)
		}
		if e.Otherwise != nil {
			Inspect(e.Otherwise, f)
		}
	case *MatchExpr:
		Inspect(e.X, f)
		for _, c := range e.Cases {
			Inspect(c.Pattern, f)
			Inspect(c.Value, f)
		}
	case *Name, *IntLit, *FloatLit, *BoolLit, *StringLit, *BadExpr:
	default:
		panic(&Unhandled{"the walk over a tree", e})
	}
}
