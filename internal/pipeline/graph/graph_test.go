package graph

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

const sample = `
in query: String
in limit: Int
in premium: Boolean = false

hits  = Search(query) with retry: 5, delay: 500ms, backoff: exponential, fallback: Cached(query)
best  = hits.items | filter((h) => h.score > limit) | map(h => Enrich(h) with retry: 2)
page  = if (premium) Summarize(best, limit) else "no \"summary\" <here>"
score = branch { limit > 10 -> Deep(page), limit > 5 -> Quick(page), otherwise -> 0 }
note  = "found ${limit} for ${query}"
out page
out score
out { note, total: Count(best) }
`

func build(t testing.TB, src string) *Graph {
	f, list := syntax.Parse("x.cst", []byte(src))
	if list.HasErrors() {
		t.Fatal(list)
	}
	return Build(f)
}

// text writes the graph one node a line, with the names of what goes into
// it; "?" marks what is needed only sometimes.
func text(g *Graph) string {
	var b strings.Builder
	for i, n := range g.Nodes {
		fmt.Fprintf(&b, "%v %s", n.Kind, n.Lines[0])
		for _, e := range g.Edges {
			if e.To == i {
				mark := ""
				if e.Lazy {
					mark = "?"
				}
				fmt.Fprintf(&b, " <- %s%s", g.Nodes[e.From].Lines[0], mark)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestBuild(t *testing.T) {
	want := `input query
input limit
input premium
call Cached() <- query
call hits <- query <- Cached()?
call Enrich() <- hits <- limit
value best <- hits <- limit <- Enrich()
call Summarize() <- best <- limit
value page <- premium <- Summarize()?
call Deep() <- page
call Quick() <- page
value score <- limit <- Deep()? <- Quick()?
value note <- limit <- query
output page <- page
output score <- score
output note <- note
call Count() <- best
output total <- Count()
`
	if got := text(build(t, sample)); got != want {
		t.Fatalf("got\n%swant\n%s", got, want)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"in x: Int y = x y = f(y) out y", "input x\nvalue y <- x\ncall y <- y\noutput y <- y\n"},
		{"in x: Int y = map(x, (x) => x) out y", "input x\nvalue y <- x\noutput y <- y\n"},
		{"in x: R y = match x { {a, x} -> x, _ -> g(x) } out y", "input x\ncall g() <- x\nvalue y <- x <- g()?\noutput y <- y\n"},
		{"in x: L y = x.a.map(f) out y", "input x\nvalue y <- x\noutput y <- y\n"},
		{"in x: L y = math.map(x) out y", "input x\ncall y <- x\noutput y <- y\n"},
		{"in xs: L y = map(xs, (x) => F(x) with retry: 1) out y", "input xs\ncall F() <- xs\nvalue y <- xs <- F()\noutput y <- y\n"},
		{"in xs: L in n: Int y = F(list-length(list-take(xs, n))) out y", "input xs\ninput n\ncall y <- xs <- n\noutput y <- y\n"},
		{"in r: R y = match r { {a} -> F(a), _ -> 0 } out y", "input r\ncall F() <- r\nvalue y <- r <- F()?\noutput y <- y\n"},
		{"in x: L y = x ?? f(x) out y", "input x\ncall f() <- x\nvalue y <- x <- f()?\noutput y <- y\n"},
		{"y = unknown out y", "value y\noutput y <- y\n"},
		{"in x: Int out r = x + x", "input x\noutput r <- x\n"},
	} {
		if got := text(build(t, c.src)); got != c.want {
			t.Errorf("%s\ngot\n%swant\n%s", c.src, got, c.want)
		}
	}
}

// TestMethodReceiver checks that "x.map(f)" comes from x, and that a
// namespace of that form comes from nothing.
func TestMethodReceiver(t *testing.T) {
	g := build(t, "in x: L y = x.map(1) z = ns.map(1) out y")
	if g.Nodes[1].Lines[1] != "map()" || g.Nodes[2].Lines[1] != "ns.map()" || len(g.Edges) != 2 {
		t.Fatalf("%+v", g)
	}
}

func TestFormats(t *testing.T) {
	g := build(t, "in x: Int y = F(x) with fallback: \"a\\\"b\" z = y ?? x out z")
	wantDOT := `digraph pipeline {
  node [fontname="sans-serif"];
  n0 [label="x\nInt", shape=ellipse];
  n1 [label="y\nF()\nfallback: \"a\\\"b\"", shape=box, style=rounded];
  n2 [label="z\ny ?? x", shape=box];
  n3 [label="z", shape=ellipse, peripheries=2];
  n0 -> n1;
  n1 -> n2;
  n0 -> n2 [style=dashed];
  n2 -> n3;
}
`
	if got := g.DOT(); got != wantDOT {
		t.Errorf("got\n%s", got)
	}
	wantMermaid := `flowchart TD
  n0(["x<br/>Int"])
  n1("y<br/>F()<br/>fallback: #34;a#92;#34;b#34;")
  n2["z<br/>y #63;#63; x"]
  n3[["z"]]
  n0 --> n1
  n1 --> n2
  n0 -.-> n2
  n2 --> n3
`
	if got := g.Mermaid(); got != wantMermaid {
		t.Errorf("got\n%s", got)
	}
}

func TestSVG(t *testing.T) {
	svg := build(t, sample).SVG()
	if path := os.Getenv("GRAPH_SVG"); path != "" { // to look at it
		if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := xml.NewDecoder(strings.NewReader(svg))
	texts, dashed := 0, 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.StartElement); ok {
			if s.Name.Local == "text" {
				texts++
			}
			for _, a := range s.Attr {
				if a.Name.Local == "stroke-dasharray" {
					dashed++
				}
			}
		}
	}
	lines := 0
	g := build(t, sample)
	for _, n := range g.Nodes {
		lines += len(n.Lines)
	}
	if texts != lines || dashed != 4 {
		t.Fatalf("%d texts instead of %d, %d dashed edges", texts, lines, dashed)
	}
	if empty := (&Graph{}).SVG(); !strings.HasPrefix(empty, "<svg") {
		t.Fatal(empty)
	}
}

// TestLayoutProperty checks made-up graphs: no two boxes overlap, edges go
// downwards, everything lies inside the picture.
func TestLayoutProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := &Graph{}
		n := rapid.IntRange(1, 25).Draw(rt, "nodes")
		for i := range n {
			g.Nodes = append(g.Nodes, Node{Lines: []string{strings.Repeat("x", rapid.IntRange(1, 30).Draw(rt, "width")), fmt.Sprint(i)}})
			for j := range i {
				if rapid.IntRange(0, n/2+1).Draw(rt, "edge") == 0 {
					g.Edges = append(g.Edges, Edge{From: j, To: i})
				}
			}
		}
		l := arrange(g)
		for i, a := range l.boxes {
			if a.x-a.w/2 < 0 || a.x+a.w/2 > l.width || a.y-a.h/2 < 0 || a.y+a.h/2 > l.height {
				rt.Fatalf("box %d lies outside: %+v of %v x %v", i, a, l.width, l.height)
			}
			for j, b := range l.boxes[:i] {
				if a.layer == b.layer && abs(a.x-b.x) < (a.w+b.w)/2+gapX-0.01 {
					rt.Fatalf("boxes %d and %d overlap: %+v %+v", i, j, a, b)
				}
			}
		}
		checkPaths(rt, g, l)
	})
}

// checkPaths follows each edge: it goes downwards from layer to layer and ends where
// it leads to, and begins where it comes from or where another edge of the same
// source passes.
func checkPaths(t rapid.TB, g *Graph, l *layout) {
	passes := map[int]Edge{} // the edge that came to a box first
	for n, path := range l.paths {
		e := g.Edges[n]
		for i := 1; i < len(path); i++ {
			a, b := l.boxes[path[i-1]], l.boxes[path[i]]
			if b.layer != a.layer+1 || a.y+a.h/2 >= b.y-b.h/2 {
				t.Fatalf("an edge goes from %+v to %+v", a, b)
			}
			if b.node < 0 {
				passes[path[i]] = e
			}
		}
		if l.boxes[path[len(path)-1]].node != e.To {
			t.Fatalf("the edge %+v ends at %+v", e, l.boxes[path[len(path)-1]])
		}
		if first := l.boxes[path[0]]; first.node != e.From && (first.node >= 0 || passes[path[0]].From != e.From || passes[path[0]].Lazy != e.Lazy) {
			t.Fatalf("the edge %+v begins at %+v, where %+v passes", e, first, passes[path[0]])
		}
	}
}

// TestSharedInput: what goes into every call of a long chain is drawn beside the
// chain once, so that the picture grows with the file and not with its square.
func TestSharedInput(t *testing.T) {
	for name, inputs := range map[string]int{"one input": 1, "as many inputs as calls": 2000} {
		g := &Graph{}
		for range inputs {
			g.Nodes = append(g.Nodes, Node{Lines: []string{"in"}})
		}
		const calls = 2000
		for i := range calls {
			at := len(g.Nodes)
			g.Nodes = append(g.Nodes, Node{Lines: []string{"x", "F()"}})
			if i > 0 {
				g.Edges = append(g.Edges, Edge{From: at - 1, To: at})
			}
			g.Edges = append(g.Edges, Edge{From: 0, To: at})
			if inputs > 1 && i > calls/2 { // spans that are all long
				g.Edges = append(g.Edges, Edge{From: at - calls/2, To: at}, Edge{From: i, To: at})
			}
		}
		began := time.Now()
		l := arrange(g)
		size := 0
		for _, line := range g.Draw().Lines {
			size += len(line)
		}
		// It took 7.7 s and 4.5 GB where edges were drawn one by one.
		t.Logf("%s: %d boxes, %d bytes of lines, %s", name, len(l.boxes), size, time.Since(began))
		if len(l.boxes) > len(g.Nodes)+maxPassing || size > 8<<20 {
			t.Errorf("%s: %d nodes and %d edges have %d boxes and %d bytes of lines", name, len(g.Nodes), len(g.Edges), len(l.boxes), size)
		}
	}
}

// TestFirst: a graph is cut before a node, with the edges between those that stay.
func TestFirst(t *testing.T) {
	g := &Graph{Nodes: make([]Node, 4), Edges: []Edge{{From: 0, To: 1}, {From: 1, To: 3}, {From: 0, To: 2}}}
	got, left := g.First(3)
	if left != 1 || len(got.Nodes) != 3 || !slices.Equal(got.Edges, []Edge{{From: 0, To: 1}, {From: 0, To: 2}}) {
		t.Errorf("%d are left out of %+v", left, got)
	}
	if got, left = g.First(4); left != 0 || len(got.Nodes) != 4 || len(got.Edges) != 3 {
		t.Errorf("%d are left out of %+v", left, got)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// TestCrossings compares the count with the obvious one.
func TestCrossings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := &Graph{}
		for range 12 {
			g.Nodes = append(g.Nodes, Node{Lines: []string{"x"}})
		}
		for i := range 6 {
			for j := 6; j < 12; j++ {
				if rapid.Bool().Draw(rt, "edge") {
					g.Edges = append(g.Edges, Edge{From: i, To: j})
				}
			}
		}
		l := &layout{}
		l.place(g)
		l.route(g)
		at, want := l.places(), 0
		for i, a := range g.Edges {
			for _, b := range g.Edges[:i] {
				if (at[a.From]-at[b.From])*(at[a.To]-at[b.To]) < 0 {
					want++
				}
			}
		}
		if len(l.layers) > 1 && len(l.layers) < 3 {
			if got := l.crossings(); got != want {
				rt.Fatalf("%d crossings instead of %d", got, want)
			}
		}
	})
}

func TestLargeGraph(t *testing.T) {
	var b strings.Builder
	b.WriteString("in x0: Int\nin y: Int\n")
	for i := range 150 {
		fmt.Fprintf(&b, "x%d = F(x%d, x%d, y)\n", i+1, i, i/2)
	}
	b.WriteString("out x150")
	start := time.Now()
	svg := build(t, b.String()).SVG()
	if d := time.Since(start); d > 10*time.Second {
		t.Fatalf("%v", d)
	}
	if strings.Count(svg, "<rect") != 153 {
		t.Fatal(strings.Count(svg, "<rect"))
	}
}
