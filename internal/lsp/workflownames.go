package lsp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/workflow"
)

// yamlName is a name of a workflow file: a variable, or a thing under one of the
// top-level keys. One name is one thing in a file, wherever it is defined.
type yamlName struct {
	text    string
	section string // "": a variable
}

// namePlace is a place where a name is.
type namePlace struct {
	name    yamlName
	span    syntax.Span // of the name alone
	defines bool        // the name is defined here
	bare    bool        // it is written $NAME
}

// givers are the maps whose keys are variables, and namers the keys whose values
// name one.
var (
	givers = []string{"env", "secrets", "variables", "parameters", "required", "optional", "defaults", "capture_outputs", "captures", "outputs"}
	namers = []string{"capture", "capture_output", "id"}
)

// namedBy says under which top-level keys the things are that a value names.
var namedBy = map[string][]string{
	"custom": {"handlers"}, "handler": {"handlers"}, "use": {"templates"}, "workflow": {"workflows", "sub_workflows", "imports"},
	"active_profile": {"profiles"}, "provider": {"agents"}, "depends_on": {"workflows", "sub_workflows"}, "on_item_failure": {"handlers"},
}

// sections are the top-level keys under which things have names, and whether a
// thing of it is a variable too.
var sections = map[string]bool{"handlers": false, "templates": true, "workflows": true, "sub_workflows": true, "imports": true, "profiles": false, "agents": true}

// noteRead notes where a condition reads a variable, if it is in this document.
func (w *workflowFile) noteRead(d *document, r workflow.Read) {
	if r.Pos.Line < 1 || r.Pos.Line > len(d.lines) || r.Pos.File != "" && absolute(r.Pos.File) != absolute(d.path) {
		return
	}
	text, start := d.line(r.Pos.Line - 1)
	at := start + bytesUpTo(text, r.Pos.Column-1)
	if strings.HasPrefix(d.text[at:], r.Name) { // an escape before it may have moved it
		w.reads = append(w.reads, namePlace{name: yamlName{text: r.Name}, span: spanOf(at, r.Name)})
	}
}

func spanOf(at int, word string) syntax.Span {
	return syntax.Span{Start: int32(at), End: int32(at + len(word))}
}

// places are all places where names stand, those that give them first; each once.
func (w *workflowFile) places(d *document) []namePlace {
	var defined, used []namePlace
	if w.root == nil {
		return nil
	}
	walkYAML(w.root, nil, func(p yamlPlace) bool {
		for _, section := range definedAs(p) {
			if at, ok := d.wordIn(p); ok {
				defined = append(defined, namePlace{name: yamlName{p.node.Value, section}, span: at, defines: true})
			}
		}
		return true
	})
	known := map[yamlName]bool{}
	for _, p := range defined {
		known[p.name] = true
	}
	walkYAML(w.root, nil, func(p yamlPlace) bool {
		for _, section := range namedAs(p) {
			if at, ok := d.wordIn(p); ok && known[yamlName{p.node.Value, section}] {
				used = append(used, namePlace{name: yamlName{p.node.Value, section}, span: at})
			}
		}
		return true
	})
	for _, r := range append(w.textReads(d), w.reads...) {
		for section, variable := range sections {
			if name := (yamlName{r.name.text, section}); variable && known[name] {
				r.name = name
			}
		}
		used = append(used, r)
	}
	seen := map[syntax.Span]bool{}
	return slices.DeleteFunc(append(defined, used...), func(p namePlace) bool {
		again := seen[p.span]
		seen[p.span] = true
		return again
	})
}

var reference = pattern.Lazy(`\\\$|\$\$|\$\{([A-Za-z_][\w-]*)|\$([A-Za-z_]\w*)`)

// textReads finds the $NAME and ${NAME} of all texts, also of those that nothing
// uses and that are not read therefore.
func (w *workflowFile) textReads(d *document) (list []namePlace) {
	walkYAML(w.root, nil, func(p yamlPlace) bool {
		span := d.yamlSpan(p.node)
		for _, m := range reference().FindAllStringSubmatchIndex(d.at(span), -1) {
			from, to, bare := m[2], m[3], false
			if from < 0 {
				from, to, bare = m[4], m[5], true
			}
			if from >= 0 && !p.isKey {
				at := int(span.Start) + from
				list = append(list, namePlace{name: yamlName{text: d.text[at : at+to-from]}, span: spanOf(at, d.text[at:at+to-from]), bare: bare})
			}
		}
		return true
	})
	return list
}

// definedAs gives the sections of what a scalar defines: "" of a variable.
func definedAs(p yamlPlace) []string {
	last, before := lastKeys(p.path)
	switch {
	case p.isKey && len(p.path) == 1 && hasSection(p.path[0]):
		return []string{p.path[0]}
	case p.isKey && slices.Contains(givers, last),
		p.isKey && len(p.path) == 2 && p.path[0] == "profiles",
		!p.isKey && slices.Contains(namers, last),
		!p.isKey && last == "outputs",
		!p.isKey && last == "name" && slices.Contains(givers, before):
		return []string{""}
	}
	return nil
}

func hasSection(key string) bool { _, ok := sections[key]; return ok }

// namedAs gives the sections in which that may be which a scalar names.
func namedAs(p yamlPlace) []string {
	if p.isKey {
		return []string{"agents"} // the name of a configured agent is a key of a step
	}
	last, _ := lastKeys(p.path)
	return namedBy[last]
}

// wordIn is the place of the text of a scalar on its line, quotes left out.
func (d *document) wordIn(p yamlPlace) (syntax.Span, bool) {
	span := d.yamlSpan(p.node)
	i := strings.Index(d.at(span), p.node.Value)
	if i < 0 || p.node.Value == "" {
		return span, false
	}
	return spanOf(int(span.Start)+i, p.node.Value), true
}

// section lists the names under a top-level key.
func (w *workflowFile) section(key string) (names []string) {
	if w.root != nil {
		walkYAML(w.root, nil, func(p yamlPlace) bool {
			if p.isKey && len(p.path) == 1 && p.path[0] == key {
				names = append(names, p.node.Value)
			}
			return true
		})
	}
	return names
}

// nameAt gives the name at an offset.
func (w *workflowFile) nameAt(d *document, at int) (yamlName, syntax.Span, bool) {
	return w.nameIn(d, at, func(p namePlace) syntax.Span { return p.span })
}

// nameIn gives the name whose reach, with the "${" before it, has an offset.
func (w *workflowFile) nameIn(d *document, at int, reach func(namePlace) syntax.Span) (yamlName, syntax.Span, bool) {
	for _, p := range w.places(d) {
		span := reach(p)
		before := strings.TrimSuffix(d.text[:span.Start], "{")
		if within(span, at) || !p.defines && strings.HasSuffix(before, "$") && within(syntax.Span{Start: int32(len(before) - 1), End: span.End}, at) {
			return p.name, span, true
		}
	}
	return yamlName{}, syntax.Span{}, false
}

// definitions are the places where a name is defined.
func (w *workflowFile) definitions(d *document, name yamlName) []namePlace {
	return slices.DeleteFunc(w.places(d), func(p namePlace) bool { return !p.defines || p.name != name })
}

// occurrences are the places of the name at an offset.
func (w *workflowFile) occurrences(d *document, at int) (list []namePlace, span syntax.Span) {
	name, span, ok := w.nameAt(d, at)
	if ok {
		list = slices.DeleteFunc(w.places(d), func(p namePlace) bool { return p.name != name })
	}
	return list, span
}

func (w *workflowFile) references(d *document, at int, definition bool) (spans []syntax.Span) {
	list, _ := w.occurrences(d, at)
	for _, p := range list {
		if definition || !p.defines {
			spans = append(spans, p.span)
		}
	}
	return spans
}

// renamable gives the place of the name at an offset, if this file gives it.
func (w *workflowFile) renamable(d *document, at int) (syntax.Span, bool) {
	list, span := w.occurrences(d, at)
	return span, slices.ContainsFunc(list, func(p namePlace) bool { return p.defines })
}

var (
	variableName = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	thingName    = pattern.Lazy(`^[A-Za-z0-9_][\w.-]*$`)
)

var errNotChangeable = errors.New("there is no name here that can be changed: it is not defined in this file")

// rename gives the edits that call something otherwise.
func (w *workflowFile) rename(d *document, at int, to string) ([]textEdit, error) {
	if _, ok := w.renamable(d, at); !ok {
		return nil, errNotChangeable
	}
	list, _ := w.occurrences(d, at)
	name := list[0].name
	switch {
	case name.section == "" && !variableName().MatchString(to):
		return nil, fmt.Errorf("%q cannot be the name of a variable: letters, digits, _ and -, no digit first", to)
	case !thingName().MatchString(to):
		return nil, fmt.Errorf("%q cannot be a name: letters, digits, _, . and -", to)
	case to == name.text:
		return []textEdit{}, nil
	case (name.section == "" || sections[name.section]) && slices.Contains(w.names, to):
		return nil, fmt.Errorf("there is a variable %q already", to)
	case name.section != "" && slices.Contains(w.section(name.section), to):
		return nil, fmt.Errorf("there is %q under %s already", to, name.section)
	}
	edits := make([]textEdit, 0, len(list))
	for _, p := range list {
		text := to
		if p.bare && strings.ContainsAny(to, "-.") { // which a $NAME cannot have
			text = "{" + to + "}"
		}
		edits = append(edits, textEdit{d.span(p.span), text})
	}
	return edits, nil
}
