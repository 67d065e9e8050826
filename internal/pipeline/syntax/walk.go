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
		inspectAny(f, n.Value)
		for _, a := range n.Args {
			Inspect(a.Value, f)
		}
	case *WithClause:
		inspectAll(n.Options, f)
	case *Option:
		Inspect(n.Value, f)
	case *ExprValue:
		Inspect(n.X, f)
	case *RulesValue:
		for _, r := range n.Rules {
			inspectAll(r.Options, f)
		}
	case Pattern, OptionValue: // nothing is inside them
	default:
		panic(&Unhandled{"the walk over a tree", n})
	}
}

// inspectAny is Inspect for those of some nodes that are there.
func inspectAny(f func(Node) bool, nodes ...Node) {
	for _, n := range nodes {
		if n != nil {
			Inspect(n, f)
		}
	}
}

func inspectAll[N Node](nodes []N, f func(Node) bool) {
	for _, n := range nodes {
		Inspect(n, f)
	}
}

// InspectFile calls Inspect for every declaration.
func InspectFile(file *File, f func(Node) bool) {
	inspectAll(file.Decls, f)
}

func inspectDecl(d Decl, f func(Node) bool) {
	switch d := d.(type) {
	case *TypeDecl:
		Inspect(d.Type, f)
	case *InDecl:
		inspectAll(d.Annotations, f)
		inspectAny(f, d.Type, d.Default)
	case *OutDecl:
		inspectAll(d.Annotations, f)
		Inspect(d.Value, f)
	case *AssignDecl:
		Inspect(d.Value, f)
	case *PolicyDecl:
		inspectAll(d.Options, f)
	case *UseDecl, *BadDecl:
	default:
		panic(&Unhandled{"the walk over a tree", d})
	}
}

func inspectType(t TypeExpr, f func(Node) bool) {
	switch t := t.(type) {
	case *GenericType:
		inspectAll(t.Args, f)
	case *RecordType:
		for _, field := range t.Fields {
			Inspect(field.Type, f)
		}
	case *UnionType:
		inspectAll(t.Members, f)
	case *MergeType:
		inspectAny(f, t.X, t.Y)
	case *NamedType, *BadType:
	default:
		panic(&Unhandled{"the walk over a tree", t})
	}
}

func inspectExpr(e Expr, f func(Node) bool) {
	switch e := e.(type) {
	case *Interpolation:
		for _, part := range e.Parts {
			inspectAny(f, part.X)
		}
	case *ListLit:
		inspectAll(e.Elems, f)
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
		inspectAny(f, e.X, e.Y)
	case *WhenExpr:
		inspectAny(f, e.X, e.Cond)
	case *IfExpr:
		inspectAny(f, e.Cond, e.Then, e.Else)
	case *LambdaExpr:
		for _, p := range e.Params {
			inspectAny(f, p.Type)
		}
		Inspect(e.Body, f)
	case *CallExpr:
		inspectAll(e.Args, f)
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
			inspectAny(f, c.Cond, c.Value)
		}
		inspectAny(f, e.Otherwise)
	case *MatchExpr:
		Inspect(e.X, f)
		for _, c := range e.Cases {
			inspectAny(f, c.Pattern, c.Value)
		}
	case *Name, *IntLit, *FloatLit, *BoolLit, *StringLit, *BadExpr:
	default:
		panic(&Unhandled{"the walk over a tree", e})
	}
}
