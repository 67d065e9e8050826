// Package graph draws the dataflow of a pipeline: which input, call and
// value goes into which. It needs a parsed file only, neither types nor a
// plan, so a source can be drawn while it is being written.
//
//	g := graph.Build(file)
//	os.Stdout.WriteString(g.DOT())      // for Graphviz
//	os.Stdout.WriteString(g.Mermaid())  // for Markdown
//	os.Stdout.WriteString(g.SVG())      // laid out here, needs no other program
//
// Every call is a node, also one inside another expression or a lambda;
// every other assignment is one node. Functions of the standard library
// without options are no calls: they cannot fail on the way to somewhere.
// An edge that is drawn dashed is one
// that is followed only if a condition, a fallback or an earlier failure
// asks for it.
package graph

import (
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/value"
)

// Kind says what a node stands for.
type Kind uint8

// The kinds of nodes.
const (
	Input Kind = iota
	Call
	Value
	Output
)

func (k Kind) String() string {
	switch k {
	case Input:
		return "input"
	case Call:
		return "call"
	case Value:
		return "value"
	}
	return "output"
}

// Node is one node of the drawing.
type Node struct {
	Kind  Kind
	Lines []string // what is written in it; the first line is its name
	Span  syntax.Span
}

// Edge says that the node From goes into the node To; both are indexes.
type Edge struct {
	From, To int
	Lazy     bool // followed only if it is needed
}

// Graph is the dataflow of one file. Its edges lead from nodes with smaller
// indexes to nodes with larger ones, so it has no cycle.
type Graph struct {
	Nodes []Node
	Edges []Edge
}

// Build reads the dataflow out of a file. Names that nothing declares have
// no node and no edge; what could not be parsed is left out.
func Build(f *syntax.File) *Graph {
	b := &builder{f: f, g: &Graph{}, env: map[string]int{}}
	for _, d := range f.Decls {
		b.decl(d)
	}
	return b.g
}

type builder struct {
	f   *syntax.File
	g   *Graph
	env map[string]int // the node of each variable declared so far
	// local are the parameters and pattern fields that hide a variable.
	local []local
}

// local is a name bound in a lambda or a case, and where its values come from.
type local struct {
	name string
	from []Edge
}

// sink is where the values of an expression go: the edges that will lead to
// a node which is made after the nodes it depends on.
type sink struct {
	from []Edge // To is not set yet
}

func (s *sink) add(from int, lazy bool) {
	for i := range s.from {
		if s.from[i].From == from {
			s.from[i].Lazy = s.from[i].Lazy && lazy
			return
		}
	}
	s.from = append(s.from, Edge{From: from, Lazy: lazy})
}

// node makes a node with the edges that lead to it.
func (b *builder) node(kind Kind, span syntax.Span, s *sink, lines ...string) int {
	at := len(b.g.Nodes)
	for i := range lines {
		lines[i] = diag.Clip(lines[i], maxLine-1)
	}
	b.g.Nodes = append(b.g.Nodes, Node{kind, lines, span})
	for _, e := range s.from {
		e.To = at
		b.g.Edges = append(b.g.Edges, e)
	}
	return at
}

func (b *builder) decl(d syntax.Decl) {
	switch d := d.(type) {
	case *syntax.InDecl:
		s := &sink{}
		if d.Default != nil {
			b.expr(d.Default, s, true)
		}
		lines := []string{d.Name.Name, b.f.Text(d.Type.Extent())}
		b.env[d.Name.Name] = b.node(Input, d.Span, s, lines...)
	case *syntax.AssignDecl:
		b.env[d.Name.Name] = b.assigned(d.Name.Name, d.Value, d.Span)
	case *syntax.OutDecl:
		for _, o := range d.Outputs {
			s := &sink{}
			b.expr(o.Value, s, false)
			lines := []string{o.Name.Name}
			if n, ok := o.Value.(*syntax.Name); !ok || n.Name != o.Name.Name {
				lines = append(lines, summary(b.f, o.Value))
			}
			b.node(Output, d.Span, s, lines...)
		}
	}
}

// assigned makes the node of "name = expr": a call's own node if the
// expression is one.
func (b *builder) assigned(name string, e syntax.Expr, span syntax.Span) int {
	if c, ok := syntax.Unparen(e).(*syntax.CallExpr); ok {
		return b.call(b.asFunction(c), name, span)
	}
	s := &sink{}
	b.expr(e, s, false)
	return b.node(Value, span, s, name, summary(b.f, e))
}

// asFunction reads x.f(y) as f(x, y) if x is a variable.
func (b *builder) asFunction(c *syntax.CallExpr) *syntax.CallExpr {
	if m, ok := c.AsMethod(); ok && b.known(c.Func.Parts[0].Name) {
		return m
	}
	return c
}

// isLibrary reports whether a call is one of the standard library, without
// options.
func isLibrary(c *syntax.CallExpr) bool {
	return c.With == nil && (stdlib.Lookup(c.Func.String()) != nil || len(c.Func.Parts) == 1 && len(stdlib.Named(c.Func.Last().Name)) > 0)
}

// arguments finds what goes into the arguments of a call. What a lambda among
// them is given comes from the others.
func (b *builder) arguments(c *syntax.CallExpr, s *sink, lazy bool) {
	given := &sink{}
	for _, a := range c.Args {
		if _, ok := syntax.Unparen(a).(*syntax.LambdaExpr); !ok {
			b.expr(a, given, lazy)
		}
	}
	for _, e := range given.from {
		s.add(e.From, e.Lazy)
	}
	for _, a := range c.Args {
		if l, ok := syntax.Unparen(a).(*syntax.LambdaExpr); ok {
			bound := value.Map(l.Params, func(p syntax.Param) syntax.Ident { return p.Name })
			b.with(bound, given.from, l.Body, s, lazy)
		}
	}
}

// call makes a call's node after those of its arguments.
func (b *builder) call(c *syntax.CallExpr, name string, span syntax.Span) int {
	s := &sink{}
	kind := Call
	if isLibrary(c) {
		kind = Value
	}
	fn := c.Func.String()
	b.arguments(c, s, false)
	var lines []string
	if name != "" {
		lines = append(lines, name)
	}
	lines = append(lines, fn+"()")
	if c.With != nil {
		for _, o := range c.With.Options {
			lines = append(lines, summaryText(b.f.Text(o.Span)))
			if v, ok := o.Value.(*syntax.ExprValue); ok {
				b.expr(v.X, s, true)
			}
		}
	}
	return b.node(kind, span, s, lines...)
}

func (b *builder) known(name string) bool {
	_, ok := b.env[name]
	return ok || b.bound(name) != nil
}

// bound is the innermost local of a name, nil if there is none.
func (b *builder) bound(name string) *local {
	for i := len(b.local) - 1; i >= 0; i-- {
		if b.local[i].name == name {
			return &b.local[i]
		}
	}
	return nil
}

// with reads an expression in which names are bound to values that come from
// somewhere.
func (b *builder) with(names []syntax.Ident, from []Edge, e syntax.Expr, s *sink, lazy bool) {
	n := len(b.local)
	for _, id := range names {
		b.local = append(b.local, local{id.Name, from})
	}
	b.expr(e, s, lazy)
	b.local = b.local[:n]
}

// expr finds what goes into an expression.
func (b *builder) expr(e syntax.Expr, s *sink, lazy bool) {
	switch e := e.(type) {
	case *syntax.Name:
		if l := b.bound(e.Name); l != nil {
			for _, edge := range l.from {
				s.add(edge.From, lazy)
			}
		} else if at, ok := b.env[e.Name]; ok {
			s.add(at, lazy)
		}
	case *syntax.CallExpr:
		if c := b.asFunction(e); isLibrary(c) {
			b.arguments(c, s, lazy)
		} else {
			s.add(b.call(c, "", e.Span), lazy)
		}
	case *syntax.Interpolation:
		for _, p := range e.Parts {
			if p.X != nil {
				b.expr(p.X, s, lazy)
			}
		}
	case *syntax.ListLit:
		for _, x := range e.Elems {
			b.expr(x, s, lazy)
		}
	case *syntax.RecordLit:
		for _, f := range e.Fields {
			b.expr(f.Value, s, lazy)
		}
	case *syntax.ParenExpr:
		b.expr(e.X, s, lazy)
	case *syntax.FieldExpr:
		b.expr(e.X, s, lazy)
	case *syntax.ProjectExpr:
		b.expr(e.X, s, lazy)
	case *syntax.UnaryExpr:
		b.expr(e.X, s, lazy)
	case *syntax.BinaryExpr:
		b.expr(e.X, s, lazy)
		b.expr(e.Y, s, lazy || e.Op == syntax.Coalesce || e.Op == syntax.And || e.Op == syntax.Or)
	default:
		b.control(e, s, lazy)
	}
}

func (b *builder) control(e syntax.Expr, s *sink, lazy bool) {
	switch e := e.(type) {
	case *syntax.WhenExpr:
		b.expr(e.Cond, s, lazy)
		b.expr(e.X, s, true)
	case *syntax.IfExpr:
		b.expr(e.Cond, s, lazy)
		b.expr(e.Then, s, true)
		b.expr(e.Else, s, true)
	case *syntax.BranchExpr:
		for i, c := range e.Cases {
			b.expr(c.Cond, s, lazy || i > 0)
			b.expr(c.Value, s, true)
		}
		b.expr(e.Otherwise, s, true)
	case *syntax.MatchExpr:
		subject := &sink{}
		b.expr(e.X, subject, lazy)
		for _, edge := range subject.from {
			s.add(edge.From, edge.Lazy)
		}
		for _, c := range e.Cases {
			var bound []syntax.Ident
			if r, ok := c.Pattern.(*syntax.RecordPattern); ok {
				bound = r.Fields
			}
			b.with(bound, subject.from, c.Value, s, true)
		}
	case *syntax.LambdaExpr:
		bound := value.Map(e.Params, func(p syntax.Param) syntax.Ident { return p.Name })
		b.with(bound, nil, e.Body, s, lazy)
	}
}
