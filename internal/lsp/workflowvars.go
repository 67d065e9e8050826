package lsp

import (
	"cmp"
	"maps"
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

// filters are the meanings of the filters, from the same page.
var filters = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, row := range docs.Table("variables") {
		if row.Head[0] == "filter" {
			for _, name := range row.Names() {
				m[name] = strings.ReplaceAll(row.Cells[1], `\|`, "|")
			}
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

var (
	unclosed = pattern.Lazy(`\$\{(?:([\w-]+)\.)?([\w-]*)$`)
	filtered = pattern.Lazy(`\$\{([^{}]*)\|(\w*)$`)
)

// inReference gives what can stand at an offset inside of a "${": the first word of it, a
// member of that, or a filter. It is false elsewhere.
func (w *workflowFile) inReference(text string, at int) (items []item, span syntax.Span, in bool) {
	start := strings.LastIndexByte(text[:at], '\n') + 1
	line := text[start:at]
	if m := filtered().FindStringSubmatch(line); m != nil {
		if !strings.HasPrefix(m[1], "cmd:") { // there the bar is the shell's
			items = explained(filters(), "")
		}
		return items, syntax.Span{Start: int32(at - len(m[2])), End: int32(at)}, true
	}
	m := unclosed().FindStringSubmatch(line)
	if m == nil {
		return nil, span, false
	}
	if span = (syntax.Span{Start: int32(at - len(m[2])), End: int32(at)}); m[1] != "" {
		return w.membersOf(m[1]), span, true
	}
	for _, name := range w.names {
		items = append(items, item{label: name, kind: variableItem, doc: variables()[name]})
	}
	return items, span, true
}

// membersOf are the members of a variable: those that bide defines, or that a step of the
// file gives.
func (w *workflowFile) membersOf(head string) []item {
	list := explained(variables(), head+".")
	switch {
	case slices.Contains(results, head):
		list = append(list, explained(variables(), "last.")...)
	case head == "workflow":
		list = append(list, explained(variables(), "step.")...)
	case len(list) == 0 && slices.Contains(w.names, head) && variables()[head] == "" && !slices.Contains(append(w.section("env"), w.section("parameters")...), head):
		list = explained(variables(), "last.")
	}
	slices.SortStableFunc(list, func(a, b item) int { return strings.Compare(a.label, b.label) })
	return slices.CompactFunc(list, func(a, b item) bool { return a.label == b.label })
}

// explained are the names that begin so, without that, with what they mean.
func explained(of map[string]string, begin string) (list []item) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if member, ok := strings.CutPrefix(name, begin); ok && member != "" && !strings.ContainsAny(member, ".:") {
			list = append(list, item{label: member, kind: variableItem, doc: of[name]})
		}
	}
	return list
}

// filterAt is the filter of a "${" at an offset.
func filterAt(text string, at int) (name string, span syntax.Span, ok bool) {
	end := at
	for end < len(text) && (text[end] == '_' || text[end] >= 'a' && text[end] <= 'z') {
		end++
	}
	start := strings.LastIndexByte(text[:at], '\n') + 1
	m := filtered().FindStringSubmatch(text[start:end])
	if m == nil || filters()[m[2]] == "" || strings.HasPrefix(m[1], "cmd:") {
		return "", span, false
	}
	return m[2], syntax.Span{Start: int32(end - len(m[2])), End: int32(end)}, true
}

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
