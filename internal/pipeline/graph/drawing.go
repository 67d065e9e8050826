package graph

// Drawing is a graph laid out, for who draws it with marks of its own.
type Drawing struct {
	Width, Height float64
	Boxes         []Box // of the nodes, in their order
	Lines         []string
}

// Box is the place of a node: its left upper corner, and its size.
type Box struct{ X, Y, W, H float64 }

// Draw lays the graph out, in pixels. Lines are the paths of the edges, in
// their order, in the words of SVG.
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
