package check

import (
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// bad stands for an expression whose problem has been reported.
func bad(e syntax.Node) Expr { return &Const{base: base{types.Invalid, e.Extent()}} }

func constant(e syntax.Node, t *types.Type, v any) Expr {
	return &Const{base{t, e.Extent()}, v}
}

func pure(e syntax.Node, t *types.Type, op string, eval func([]any) (any, error), args ...Expr) Expr {
	return &Pure{base: base{t, e.Extent()}, Op: op, Args: args, Eval: eval}
}

func isBad(t *types.Type) bool { return t.Kind == types.InvalidKind }

// exprOf checks an expression that must be of a type.
func (c *checker) exprOf(e syntax.Expr, want *types.Type) Expr {
	x := c.expr(e, want)
	if !types.Subtype(x.Type(), want) {
		c.mismatch(e, want, x.Type())
		return bad(e)
	}
	return x
}

func (c *checker) mismatch(n syntax.Node, want, got *types.Type) {
	p := c.errorf(n, "E010", "Type mismatch: expected %s, got %s", want, got)
	switch {
	case got.Kind == types.OptionalKind && types.Subtype(got.Elem, want):
		p.Suggest("say what to use if there is none: … ?? default")
	case want.Kind == types.FloatKind && got.Kind == types.IntKind:
		p.Suggest("write to-float(…), or a number with a point")
	case want.Kind == types.IntKind && got.Kind == types.FloatKind:
		p.Suggest("write to-int(…) or round(…)")
	case want.Kind == types.StringKind && got.Kind != types.OptionalKind:
		p.Suggest("write \"${…}\" to make a String of it")
	case want.Kind == types.ListKind && got.Kind == types.SeqKind && types.Subtype(got.Elem, want.Elem):
		p.Suggest("write collect(…)")
	}
}

// sized refuses a type that has grown beyond all bounds.
func (c *checker) sized(n syntax.Node, x Expr) Expr {
	if !x.Type().TooLarge() {
		return x
	}
	c.errorf(n, "E015", "The type of this expression has more than %d parts", types.MaxSize).
		Suggest("take the fields that are needed: x[a, b]")
	return bad(n)
}

// expr checks an expression. want is the type that its place wants, nil if
// any; it decides what literals and lambdas are checked as, but whether the
// result fits is for the caller to see.
func (c *checker) expr(e syntax.Expr, want *types.Type) Expr {
	x := c.meaning(e, want)
	if c.info != nil {
		c.info.Types[e] = x.Type()
	}
	return x
}

func (c *checker) meaning(e syntax.Expr, want *types.Type) Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return c.expr(e.X, want)
	case *syntax.IntLit:
		return constant(e, types.Int, e.Value)
	case *syntax.FloatLit:
		return constant(e, types.Float, e.Value)
	case *syntax.BoolLit:
		return constant(e, types.Boolean, e.Value)
	case *syntax.StringLit:
		return constant(e, types.String, e.Value)
	case *syntax.Name:
		return c.name(e, want)
	case *syntax.Interpolation:
		return c.interpolation(e)
	case *syntax.ListLit:
		return c.sized(e, c.list(e, want))
	case *syntax.RecordLit:
		return c.sized(e, c.record(e, want))
	case *syntax.FieldExpr:
		return c.field(e)
	case *syntax.ProjectExpr:
		return c.project(e)
	case *syntax.UnaryExpr:
		return c.unary(e)
	case *syntax.BinaryExpr:
		return c.sized(e, c.binary(e, want))
	case *syntax.WhenExpr:
		return c.when(e, want)
	case *syntax.IfExpr:
		return c.sized(e, c.ifElse(e, want))
	case *syntax.BranchExpr:
		return c.sized(e, c.branch(e, want))
	case *syntax.MatchExpr:
		return c.sized(e, c.match(e, want))
	case *syntax.LambdaExpr:
		if want != nil && want.Kind == types.FuncKind {
			return c.lambda(e, want)
		}
		c.errorf(e, "E015", "A lambda may stand only as an argument of a function that takes one").
			Suggest("as in map(xs, (x) => x + 1)")
		return bad(e)
	case *syntax.CallExpr:
		return c.sized(e, c.call(e))
	case *syntax.BadExpr:
		return bad(e) // reported by the parser
	}
	panic(&syntax.Unhandled{Reader: "the checker", Node: e})
}

func (c *checker) name(e *syntax.Name, want *types.Type) Expr {
	if v := c.lookup(e.Name); v != nil {
		c.noteUse(e.Span, v)
		return &Ref{base{v.Type, e.Span}, v}
	}
	if want != nil && want.Kind == types.FuncKind && len(c.env.byName[e.Name]) > 0 {
		return c.functionAsLambda(e, want)
	}
	if e.Name != "" {
		c.undefined(e)
	}
	return bad(e)
}

// functionAsLambda reads map(xs, f) as map(xs, (x) => f(x)).
func (c *checker) functionAsLambda(e *syntax.Name, want *types.Type) Expr {
	id := syntax.Ident{Span: e.Span, Name: e.Name}
	call := &syntax.CallExpr{Span: e.Span, Func: syntax.QName{Span: e.Span, Parts: []syntax.Ident{id}}}
	l := &syntax.LambdaExpr{Span: e.Span, Body: call}
	for i := range want.Params {
		// No source can have a name with a blank in it.
		param := syntax.Ident{Span: e.Span, Name: "argument " + string(rune('1'+i))}
		l.Params = append(l.Params, syntax.Param{Name: param})
		call.Args = append(call.Args, &syntax.Name{Span: e.Span, Name: param.Name})
	}
	return c.lambda(l, want)
}

func (c *checker) interpolation(e *syntax.Interpolation) Expr {
	var args []Expr
	pieces := make([]string, 1, len(e.Parts)+1)
	for _, p := range e.Parts {
		if p.X == nil {
			pieces[len(pieces)-1] += p.Text
			continue
		}
		args = append(args, c.expr(p.X, nil))
		pieces = append(pieces, "")
	}
	return pure(e, types.String, "interpolation:"+quoteAll(pieces), interpolate(pieces), args...)
}

func (c *checker) list(e *syntax.ListLit, want *types.Type) Expr {
	var wantElem *types.Type
	if want != nil && want.Kind == types.OptionalKind {
		want = want.Elem
	}
	if want != nil && want.IsSequence() {
		wantElem = want.Elem
	}
	elem := types.Nothing
	args := make([]Expr, len(e.Elems))
	constants := true
	for i, x := range e.Elems {
		args[i] = c.expr(x, wantElem)
		if elem != args[i].Type() {
			elem = types.LUB(elem, args[i].Type())
		}
		_, isConst := args[i].(*Const)
		constants = constants && isConst
	}
	if isBad(elem) {
		return bad(e)
	}
	if constants {
		return constant(e, types.ListOf(elem), value.Map(args, func(a Expr) any { return a.(*Const).Value }))
	}
	return pure(e, types.ListOf(elem), "list", makeList, args...)
}

func (c *checker) record(e *syntax.RecordLit, want *types.Type) Expr {
	if want != nil && want.Kind == types.OptionalKind {
		want = want.Elem
	}
	if want != nil && want.Kind != types.RecordKind {
		want = nil
	}
	fields := make([]types.Field, 0, len(e.Fields))
	names := make([]string, len(e.Fields))
	args := make([]Expr, len(e.Fields))
	seen := make(map[string]bool, len(e.Fields))
	for i, f := range e.Fields {
		names[i] = f.Name.Name
		if seen[names[i]] && names[i] != "" {
			c.warnf(f.Name, "redefined", "The field %s is given twice; the last counts", names[i]).Suggest("remove one of the two")
		}
		seen[names[i]] = true
		var wantField *types.Type
		if want != nil {
			wantField = want.Field(names[i])
		}
		args[i] = c.expr(f.Value, wantField)
		fields = append(fields, types.Field{Name: names[i], Type: args[i].Type()})
	}
	fields, ok := c.completeRecord(e, want, seen, fields)
	if !ok {
		return bad(e)
	}
	return pure(e, types.RecordOf(fields...), "record:"+quoteAll(names), makeRecord(names), args...)
}

// completeRecord adds the optional fields that the wanted type has and the
// literal leaves out (they are none), and reports other missing ones.
func (c *checker) completeRecord(e *syntax.RecordLit, want *types.Type, seen map[string]bool, fields []types.Field) ([]types.Field, bool) {
	if want == nil {
		return fields, true
	}
	var missing []string
	for _, f := range want.Fields {
		switch {
		case seen[f.Name]:
		case f.Type.Kind == types.OptionalKind:
			fields = append(fields, f)
		default:
			missing = append(missing, f.Name)
		}
	}
	if len(missing) == 0 {
		return fields, true
	}
	p := c.errorf(e, "E010", "Record literal is missing required field(s): %s", strings.Join(missing, ", "))
	for name := range seen {
		if want.Field(name) == nil && diag.Nearest(name, missing) != "" {
			p.Suggest("did you mean %q instead of %q?", diag.Nearest(name, missing), name)
		}
	}
	return nil, false
}

func (c *checker) field(e *syntax.FieldExpr) Expr {
	x, rec, each := c.recordIn(e, e.X, "Field access")
	if rec == nil {
		return bad(e)
	}
	t, name := x.Type(), e.Field.Name
	ft := rec.Field(name)
	if ft == nil {
		if name != "" {
			p := c.noField(e.Field, "E007", "field access", rec)
			if f := map[string]string{"length": "list-length", "size": "list-length", "count": "list-length", "first": "list-first", "last": "list-last", "isEmpty": "list-is-empty"}[e.Field.Name]; each && f != "" && p.Suggestion == "" {
				p.Suggest("a list has functions: write %q", f+"(…)")
			}
		}
		return bad(e)
	}
	if c.info != nil {
		c.info.Fields[e.Field.Span] = ft
	}
	if !each {
		return pure(e, ft, "field:"+name, getField(name), x)
	}
	return pure(e, sequenceLike(t, ft), "fields:"+name, eachItem(getField(name)), x)
}

// recordIn checks an expression that has to be a record, or a sequence of them, of
// which each is meant; the record is nil where it is neither.
func (c *checker) recordIn(e syntax.Node, of syntax.Expr, what string) (x Expr, rec *types.Type, each bool) {
	x = c.expr(of, nil)
	t := x.Type()
	if rec = t; t.IsSequence() {
		rec, each = t.Elem, true
	}
	switch {
	case isBad(t) || isBad(rec):
		return x, nil, each
	case rec.Kind != types.RecordKind:
		c.notRecord(e, what, t)
		return x, nil, each
	}
	return x, rec, each
}

func (c *checker) noField(name syntax.Ident, code, what string, rec *types.Type) *diag.Problem {
	p := c.errorf(name, code, "Invalid %s: field '%s' not found. Available: %s", what, name.Name, strings.Join(rec.FieldNames(), ", "))
	p.Suggestion = c.didYouMean(name.Name, len(rec.Fields), rec.FieldNames)
	return p
}

// sequenceLike is a List or Seq, as t is, of elem.
func sequenceLike(t, elem *types.Type) *types.Type {
	if t.Kind == types.SeqKind {
		return types.SeqOf(elem)
	}
	return types.ListOf(elem)
}

func (c *checker) notRecord(e syntax.Node, what string, t *types.Type) {
	p := c.errorf(e, "E015", "%s requires a record type, got %s", what, t)
	switch t.Kind {
	case types.OptionalKind:
		p.Suggest("say what to use if there is none: (… ?? default)")
	case types.UnionKind:
		p.Suggest("tell its members apart with match first")
	case types.MapKind:
		p.Suggest("write map-get(…, key)")
	}
}

func (c *checker) project(e *syntax.ProjectExpr) Expr {
	x, rec, each := c.recordIn(e, e.X, "Projection")
	if rec == nil {
		return bad(e)
	}
	fields := make([]types.Field, 0, len(e.Fields))
	names := make([]string, 0, len(e.Fields))
	ok := true
	for _, id := range e.Fields {
		ft := rec.Field(id.Name)
		if ft == nil {
			ok = false
			c.noField(id, "E006", "projection", rec)
			continue
		}
		fields = append(fields, types.Field{Name: id.Name, Type: ft})
		names = append(names, id.Name)
	}
	if !ok {
		return bad(e)
	}
	out := types.RecordOf(fields...)
	if !each {
		return pure(e, out, "project:"+quoteAll(names), projectRecord(names), x)
	}
	return pure(e, sequenceLike(x.Type(), out), "projects:"+quoteAll(names), eachItem(projectRecord(names)), x)
}

// lambda checks a function against the type that its place wants.
func (c *checker) lambda(e *syntax.LambdaExpr, want *types.Type) Expr {
	if len(e.Params) != len(want.Params) {
		c.errorf(e, "E015", "Lambda has %d parameter(s) but expected %d", len(e.Params), len(want.Params))
		c.checkLoose([]syntax.Expr{e})
		return bad(e)
	}
	saved := c.local
	defer func() { c.local = saved }()
	l := &Lambda{}
	for i, p := range e.Params {
		v := &Var{Name: p.Name.Name, Kind: ParamVar, Type: want.Params[i], Span: p.Name.Span}
		if p.Type != nil {
			t := c.resolveType(p.Type)
			if !types.Subtype(want.Params[i], t) {
				c.mismatch(p.Type, want.Params[i], t)
				t = types.Invalid
			}
			v.Type = t
		}
		c.noteLocal(v, ParamSymbol, e.Body)
		l.Params = append(l.Params, v)
		c.local = &scope{v, c.local}
	}
	var wantBody *types.Type
	if !want.Elem.Generic() {
		wantBody = want.Elem
	}
	l.Body = c.expr(e.Body, wantBody)
	params := value.Map(l.Params, func(v *Var) *types.Type { return v.Type })
	l.base = base{types.FuncOf(params, l.Body.Type()), e.Span}
	return l
}
