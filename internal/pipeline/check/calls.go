package check

import (
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

func (c *checker) call(e *syntax.CallExpr) Expr {
	target, problem := c.env.resolve(e.Func.String(), &c.imports, c.suggests)
	if problem != nil {
		// a.f(b) may be f(a, b), if a is a variable.
		if m, ok := e.AsMethod(); ok && c.lookup(e.Func.Parts[0].Name) != nil {
			return c.call(m)
		}
		c.unresolved(e, problem)
		return bad(e)
	}
	c.noteCall(e, target)
	args, bound, ok := c.arguments(e, target)
	t := bound.Apply(target.sig.Result)
	if target.sig.Like && len(args) > 0 && args[0].Type().Kind == types.SeqKind && t.Kind == types.ListKind {
		t = types.SeqOf(t.Elem)
	}
	if ok && c.env.Compat {
		ok = c.compatible(e, target, bound)
	}
	if !ok {
		// What it would have given is known, and is what the rest is checked
		// against; a generic result is only where values are right that tell it.
		if target.sig.Result.Generic() && (!bound.Knows(target.sig.Result) || !valuesRight(target.sig.Params, args)) {
			t = types.Invalid
		}
		t, _ = c.options(e, target, t)
		return &Const{base: base{t, e.Span}}
	}
	result, o := c.options(e, target, t)
	return c.makeCall(e, target, t, result, args, o)
}

// suggests reports whether names like that of a function may be looked for.
func (c *checker) suggests() bool {
	return c.quiet == 0 && c.errors <= maxProblems && !c.lostImport() && c.affordable(len(c.env.byFull))
}

// lostImport reports whether the parser may have passed over a `use`.
func (c *checker) lostImport() bool { return c.lostName("use") || c.lostName("import") }

// unresolved reports a call of nothing, and what is wrong in its arguments.
func (c *checker) unresolved(e *syntax.CallExpr, problem *diag.Problem) {
	if len(e.Func.Parts) > 1 && !c.env.namespaceExists(c.imports.alias[e.Func.Parts[0].Name]) && c.imports.alias[e.Func.Parts[0].Name] != "" {
		c.checkLoose(e.Args) // the `use` was reported
		return
	}
	if e.Func.Last().Name != "" && !c.lostImport() && !c.lostName(e.Func.Last().Name) && !slices.Contains(c.env.Wrong, e.Func.String()) {
		c.errorf(e.Func, problem.Code, "%s", problem.Message).Suggestion = problem.Suggestion
	}
	c.checkLoose(e.Args)
	if p := e.With.Get(syntax.OptPolicy); p != nil {
		if name, ok := p.Value.(*syntax.WordValue); ok {
			c.noteUse(name.Span, named{PolicySymbol, name.Word})
		}
	}
	if f := e.With.Get(syntax.OptFallback); f != nil {
		if v, ok := f.Value.(*syntax.ExprValue); ok {
			c.quietly(func() { c.expr(v.X, nil) })
		}
	}
}

// valuesRight reports whether the arguments of a call that are no functions are right.
func valuesRight(params []types.Param, args []Expr) bool {
	for i, p := range params {
		if p.Type.Kind != types.FuncKind && (i >= len(args) || isBad(args[i].Type())) {
			return false
		}
	}
	return true
}

// checkLoose checks arguments of which nobody knows what they should be.
func (c *checker) checkLoose(args []syntax.Expr) {
	for _, a := range args {
		l, isLambda := syntax.Unparen(a).(*syntax.LambdaExpr)
		if !isLambda {
			c.expr(a, nil)
			continue
		}
		ids := value.Map(l.Params, func(p syntax.Param) syntax.Ident { return p.Name })
		c.unknown(ids, ParamSymbol, l.Body, nil)
	}
}

// arguments checks the arguments of a call. Functions among them come last:
// what they take follows from the others.
func (c *checker) arguments(e *syntax.CallExpr, target *callable) ([]Expr, *types.Bindings, bool) {
	bound := &types.Bindings{}
	params := target.sig.Params
	if len(e.Args) != len(params) {
		c.errorf(e, "E015", "Function %s expects %s, got %d", e.Func, diag.Count(len(params), "argument"), len(e.Args)).
			Suggest("it is declared as %s%s", target.name, target.sig)
		c.checkLoose(e.Args)
		return nil, bound, false
	}
	args := make([]Expr, len(params))
	ok := true
	for i, p := range params {
		if p.Type.Kind != types.FuncKind {
			args[i] = c.argument(e.Args[i], p.Type, bound)
			ok = ok && !isBad(args[i].Type())
		}
	}
	for i, p := range params {
		if p.Type.Kind != types.FuncKind {
			continue
		}
		if !ok {
			c.checkLoose(e.Args[i : i+1])
			continue
		}
		args[i] = c.function(e.Args[i], p.Type, bound)
		ok = ok && !isBad(args[i].Type())
	}
	return args, bound, ok
}

func (c *checker) argument(e syntax.Expr, param *types.Type, bound *types.Bindings) Expr {
	var want *types.Type
	if !param.Generic() {
		want = param
	}
	x := c.expr(e, want)
	if isBad(x.Type()) {
		return x
	}
	if !bound.Match(param, x.Type()) {
		if want != nil {
			c.mismatch(e, want, x.Type())
		} else {
			c.errorf(e, "E010", "Type mismatch: expected %s, got %s", bound.Show(param), x.Type())
		}
		return bad(e)
	}
	return x
}

// function checks an argument that is to be a function.
func (c *checker) function(e syntax.Expr, param *types.Type, bound *types.Bindings) Expr {
	takes := value.Map(param.Params, bound.Apply)
	x := c.expr(e, types.FuncOf(takes, param.Elem))
	l, ok := x.(*Lambda)
	switch {
	case isBad(x.Type()):
		return x
	case !ok:
		c.errorf(e, "E010", "Type mismatch: expected %s, got %s", bound.Show(param), x.Type()).Suggest("write a function, as in (x) => …")
		return bad(e)
	case isBad(l.Body.Type()):
		return bad(e)
	case !bound.Match(param, l.Type()):
		c.errorf(l.Body, "E010", "Type mismatch: expected %s, got %s", bound.Show(param.Elem), l.Body.Type())
		return bad(e)
	}
	return l
}

// compatible refuses the uses of standard functions that the original does not
// have: there they are for one type alone.
func (c *checker) compatible(e *syntax.CallExpr, target *callable, bound *types.Bindings) bool {
	if target.fn == nil || target.fn.Ours {
		return true
	}
	only := types.Int
	switch target.name {
	case "identity":
		only = types.String
	case "round", "to-int":
		only = types.Float
	}
	for _, t := range bound.Bound() {
		if !types.Subtype(t, only) {
			c.errorf(e, "E010", "Type mismatch: expected %s, got %s", only, t)
			return false
		}
	}
	return true
}

// options checks the options of a call, if it has any, and gives the type of
// its result with them.
func (c *checker) options(e *syntax.CallExpr, target *callable, t *types.Type) (*types.Type, *Options) {
	if e.With == nil || len(e.With.Options) == 0 {
		return t, nil
	}
	o := c.with(e.With, target, t)
	if o.OnError == Wrap && !isBad(t) {
		t = types.ResultOf(t)
	}
	return t, o
}

// makeCall makes the expression of a call that is right. t is what the
// function gives, result what the call gives.
func (c *checker) makeCall(e *syntax.CallExpr, target *callable, t, result *types.Type, args []Expr, o *Options) Expr {
	b := base{result, e.Span}
	f := target.fn
	if f == nil {
		return &Call{b, target.mod, args, o}
	}
	if f.Each != nil {
		return &Apply{b, f, args[0], args[1].(*Lambda), o}
	}
	eval := f.Eval
	if t.Kind == types.FloatKind && f.Sig.Result.Generic() {
		eval = asFloat(eval)
	}
	if o == nil {
		return &Pure{b, f.Qualified(), args, eval}
	}
	typed := &stdlib.Func{Namespace: f.Namespace, Name: f.Name, Eval: eval}
	return &Call{b, typed.Module(types.Signature{Params: f.Sig.Params, Result: t}), args, o}
}

// isLazy reports whether an expression is a call with the option lazy.
func isLazy(x Expr) bool {
	switch x := x.(type) {
	case *Call:
		return x.Options != nil && x.Options.Lazy
	case *Apply:
		return x.Options != nil && x.Options.Lazy
	}
	return false
}
