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
// every other assignment is one node. An edge that is drawn dashed is one
// that is followed only if a condition, a fallback or an earlier failure
// asks for it.
package graph

import (
	"github.com/bide-dev/bide/internal/pipeline/syntax"
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
	// local counts the parameters and pattern fields that hide a variable.
	local []string
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
		lines[i] = shorten(lines[i])
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
		return b.call(c, name, span)
	}
	s := &sink{}
	b.expr(e, s, false)
	return b.node(Value, span, s, name, summary(b.f, e))
}

// call makes a call's node after those of its arguments.
func (b *builder) call(c *syntax.CallExpr, name string, span syntax.Span) int {
	s := &sink{}
	fn := c.Func.String()
	if m, ok := c.AsMethod(); ok && b.known(c.Func.Parts[0].Name) {
		c, fn = m, m.Func.String()
	}
	for _, a := range c.Args {
		b.expr(a, s, false)
	}
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
	return b.node(Call, span, s, lines...)
}

func (b *builder) known(name string) bool {
	_, ok := b.env[name]
	return ok || b.isLocal(name)
}

func (b *builder) isLocal(name string) bool {
	for _, l := range b.local {
		if l == name {
			return true
		}
	}
	return false
}

// with reads an expression in which names are bound.
func (b *builder) with(names []syntax.Ident, e syntax.Expr, s *sink, lazy bool) {
	n := len(b.local)
	for _, id := range names {
		b.local = append(b.local, id.Name)
	}
	b.expr(e, s, lazy)
	b.local = b.local[:n]
}

// expr finds what goes into an expression.
func (b *builder) expr(e syntax.Expr, s *sink, lazy bool) {
	switch e := e.(type) {
	case *syntax.Name:
		if at, ok := b.env[e.Name]; ok && !b.isLocal(e.Name) {
			s.add(at, lazy)
		}
	case *syntax.CallExpr:
		s.add(b.call(e, "", e.Span), lazy)
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
		b.expr(e.X, s, lazy)
		for _, c := range e.Cases {
			var bound []syntax.Ident
			if r, ok := c.Pattern.(*syntax.RecordPattern); ok {
				bound = r.Fields
			}
			b.with(bound, c.Value, s, true)
		}
	case *syntax.LambdaExpr:
		var bound []syntax.Ident
		for _, p := range e.Params {
			bound = append(bound, p.Name)
		}
		b.with(bound, e.Body, s, lazy)
	}
}
