package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/workflow"
)

var (
	topKey       = pattern.Lazy(`(?m)^"?([A-Za-z_]\w*)"?:(?:\s|$)`)
	topStep      = pattern.Lazy(`(?m)^- +(?:shell|claude|http|foreach|goal_seek|validate|write_file|pipeline|test|use|analyze)\b *:`)
	workflowKeys = []string{"commands", "steps", "map", "setup", "reduce", "merge", "finally", "workflows", "sub_workflows", "templates", "workflow", "extends"}
	foreignKeys  = []string{"jobs", "on", "services", "stages", "apiVersion", "kind", "openapi", "swagger", "pipelines"}
)

// yamlKind tells manifests of modules and workflows from other YAML files, and from files
// that can still become any of them.
func yamlKind(d *document) language {
	switch {
	case begun().MatchString(d.text):
		return &newFile{}
	case isWorkflow(d):
		return &workflowFile{}
	}
	var keys []string
	for _, m := range topKey().FindAllStringSubmatch(d.text, -1) {
		keys = append(keys, m[1])
	}
	in := func(list []string) func(string) bool {
		return func(key string) bool { return slices.Contains(list, key) }
	}
	switch {
	case slices.ContainsFunc(keys, in(foreignKeys)):
	case len(keys) > 0 && keys[0] == "modules":
		return &manifestFile{}
	case slices.ContainsFunc(keys, in(workflowKeys)), len(keys) == 0 && topStep().MatchString(d.text):
		return &workflowFile{}
	}
	return nil
}

// isWorkflow reports whether a file is a workflow whatever is in it.
func isWorkflow(d *document) bool {
	return d.language == "bide-workflow" || strings.Contains(filepath.Base(d.path), ".bide.")
}

// begun matches a text with no more than comments, a name and the beginning of a key.
var begun = pattern.Lazy(`^(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n|name:[^\n]*\n)*(?:[ \t]*#[^\n]*|[A-Za-z_]*|name:[^\n]*)\s*$`)

// newFile is a YAML file that says not yet what it is. It has no problems if it may become a
// file of another program.
type newFile struct {
	workflowFile
	first []FirstFile
}

func (n *newFile) analyse(s *server, d *document) diag.List {
	if n.first = s.options.First; isWorkflow(d) {
		return n.workflowFile.analyse(s, d)
	}
	return nil
}

// complete gives the keys that a workflow or a manifest may begin with, and whole files.
func (n *newFile) complete(d *document, at int) ([]item, syntax.Span) {
	p, span, ok := d.yamlAt(at)
	if !ok || len(p.path) > 0 {
		return nil, span
	}
	items := append(keyItems(d, nil, p.siblings, at), manifestKeys(d, nil, p.siblings, at)...)
	for _, f := range n.first {
		text := f.Text
		if slices.Contains(p.siblings, "name") {
			text = nameLine().ReplaceAllString(text, "")
		}
		items = append(items, item{label: f.Label, kind: firstItem, detail: f.Detail, doc: "```yaml\n" + text + "```", insert: text})
	}
	return items, span
}

var nameLine = pattern.Lazy(`(?m)^name:.*\n`)

// workflowFile is what is known of a workflow.
type workflowFile struct {
	root  *yaml.Node  // nil where the text is not well formed
	names []string    // of variables, when the file was last understood
	reads []namePlace // of variables, in the conditions of this file
}

func (w *workflowFile) analyse(s *server, d *document) diag.List {
	w.root = tree(d.text)
	d.deps = s.sources()
	w.reads = nil
	f, problems := workflow.Parse(d.path, []byte(d.text), workflow.Options{ReadFile: d.deps.read, Unfilled: true, ToRun: true, Reads: func(r workflow.Read) { w.noteRead(d, r) }})
	if f == nil {
		return problems
	}
	w.names = workflow.Variables(f)
	if s.options.Workflow != nil && !problems.HasErrors() {
		problems = append(problems, s.options.Workflow(f)...)
	}
	return problems
}

// placeIn gives the scalar at an offset of a text whose tree that is; nil: it is
// not well formed.
func placeIn(d *document, root *yaml.Node, at int) (found yamlPlace, span syntax.Span, ok bool) {
	if root == nil {
		return found, span, false
	}
	walkYAML(root, nil, func(p yamlPlace) bool {
		if s := d.yamlSpan(p.node); within(s, at) {
			found, span, ok = p, s, true
		}
		return !ok
	})
	return found, span, ok
}

// hover explains a key, or says where a variable comes from: it shows the line that defines
// it, or what the reference says of one that bide defines.
func (w *workflowFile) hover(d *document, at int) (string, syntax.Span) {
	p, span, ok := placeIn(d, w.root, at)
	if !ok {
		return "", span
	}
	if p.isKey {
		if k, known := keysAt(p.path)[p.node.Value]; known {
			return k.markdown(p.node.Value), span
		}
		return "", span
	}
	if name, span, ok := filterAt(d.text, at); ok {
		return code("|"+name) + "\n" + filters()[name], span
	}
	n, span, ok := w.referenceAt(d, at)
	if !ok {
		return "", span
	}
	whole := d.at(span)
	if defined := w.definitions(d, n); len(defined) > 0 {
		line, _ := d.line(d.position(int(defined[0].span.Start)).Line)
		_, member, _ := strings.Cut(whole, ".")
		return strings.TrimSpace(code(strings.TrimSpace(line)) + "\n" + resultDoc(member)), span
	}
	if text := variableDoc(whole); text != "" {
		return code(whole) + "\n" + text, span
	}
	return "", span
}

// lastKeys gives the last two keys of a path, places in lists left out.
func lastKeys(path []string) (last, before string) {
	for _, key := range slices.Backward(path) {
		switch {
		case key == "":
		case last == "":
			last = key
		default:
			return last, key
		}
	}
	return last, ""
}

// definition gives where a name is defined, and the file that a path names.
func (w *workflowFile) definition(d *document, at int) []location {
	var list []location
	if n, _, ok := w.nameAt(d, at); ok {
		for _, p := range w.definitions(d, n) {
			if !within(p.span, at) {
				list = append(list, location{d.uri, d.span(p.span)})
			}
		}
		return list
	}
	p, _, ok := placeIn(d, w.root, at)
	if !ok || p.isKey {
		return nil
	}
	if path := filepath.Join(filepath.Dir(d.path), p.node.Value); isFile(path) {
		list = append(list, location{URI: fileURI(path)})
	}
	return list
}

func isFile(path string) bool {
	switch filepath.Ext(path) {
	case ".yml", ".yaml", ".json", ".cst", ".env":
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	return false
}

// complete gives the keys of the map at an offset that are not written yet, the
// words that a value may be, or what can stand in a "${".
func (w *workflowFile) complete(d *document, at int) ([]item, syntax.Span) {
	if items, span, open := w.inReference(d.text, at); open {
		return items, span
	}
	p, span, ok := d.yamlAt(at)
	if !ok {
		return nil, span
	}
	if !p.isKey {
		last, _ := lastKeys(p.path)
		var items []item
		for _, word := range wordsAt(p.path) {
			items = append(items, item{label: word, kind: wordItem})
		}
		for _, section := range namedBy[last] {
			for _, name := range w.section(section) {
				items = append(items, item{label: name, kind: wordItem})
			}
		}
		if len(p.path) > 0 && p.path[len(p.path)-1] == "" {
			items = append(items, keyItems(d, p.path, nil, at)...)
		}
		return items, span
	}
	return keyItems(d, p.path, p.siblings, at), span
}

func keyItems(d *document, path, written []string, at int) []item {
	var items []item
	after := ": "
	if at < len(d.text) && d.text[at] == ':' {
		after = ""
	}
	for key, k := range keysAt(path) {
		if !k.inert && !slices.Contains(written, key) {
			items = append(items, item{label: key, kind: fieldItem, detail: k.example, doc: k.doc, insert: key + after})
		}
	}
	return items
}

func (w *workflowFile) symbols(d *document) []documentSymbol { return d.yamlSymbols(w.root) }

// yamlSymbols lists the keys of a YAML file, and the steps in their lists.
func (d *document) yamlSymbols(root *yaml.Node) []documentSymbol {
	if root == nil {
		return nil
	}
	return d.yamlChildren(root, true)
}

func (d *document) yamlChildren(n *yaml.Node, top bool) []documentSymbol {
	var list []documentSymbol
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			children := d.yamlChildren(value, false)
			if key.Kind != yaml.ScalarNode || key.Value == "" || len(children) == 0 && !top {
				continue
			}
			list = append(list, d.yamlSymbol(key.Value, "", propertySymbol, key, value, children))
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if name, detail := stepName(item); name != "" {
				list = append(list, d.yamlSymbol(name, detail, functionSymbol, item, item, d.yamlChildren(item, false)))
			}
		}
	}
	return list
}

// stepName is what a step is called: by its name, or by what it does.
func stepName(n *yaml.Node) (name, detail string) {
	if n.Kind != yaml.MappingNode {
		return "", ""
	}
	first := ""
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		text, _, _ := strings.Cut(value.Value, "\n")
		switch {
		case (key == "id" || key == "name") && name == "" && text != "":
			name = text
		case first == "" && key != "id" && key != "name":
			first = strings.TrimSuffix(key+": "+diag.Clip(text, 39), ": ")
		}
	}
	if name == "" {
		return first, ""
	}
	return name, first
}

func (d *document) yamlSymbol(name, detail string, kind int, at, last *yaml.Node, children []documentSymbol) documentSymbol {
	start := d.yamlSpan(at)
	if at.Kind != yaml.ScalarNode {
		start.End = start.Start
	}
	end := start.End
	for n := last; ; n = n.Content[len(n.Content)-1] {
		if n.Kind == yaml.ScalarNode {
			end = max(end, d.yamlSpan(n).End)
		}
		if len(n.Content) == 0 {
			break
		}
	}
	return documentSymbol{Name: name, Detail: detail, Kind: kind, Range: d.span(syntax.Span{Start: start.Start, End: end}), SelectionRange: d.span(start), Children: children}
}
