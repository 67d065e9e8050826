package plan

import (
	"sync"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/value"
)

// New makes the plan of a checked pipeline. The error lists what was accepted
// for compatibility only and cannot be run, or it is a diag.List of what only the plan
// shows to be wrong.
func New(program *check.Program) (_ *Plan, err error) {
	defer syntax.Recover(&err)
	if list := program.Unsupported(); len(list) > 0 {
		return nil, &UnsupportedError{list}
	}
	b := &builder{plan: &Plan{file: program.File}, inputs: map[string]int32{}}
	main := b.function(nil)
	main.vars = make(map[*check.Var]variable, len(program.Inputs)+len(program.Assigns))
	b.declare(main, program)
	b.finish(main, b.roots(main, program))
	b.plan.Funcs = make([]Func, len(b.funcs))
	for i, f := range b.funcs {
		b.plan.Funcs[i] = f.out
	}
	b.pure()
	if list := b.plan.conditions(); len(list) > 0 {
		return nil, list
	}
	b.plan.hash = sync.OnceValue(b.plan.digest)
	return b.plan, nil
}

// builder is the state of making one plan.
type builder struct {
	plan   *Plan
	funcs  []*function
	inputs map[string]int32 // the index in Plan.Inputs
}

// function is a Func in the making.
type function struct {
	b     *builder
	index int
	outer *function
	out   Func
	vars  map[*check.Var]variable
}

// variable is what is known of a variable in a function: its node, or what
// will become one when it is first referred to.
type variable struct {
	node  int32
	value check.Expr // not nil: not yet a node
}

func (b *builder) function(outer *function) *function {
	f := &function{b: b, index: len(b.funcs), outer: outer, vars: map[*check.Var]variable{}}
	f.out.Outer, f.out.Result = -1, None
	if outer != nil {
		f.out.Outer = outer.index
	}
	b.funcs = append(b.funcs, f)
	return f
}

func (f *function) add(n Node) int32 {
	if n.Op != Input {
		n.Default = None
	}
	f.out.Nodes = append(f.out.Nodes, n)
	return int32(len(f.out.Nodes) - 1)
}

func (b *builder) declare(main *function, program *check.Program) {
	main.out.Nodes = make([]Node, 0, 4*len(program.Assigns)+len(program.Inputs))
	for i, v := range program.Inputs {
		b.inputs[v.Name] = int32(i)
		b.plan.Inputs = append(b.plan.Inputs, Param{Name: v.Name, Type: v.Type, Node: None, Required: v.Value == nil, Examples: v.Examples})
	}
	for i, v := range program.Inputs {
		b.plan.Inputs[i].Node = main.ref(v)
	}
	for _, v := range program.Assigns {
		main.vars[v] = variable{value: v.Value}
	}
	for _, v := range program.Assigns {
		main.name(main.ref(v), v.Name)
	}
	for _, o := range program.Outputs {
		node := main.lower(o.Value)
		if _, known := o.Value.(*check.Ref); !known {
			main.name(node, o.Name)
		}
		b.plan.Outputs = append(b.plan.Outputs, Output{Name: o.Name, Type: o.Value.Type(), Node: node})
	}
}

// name names a call by what its value is called in the source.
func (f *function) name(node int32, name string) {
	if n := &f.out.Nodes[node]; n.Call != nil && n.Call.Name == n.Label {
		n.Call.Name = name
	}
}

// roots are the nodes that a run computes whatever else happens.
func (b *builder) roots(main *function, program *check.Program) []int32 {
	var roots []int32
	for _, v := range program.Assigns {
		if !v.Lazy {
			roots = append(roots, main.vars[v].node)
		}
	}
	for _, o := range b.plan.Outputs {
		roots = append(roots, o.Node)
	}
	return roots
}

// ref gives the node of a variable in f, making it if it is not yet there.
func (f *function) ref(v *check.Var) int32 {
	known, ok := f.vars[v]
	switch {
	case ok && known.value != nil:
		known = variable{node: f.lower(known.value)}
	case ok:
		return known.node
	case v.Kind == check.InputVar && f.outer == nil:
		known.node = f.input(v)
	default:
		known.node = f.add(Node{Op: Outer, Index: f.outer.ref(v), Type: v.Type, Label: v.Name, Span: v.Span})
	}
	f.vars[v] = known
	return known.node
}

func (f *function) input(v *check.Var) int32 {
	def := None
	if v.Value != nil {
		def = f.lower(v.Value)
	}
	return f.add(Node{Op: Input, Index: f.b.inputs[v.Name], Default: def, Type: v.Type, Label: v.Name, Span: v.Span})
}

func (f *function) lowerAll(xs []check.Expr) []int32 {
	return value.Map(xs, f.lower)
}

// lower adds the nodes of an expression and gives the one of its value.
func (f *function) lower(x check.Expr) int32 {
	switch x := x.(type) {
	case *check.Const:
		return f.add(Node{Op: Const, Value: x.Value, Type: x.Type(), Label: "literal", Span: x.Extent()})
	case *check.Ref:
		return f.ref(x.Var)
	case *check.Let:
		f.vars[x.Var] = variable{value: x.Var.Value}
		return f.lower(x.Body)
	case *check.Pure:
		in := f.lowerAll(x.Args)
		return f.add(Node{Op: Pure, In: in, Eval: x.Eval, Type: x.Type(), Label: x.Op, Span: x.Extent()})
	case *check.Select:
		return f.choice(x)
	case *check.Call:
		in := f.lowerAll(x.Args)
		site := f.site(x.Module.Name(), x.Options)
		site.Module = x.Module
		return f.add(Node{Op: Call, In: in, Call: site, Type: x.Type(), Label: x.Module.Name(), Span: x.Extent()})
	case *check.Apply:
		in := []int32{f.lower(x.Items)}
		site := f.site(x.Func.Qualified(), x.Options)
		site.Each, site.Fn = x.Func.Each, f.lambda(x.Fn)
		return f.add(Node{Op: Apply, In: in, Call: site, Type: x.Type(), Label: x.Func.Qualified(), Span: x.Extent()})
	}
	panic(&syntax.Unhandled{Reader: "the planner", Node: x}) // a Lambda too: it stands only in an Apply
}

// choice makes the node of a Select. Its first test is needed in any case.
func (f *function) choice(x *check.Select) int32 {
	arms := make([]Arm, len(x.Arms))
	for i, a := range x.Arms {
		arms[i].Test = None
		if a.Test != nil {
			arms[i].Test = f.lower(a.Test)
		}
		arms[i].Value = f.lower(a.Value)
	}
	n := Node{Op: Select, Arms: arms, Type: x.Type(), Label: x.Op, Span: x.Extent()}
	if arms[0].Test != None {
		n.In = []int32{arms[0].Test}
	}
	return f.add(n)
}

func (f *function) site(name string, o *check.Options) *CallSite {
	s := &CallSite{Name: name, Options: o, Fallback: None, Failure: None, Until: -1}
	if o != nil && o.Until != nil {
		s.Until = f.lambda(o.Until)
	}
	if o == nil || o.Fallback == nil {
		return s
	}
	s.Failure = f.add(Node{Op: Failure, Type: o.Failure.Type, Label: "error", Span: o.Failure.Span})
	f.vars[o.Failure] = variable{node: s.Failure}
	s.Fallback = f.lower(o.Fallback)
	delete(f.vars, o.Failure) // nothing else refers to it
	return s
}

func (f *function) lambda(l *check.Lambda) int {
	inner := f.b.function(f)
	for i, v := range l.Params {
		node := inner.add(Node{Op: Arg, Index: int32(i), Type: v.Type, Label: v.Name, Span: v.Span})
		inner.vars[v] = variable{node: node}
		inner.out.Params = append(inner.out.Params, node)
	}
	inner.out.Result = inner.lower(l.Body)
	f.b.finish(inner, []int32{inner.out.Result})
	return inner.index
}

// finish finds out what of a function is needed in any case.
func (b *builder) finish(f *function, roots []int32) {
	nodes := f.out.Nodes
	eager := make([]bool, len(nodes))
	for _, r := range roots {
		eager[r] = true
	}
	count, edges := 0, 0
	for i := len(nodes) - 1; i >= 0; i-- { // a node is after its inputs
		if !eager[i] {
			continue
		}
		count++
		for _, in := range nodes[i].In {
			eager[in] = true
			edges++
		}
	}
	f.out.Eager = make([]int32, 0, count)
	f.out.Users = make([][]int32, len(nodes))
	degree := make([]int32, len(nodes))
	for i := range nodes {
		if !eager[i] {
			continue
		}
		f.out.Eager = append(f.out.Eager, int32(i))
		for _, in := range nodes[i].In {
			degree[in]++
		}
	}
	space := make([]int32, edges)
	for i, d := range degree {
		f.out.Users[i], space = space[:0:d], space[d:]
	}
	for _, i := range f.out.Eager {
		for _, in := range nodes[i].In {
			f.out.Users[in] = append(f.out.Users[in], i)
		}
	}
}

// pure finds the functions that make no calls, and what each needs of the
// function around it. A function is before the lambdas in it.
func (b *builder) pure() {
	for i := len(b.plan.Funcs) - 1; i > 0; i-- {
		f := &b.plan.Funcs[i]
		needed := b.needed(f)
		f.Pure = true
		for j := range f.Nodes {
			n := &f.Nodes[j]
			switch n.Op {
			case Call:
				f.Pure = false
			case Apply:
				f.Pure = f.Pure && n.Call.Options == nil && b.plan.Funcs[n.Call.Fn].Pure
			case Outer:
				f.Captures = append(f.Captures, n.Index)
				f.Pure = f.Pure && (needed[j] || b.atHand(f, n))
			}
		}
	}
}

// conditions reports each option until that would make calls of its own.
func (p *Plan) conditions() (problems diag.List) {
	for i := range p.Funcs {
		for j := range p.Funcs[i].Nodes {
			n := &p.Funcs[i].Nodes[j]
			if n.Call != nil && n.Call.Until >= 0 && !p.Funcs[n.Call.Until].Pure {
				problems.Errorf(p.Pos(n), "until-calls", "until: a condition on a value makes no calls").Suggest("call before, and use the result in it")
			}
		}
	}
	return problems
}

// needed marks the nodes that every application of a lambda needs; what
// lambdas inside it refer to counts.
func (b *builder) needed(f *Func) []bool {
	needed := make([]bool, len(f.Nodes))
	needed[f.Result] = true
	for i := len(f.Nodes) - 1; i >= 0; i-- {
		if !needed[i] {
			continue
		}
		n := &f.Nodes[i]
		for _, in := range n.In {
			needed[in] = true
		}
		if n.Op == Apply {
			for _, in := range b.plan.Funcs[n.Call.Fn].Captures {
				needed[in] = true
			}
		}
	}
	return needed
}

// atHand reports whether the node that an Outer refers to has its value
// without anything having to be computed.
func (b *builder) atHand(f *Func, n *Node) bool {
	target := &b.plan.Funcs[f.Outer].Nodes[n.Index]
	switch target.Op {
	case Const, Arg, Failure:
		return true
	case Input:
		return target.Default == None
	}
	return false
}

// UnsupportedError says that a pipeline cannot be run here, and why.
type UnsupportedError struct{ Problems interface{ Error() string } }

func (e *UnsupportedError) Error() string { return e.Problems.Error() }
