package graph

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/value"
)

// The layout is the layered one of Sugiyama, Tagawa and Toda (1981): nodes
// get layers along the longest path, edges over several layers get a place
// on each, the order within a layer follows the middle of the neighbours,
// and then everything moves towards its neighbours as far as the others
// leave room. The edges of one source share their places, so that a value that
// goes into every call is one line beside them.

// Sizes in pixels.
const (
	charWidth  = 7.3
	lineHeight = 16.0
	padding    = 14.0
	gapX       = 28.0
	gapY       = 46.0
	margin     = 20.0
	sweeps     = 12
	// maxPassing bounds the places where edges pass. What has none goes straight to
	// where it leads, across what is between.
	maxPassing = 8000
)

// box is a node's place, or the place where a long edge passes a layer.
type box struct {
	node       int // -1 where an edge passes
	layer      int
	x, y, w, h float64 // x and y of the middle
	up, down   []int   // the boxes joined to it in the layers above and below
}

// layout is a drawing in numbers.
type layout struct {
	boxes         []box
	layers        [][]int // boxes from left to right
	paths         [][]int // of each edge, the boxes that it joins; see route
	width, height float64
}

func arrange(g *Graph) *layout {
	l := &layout{}
	l.place(g)
	l.route(g)
	l.order()
	l.columns()
	l.rows()
	return l
}

// place makes the boxes of the nodes and gives them layers.
func (l *layout) place(g *Graph) {
	for i, n := range g.Nodes {
		longest := 4
		for _, s := range n.Lines {
			longest = max(longest, utf8.RuneCountInString(s))
		}
		l.boxes = append(l.boxes, box{node: i, w: float64(longest)*charWidth + 2*padding, h: float64(len(n.Lines))*lineHeight + padding})
	}
	// Edges lead to nodes with larger indexes, so one pass is enough.
	edges := slices.Clone(g.Edges)
	slices.SortStableFunc(edges, func(a, b Edge) int { return cmp.Compare(a.To, b.To) })
	sources := make([]bool, len(g.Nodes))
	for i := range sources {
		sources[i] = true
	}
	for _, e := range edges {
		sources[e.To] = false
		l.boxes[e.To].layer = max(l.boxes[e.To].layer, l.boxes[e.From].layer+1)
	}
	// What nothing goes into stands just above the first that needs it.
	nearest := map[int]int{}
	for _, e := range edges {
		if at, ok := nearest[e.From]; sources[e.From] && (!ok || l.boxes[e.To].layer < at) {
			nearest[e.From] = l.boxes[e.To].layer
		}
	}
	for i, layer := range nearest {
		l.boxes[i].layer = max(0, layer-1)
	}
}

// route gives every edge a box on each layer that it passes, and fills the
// layers. Edges of one source share these boxes: the path of an edge begins where
// those before it have not been.
func (l *layout) route(g *Graph) {
	type trunk struct {
		from int
		lazy bool
	}
	trunks := map[trunk][]int{} // the boxes below a source, from layer to layer
	passing := 0
	for _, e := range g.Edges {
		key := trunk{e.From, e.Lazy}
		boxes := trunks[key]
		if boxes == nil {
			boxes = []int{e.From}
		}
		long := l.boxes[e.To].layer - l.boxes[e.From].layer // boxes above the end
		path := []int{boxes[min(long, len(boxes))-1]}
		if more := long - len(boxes); more > 0 && passing+more <= maxPassing {
			passing += more
			for range more {
				at := len(l.boxes)
				l.boxes = append(l.boxes, box{node: -1, layer: l.boxes[e.From].layer + len(boxes), w: 6})
				l.join(boxes[len(boxes)-1], at)
				boxes, path = append(boxes, at), append(path, at)
			}
		}
		trunks[key] = boxes
		l.join(path[len(path)-1], e.To)
		l.paths = append(l.paths, append(path, e.To))
	}
	for i, b := range l.boxes {
		for len(l.layers) <= b.layer {
			l.layers = append(l.layers, nil)
		}
		l.layers[b.layer] = append(l.layers[b.layer], i)
	}
}

// order sorts each layer by the middle of the neighbours' places, downwards
// and upwards in turn, and keeps the order with the fewest crossings.
func (l *layout) order() {
	best, fewest := l.snapshot(), l.crossings()
	at := l.places()
	for s := range sweeps {
		if fewest == 0 {
			break
		}
		for i := range l.layers {
			if s%2 == 1 {
				i = len(l.layers) - 1 - i
			}
			l.sortLayer(l.layers[i], at, s%2 == 0)
		}
		if n := l.crossings(); n < fewest {
			best, fewest = l.snapshot(), n
		}
	}
	l.layers = best
}

// join says that a line goes from a box down to another. What leads over several
// layers has no part in the order.
func (l *layout) join(a, b int) {
	if l.boxes[b].layer == l.boxes[a].layer+1 {
		l.boxes[a].down = append(l.boxes[a].down, b)
		l.boxes[b].up = append(l.boxes[b].up, a)
	}
}

func (l *layout) snapshot() [][]int {
	return value.Map(l.layers, slices.Clone)
}

// places gives each box's index in its layer.
func (l *layout) places() []float64 {
	at := make([]float64, len(l.boxes))
	for _, layer := range l.layers {
		for i, b := range layer {
			at[b] = float64(i)
		}
	}
	return at
}

// sortLayer sorts a layer and brings at, the places, up to date.
func (l *layout) sortLayer(layer []int, at []float64, downwards bool) {
	type entry struct {
		box int
		key float64
	}
	entries := make([]entry, len(layer))
	for i, b := range layer {
		near := l.boxes[b].up
		if !downwards {
			near = l.boxes[b].down
		}
		key := at[b]
		if len(near) > 0 {
			key = 0
			for _, n := range near {
				key += at[n]
			}
			key /= float64(len(near))
		}
		entries[i] = entry{b, key}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	for i, e := range entries {
		layer[i] = e.box
		at[e.box] = float64(i)
	}
}

// crossings counts the pairs of joints between neighbouring layers that
// cross, with a tree of counts over the lower layer.
func (l *layout) crossings() int {
	at := l.places()
	total := 0
	for i := 1; i < len(l.layers); i++ {
		tree := make([]int, len(l.layers[i])+1)
		seen := 0
		for _, upper := range l.layers[i-1] {
			ends := slices.Clone(l.boxes[upper].down)
			slices.SortFunc(ends, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
			for _, e := range ends { // those so far that end to the right
				total += seen
				for n := int(at[e]) + 1; n > 0; n -= n & -n {
					total -= tree[n]
				}
			}
			for _, e := range ends {
				seen++
				for n := int(at[e]) + 1; n < len(tree); n += n & -n {
					tree[n]++
				}
			}
		}
	}
	return total
}

// columns finds the x of every box.
func (l *layout) columns() {
	for _, layer := range l.layers {
		x := 0.0
		for _, b := range layer {
			l.boxes[b].x = x + l.boxes[b].w/2
			x += l.boxes[b].w + gapX
		}
	}
	for s := range 2 * sweeps {
		for i := range l.layers {
			at := i
			if s%2 == 1 {
				at = len(l.layers) - 1 - i
			}
			l.pull(l.layers[at], s%2 == 0)
		}
	}
	left := 0.0
	for i, b := range l.boxes {
		if i == 0 || b.x-b.w/2 < left {
			left = b.x - b.w/2
		}
	}
	for i := range l.boxes {
		l.boxes[i].x += margin - left
		l.width = max(l.width, l.boxes[i].x+l.boxes[i].w/2+margin)
	}
}

// pull moves the boxes of a layer to the middle of their neighbours, keeping
// their order and the gaps between them: boxes that would overlap become a
// block that stands where its members want to be on average.
func (l *layout) pull(layer []int, downwards bool) {
	type block struct {
		from, to int // places in the layer
		want     float64
		n        int
	}
	// offset is how far right of the layer's left edge a box's middle is
	// when all stand side by side.
	offset := make([]float64, len(layer))
	for i, x := 0, 0.0; i < len(layer); i++ {
		b := &l.boxes[layer[i]]
		offset[i] = x + b.w/2
		x += b.w + gapX
	}
	var blocks []block
	for i, b := range layer {
		near := l.boxes[b].up
		if !downwards {
			near = l.boxes[b].down
		}
		want := l.boxes[b].x
		if len(near) > 0 {
			want = 0
			for _, n := range near {
				want += l.boxes[n].x
			}
			want /= float64(len(near))
		}
		blocks = append(blocks, block{i, i + 1, want - offset[i], 1})
		for n := len(blocks); n > 1 && blocks[n-2].want > blocks[n-1].want; n-- {
			a, c := blocks[n-2], blocks[n-1]
			mean := (a.want*float64(a.n) + c.want*float64(c.n)) / float64(a.n+c.n)
			blocks = append(blocks[:n-2], block{a.from, c.to, mean, a.n + c.n})
		}
	}
	for _, bl := range blocks {
		for i := bl.from; i < bl.to; i++ {
			l.boxes[layer[i]].x = bl.want + offset[i]
		}
	}
}

// rows finds the y of every box.
func (l *layout) rows() {
	y := margin
	for _, layer := range l.layers {
		height := 0.0
		for _, b := range layer {
			height = max(height, l.boxes[b].h)
		}
		for _, b := range layer {
			l.boxes[b].y = y + height/2
			if l.boxes[b].node < 0 {
				l.boxes[b].h = height // the edge goes straight through
			}
		}
		y += height + gapY
	}
	l.height = max(y-gapY, margin) + margin
	l.width = max(l.width, 2*margin)
}
