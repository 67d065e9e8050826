package lsp

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/docs"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// variables are the meanings of the variables that bide defines, from the page of the
// reference, by name. One with a part to fill in, such as env.NAME, is there as "env.".
var variables = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, row := range docs.Table("variables") {
		if row.Head[0] != "variable" {
			continue
		}
		for _, name := range row.Names() {
			if open := toFill().FindStringSubmatch(name); open != nil {
				name = open[1]
			}
			m[name] = cmp.Or(m[name], row.Section+": "+row.Cells[1])
		}
	}
	return m
})

var toFill = pattern.Lazy(`^([a-z]+[.:])[A-Z]+(?::[A-Z]+)?$`)

// results are the variables with the result of the last step of a kind: the reference says
// what they hold under the first of them.
var results = []string{"last", "shell", "claude", "http", "write_file", "pipeline", "test"}

// variableDoc says what a variable of bide or a member of it is, as in a text after "${"; ""
// if it is none.
func variableDoc(name string) string {
	if head, _, ok := strings.Cut(name, ":"); ok {
		return cmp.Or(variables()[head+":"], variableDoc(head))
	}
	if strings.HasPrefix(name, "ARG_") {
		name = "ARG_1"
	}
	head, member, _ := strings.Cut(name, ".")
	text := cmp.Or(variables()[name], variables()[head+"."])
	switch {
	case text != "" || member == "":
	case slices.Contains(results, head):
		text = resultDoc(member)
	case head == "workflow":
		text = variables()["step."+member]
	}
	if i := strings.LastIndexAny(name, ".["); text == "" && i > 0 {
		return variableDoc(name[:i])
	}
	return text
}

// resultDoc says what a member of a step's result is.
func resultDoc(member string) string { return variables()["last."+member] }

var members = pattern.Lazy(`^(?:(?:\.\w[\w-]*|\[[^\]\n]*\])+|:[^-}|\n][^}|\n]*)`)

// referenceAt is like nameAt, but the span has the members too that are read: item.name[0].
func (w *workflowFile) referenceAt(d *document, at int) (yamlName, syntax.Span, bool) {
	return w.nameIn(d, at, func(p namePlace) syntax.Span {
		if !p.defines && !p.bare {
			p.span.End += int32(len(members().FindString(d.text[p.span.End:])))
		}
		return p.span
	})
}
