package workflow

import (
	"maps"
	"slices"
	"strings"
)

// Workflows that are written in the file which runs them: the entries of
// templates:, and those of workflows: that have steps in place of a source.
// `use: NAME` and `workflow: NAME` run them, with values for their parameters.

// inline reports whether an entry of workflows: is written in place.
func (n *node) inline() bool {
	if n == nil {
		return false
	}
	var from subSource
	subWorkflowTable.look(n, &from)
	var steps fileSteps
	fileTable.look(n, &steps)
	var own composedOf
	fileTable.look(n, &own)
	return !from.there() && (n.kind == listNode || steps.list.there() || own.extends.there())
}

// size is how many values a tree has, counted up to a little over most.
func (n *node) size(most int) int {
	count := 1
	for _, it := range n.items {
		if count > most {
			return count
		}
		count += it.size(most - count)
	}
	for _, p := range n.pairs {
		if count > most {
			return count
		}
		count += 1 + p.val.size(most-count)
	}
	return count
}

// templates takes in the names of templates:.
func (c *composer) templates(n *node) {
	for _, p := range n.entries() {
		c.entries[p.key.text] = p.val
		c.d.named(p.key.text)
	}
}

// readTemplates checks every template, used or not. What its parameters stand
// for is known where it is used.
func (c *composer) readTemplates(w written) {
	if w.val == nil {
		return
	}
	for _, p := range c.d.pairs(w.val, w.key.text, "a map of names", "templates: {check: {parameters: [level], steps: [{shell: 'make ${level}'}]}}") {
		if !p.val.inline() {
			c.d.errorf(p.key, "missing-key", "the template %q has no steps", short(p.key.text)).
				Suggest("for example: %s: {steps: [{shell: make}]}; a template in a file of its own is template: {source: FILE}", nameFrom(p.key.text))
			continue
		}
		c.inlineWorkflow(p.key, p.val, nil, true)
	}
}

// outside are the keys of an entry that are about how it is run, not about what
// it is.
var outside = []string{"with", "inputs", "outputs", "depends_on", "parallel", "continue_on_error", "timeout", "working_dir"}

// inlineWorkflow reads an entry that is written in place. with are the values
// of a call; unfilled says that those of parameters are not known yet.
func (c *composer) inlineWorkflow(key, n, with *node, unfilled bool) *SubWorkflow {
	d := c.d
	if at := slices.Index(c.l.inside, n); at >= 0 {
		d.errorf(key, "import-cycle", "the workflow %q calls itself", short(key.text)).Suggest("remove one of the calls of the circle")
		return nil
	}
	if c.l.loads++; c.l.loads > maxFiles {
		d.errorf(key, "too-many-files", "the workflow is composed of more than %d others", maxFiles).Suggest("check for templates that use each other in many places")
		return nil
	}
	if c.l.written += n.size(maxNodes); c.l.written > maxNodes {
		d.errorf(key, "too-large", "with every use of a template written out, the file has more than %d values", maxNodes).
			Suggest("put what is used often into a file that a shell step runs")
		return nil
	}
	s := &SubWorkflow{Name: key.text, Pos: key.pos}
	in := given{defaults: c.defaults(), unfilled: unfilled, by: key}
	body := n
	if n.kind == mapNode {
		how := &node{kind: mapNode, pos: n.pos, end: n.end, src: n.src}
		what := &node{kind: mapNode, pos: n.pos, end: n.end, src: n.src}
		for _, p := range n.pairs {
			to := what
			if slices.Contains(outside, p.key.text) {
				to = how
			}
			to.pairs = append(to.pairs, p)
		}
		body = what
		o, _ := d.object(how, subWorkflowTable) // it is a map
		d.aroundSub(o, s, &in)
		o.close()
	}
	in.give(d, with)
	c.l.inside = append(c.l.inside, n)
	defer func() { c.l.inside = c.l.inside[:len(c.l.inside)-1] }()
	s.File = c.inlineFile(body, in)
	return s.runnable(d, key)
}

// inlineFile is the model of a workflow that is written in place: a file of its
// own, in which the agents, the retry defaults and the names of the outer file
// are known.
func (c *composer) inlineFile(body *node, in given) *File {
	d := &decoder{file: &File{Path: body.src.path, Source: body.src.text}, problems: c.d.problems, strict: c.d.strict}
	d.top, d.file.Agents = c.d.top, c.d.file.Agents
	d.names = maps.Clone(c.d.names)
	d.namesOf(c.d.file)
	sub := &composer{l: c.l, d: d, dir: c.dir, with: map[string]any{}, later: map[string]bool{}, outer: c}
	sub.build(sub.compose(body), in, false)
	return d.file
}

// named finds what extends: of a workflow written in place names: another entry
// of the file, an import (ALIAS) or an entry of one (ALIAS.NAME). known is true
// where the name is one of these, though there may be an error.
func (c *composer) named(n *node) (tree *node, known bool) {
	if e := c.entries[n.text]; e.inline() {
		if slices.Contains(c.l.inside, e) {
			c.d.errorf(n, "import-cycle", "the workflow %q extends itself", short(n.text)).Suggest("remove one of the extends of the circle")
			return nil, true
		}
		return e, true
	}
	head, rest, dotted := strings.Cut(n.text, ".")
	for _, i := range c.imports {
		whole := slices.Contains(i.names, n.text)
		if !whole && !(dotted && slices.Contains(i.names, head)) {
			continue
		}
		if whole {
			return c.other(i.src), true
		}
		if e := c.entryOf(i, rest); e != nil {
			return e, true
		}
		var names []string
		if tree := c.other(i.src); tree != nil {
			for _, p := range slices.Concat(entriesOf(tree)...) {
				names = append(names, p.key.text)
			}
		}
		p := c.d.errorf(n, "unknown-workflow", "%s has no workflow %q", i.src.path, short(rest))
		p.Near(rest, names).Or("such a name belongs under workflows: or templates: of that file, with its steps")
		return nil, true
	}
	return nil, false
}

// entryOf finds a workflow that is written in an imported file; nil where there
// is none of that name.
func (c *composer) entryOf(i *imported, name string) *node {
	if name == "" {
		return nil
	}
	for _, entries := range entriesOf(c.other(i.src)) {
		for _, p := range entries {
			if p.key.text == name && p.val.inline() {
				return p.val
			}
		}
	}
	return nil
}

// entriesOf are the workflows and the templates that are written in a file.
func entriesOf(tree *node) [][]pair {
	var f File
	fileTable.look(tree, &f)
	return [][]pair{f.subs.val.entries(), f.templates.val.entries()}
}

// inlineTable is the keys that a workflow written in place has of its own;
// those of a whole file may be beside them.
var inlineTable = newTable("inline_workflow", "a template")

func inlineFields() []field {
	return []field{
		{key: "description", typ: tText, sample: "what it is for", doc: "for people"},
		{key: "parameters", typ: oneOf(tRef("parameter_lists"), tMap(tAny), tList(oneOf(tText, tRef("parameter")))), sample: "[level]", doc: "what `with:` gives values to"},
		{key: "steps", typ: tSteps, sample: "[{shell: make}]", doc: "its steps"},
		{key: "commands", typ: tSteps, sample: "[{shell: make}]", doc: "the same as steps"},
	}
}
