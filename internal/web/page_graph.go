package web

import (
	"net/http"
	"strconv"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pipeline/graph"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

type graphBody struct {
	Run           string
	Width, Height float64
	Nodes         []graphNode
	Edges         []graphEdge
	Left          int  // nodes that are left out
	Full          bool // it is as large as it is; else it fits its frame
}

type graphNode struct {
	graph.Box
	Key    string
	Kind   string
	Status string
	Lines  []string
	Detail string // the status in words, with counts
	Href   string
}

type graphEdge struct {
	Path string
	Lazy bool
}

func (p *pages) graphPage(w http.ResponseWriter, r *http.Request, run *run) error {
	b := graphBody{Run: run.id, Full: r.URL.Query().Get("size") == "full"}
	h := run.r.Header()
	var g *graph.Graph
	if h.Kind == "pipeline" {
		f, _ := syntax.Parse(h.Path, h.Source) // what cannot be read has no node
		g = graph.Build(f)
	}
	head, err := p.headOf(r, run, func() {
		if g == nil {
			g = b.steps(run)
		} else {
			b.calls(run, g)
		}
	})
	if err != nil {
		return err
	}
	// A list of calls, a loop and a map are one node each.
	g, b.Left = g.First(graph.MaxDrawn)
	b.Nodes = b.Nodes[:len(g.Nodes)]
	d := g.Draw()
	b.Width, b.Height = d.Width, d.Height
	for i := range b.Nodes {
		b.Nodes[i].Box = d.Boxes[i]
	}
	for i, line := range d.Lines {
		b.Edges = append(b.Edges, graphEdge{line, g.Edges[i].Lazy})
	}
	return p.show(w, "graph", frame{Title: "Graph of " + head.Name, Run: head, Live: "run", Body: b})
}

// steps makes the graph of a workflow: its steps one after the other, the map
// as one node. run.mu is held.
func (b *graphBody) steps(run *run) *graph.Graph {
	g := &graph.Graph{}
	inner := map[*timeline.Row][2]int{} // of a step: those in it that ended, and all
	rows := run.line.Rows()
	for _, r := range rows {
		for up := r.Parent; up != nil; up = up.Parent {
			n := inner[up]
			if n[1]++; r.Status != event.Pending && r.Status != event.Running && r.Status != timeline.Waiting {
				n[0]++
			}
			inner[up] = n
		}
	}
	for _, r := range rows {
		top := r.Parent == nil || r.Parent.Kind == timeline.Phase
		if !top || r.Kind == timeline.Phase && r.Path != "map" {
			continue
		}
		n := graphNode{Key: r.Path, Kind: "call", Lines: []string{diag.ClipBytes(r.Label, 44)}}
		n.Status, n.Detail = detail(r, run.tally())
		if r.Path == "map" {
			n.Kind, n.Href = "list", "/runs/"+run.id+"/map"
		} else {
			n.Href = "/runs/" + run.id + "/step?" + address("path", r.Path)
			if in := inner[r]; in[1] > 0 {
				n.Kind, n.Detail = "list", n.Detail+", "+strconv.Itoa(in[0])+" of "+strconv.Itoa(in[1])+" inside"
			}
		}
		if i := len(g.Nodes); i > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: i - 1, To: i})
		}
		g.Nodes = append(g.Nodes, graph.Node{Kind: graph.Call, Lines: []string{n.Lines[0], timeline.Sign(n.Status) + " " + n.Detail}})
		b.Nodes = append(b.Nodes, n)
	}
	return g
}

// calls gives the nodes of a pipeline their states. run.mu is held.
func (b *graphBody) calls(run *run, g *graph.Graph) {
	rows := value.Map(g.Nodes, func(n graph.Node) *timeline.Row { return run.line.Row(n.Lines[0]) })
	// The call in "pages = map(list, (x) => Get(x))" has no name of its own: it
	// is in the state of the list that it is called for.
	for _, e := range g.Edges {
		if rows[e.From] == nil && g.Nodes[e.From].Kind == graph.Call && rows[e.To] != nil && rows[e.To].Kind == timeline.List {
			rows[e.From] = rows[e.To]
		}
	}
	for i, n := range g.Nodes {
		out := graphNode{Key: strconv.Itoa(i), Kind: n.Kind.String(), Lines: n.Lines}
		if r := rows[i]; r != nil && n.Kind != graph.Input && n.Kind != graph.Output {
			out.Status, out.Detail = detail(r, run.tally())
			if r.Kind == timeline.Step && r.Tries > 0 {
				out.Href = "/runs/" + run.id + "/step?" + address("path", r.Path)
			}
		}
		if out.Detail != "" {
			// Room for the state, which is one line more.
			g.Nodes[i].Lines = append(append([]string{}, n.Lines...), timeline.Sign(out.Status)+" "+out.Detail)
		}
		b.Nodes = append(b.Nodes, out)
	}
}

// detail is the state of a row in words. items are the counts of the run's map.
func detail(r *timeline.Row, items journal.Counts) (status, text string) {
	status, done := r.Told(items)
	if r.Kind != timeline.List && r.Tries > 1 {
		done = strconv.Itoa(r.Tries) + " attempts"
	}
	return status, joined(words(status), done)
}

// LineY is the middle of one of a node's lines.
func (n graphNode) LineY(i int) float64 {
	lines := len(n.Lines)
	if n.Detail != "" {
		lines++
	}
	const height = 16 // of a line, as the layout counts them
	return n.Y + n.H/2 - float64(lines-1)*height/2 + float64(i)*height + 4
}

// Middle is the middle of a node's width.
func (n graphNode) Middle() float64 { return n.X + n.W/2 }
