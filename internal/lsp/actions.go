package lsp

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

const quickFix = "quickfix"

var (
	meant    = pattern.Lazy(`did you mean "([^"]+)"(?: (?:instead of|where it says) "([^"]+)")?`)
	imported = pattern.Lazy(`write "use ([A-Za-z0-9_.-]+)"`)
	// named finds the words that a message is about: quoted, or at its end.
	named = pattern.Lazy(`"([^"]+)"|'([^']+)'|: ([^\s;,"]+)|([^\s]+)$`)
	// written finds the key and the value that take the place of a key of another tool, where
	// nothing of them is left to fill in.
	written = pattern.Lazy(`^write ([a-z_]+: (?:\{[a-z_]+: [^{},]+\}|[^\s,;:{}]+))(?:, which counts the first run too)?$`)
	// oneValue finds a value that stands alone in what is left of a line.
	oneValue = pattern.Lazy(`^:[ \t]+[^\s,\[\]{}|>&*!#'"][^,\[\]{}#'"\n]*`)
	toFillIn = pattern.Lazy(`\b[A-Z]{2,}\b|…`)
)

// codeActions offers what the suggestions of problems say: the word that was
// meant, the `use` that is missing, the key with its value in place of one of another tool.
func (s *server) codeActions(d *document, p documentParams, _ int) (any, error) {
	from, err := d.offset(p.Range.Start)
	if err != nil {
		return nil, err
	}
	to, err := d.offset(p.Range.End)
	if err != nil {
		return nil, err
	}
	list := []codeAction{}
	for _, f := range d.fixes() {
		if slices.ContainsFunc(f.of, func(p diag.Problem) bool {
			span := d.problemSpan(p)
			return int(span.End) >= from && to >= int(span.Start)
		}) {
			list = append(list, f.action(d))
		}
	}
	return list, nil
}

// fixed is a fix of one problem or of several.
type fixed struct {
	title string
	of    []diag.Problem
	edits []textEdit
}

func (f *fixed) action(d *document) codeAction {
	a := codeAction{Title: f.title, Kind: quickFix, IsPreferred: true, Edit: workspaceEdit{map[string][]textEdit{d.uri: f.edits}}}
	for _, p := range f.of {
		a.Diagnostics = append(a.Diagnostics, d.diagnostic(p))
	}
	return a
}

// fixes gives the fixes of all problems. However many of them are applied, no map of a YAML
// file has a key twice: a fix that would write one again is joined to what writes it, or is
// not there.
func (d *document) fixes() []*fixed {
	var list []*fixed
	maps := d.keyMaps()
	for _, problem := range d.problems {
		span := d.problemSpan(problem)
		title, edit, ok := d.fix(problem, span)
		if !ok {
			continue
		}
		f := &fixed{title, []diag.Problem{problem}, []textEdit{edit}}
		m := maps[int(span.Start)]
		if m == nil {
			list = append(list, f)
			continue
		}
		key, value, _ := strings.Cut(edit.NewText, ": ")
		switch other := m.fixes[key]; {
		case other != nil:
			d.join(other, f, key, value)
		case m.values[key] == nil:
			m.fixes[key], list = f, append(list, f)
		default:
			other = &fixed{edits: []textEdit{d.flowEdit(m.values[key])}}
			if d.join(other, f, key, value) {
				m.fixes[key], list = other, append(list, other)
			}
		}
	}
	return list
}

// keyMap is a map of a YAML file.
type keyMap struct {
	values map[string]*yaml.Node // by key
	fixes  map[string]*fixed     // by the key that they write
}

// keyMaps finds the maps of a YAML file by the places of their keys.
func (d *document) keyMaps() map[int]*keyMap {
	found := map[int]*keyMap{}
	if _, isPipeline := d.kind.(*pipelineFile); isPipeline {
		return found
	}
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		m := &keyMap{map[string]*yaml.Node{}, map[string]*fixed{}}
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				m.values[child.Value] = n.Content[i+1]
				found[int(d.yamlSpan(child).Start)] = m
			}
			visit(child)
		}
	}
	if root := tree(d.text); root != nil {
		visit(root)
	}
	return found
}

// flowEdit replaces a value {…} of one line by itself. Its text is empty for another value.
func (d *document) flowEdit(n *yaml.Node) textEdit {
	start := int(d.yamlSpan(n).Start)
	rest, _, _ := strings.Cut(d.text[start:], "\n")
	for i := range len(rest) {
		if rest[i] != '}' || n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle == 0 {
			continue
		}
		if t := tree(rest[:i+1]); t != nil && len(t.Content) == len(n.Content) {
			return textEdit{textRange{d.position(start), d.position(start + i + 1)}, rest[:i+1]}
		}
	}
	return textEdit{}
}

// join adds what a fix writes as value of a key, {…}, to another fix that writes {…} there,
// and removes the key that it stood for. It reports whether both can be done.
func (d *document) join(to, f *fixed, key, value string) bool {
	text := to.edits[0].NewText
	i := strings.LastIndexByte(text, '}')
	there, more := tree(text[max(0, strings.IndexByte(text, '{')):]), tree(value)
	if i < 0 || there == nil || more == nil || more.Kind != yaml.MappingNode || len(there.Content) == 0 {
		return false
	}
	for k := 0; k < len(more.Content); k += 2 {
		if slices.ContainsFunc(there.Content, func(n *yaml.Node) bool { return n.Value == more.Content[k].Value }) {
			return false
		}
	}
	at := f.edits[0].Range
	line, start := d.line(at.Start.Line)
	from, _ := d.offset(at.Start)
	end, _ := d.offset(at.End)
	after := strings.TrimLeft(line[end-start:], " \t")
	if at.End.Line != at.Start.Line || strings.TrimSpace(line[:from-start]) != "" {
		return false // other keys are in its line
	}
	gone := textRange{at.Start, d.position(start + len(line) - len(after))}
	if after == "" {
		gone = textRange{position{at.Start.Line, 0}, position{at.Start.Line + 1, 0}}
		if gone.End.Line == len(d.lines) {
			gone.End = d.position(len(d.text))
		}
	}
	to.edits[0].NewText = strings.TrimRight(text[:i], " ") + ", " + strings.TrimSuffix(strings.TrimPrefix(value, "{"), "}") + text[i:]
	to.edits, to.of = append(to.edits, textEdit{gone, ""}), append(to.of, f.of...)
	to.title = "Write " + key + ": " + strings.TrimPrefix(to.edits[0].NewText, key+": ")
	return true
}

// fix gives the edit that the suggestion of a problem means, if it means one.
func (d *document) fix(p diag.Problem, span syntax.Span) (title string, edit textEdit, ok bool) {
	if m := imported().FindStringSubmatch(p.Suggestion); m != nil {
		at := 0
		if f, isPipeline := d.kind.(*pipelineFile); isPipeline && len(f.file.Decls) > 0 {
			at = int(f.file.Decls[0].Extent().Start)
		}
		return "Write use " + m[1], textEdit{textRange{d.position(at), d.position(at)}, "use " + m[1] + "\n"}, true
	}
	if m := written().FindStringSubmatch(p.Suggestion); m != nil && p.Code == "unknown-key" && !toFillIn().MatchString(m[1]) {
		rest, _, _ := strings.Cut(d.text[span.End:], "\n")
		if old := strings.TrimRight(oneValue().FindString(rest), " \t\r"); old != "" {
			span.End += int32(len(old))
			return "Write " + m[1], textEdit{d.span(span), m[1]}, true
		}
	}
	m := meant().FindStringSubmatch(p.Suggestion + "\n" + p.Message)
	if m == nil {
		return "", textEdit{}, false
	}
	text := d.at(span)
	wrong := cmp.Or(m[2], wrongWord(p.Message, text))
	i := wordIndex(text, wrong)
	if wrong == "" || i < 0 {
		return "", textEdit{}, false
	}
	span = syntax.Span{Start: span.Start + int32(i), End: span.Start + int32(i+len(wrong))}
	return fmt.Sprintf("Write %s instead of %s", m[1], wrong), textEdit{d.span(span), m[1]}, true
}

// wrongWord finds the word that a message is about in the text that the problem
// marks; of a text that is one word, that word.
func wrongWord(message, text string) string {
	for _, m := range named().FindAllStringSubmatch(message, -1) {
		for _, word := range m[1:] {
			if word != "" && wordIndex(text, word) >= 0 {
				return word
			}
		}
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) && r != '.' }) < 0 {
		return text
	}
	return ""
}

// wordIndex finds a word in a text, not as a part of another.
func wordIndex(text, word string) int {
	if word == "" {
		return -1
	}
	at := regexp.MustCompile(`(?:^|[^\w-])(` + regexp.QuoteMeta(word) + `)(?:$|[^\w-])`).FindStringSubmatchIndex(text)
	if at == nil {
		return -1
	}
	return at[2]
}
