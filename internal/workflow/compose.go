package workflow

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// composer makes one tree of a file and those that it is composed of.
//
// extends: the base's values hold where the file has none; maps are merged,
// lists replaced. template and an import that no `workflow:` step calls: their
// steps come before the file's own, their other values hold where it has none.
type composer struct {
	l       *loader
	d       *decoder
	dir     string
	with    map[string]any  // values for the parameters of templates
	later   map[string]bool // those that only the run knows
	withs   []*node         // where they are written
	imports []*imported
	taken   []string         // names of the imports whose steps were taken in
	outer   *composer        // of the file in which this workflow is written; else nil
	entries map[string]*node // its workflows: and templates:, and those of the outer
}

// imported is an import that `workflow:` steps may call.
type imported struct {
	names []string
	src   *source
	n     *node
}

// other reads the tree of another file, composed.
func (c *composer) other(src *source) *node {
	c.l.chain = append(c.l.chain, src.path)
	defer func() { c.l.chain = c.l.chain[:len(c.l.chain)-1] }()
	tree := parseTree(src, c.d.problems)
	if tree == nil {
		return nil
	}
	tree = unwrapped(tree)
	sub := composer{l: c.l, d: c.d, dir: filepath.Dir(src.path), with: c.with, later: c.later}
	tree = sub.compose(tree)
	c.imports, c.withs = append(c.imports, sub.imports...), append(c.withs, sub.withs...)
	if tree.kind == listNode { // a bare list of steps
		var own fileSteps
		tree = &node{kind: mapNode, pos: tree.pos, src: tree.src, pairs: []pair{{tree.as(fileTable.keyFor(&own, &own.list)), tree}}}
	}
	return tree
}

func (c *composer) compose(n *node) *node {
	if n.kind != mapNode {
		return n
	}
	var own composedOf
	fileTable.look(n, &own)
	if w := own.extends; w.val != nil {
		if base := c.extends(w.key.text, w.val); base != nil {
			n = mergeOver(base, n)
		}
	}
	if t := own.template.val; t != nil {
		if base := c.template(t); base != nil {
			n = joinTrees(base, n)
		}
	}
	if i := own.imports.val; i != nil {
		n = c.importAll(i, n)
	}
	return n
}

func (c *composer) extends(key string, n *node) *node {
	if !n.scalar() {
		c.d.wrong(n, key, "a file").Suggest("for example: extends: base.yml")
		return nil
	}
	if c.outer != nil {
		if base, known := c.outer.named(n); known {
			return base
		}
	}
	places := c.l.search(c.dir, n.text, "bases", "templates", "workflows", ".")
	if isFileName(n.text) || strings.ContainsRune(n.text, '/') {
		places = append(c.l.near(c.dir, n.text), places...)
	}
	src := c.l.open(c.d, n, key, slices.Compact(places))
	if src == nil {
		return nil
	}
	return c.other(src)
}

// templateEntry is the template of a file, and importEntry one of its imports.
type templateEntry struct {
	name           string
	source         *node
	with, override written
}

// templateFile is the file of a template.
type templateFile struct{ n *node }

type importEntry struct {
	path      *node
	alias     string
	selective []*node
}

func (c *composer) template(n *node) *node {
	entry := templateEntry{name: n.text, source: n}
	if !n.scalar() {
		o, ok := c.d.object(n, templateTable)
		if !ok {
			return nil
		}
		defer o.close()
		entry = templateEntry{}
		templateTable.read(o, &entry)
		if entry.source == nil {
			entry.source = n.as(entry.name)
		}
		if w := entry.with; w.val != nil {
			values, later := c.d.literalArgs(w.val, w.key.text)
			maps.Copy(c.with, values)
			maps.Copy(c.later, later)
			c.withs = append(c.withs, w.val)
		}
	}
	places := c.templatePlaces(&entry.source)
	if places == nil {
		return nil
	}
	src := c.l.open(c.d, entry.source, "template "+entry.name, places)
	if src == nil {
		return nil
	}
	tree := c.other(src)
	if tree == nil || entry.override.val == nil {
		return tree
	}
	for _, p := range c.d.valuePairs(entry.override) {
		tree = c.override(tree, p)
	}
	return tree
}

// templatePlaces gives where a template may be; nil after an error. The source
// becomes the node with the name.
func (c *composer) templatePlaces(source **node) []string {
	n := *source
	isFile := false
	if n.kind == mapNode {
		o, _ := c.d.object(n, templateSourceTable) // it is a map
		var at templateFile
		templateSourceTable.read(o, &at)
		f := at.n
		o.close()
		if f == nil || !f.scalar() {
			c.d.errorf(n, "missing-key", "a template's source written as a map has file:").Suggest("for example: source: {file: ci.yml}")
			return nil
		}
		n, isFile = f, true
		*source = f
	}
	switch {
	case !n.scalar() || strings.TrimSpace(n.text) == "":
		c.d.errorf(n, "missing-key", "a template needs its source").Suggest("for example: template: {name: ci, source: ci.yml}")
		return nil
	case strings.Contains(n.text, "://"):
		c.d.errorf(n, "unsupported", "templates are read from files, not from %q", short(n.text)).Suggest("download it and write its path")
		return nil
	}
	var places []string
	if isFile || isFileName(n.text) || strings.ContainsRune(n.text, '/') {
		places = c.l.near(c.dir, n.text)
	}
	places = append(places, c.l.search(c.dir, n.text, "templates", ".bide/templates", ".prodigy/templates", ".")...)
	for _, home := range c.l.near(c.dir, "~/.prodigy/templates") {
		places = append(places, c.l.search(home, n.text, ".")...)
	}
	return slices.Compact(places)
}

// override puts a value at a path such as commands.0.timeout.
func (c *composer) override(tree *node, p pair) *node {
	out, ok := setPath(tree, fileTable, strings.Split(p.key.text, "."), p)
	if !ok {
		c.d.warnf(p.key, "bad-override", "the template has nothing at %q to override", short(p.key.text)).
			Suggest("a path goes through keys and positions that are there, such as commands.0.timeout")
		return tree
	}
	return out
}

// setPath gives n, whose keys are those of a table, with the value at path replaced. Only
// the last key may be new.
func setPath(n *node, t *table, path []string, p pair) (*node, bool) {
	if len(path) == 0 {
		return p.val, true
	}
	out := *n
	switch n.kind {
	case mapNode:
		key := p.key.as(path[0])
		at := t.written(n, key.text)
		switch {
		case at < 0 && len(path) > 1:
			return n, false
		case at < 0:
			out.pairs = append(slices.Clone(n.pairs), pair{key, p.val})
			return &out, true
		}
		val := n.pairs[at].val
		v, ok := setPath(val, t.row(key.text).typ.table(val), path[1:], p)
		out.pairs = slices.Clone(n.pairs)
		if out.pairs[at].val = v; len(path) == 1 {
			out.pairs[at].key = key // its spelling may say the unit
		}
		return &out, ok
	case listNode:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.items) {
			return n, false
		}
		out.items = slices.Clone(n.items)
		v, ok := setPath(n.items[i], t, path[1:], p)
		out.items[i] = v
		return &out, ok
	}
	return n, false
}

// importAll takes in the imports of a file.
func (c *composer) importAll(list, own *node) *node {
	called := calledNames(own)
	n := own
	for _, it := range slices.Backward(list.each()) { // the first import's steps come first
		n = c.importOne(it, n, called)
	}
	return n
}

func (c *composer) importOne(n, own *node, called map[string]bool) *node {
	entry := importEntry{path: n}
	if !n.scalar() {
		o, ok := c.d.object(n, importTable)
		if !ok {
			return own
		}
		defer o.close()
		entry = importEntry{}
		importTable.read(o, &entry)
		if entry.path == nil || !entry.path.scalar() {
			c.d.errorf(n, "missing-key", "an import needs a path").Suggest("for example: imports: [{path: other.yml}]")
			return own
		}
	}
	src := c.l.open(c.d, entry.path, "import", c.l.near(c.dir, entry.path.text))
	if src == nil {
		return own
	}
	before := len(c.imports)
	tree := c.other(src)
	if tree == nil {
		return own
	}
	names := []string{strings.TrimSuffix(filepath.Base(src.path), filepath.Ext(src.path))}
	var stated fileName
	if fileTable.look(tree, &stated); stated.val != nil && stated.val.scalar() {
		names = append(names, stated.val.text)
	}
	if entry.alias != "" {
		names = []string{entry.alias}
	}
	for name := range called {
		head, _, _ := strings.Cut(name, ".")
		if slices.Contains(names, name) || (entry.alias != "" && head == entry.alias) {
			c.imports = append(c.imports[:before], &imported{names: names, src: src, n: n})
			return own
		}
	}
	if len(entry.selective) > 0 {
		tree = c.selected(tree, entry.selective)
	}
	c.taken = append(c.taken, names...)
	return joinTrees(tree, own)
}

// fileName is the name of a file, and stepCalled the names of a step.
type (
	fileName   struct{ written }
	stepCalled struct{ id, name written }
)

// stepNames are the names of a step as it is written: for variables, and for people.
func stepNames(n *node) (id, name *node) {
	var s stepCalled
	stepTable.look(n, &s)
	return s.id.val, s.name.val
}

// selected keeps of a tree only the steps and workflows of some names.
func (c *composer) selected(tree *node, names []*node) *node {
	found := map[string]bool{}
	wanted := func(id, name *node) bool {
		for _, n := range []*node{id, name} {
			for _, want := range names {
				if n != nil && n.scalar() && want.text == n.text {
					found[n.text] = true
					return true
				}
			}
		}
		return false
	}
	steps := func(n *node) *node {
		out := *n
		out.items = slices.DeleteFunc(slices.Clone(n.items), func(s *node) bool { return !wanted(stepNames(s)) })
		return &out
	}
	out := *tree
	out.pairs = nil
	var own File
	for _, p := range tree.pairs {
		switch f := fileTable.row(p.key.text); {
		case f.place(&own) == &own.subs:
			v := *p.val
			v.pairs = slices.DeleteFunc(slices.Clone(v.pairs), func(q pair) bool { return !wanted(q.key, nil) })
			p.val = &v
		case f.typ.table(p.val) == stepTable:
			p.val = steps(p.val)
		case f.typ.table(p.val) == blockTable:
			if list := stepsOf(p.val).val; list != nil {
				p.val = p.val.with(list, steps(list))
			}
		}
		out.pairs = append(out.pairs, p)
	}
	for _, n := range names {
		if !found[n.text] {
			c.d.errorf(n, "unknown-name", "the imported file has no step or workflow named %q", short(n.text)).Suggest("selective takes the id or name of steps and the names of workflows")
		}
	}
	return &out
}

// calledNames finds what `workflow:` steps call, wherever they stand.
func calledNames(root *node) map[string]bool {
	out := map[string]bool{}
	seen := map[*node]bool{}
	var look func(n *node)
	look = func(n *node) {
		if n.scalar() || seen[n] {
			return
		}
		seen[n] = true
		for _, it := range n.items {
			look(it)
		}
		for _, p := range n.pairs {
			// extends is of a workflow that is written here
			if slices.Contains([]string{"workflow", "use", "template", "extends"}, p.key.text) && p.val.scalar() && n != root {
				out[p.val.text] = true
			}
			look(p.val)
		}
	}
	look(root)
	return out
}
