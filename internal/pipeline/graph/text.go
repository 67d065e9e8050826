package graph

import (
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/value"
)

// maxLine is the number of characters that a line in a node may have.
const maxLine = 32

// summaryText is a piece of source on one line, without comments.
func summaryText(s string) string {
	var words []string
	for _, line := range strings.Split(s, "\n") {
		if n := strings.IndexByte(line, '#'); n >= 0 && strings.Count(line[:n], `"`)%2 == 0 {
			line = line[:n]
		}
		words = append(words, strings.Fields(line)...)
	}
	return strings.Join(words, " ")
}

// summary says in a few characters what an expression is.
func summary(f *syntax.File, e syntax.Expr) string {
	switch e := syntax.Unparen(e).(type) {
	case *syntax.IfExpr:
		return "if " + summaryText(f.Text(e.Cond.Extent()))
	case *syntax.BranchExpr:
		return fmt.Sprintf("branch (%d cases)", len(e.Cases)+1)
	case *syntax.MatchExpr:
		return "match " + summaryText(f.Text(e.X.Extent()))
	}
	return summaryText(f.Text(e.Extent()))
}

// DOT writes the graph in Graphviz's language.
func (g *Graph) DOT() string {
	var b strings.Builder
	b.WriteString("digraph pipeline {\n  node [fontname=\"sans-serif\"];\n")
	shapes := map[Kind]string{Input: "shape=ellipse", Call: "shape=box, style=rounded", Value: "shape=box", Output: "shape=ellipse, peripheries=2"}
	for i, n := range g.Nodes {
		lines := value.Map(n.Lines, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace)
		fmt.Fprintf(&b, "  n%d [label=\"%s\", %s];\n", i, strings.Join(lines, `\n`), shapes[n.Kind])
	}
	for _, e := range g.Edges {
		style := ""
		if e.Lazy {
			style = " [style=dashed]"
		}
		fmt.Fprintf(&b, "  n%d -> n%d%s;\n", e.From, e.To, style)
	}
	b.WriteString("}\n")
	return b.String()
}

// Mermaid writes the graph as a Mermaid flowchart.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	open := map[Kind]string{Input: "([", Call: "(", Value: "[", Output: "[["}
	closer := map[Kind]string{Input: "])", Call: ")", Value: "]", Output: "]]"}
	for i, n := range g.Nodes {
		lines := value.Map(n.Lines, mermaidText)
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, open[n.Kind], strings.Join(lines, "<br/>"), closer[n.Kind])
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Lazy {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", e.From, arrow, e.To)
	}
	return b.String()
}

// mermaidText writes everything that Mermaid or HTML could take for its own
// as a numbered character.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r > 0x7f, strings.ContainsRune(" _-.,:/()=+*", r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
