package check

import (
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// operators maps each to the function that it stands for, whatever the file
// imports.
var operators = map[syntax.Op]*stdlib.Func{
	syntax.Add: stdlib.AddFunc, syntax.Sub: stdlib.SubFunc, syntax.Mul: stdlib.MulFunc, syntax.Div: stdlib.DivFunc,
	syntax.Eq: stdlib.EqFunc, syntax.Ne: stdlib.NeFunc,
	syntax.Lt: stdlib.LtFunc, syntax.Le: stdlib.LeFunc, syntax.Gt: stdlib.GtFunc, syntax.Ge: stdlib.GeFunc,
}

func operate(e syntax.Node, t *types.Type, f *stdlib.Func, args ...Expr) Expr {
	return pure(e, t, f.Qualified(), f.Eval, args...)
}

func (c *checker) unary(e *syntax.UnaryExpr) Expr {
	if e.Op == syntax.Not {
		x := c.exprOf(e.X, types.Boolean)
		if isBad(x.Type()) {
			return bad(e)
		}
		return operate(e, types.Boolean, stdlib.NotFunc, x)
	}
	x := c.expr(e.X, nil)
	t, _ := operandTypes(x, x)
	switch {
	case isBad(t):
		return bad(e)
	case !t.IsNumber():
		c.errorf(e, "E014", "Arithmetic operator '-' is not supported for type %s", t)
		return bad(e)
	}
	return operate(e, t, stdlib.NegFunc, x)
}

// operandTypes gives the types of two operands. One without values, such as an
// element of [], may stand for any type: it is taken to be of the other's, and
// for an Int beside another of its kind.
func operandTypes(x, y Expr) (a, b *types.Type) {
	a, b = x.Type(), y.Type()
	switch {
	case a.Kind == types.NothingKind && b.Kind == types.NothingKind:
		return types.Int, types.Int
	case a.Kind == types.NothingKind:
		return b, b
	case b.Kind == types.NothingKind:
		return a, a
	}
	return a, b
}

func (c *checker) binary(e *syntax.BinaryExpr, want *types.Type) Expr {
	switch e.Op {
	case syntax.And, syntax.Or:
		return c.logic(e)
	case syntax.Coalesce:
		return c.coalesce(e, want)
	}
	x, y := c.expr(e.X, nil), c.expr(e.Y, nil)
	if isBad(x.Type()) || isBad(y.Type()) {
		return bad(e)
	}
	switch e.Op {
	case syntax.Eq, syntax.Ne:
		return c.equality(e, x, y)
	case syntax.Lt, syntax.Le, syntax.Gt, syntax.Ge:
		return c.comparison(e, x, y)
	case syntax.Add:
		return c.add(e, x, y)
	case syntax.Sub, syntax.Mul, syntax.Div:
		return c.arithmetic(e, x, y)
	}
	panic(&syntax.Unhandled{Reader: "the checker", Node: e.Op})
}

func (c *checker) logic(e *syntax.BinaryExpr) Expr {
	x, y := c.exprOf(e.X, types.Boolean), c.exprOf(e.Y, types.Boolean)
	if isBad(x.Type()) || isBad(y.Type()) {
		return bad(e)
	}
	s := &Select{base: base{types.Boolean, e.Span}, Op: e.Op.String()}
	if e.Op == syntax.And {
		s.Arms = []Arm{{x, y}, {nil, constant(e, types.Boolean, false)}}
	} else {
		s.Arms = []Arm{{x, constant(e, types.Boolean, true)}, {nil, y}}
	}
	return s
}

func (c *checker) equality(e *syntax.BinaryExpr, x, y Expr) Expr {
	a, b := operandTypes(x, y)
	ok := isScalar(a) && (types.Equal(a, b) || a.IsNumber() && b.IsNumber())
	if c.env.Compat {
		ok = types.Equal(a, b) && (a.Kind == types.IntKind || a.Kind == types.StringKind)
	}
	if !ok {
		c.notComparable(e, a, b)
		return bad(e)
	}
	return operate(e, types.Boolean, operators[e.Op], x, y)
}

func isScalar(t *types.Type) bool {
	return t.IsNumber() || t.Kind == types.StringKind || t.Kind == types.BooleanKind
}

// notComparable reports operands of different types as a mismatch, and those of
// one type as one that the operator does not take.
func (c *checker) notComparable(e *syntax.BinaryExpr, a, b *types.Type) {
	var p *diag.Problem
	if types.Equal(a, b) {
		p = c.errorf(e, "E013", "Operator '%s' is not supported for types %s and %s", e.Op, a, b)
	} else {
		p = c.errorf(e, "E010", "Type mismatch: '%s' compares %s with %s", e.Op, a, b)
	}
	if a.Kind == types.OptionalKind || b.Kind == types.OptionalKind {
		p.Suggest("say what to use if there is none: (… ?? default)")
	}
}

func (c *checker) comparison(e *syntax.BinaryExpr, x, y Expr) Expr {
	a, b := operandTypes(x, y)
	ok := a.IsNumber() && b.IsNumber() || a.Kind == types.StringKind && b.Kind == types.StringKind
	if c.env.Compat {
		ok = a.Kind == types.IntKind && b.Kind == types.IntKind
	}
	if !ok {
		c.notComparable(e, a, b)
		return bad(e)
	}
	return operate(e, types.Boolean, operators[e.Op], x, y)
}

// add is + : merging records, joining Strings, adding numbers.
func (c *checker) add(e *syntax.BinaryExpr, x, y Expr) Expr {
	a, b := operandTypes(x, y)
	switch {
	case types.Mergeable(a) && types.Mergeable(b):
		return pure(e, types.Merge(a, b), "merge", merge, x, y)
	case a.Kind == types.StringKind && b.Kind == types.StringKind && !c.env.Compat:
		return operate(e, types.String, stdlib.ConcatFunc, x, y)
	}
	return c.arithmetic(e, x, y)
}

func (c *checker) arithmetic(e *syntax.BinaryExpr, x, y Expr) Expr {
	a, b := operandTypes(x, y)
	if !a.IsNumber() || !b.IsNumber() {
		p := c.errorf(e, "E014", "Arithmetic operator '%s' is not supported for types %s and %s", e.Op, a, b)
		switch {
		case e.Op == syntax.Add && (types.Mergeable(a) || types.Mergeable(b)):
			p.Suggest("+ merges two records, two lists of records, or a record with each element of a list")
		case a.Kind == types.OptionalKind || b.Kind == types.OptionalKind:
			p.Suggest("say what to use if there is none: (… ?? default)")
		case e.Op == syntax.Add && (a.Kind == types.StringKind || b.Kind == types.StringKind):
			p.Suggest("write \"${…}${…}\" to join them as text")
		}
		return bad(e)
	}
	t := types.Int
	if a.Kind == types.FloatKind || b.Kind == types.FloatKind {
		t = types.Float
	}
	return operate(e, t, operators[e.Op], x, y)
}

// coalesce is a ?? b.
func (c *checker) coalesce(e *syntax.BinaryExpr, want *types.Type) Expr {
	x := c.expr(e.X, nil)
	left := x.Type()
	wantRight := want
	if left.Kind == types.OptionalKind {
		wantRight = left.Elem
	}
	y := c.expr(e.Y, wantRight)
	right := y.Type()
	switch {
	case isBad(left) || isBad(right):
		return bad(e)
	case left.Kind != types.OptionalKind:
		c.errorf(e.X, "E015", "Left side of ?? must be Optional, got %s", left).Suggest("it always has a value, so \"?? …\" can go")
		return bad(e)
	case !types.Subtype(right, left) && !types.Subtype(left.Elem, right):
		c.mismatch(e.Y, left.Elem, right)
		return bad(e)
	}
	result := types.LUB(left.Elem, right) // Optional if the right side is
	v := &Var{Name: "??", Type: left, Value: x, Span: x.Extent()}
	ref := &Ref{base{left, x.Extent()}, v}
	some := pure(e.X, types.Boolean, "some", isSome, ref)
	s := &Select{base{result, e.Span}, "??", []Arm{{some, ref}, {nil, y}}}
	return &Let{base{result, e.Span}, v, s}
}

// when is the guard: x if the condition holds, else none.
func (c *checker) when(e *syntax.WhenExpr, want *types.Type) Expr {
	if want != nil && want.Kind == types.OptionalKind {
		want = want.Elem
	}
	x := c.expr(e.X, want)
	cond := c.exprOf(e.Cond, types.Boolean)
	if isBad(x.Type()) || isBad(cond.Type()) {
		return bad(e)
	}
	t := types.OptionalOf(x.Type())
	return &Select{base{t, e.Span}, "when", []Arm{{cond, x}, {nil, constant(e, t, nil)}}}
}

func (c *checker) ifElse(e *syntax.IfExpr, want *types.Type) Expr {
	cond := c.exprOf(e.Cond, types.Boolean)
	return c.selection(e, "if", []Arm{{cond, c.expr(e.Then, want)}, {nil, c.expr(e.Else, want)}})
}

func (c *checker) branch(e *syntax.BranchExpr, want *types.Type) Expr {
	arms := make([]Arm, 0, len(e.Cases)+1)
	for _, k := range e.Cases {
		arms = append(arms, Arm{c.exprOf(k.Cond, types.Boolean), c.expr(k.Value, want)})
	}
	if e.Otherwise == nil {
		return bad(e)
	}
	return c.selection(e, "branch", append(arms, Arm{nil, c.expr(e.Otherwise, want)}))
}

// selection makes a Select whose type is what all its arms have in common.
func (c *checker) selection(e syntax.Node, op string, arms []Arm) Expr {
	t := types.Nothing
	for _, a := range arms {
		if a.Test != nil && isBad(a.Test.Type()) {
			return bad(e)
		}
		if t != a.Value.Type() {
			t = types.LUB(t, a.Value.Type())
		}
	}
	if isBad(t) {
		return bad(e)
	}
	return &Select{base{t, e.Extent()}, op, arms}
}
