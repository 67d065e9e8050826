package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"go.yaml.in/yaml/v3"
)

// This file writes the matrix of a job of GitHub Actions as a map over its combinations.

// githubMatrix is the matrix of a job.
type githubMatrix struct {
	strategy *yaml.Node
	key      *yaml.Node   // its key in the file
	list     []*yaml.Node // the combinations
	hidden   hiddenReferences
}

// matrixOf reads the matrix of a job; nil if there is none. If GitHub computes the matrix
// during the run, why says so.
func matrixOf(job *yaml.Node, hidden hiddenReferences) (x *githubMatrix, why string) {
	strategy := member(job, "strategy")
	if strategy == nil {
		return nil, ""
	}
	matrix := member(strategy, "matrix")
	switch {
	case matrix == nil:
		return nil, "left out: it has no matrix"
	case mostCombinations < sizeOf(matrix):
		return nil, fmt.Sprintf("left out: it has more than %d combinations", mostCombinations)
	case matrix.Kind != yaml.MappingNode || hasExpression(matrix):
		return nil, "left out, as GitHub makes its list while it runs: write map: with input: {command: …}, a command that prints one item a line, and the steps below its agent_template:"
	}
	x = &githubMatrix{strategy: strategy, hidden: hidden}
	x.key = strategy.Content[slices.Index(strategy.Content, matrix)-1]
	if x.list = combinations(matrix); len(x.list) == 0 {
		return nil, "left out: its matrix has no combination"
	}
	return x, ""
}

// mostCombinations bounds those of a matrix: GitHub itself runs 256 at most.
const mostCombinations = 10_000

// sizeOf gives how many combinations the lists of a matrix have, or a number above
// mostCombinations.
func sizeOf(matrix *yaml.Node) int {
	n := 1
	for i := 0; i+1 < len(matrix.Content); i += 2 {
		if key := matrix.Content[i].Value; key != "include" && key != "exclude" && n <= mostCombinations {
			n *= max(1, len(matrix.Content[i+1].Content))
		}
	}
	return n
}

// combinations are the combinations of a matrix: every value with every other, without those
// that exclude names. An entry of include is added to each combination that it does not
// contradict; if there is none, it is a combination of its own.
func combinations(matrix *yaml.Node) []*yaml.Node {
	list := []*yaml.Node{{Kind: yaml.MappingNode}}
	axes := 0
	for i := 0; i+1 < len(matrix.Content); i += 2 {
		key, values := matrix.Content[i], matrix.Content[i+1]
		if key.Value == "include" || key.Value == "exclude" {
			continue
		}
		axes++
		var more []*yaml.Node
		for _, c := range list {
			for _, v := range values.Content {
				more = append(more, with(c, key, v))
			}
		}
		list = more
	}
	if axes == 0 {
		list = nil
	}
	if out := member(matrix, "exclude"); out != nil {
		for _, e := range out.Content {
			list = slices.DeleteFunc(list, func(c *yaml.Node) bool { return agrees(c, e, true) })
		}
	}
	if add := member(matrix, "include"); add != nil {
		first := slices.Clone(list) // before include adds to them
		for _, e := range add.Content {
			taken := false
			for i, c := range first {
				if !agrees(c, e, false) {
					continue
				}
				taken = true
				for k := 0; k+1 < len(e.Content); k += 2 {
					list[i] = with(list[i], e.Content[k], e.Content[k+1])
				}
			}
			if !taken && e.Kind == yaml.MappingNode {
				list = append(list, e)
			}
		}
	}
	return list
}

// with is a combination in which a key has a new value.
func with(c, key, v *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Content: slices.Clone(c.Content)}
	for i := 0; i+1 < len(out.Content); i += 2 {
		if out.Content[i].Value == key.Value {
			out.Content[i+1] = v
			return out
		}
	}
	out.Content = append(out.Content, key, v)
	return out
}

// agrees reports whether c has the values of e: of all keys of e, or only of those that c has.
func agrees(c, e *yaml.Node, all bool) bool {
	for i := 0; i+1 < len(e.Content); i += 2 {
		own := member(c, e.Content[i].Value)
		if own == nil && all || own != nil && !sameValue(own, e.Content[i+1]) {
			return false
		}
	}
	return e.Kind == yaml.MappingNode
}

func sameValue(a, b *yaml.Node) bool {
	return a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, sameValue)
}

var (
	matrixReference = pattern.Lazy(`^\$\{\{\s*matrix\.([\w-]+(?:\.[\w-]+)*)\s*\}\}$`)
	matrixCondition = pattern.Lazy(`^matrix\.([\w-]+(?:\.[\w-]+)*)\s*(==|!=)\s*'([^']*)'$`)
)

// reference is what we write for a name of the matrix. If not all combinations have the name,
// the reference is empty there, as on GitHub. If a value may be an option, the reference
// allows that.
func (x *githubMatrix) reference(name string) string {
	option, missing := "", ""
	for _, c := range x.list {
		for key := range strings.SplitSeq(name, ".") {
			if c != nil {
				c = member(c, key)
			}
		}
		switch {
		case c == nil:
			missing = ":-"
		case strings.HasPrefix(c.Value, "-"):
			option = "|option"
		}
	}
	return "${item." + name + option + missing + "}"
}

// hide replaces the references to the matrix in a value by words.
func (x *githubMatrix) hide(n *yaml.Node) *yaml.Node {
	return x.hidden.hide(n, func(text string) string {
		if found := matrixReference().FindStringSubmatch(text); found != nil {
			return x.reference(found[1])
		}
		return ""
	})
}

// hideIn calls hide for what GitHub expands in a job: the texts of its steps and their
// directories. It moves what the job's env has of the matrix to each step.
func (x *githubMatrix) hideIn(job *yaml.Node) {
	x.moveEnv(job)
	for i := 0; i+1 < len(job.Content); i += 2 {
		switch job.Content[i].Value {
		case "defaults":
			job.Content[i+1] = x.hide(job.Content[i+1])
		case "steps":
			for _, s := range job.Content[i+1].Content {
				hideInStep(s, func(_ string, n *yaml.Node) *yaml.Node { return x.hide(n) })
			}
		}
	}
}

// moveEnv moves the variables with references to the matrix from the job's env to that of its
// steps.
func (x *githubMatrix) moveEnv(job *yaml.Node) {
	env := member(job, "env")
	for i := 0; env != nil && env.Kind == yaml.MappingNode && i+1 < len(env.Content); i += 2 {
		key, v := env.Content[i], env.Content[i+1]
		if x.hide(v).Value == v.Value {
			continue
		}
		for _, s := range member(job, "steps").Content {
			own := member(s, "env")
			if own == nil {
				own = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
				s.Content = append(s.Content, yamlWord("env"), own)
			}
			if member(own, key.Value) == nil {
				own.Content = append(own.Content, key, v)
			}
		}
		env.Content = slices.Delete(env.Content, i, i+2)
		i -= 2
	}
	if at := slices.Index(job.Content, env); env != nil && len(env.Content) == 0 {
		job.Content = slices.Delete(job.Content, at-1, at+1)
	}
}

// condition translates a condition on the matrix; "" for other conditions.
func (x *githubMatrix) condition(text string) string {
	found := matrixCondition().FindStringSubmatch(text)
	if x == nil || found == nil || strings.Contains(found[3], "$") {
		return ""
	}
	return x.reference(found[1]) + " " + found[2] + " '" + found[3] + "'"
}

// write writes a map over the combinations into a workflow, and returns comments about it.
func (x *githubMatrix) write(m *migrated, out, steps *yaml.Node) (comments []string) {
	comments = append(comments, m.leave(x.key, "matrix", "written as a map over its "+diag.Count(len(x.list), "combination")+", one after another: they share this directory, where on GitHub each has a machine of its own"))
	if n := member(x.strategy, "max-parallel"); n != nil && n.Value != "1" {
		comments = append(comments, m.leave(n, written(yamlWord("max-parallel"), n), "written as max_parallel: 1: raise it where the steps do not disturb each other, or with isolation: worktree"))
	}
	input := &yaml.Node{Kind: yaml.SequenceNode}
	for _, c := range x.list {
		input.Content = append(input.Content, x.item(c))
	}
	over := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{yamlWord("input"), input, yamlWord("max_parallel"), yamlWord("1")}}
	for i := 0; i+1 < len(out.Content); i += 2 {
		if out.Content[i].Value == "timeout" { // for each combination, as on GitHub
			over.Content = append(over.Content, yamlWord("agent_timeout"), out.Content[i+1])
			out.Content = slices.Delete(out.Content, i, i+2)
			break
		}
	}
	over.Content = append(over.Content, yamlWord("agent_template"), steps)
	out.Content = append(out.Content, yamlWord("map"), over)
	switch fast := member(x.strategy, "fail-fast"); {
	case fast != nil && hasExpression(fast):
		comments = append(comments, m.leave(fast, "fail-fast", "left out; write error_policy: {continue_on_failure: false} where the first failure is to end the map"))
	case fast == nil || fast.Value == "true":
		policy := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{yamlWord("continue_on_failure"), yamlWord("false")}}
		out.Content = append(out.Content, yamlWord("error_policy"), policy)
	}
	return comments
}

// item is a combination as an item. Its id is made of its values if that is unique.
func (x *githubMatrix) item(c *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: slices.Clone(c.Content)}
	id := idOf(c)
	same := func(o *yaml.Node) bool { return o != c && idOf(o) == id }
	if member(c, "id") == nil && id != "" && !slices.ContainsFunc(x.list, same) {
		out.Content = append([]*yaml.Node{yamlWord("id"), {Kind: yaml.ScalarNode, Tag: "!!str", Value: id}}, out.Content...)
	}
	return out
}

// idOf joins those values of a combination that are words.
func idOf(c *yaml.Node) string {
	var words []string
	for i := 1; i < len(c.Content); i += 2 {
		if v := c.Content[i]; v.Kind == yaml.ScalarNode && plainValue().MatchString(v.Value) {
			words = append(words, v.Value)
		}
	}
	return strings.Join(words, "-")
}
