package cli

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

// This file translates the expressions of GitHub's steps that mean a variable of the job.

// hiddenReferences are our references, by the words that stand for them in texts while these
// are written: a parser of shell texts finds a word there, and nothing escapes it.
type hiddenReferences map[string]string

// hide replaces the expressions in a value for which reference gives something.
func (h hiddenReferences) hide(n *yaml.Node, reference func(expression string) string) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Value = githubExpression().ReplaceAllStringFunc(n.Value, func(text string) string {
		ref := reference(text)
		if ref == "" {
			return text
		}
		for word, known := range h {
			if known == ref {
				return word
			}
		}
		word := fmt.Sprintf("bide_reference_%d_", len(h))
		h[word] = ref
		return word
	})
	out.Content = value.Map(n.Content, func(c *yaml.Node) *yaml.Node { return h.hide(c, reference) })
	return &out
}

// show replaces the words of hide by their references.
func (h hiddenReferences) show(n *yaml.Node) {
	for word, ref := range h {
		n.Value = strings.ReplaceAll(n.Value, word, ref)
	}
	for _, c := range n.Content {
		h.show(c)
	}
}

// hideInStep calls hide for the values of a step that GitHub expands and we keep.
func hideInStep(s *yaml.Node, hide func(key string, n *yaml.Node) *yaml.Node) {
	for k := 0; k+1 < len(s.Content); k += 2 {
		if key := s.Content[k].Value; slices.Contains([]string{"name", "run", "with", "env", "working-directory"}, key) {
			s.Content[k+1] = hide(key, s.Content[k+1])
		}
	}
}

var (
	outputReference = pattern.Lazy(`^\$\{\{\s*steps\.([\w-]+)\.outputs\.([A-Za-z_]\w*)\s*\}\}$`)
	envReference    = pattern.Lazy(`^\$\{\{\s*env\.([A-Za-z_]\w*)\s*\}\}$`)
)

// hide replaces the outputs of earlier steps and the variables of env: in the steps of a job.
func (g *githubScope) hide(steps []*yaml.Node, hidden hiddenReferences) {
	for i, s := range steps {
		env := member(s, "env")
		hideInStep(s, func(key string, n *yaml.Node) *yaml.Node {
			return hidden.hide(n, func(text string) string {
				if found := outputReference().FindStringSubmatch(text); found != nil {
					return g.output(steps, i, found[1], found[2])
				}
				if found := envReference().FindStringSubmatch(text); found != nil {
					return g.variable(env, key, found[1])
				}
				return ""
			})
		})
	}
}

// output is our reference to an output of a step before the one at an index: the variable that
// $BIDE_OUTPUT sets, which has no value where the step did not set it. It is "" if not exactly
// that step, and nothing else, sets the name.
func (g *githubScope) output(steps []*yaml.Node, before int, id, name string) string {
	value, known := g.env[name]
	if !known || value != "" || slices.Contains(ours, name) {
		return ""
	}
	setter := -1
	for i, s := range steps {
		if hasName(saidBy(s), name) {
			if setter >= 0 {
				return ""
			}
			setter = i
		}
		if env := member(s, "env"); env != nil && member(env, name) != nil {
			return ""
		}
	}
	if setter < 0 || setter >= before || scalar(member(steps[setter], "id")) != id {
		return ""
	}
	return "${" + name + ":-}"
}

// variable is our reference to a variable of env:, of the step or around it; "" if its value is
// not in the file, or is another one in this place.
func (g *githubScope) variable(own *yaml.Node, key, name string) string {
	value := g.env[name]
	if own != nil && member(own, name) != nil {
		if key != "run" || hasName(g.env, name) && value == "" {
			return ""
		}
		value = scalar(member(own, name))
	}
	if value == "" || strings.Contains(value, "${{") || slices.Contains(ours, name) {
		return ""
	}
	return "${" + name + "}"
}
