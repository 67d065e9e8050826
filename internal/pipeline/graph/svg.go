package graph

import (
	"fmt"
	"html"
	"strings"
)

// SVG draws the graph: inputs and outputs with round ends, calls with round
// corners, values as boxes; from top to bottom. The colours suit light and
// dark pages.
func (g *Graph) SVG() string {
	l := arrange(g)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">`+"\n",
		l.width, l.height, l.width, l.height)
	b.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#6b7280"/></marker></defs>` + "\n")
	for i, path := range l.paths {
		dash := ""
		if g.Edges[i].Lazy {
			dash = ` stroke-dasharray="5 4"`
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#6b7280" stroke-width="1.3"%s marker-end="url(#arrow)"/>`+"\n", l.curve(path), dash)
	}
	for _, box := range l.boxes {
		if box.node >= 0 {
			drawNode(&b, g.Nodes[box.node], box)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// curve is the path of an edge: out of the bottom of a box, straight through
// the layers between, into the top of another.
func (l *layout) curve(path []int) string {
	first := l.boxes[path[0]]
	x, y := first.x, first.y+first.h/2
	var s strings.Builder
	fmt.Fprintf(&s, "M%.1f %.1f", x, y)
	for _, at := range path[1:] {
		b := l.boxes[at]
		top := b.y - b.h/2
		middle := (y + top) / 2
		fmt.Fprintf(&s, " C%.1f %.1f %.1f %.1f %.1f %.1f", x, middle, b.x, middle, b.x, top)
		x, y = b.x, top
		if b.node < 0 {
			y = b.y + b.h/2
			fmt.Fprintf(&s, " L%.1f %.1f", x, y)
		}
	}
	return s.String()
}

var looks = map[Kind]struct{ fill, stroke string }{
	Input:  {"#dbeafe", "#2563eb"},
	Call:   {"#fef3c7", "#b45309"},
	Value:  {"#f3f4f6", "#6b7280"},
	Output: {"#dcfce7", "#15803d"},
}

func drawNode(b *strings.Builder, n Node, at box) {
	look := looks[n.Kind]
	radius := 2.0
	switch n.Kind {
	case Input, Output:
		radius = at.h / 2
	case Call:
		radius = 8
	}
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f" fill="%s" stroke="%s" stroke-width="1.3"/>`+"\n",
		at.x-at.w/2, at.y-at.h/2, at.w, at.h, radius, look.fill, look.stroke)
	y := at.y - float64(len(n.Lines)-1)*lineHeight/2 + 4
	for i, line := range n.Lines {
		weight, colour := "", "#374151"
		if i == 0 {
			weight, colour = ` font-weight="bold"`, "#111827"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s"%s>%s</text>`+"\n", at.x, y+float64(i)*lineHeight, colour, weight, escape(line))
	}
}

// escape makes a line fit for XML, which has no way to write most control
// characters.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, s)
	return html.EscapeString(s)
}
