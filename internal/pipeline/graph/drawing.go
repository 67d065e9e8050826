package graph

import "github.com/bide-dev/bide/internal/value"

// MaxDrawn is how many nodes a picture has at most.
const MaxDrawn = 2000

// First is a graph's first n nodes with the edges between them, and how many nodes
// are left out.
func (g *Graph) First(n int) (*Graph, int) {
	if len(g.Nodes) <= n {
		return g, 0
	}
	inside := func(e Edge) bool { return e.From < n && e.To < n }
	return &Graph{Nodes: g.Nodes[:n], Edges: value.Filter(g.Edges, inside)}, len(g.Nodes) - n
}

// Drawing is a graph laid out, for whoever draws it with marks of its own.
type Drawing struct {
	Width, Height float64
	Boxes         []Box // of the nodes, in their order
	Lines         []string
}

// Box is the place of a node: its left upper corner, and its size.
type Box struct{ X, Y, W, H float64 }

// Draw lays the graph out, in pixels. Lines are the paths of the edges, in
// their order, in the words of SVG; one begins where another of the same node
// passes, if that is so.
func (g *Graph) Draw() Drawing {
	l := arrange(g)
	d := Drawing{Width: l.width, Height: l.height, Boxes: make([]Box, len(g.Nodes))}
	for _, b := range l.boxes {
		if b.node >= 0 {
			d.Boxes[b.node] = Box{b.x - b.w/2, b.y - b.h/2, b.w, b.h}
		}
	}
	for _, path := range l.paths {
		d.Lines = append(d.Lines, l.curve(path))
	}
	return d
}
