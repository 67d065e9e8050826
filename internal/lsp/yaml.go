package lsp

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// tree reads the YAML of a document for editing: nil where it is not well formed.
// Aliases are not followed.
func tree(text string) *yaml.Node {
	var doc yaml.Node
	if len(text) > maxYAML || yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// maxYAML is the largest YAML text that is read for more than its problems.
const maxYAML = 1 << 20

// yamlPlace is where a scalar is.
type yamlPlace struct {
	node  *yaml.Node
	path  []string // the keys around it, "" for a place in a list; of a key without the key itself
	isKey bool
	value *yaml.Node // of a key
	// siblings are the keys that are beside it in its map.
	siblings []string
}

// walkYAML calls visit for every scalar, until it returns false.
func walkYAML(n *yaml.Node, path []string, visit func(yamlPlace) bool) bool {
	switch n.Kind {
	case yaml.MappingNode:
		var keys []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			keys = append(keys, n.Content[i].Value)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind == yaml.ScalarNode && !visit(yamlPlace{node: key, path: path, isKey: true, value: value, siblings: keys}) {
				return false
			}
			inside := append(path[:len(path):len(path)], key.Value)
			if value.Kind == yaml.ScalarNode {
				if !visit(yamlPlace{node: value, path: inside, siblings: keys}) {
					return false
				}
			} else if !walkYAML(value, inside, visit) {
				return false
			}
		}
	case yaml.SequenceNode:
		inside := append(path[:len(path):len(path)], "")
		for _, item := range n.Content {
			if !walkYAML(item, inside, visit) {
				return false
			}
		}
	case yaml.ScalarNode:
		return visit(yamlPlace{node: n, path: path})
	}
	return true
}

// yamlSpan is the place of a scalar in a document; of a text of several lines
// all of them.
func (d *document) yamlSpan(n *yaml.Node) syntax.Span {
	line := n.Line - 1
	if line < 0 || line >= len(d.lines) {
		return syntax.Span{}
	}
	text, offset := d.line(line)
	start := offset + bytesUpTo(text, n.Column-1)
	end := start + len(n.Value)
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		end = d.blockEnd(line)
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		end = quotedEnd(d.text, start)
	}
	return syntax.Span{Start: int32(start), End: int32(min(end, len(d.text)))}
}

// blockEnd is where the | or > scalar ends whose header is on a line: before the
// first line that is not indented further than the header's line.
func (d *document) blockEnd(header int) int {
	text, start := d.line(header)
	end := start + len(text)
	indent := indentOf(text)
	for line := header + 1; line < len(d.lines); line++ {
		text, start := d.line(line)
		if strings.TrimSpace(text) != "" && indentOf(text) <= indent {
			break
		}
		end = start + len(text)
	}
	return end
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// quotedEnd is where the quoted scalar ends that begins at an offset.
func quotedEnd(text string, start int) int {
	if start >= len(text) {
		return start
	}
	quote := text[start]
	for i := start + 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// marker is a word that nobody writes.
const marker = "bide__here"

// yamlAt finds out where in a YAML text something is being written: what is there
// is usually not finished. The word before the offset is taken as a key first,
// then as a value; where the whole text is not well formed, only the lines up to
// this one count.
func (d *document) yamlAt(at int) (yamlPlace, syntax.Span, bool) {
	line := d.position(at).Line
	text, start := d.line(line)
	word := d.wordAt(at)
	word.End = int32(at)
	rest := strings.TrimSpace(text[min(at-start, len(text)):])
	before, after := d.text[:word.Start], d.text[at:]
	end := start + len(text)
	forms := []string{before + marker + after, before + marker + ": " + after}
	if rest == "" {
		forms = []string{before + marker + ": " + d.text[end:], before + marker + d.text[end:],
			before + marker + ": \n", before + marker + "\n"}
		if inValue(text[:int(word.Start)-start]) {
			forms = []string{before + marker + d.text[end:], before + marker + "\n"}
		}
	}
	var found yamlPlace
	for _, form := range forms {
		root := tree(form)
		if root == nil {
			continue
		}
		ok := false
		walkYAML(root, nil, func(p yamlPlace) bool {
			if strings.Contains(p.node.Value, marker) {
				found, ok = p, true
			}
			return !ok
		})
		if ok {
			return found, word, true
		}
	}
	return found, word, false
}

// inValue reports whether what follows a text on its line is a value: a key and a
// colon are before it.
func inValue(line string) bool {
	line = strings.TrimRight(strings.TrimLeft(line, " -"), " ")
	i := strings.LastIndexByte(line, ':')
	return i > 0 && !strings.ContainsAny(line[i:], ",{")
}
