package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/notyaml"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

// The bounds of a file. They are far above what people write and far below
// what could hurt.
const (
	maxFileSize  = 4 << 20 // bytes
	maxMarks     = 50_000  // line ends, commas and dollar signs: what makes values and references
	maxDepth     = 100     // nesting of maps and lists
	maxNodes     = 50_000  // after aliases are followed
	maxAliasGrow = 30_000  // nodes that aliases may add beyond those written
	maxAliasText = 4 << 20 // bytes of text that they may add
)

type kind uint8

const (
	nullNode kind = iota
	boolNode
	intNode
	floatNode
	strNode
	listNode
	mapNode
)

func (k kind) String() string {
	return [...]string{"nothing", "a boolean", "a whole number", "a number", "a text", "a list", "a map"}[k]
}

// node is a value of a file with its place. Aliases and merge keys are already
// followed; a node may hang in several places and is never changed.
type node struct {
	kind   kind
	tag    string // a tag of the file's own such as "!exponential"
	text   string // a scalar, as written
	block  bool   // a | or > scalar
	quoted bool
	pos    diag.Pos
	end    int // column after a scalar that is on one line, else 0
	src    *source
	items  []*node
	pairs  []pair
}

type pair struct{ key, val *node }

// source is a text that was read.
type source struct {
	path  string
	text  []byte
	lines []string // split when first needed
	last  int      // the line whose characters are kept
	chars []rune
	lock  sync.Mutex // of who asks for places while the file runs
}

// runes is a line's characters. The last one asked for is kept, as one long
// line may have many problems.
func (s *source) runes(n int) []rune {
	if s.chars == nil || s.last != n {
		s.last, s.chars = n, []rune(s.line(n))
	}
	return s.chars
}

func (s *source) line(n int) string {
	if s.lines == nil {
		s.lines = strings.Split(string(s.text), "\n")
	}
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return strings.TrimSuffix(s.lines[n-1], "\r")
}

func (n *node) scalar() bool { return n.kind < listNode }

// each is the nodes of a list, else the node itself: where one value may stand for
// a list of one.
func (n *node) each() []*node {
	if n.kind == listNode {
		return n.items
	}
	return []*node{n}
}

// isTrue reports whether a node is there and is true.
func isTrue(n *node) bool { return n != nil && n.kind == boolNode && strings.EqualFold(n.text, "true") }

// without is a map without one of its keys.
func (n *node) without(key string) *node {
	out := *n
	out.pairs = slices.DeleteFunc(slices.Clone(n.pairs), func(p pair) bool { return p.key.text == key })
	return &out
}

// entries are the pairs of a map; none for what is no map.
func (n *node) entries() []pair {
	if n == nil {
		return nil
	}
	return n.pairs
}

// get gives the value of a key of a map, nil where there is none.
func (n *node) get(key string) *node {
	for _, p := range n.entries() {
		if p.key.text == key {
			return p.val
		}
	}
	return nil
}

// value gives the JSON-shaped value of a node.
func (n *node) value() any {
	return n.valueWith(func(n *node) any { return n.text })
}

// valueWith is value, with what text makes of the texts in it.
func (n *node) valueWith(text func(*node) any) any {
	switch n.kind {
	case nullNode:
		return nil
	case boolNode:
		return isTrue(n)
	case intNode, floatNode:
		return numberValue(n.text)
	case listNode:
		return value.Map(n.items, func(n *node) any { return n.valueWith(text) })
	case mapNode:
		m := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			m[p.key.text] = p.val.valueWith(text)
		}
		return m
	}
	return text(n)
}

func numberValue(text string) any {
	if len(text) > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'o') {
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return i
		}
		return text
	}
	t := strings.TrimPrefix(text, "+")
	if json.Valid([]byte(t)) {
		return value.FromNumber(t)
	}
	if f, err := strconv.ParseFloat(t, 64); err == nil {
		return f
	}
	return text
}

// The YAML 1.2 core schema, with the leading zero of a file mode kept a text:
// 0777 is no number that people mean.
var (
	intText   = pattern.Lazy(`^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)$`)
	floatText = pattern.Lazy(`^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$`)
)

// plainKind is the type of an unquoted scalar.
func plainKind(text string) kind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nullNode
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return boolNode
	}
	if c := text[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return strNode
	}
	switch {
	case intText().MatchString(text):
		return intNode
	case floatText().MatchString(text):
		return floatNode
	}
	return strNode
}

// parseTree reads one YAML document. The tree is nil where nothing could be
// understood; the problems say why.
func parseTree(src *source, l *diag.List) *node {
	whole := diag.Pos{File: src.path, Line: 1, Column: 1}
	if len(src.text) > maxFileSize {
		l.Errorf(whole, "file-too-large", "the file has %d bytes; a workflow file may have %d", len(src.text), maxFileSize).
			Suggest("put large data into a file of its own and name it in map.input")
		return nil
	}
	marks := 0
	for _, c := range []string{"\n", ",", "$"} {
		marks += bytes.Count(src.text, []byte(c))
	}
	if marks > maxMarks {
		l.Errorf(whole, "file-too-large", "the file has %d line ends, commas and dollar signs; a workflow file may have %d", marks, maxMarks).
			Suggest("put large data into a file of its own and name it in map.input")
		return nil
	}
	text := src.text
	if looksLikeJSON(text) {
		text = jsonAsYAML(text)
	}
	root, second, err := notyaml.Decode(text)
	if err != nil {
		p := notyaml.Problem(l, src.path, text, err)
		if strings.Contains(p.Message, notyaml.IsColon) && suggestKey(p, src, p.Line) {
			p.Column = len(src.line(p.Line)) - len(strings.TrimLeft(src.line(p.Line), " \t")) + 1
		}
		return nil
	}
	if second != nil {
		l.Errorf(diag.Pos{File: src.path, Line: second.Line, Column: max(second.Column, 1)}, "several-documents",
			"the file has several YAML documents; a workflow file has one").
			Suggest("remove the %q line, or put the second document into a file of its own", "---")
	}
	if root == nil || len(root.Content) == 0 {
		l.Errorf(whole, "empty-file", "the file has no workflow in it").Suggest("write a list of steps, or a map with commands:")
		return nil
	}
	b := builder{src: src, problems: l, seen: map[*yaml.Node]*node{}, sizes: map[*node]size{}}
	n := b.build(root.Content[0], 0)
	if b.failed {
		return nil
	}
	return n
}

// size is how much a part of a file is.
type size struct{ nodes, text int }

// builder turns YAML nodes into ours.
type builder struct {
	src      *source
	problems *diag.List
	seen     map[*yaml.Node]*node // what an anchor's node became
	sizes    map[*node]size       // of anchored nodes, aliases followed
	total    size                 // with aliases followed
	aliased  size                 // of this, what is behind aliases
	failed   bool
}

func (b *builder) pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: b.src.path, Line: max(n.Line, 1), Column: max(n.Column, 1)}
}

// fail reports a problem that leaves nothing to continue with.
func (b *builder) fail(n *yaml.Node, code, format string, args ...any) *node {
	if !b.failed {
		b.problems.Errorf(b.pos(n), code, format, args...)
	}
	b.failed = true
	return &node{pos: b.pos(n), src: b.src}
}

func (b *builder) build(y *yaml.Node, depth int) *node {
	if b.failed {
		return &node{pos: b.pos(y), src: b.src}
	}
	if depth > maxDepth {
		return b.fail(y, "too-deep", "maps and lists are nested more than %d deep here", maxDepth)
	}
	b.total.text += len(y.Value)
	if b.total.nodes++; b.total.nodes > maxNodes {
		return b.fail(y, "file-too-large", "the file has more than %d values", maxNodes)
	}
	if y.Kind == yaml.AliasNode {
		return b.alias(y)
	}
	n := &node{pos: b.pos(y), src: b.src}
	if y.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(y.Tag, "!!") {
		n.tag = y.Tag
	}
	before := b.total
	switch y.Kind {
	case yaml.ScalarNode:
		b.scalar(y, n)
	case yaml.SequenceNode:
		n.kind = listNode
		n.items = make([]*node, 0, len(y.Content))
		for _, c := range y.Content {
			n.items = append(n.items, b.build(c, depth+1))
		}
	case yaml.MappingNode:
		n.kind = mapNode
		b.mapping(y, n, depth)
	}
	if y.Anchor != "" {
		b.seen[y] = n
		b.sizes[n] = size{b.total.nodes - before.nodes + 1, b.total.text - before.text + len(y.Value)}
	}
	return n
}

// alias gives the anchor's node itself, and counts what it would be if written
// out: a few lines of aliases to aliases can stand for billions of values.
func (b *builder) alias(y *yaml.Node) *node {
	n := b.seen[y.Alias]
	if n == nil {
		return b.fail(y, "alias-cycle", "the alias *%s is used inside its own anchor", y.Value)
	}
	for _, sum := range []*size{&b.total, &b.aliased} {
		sum.nodes += b.sizes[n].nodes
		sum.text += b.sizes[n].text
	}
	if b.aliased.nodes > maxAliasGrow || b.total.nodes > maxNodes {
		return b.fail(y, "alias-bomb", "aliases make the file grow beyond %d values", maxAliasGrow)
	}
	if b.aliased.text > maxAliasText {
		return b.fail(y, "alias-bomb", "aliases make the file grow by more than %d bytes", maxAliasText)
	}
	return n
}

func (b *builder) scalar(y *yaml.Node, n *node) {
	n.text = y.Value
	switch {
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		n.kind, n.block = strNode, true
	case y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		n.kind, n.quoted = strNode, true
		n.end = n.pos.Column + utf8.RuneCountInString(y.Value) + 2
	case y.Style&yaml.TaggedStyle != 0 && y.Tag == "!!str":
		n.kind = strNode
	default:
		n.kind = plainKind(y.Value)
		n.end = n.pos.Column + utf8.RuneCountInString(y.Value)
	}
}

// mapping reads the pairs of a map, the written ones before the merged ones.
func (b *builder) mapping(y *yaml.Node, n *node, depth int) {
	n.pairs = make([]pair, 0, len(y.Content)/2)
	at := make(map[string]*node, len(y.Content)/2)
	var merged []*node
	for i := 0; i+1 < len(y.Content); i += 2 {
		yk, yv := y.Content[i], y.Content[i+1]
		if yk.Kind == yaml.ScalarNode && yk.Tag == "!!merge" && yk.Value == "<<" {
			merged = append(merged, b.build(yv, depth+1))
			continue
		}
		key := b.build(yk, depth+1)
		val := b.build(yv, depth+1)
		if b.failed {
			return
		}
		if !key.scalar() {
			if len(*b.problems) >= maxProblems {
				continue
			}
			b.problems.Errorf(key.pos, "bad-key", "a key must be a text, not %s", key.kind).
				Suggest(`put quotes around a value that begins with "{" or "["`)
			continue
		}
		if first, ok := at[key.text]; ok {
			if len(*b.problems) >= maxProblems {
				continue
			}
			there, keep := fmt.Sprintf("on line %d", first.pos.Line), fmt.Sprintf("keep one of lines %d and %d", first.pos.Line, key.pos.Line)
			if first.pos.Line == key.pos.Line {
				there, keep = fmt.Sprintf("in column %d", first.pos.Column), "keep one of the two"
			}
			b.problems.Errorf(key.pos, "duplicate-key", "the key %q is there already, %s", short(key.text), there).Suggest("%s", keep).To(key.end)
			continue
		}
		at[key.text] = key
		n.pairs = append(n.pairs, pair{key, val})
	}
	for _, m := range merged {
		b.merge(n, m, at)
	}
}

// merge adds the pairs of a `<<` value that the map does not have itself.
func (b *builder) merge(n, from *node, at map[string]*node) {
	for _, m := range from.each() {
		if m.kind != mapNode {
			b.problems.Errorf(m.pos, "bad-merge-key", "the merge key << takes a map or a list of maps; this is %s", m.kind)
			continue
		}
		for _, p := range m.pairs {
			if at[p.key.text] == nil {
				at[p.key.text] = p.key
				n.pairs = append(n.pairs, p)
			}
		}
	}
}
