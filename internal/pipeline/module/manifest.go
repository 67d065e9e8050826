package module

import (
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/notyaml"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// ParseManifest reads a manifest of modules, the file modules.yml beside a
// pipeline:
//
//	modules:
//	  - name: Search
//	    version: "2"
//	    params: {query: String, limit: Int}
//	    result: "List<{id: Int, title: String}>"
//	    shell: [search-tool, --json]
//	    exit: {fatal: [2]}
//	  - name: Price
//	    params: {id: Int}
//	    result: Float
//	    http: {url: "https://prices.example/{id}", output: text}
//
// A type is a text, a mapping for a record, or a list with one type in it for
// a List: [{id: Int}] is List<{id: Int}>.
//
// It returns the modules that are right, the names of those that are not, "" where
// one has none, and every problem, each with its place. file is used in positions;
// its folder is that of paths in it.
func ParseManifest(file string, src []byte) (defs []*Definition, wrong []string, problems diag.List) {
	m := &manifest{file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, nil, m.notYAML(src, err)
	}
	if len(doc.Content) == 0 {
		m.problems.Errorf(diag.Pos{File: file}, "manifest", "The manifest is empty").Suggest("write modules: with a list of modules")
		return nil, nil, m.problems
	}
	// Decoding refuses aliases that contain themselves or multiply, which a
	// walk over the nodes would follow without end.
	var probe any
	if err := doc.Decode(&probe); err != nil {
		return nil, nil, m.notYAML(src, err)
	}
	defs = m.top(deref(doc.Content[0]))
	m.problems.Sort()
	return defs, m.wrong, m.problems
}

// notYAML reports what the YAML library refuses of a text.
func (m *manifest) notYAML(src []byte, err error) diag.List {
	notyaml.Problem(&m.problems, m.file, src, err)
	return m.problems
}

type manifest struct {
	file     string
	problems diag.List
	seen     map[string]int // line by module
	wrong    []string       // modules that are not right
}

func (m *manifest) pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: m.file, Line: n.Line, Column: n.Column}
}

func (m *manifest) errorf(n *yaml.Node, format string, args ...any) *diag.Problem {
	return m.problems.Errorf(m.pos(n), "manifest", format, args...)
}

func deref(n *yaml.Node) *yaml.Node {
	// An alias can refer to itself only through its own anchor, which the
	// library refuses.
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// entry is one key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// fields gives the keys of a mapping, reporting unknown and repeated ones.
// Known is nil if any key is right.
func (m *manifest) fields(n *yaml.Node, what string, known []string) map[string]entry {
	out := map[string]entry{}
	if n.Kind != yaml.MappingNode {
		m.errorf(n, "%s must be a mapping", what)
		return out
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := deref(n.Content[i]), deref(n.Content[i+1])
		switch _, twice := out[key.Value]; {
		case twice:
			m.errorf(key, "The key %q is given twice", key.Value)
		case known != nil && !slices.Contains(known, key.Value):
			p := m.errorf(key, "Unknown key %q in %s", key.Value, what)
			if ours := otherWords[key.Value]; slices.Contains(known, ours) {
				p.Suggest("did you mean %q?", ours)
			} else {
				p.Suggestion = diag.DidYouMean(key.Value, known)
			}
		default:
			out[key.Value] = entry{key, val}
		}
	}
	return out
}

func (m *manifest) top(n *yaml.Node) (defs []*Definition) {
	list := m.fields(n, "the manifest", names(""))["modules"].value
	switch {
	case list == nil:
		m.errorf(n, "The manifest has no modules").Suggest("write modules: with a list of modules")
		return nil
	case list.Kind != yaml.SequenceNode:
		p := m.errorf(list, "modules must be a list")
		if list.Kind == yaml.MappingNode && len(list.Content) > 1 && deref(list.Content[1]).Kind == yaml.MappingNode {
			p.Suggest("write \"- name: %s\", with the other keys of the module below name", list.Content[0].Value)
		} else {
			p.Suggest("put \"- \" before each module")
		}
		return nil
	}
	m.seen = map[string]int{}
	for _, item := range list.Content {
		before := len(m.problems)
		if d := m.module(deref(item)); len(m.problems) == before {
			defs = append(defs, d)
		} else {
			m.wrong = append(m.wrong, d.Name)
		}
	}
	return defs
}

// otherWords maps words of other tools for keys of a manifest to ours.
var otherWords = map[string]string{
	"input": "params", "inputs": "params", "parameters": "params", "args": "params", "arguments": "params",
	"output": "result", "outputs": "result", "returns": "result", "return": "result", "type": "result",
	"command": "shell", "commands": "shell", "run": "shell", "cmd": "shell", "exec": "shell", "script": "shell",
	"url": "http", "request": "http", "claude": "agent", "prompt": "agent", "file": "workflow", "id": "name", "doc": "description",
}

func (m *manifest) module(n *yaml.Node) *Definition {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && deref(n.Content[1]).Kind == yaml.MappingNode && !slices.Contains(names("module"), n.Content[0].Value) {
		m.errorf(n, "The module has no name").Suggest("write \"- name: %s\", with the other keys of the module below name", n.Content[0].Value)
		return &Definition{}
	}
	f := m.fields(n, "a module", names("module"))
	d := &Definition{Dir: filepath.Dir(m.file), Pos: m.pos(n)}
	d.Name = m.text(f, "name")
	d.Version = m.text(f, "version")
	d.Doc = m.text(f, "description")
	m.name(n, f, d)
	if p, ok := f["params"]; ok {
		d.Params = m.params(p.value)
	}
	if r, ok := f["result"]; ok {
		d.Result = m.typ(r.value)
		if d.Result.Open {
			m.errorf(r.value, "A result cannot be an open record; name all its fields")
		}
	} else {
		m.errorf(n, "%s has no result", d.called()).Suggest("write its type: result: String")
		d.Result = types.Invalid
	}
	m.kind(n, f, d)
	return d
}

// called is the module as a subject, with its name if it has one.
func (d *Definition) called() string { return strings.TrimSuffix("The module "+d.Name, " ") }

func (m *manifest) name(n *yaml.Node, f map[string]entry, d *Definition) {
	at := n
	if e, ok := f["name"]; ok {
		at = e.value
	} else {
		m.errorf(n, "The module has no name")
		return
	}
	if err := CheckName(d.Name); err != nil {
		m.errorf(at, "%v", err)
		return
	}
	if line := m.seen[d.Name]; line > 0 {
		m.errorf(at, "There is already a module %s, at line %d", d.Name, line)
	}
	m.seen[d.Name] = at.Line
}

// text gives a scalar as it is written.
func (m *manifest) text(f map[string]entry, key string) string {
	e, ok := f[key]
	if !ok {
		return ""
	}
	if e.value.Kind != yaml.ScalarNode || e.value.Tag == "!!null" {
		m.errorf(e.value, "%s must be a text", key)
		return ""
	}
	return e.value.Value
}

// params reads "name: Type" in the order written.
func (m *manifest) params(n *yaml.Node) (ps []types.Param) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		m.errorf(n, "params must be a mapping of names to types").Suggest("write params: {query: String, limit: Int}")
		return nil
	}
	env := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := deref(n.Content[i])
		if !isIdent(key.Value) {
			m.errorf(key, "%q cannot be the name of a parameter; write letters, digits, _ and -", key.Value)
		}
		if other, taken := env[EnvName(key.Value)]; taken {
			m.errorf(key, "The parameters %q and %q would have the same environment variable %s", other, key.Value, EnvName(key.Value))
		}
		env[EnvName(key.Value)] = key.Value
		ps = append(ps, types.Param{Name: key.Value, Type: m.typ(deref(n.Content[i+1]))})
	}
	return ps
}

// typ reads a type: a text, a mapping as a record, a list of one as a List.
func (m *manifest) typ(n *yaml.Node) *types.Type {
	switch n.Kind {
	case yaml.ScalarNode:
		t, err := types.Parse(n.Value)
		if err != nil {
			m.errorf(n, "%v", err)
			return types.Invalid
		}
		return t
	case yaml.MappingNode:
		var fields []types.Field
		for i := 0; i+1 < len(n.Content); i += 2 {
			fields = append(fields, types.Field{Name: deref(n.Content[i]).Value, Type: m.typ(deref(n.Content[i+1]))})
		}
		if t := types.RecordOf(fields...); !t.TooLarge() {
			return t
		}
		m.errorf(n, "The type has more than %d parts", types.MaxSize)
		return types.Invalid
	case yaml.SequenceNode:
		if len(n.Content) == 1 {
			return types.ListOf(m.typ(deref(n.Content[0])))
		}
	}
	m.errorf(n, "A type must be a text such as List<String>, a mapping of fields to types, or a list with one type in it")
	return types.Invalid
}
