package lsp

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// manifestFile is a manifest of modules: its problems are told, and what it has,
// and its keys come out of the table of package module.
type manifestFile struct{ root *yaml.Node }

func (m *manifestFile) analyse(_ *server, d *document) diag.List {
	m.root = tree(d.text)
	_, _, problems := module.ParseManifest(d.path, []byte(d.text))
	return problems
}

// typeWords are what a type may begin with.
var typeWords = []string{"String", "Int", "Float", "Boolean", "List<String>", "Map<String, String>", "Optional<String>"}

// hover explains a key, or says what the {parameter} of a text is.
func (m *manifestFile) hover(d *document, at int) (string, syntax.Span) {
	p, span, ok := placeIn(d, m.root, at)
	if !ok {
		return "", span
	}
	if p.isKey {
		for _, k := range module.Keys(p.path) {
			if k.Name == p.node.Value {
				return keyInfo{doc: k.Doc, example: k.Example}.markdown(k.Name), span
			}
		}
		return "", span
	}
	word := d.wordAt(at)
	for name, kind := range m.params(p.node.Line) {
		if name == d.at(word) && strings.HasSuffix(d.text[:word.Start], "{") {
			return code(name + ": " + kind), word
		}
	}
	return "", span
}

// params gives the parameters of the module that a line is of, with their types
// as they are written.
func (m *manifestFile) params(line int) map[string]string {
	params := map[string]string{}
	if m.root == nil || len(m.root.Content) < 2 || m.root.Content[1].Kind != yaml.SequenceNode {
		return params
	}
	for _, item := range m.root.Content[1].Content {
		if item.Line > line {
			break
		}
		clear(params)
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value != "params" {
				continue
			}
			list := item.Content[i+1].Content
			for j := 0; j+1 < len(list); j += 2 {
				params[list[j].Value] = list[j+1].Value
			}
		}
	}
	return params
}

var openBrace = pattern.Lazy(`(?:^|[^{$])\{([\w-]*)$`)

// complete gives the keys of the map at an offset that are not written yet, the
// words that a value may be, or the parameters after a "{" in a text.
func (m *manifestFile) complete(d *document, at int) ([]item, syntax.Span) {
	line := strings.LastIndexByte(d.text[:at], '\n') + 1
	if open := openBrace().FindStringSubmatchIndex(d.text[line:at]); open != nil && inText(d.text[line:line+open[2]]) {
		names := slices.Sorted(maps.Keys(m.params(d.position(at).Line + 1)))
		return words(variableItem, names...), syntax.Span{Start: int32(line + open[2]), End: int32(at)}
	}
	p, span, ok := d.yamlAt(at)
	if !ok {
		return nil, span
	}
	if p.isKey || len(p.path) == 0 || p.path[len(p.path)-1] == "" {
		return manifestKeys(d, p.path, p.siblings, at), span
	}
	before, key := p.path[:len(p.path)-1], p.path[len(p.path)-1]
	if last, _ := lastKeys(before); key == "result" || last == "params" || last == "result" {
		return words(typeItem, typeWords...), span
	}
	for _, k := range module.Keys(before) {
		if k.Name == key {
			return append(words(wordItem, k.Words...), manifestKeys(d, p.path, nil, at)...), span
		}
	}
	return nil, span
}

// inText reports whether a line up to a brace has begun a text, so that the brace
// is one of the text and opens no map.
func inText(line string) bool {
	if strings.Count(line, `"`)%2 == 1 || strings.Count(line, "'")%2 == 1 {
		return true
	}
	_, value, ok := strings.Cut(line, ": ")
	return ok && strings.Trim(value, " {") != "" && !strings.Contains(value, ": ")
}

// manifestKeys gives the keys that may be under a path and are not written.
func manifestKeys(d *document, path, written []string, at int) []item {
	var items []item
	after := ": "
	if at < len(d.text) && d.text[at] == ':' {
		after = ""
	}
	for _, k := range module.Keys(path) {
		if !slices.Contains(written, k.Name) {
			items = append(items, item{label: k.Name, kind: fieldItem, detail: k.Example, doc: k.Doc, insert: k.Name + after})
		}
	}
	return items
}

// definition leads to the workflow that a module runs.
func (m *manifestFile) definition(d *document, at int) []location {
	p, _, ok := placeIn(d, m.root, at)
	if !ok || p.isKey {
		return nil
	}
	if path := filepath.Join(filepath.Dir(d.path), p.node.Value); isFile(path) {
		return []location{{URI: fileURI(path)}}
	}
	return nil
}

func (m *manifestFile) symbols(d *document) []documentSymbol { return d.yamlSymbols(m.root) }

// Names of a manifest are those of modules, which pipelines use; they are not
// looked for there.
func (m *manifestFile) references(*document, int, bool) []syntax.Span { return nil }
func (m *manifestFile) renamable(*document, int) (syntax.Span, bool)  { return syntax.Span{}, false }
func (m *manifestFile) rename(*document, int, string) ([]textEdit, error) {
	return nil, errNotChangeable
}
