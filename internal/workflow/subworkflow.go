package workflow

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// pendingCall is a `workflow:` step whose target is found when all is read.
type pendingCall struct {
	call *Call
	n    *node // the name
	with *node // nil without arguments
}

// givenBy are the values that a call gives.
func (d *decoder) givenBy(p pendingCall) given {
	in := given{by: p.n}
	in.give(d, p.with)
	return in
}

// literalArgs gives the arguments whose values are known now, and the names of
// those that only the run will know.
func (d *decoder) literalArgs(n *node, key string) (values map[string]any, later map[string]bool) {
	values, later = map[string]any{}, map[string]bool{}
	if n == nil || n.kind == nullNode {
		return values, later
	}
	for _, p := range d.pairs(n, key, "a map of values", key+": {level: high}") {
		v := d.resolved(p.val)
		if v.kind == strNode {
			if t, err := template.Parse(v.text); err != nil || len(t.Refs()) > 0 {
				later[p.key.text] = true
				continue
			}
		}
		values[p.key.text] = v.value()
	}
	return values, later
}

// calls reads the sub-workflows and finds what the `workflow:` steps call.
func (c *composer) calls() {
	d := c.d
	c.entries = map[string]*node{}
	if c.outer != nil {
		maps.Copy(c.entries, c.outer.entries)
		c.imports = append(c.imports, c.outer.imports...)
	}
	c.templates(d.file.templates.val)
	c.subWorkflows(d.file.subs)
	c.readTemplates(d.file.templates)
	for _, p := range d.calls {
		p.call.Target = c.target(p)
	}
	d.file.Workflows = d.ordered(d.file.Workflows)
}

// subWorkflows reads the entries of workflows:. Those that a step calls run
// then, and not by themselves.
func (c *composer) subWorkflows(w written) {
	n := w.val
	if n == nil {
		return
	}
	d := c.d
	called := c.called(n)
	for _, p := range d.pairs(n, w.key.text, "a map of names", "workflows: {build: {source: build.yml}}") {
		if c.d.file.templates.val.get(p.key.text) != nil {
			d.errorf(p.key, "duplicate-name", "%q is a template and a workflow of this file", short(p.key.text)).Suggest("give one of the two another name")
		}
		c.entries[p.key.text] = p.val
		d.named(p.key.text)
		var own subOutputs
		if subWorkflowTable.look(p.val, &own); own.val != nil {
			for _, it := range append(own.val.items, own.val) {
				d.named(it.text)
			}
		}
	}
	main := n.get("main").inline() && !called["main"]
	for _, p := range n.pairs {
		byItself := !called[p.key.text] && (!main || p.key.text == "main" || !p.val.inline())
		s := c.subWorkflow(p.key, p.val, nil, !byItself)
		if s == nil {
			continue
		}
		s.Run = byItself
		d.file.Workflows = append(d.file.Workflows, s)
	}
	d.neverRun(called)
}

// called are the names that steps of the file call, those of the workflows
// written in it included.
func (c *composer) called(workflows *node) map[string]bool {
	called := map[string]bool{}
	for _, p := range c.d.calls {
		called[p.call.Workflow] = true
	}
	for _, list := range []*node{workflows, c.d.file.templates.val} {
		for _, p := range list.entries() {
			if p.val.inline() {
				maps.Copy(called, calledNames(&node{kind: listNode, items: []*node{p.val}}))
			}
		}
	}
	return called
}

// neverRun warns about the workflows beside main that nothing calls.
func (d *decoder) neverRun(called map[string]bool) {
	needed := map[string]bool{}
	for _, s := range d.file.Workflows {
		for _, name := range s.DependsOn {
			needed[name] = true
		}
	}
	for _, s := range d.file.Workflows {
		if s.Run || called[s.Name] || needed[s.Name] || d.full() {
			continue
		}
		d.warnAt(s.Pos, "never-run", "the workflow %q never runs: only main runs by itself; the others run if a step calls them", short(s.Name)).
			Suggest("call it with a step - workflow: %s, or remove it", short(s.Name))
	}
}

// subWorkflow reads one entry and loads its file with its values and, over
// them, those of a call.
//
// unfilled says that the values which a call gives are not known here.
func (c *composer) subWorkflow(key, n, with *node, unfilled bool) *SubWorkflow {
	if n.inline() {
		return c.inlineWorkflow(key, n, with, unfilled)
	}
	d := c.d
	s := &SubWorkflow{Name: key.text, Pos: key.pos}
	source := n
	in := given{unfilled: unfilled, by: key}
	if n.kind == mapNode {
		o, _ := d.object(n, subWorkflowTable) // it is a map
		var from subSource
		subWorkflowTable.read(o, &from)
		source = from.val
		d.aroundSub(o, s, &in)
		o.close()
	}
	if source == nil || !source.scalar() || source.kind == nullNode {
		d.errorf(key, "missing-key", "the workflow %q needs its source", s.Name).Suggest("for example: %s: {source: %s.yml}", s.Name, nameFrom(s.Name))
		return nil
	}
	in.give(d, with)
	path := d.resolved(source)
	places := c.l.near(c.dir, path.text)
	if at := source.src; at != nil { // the file that names it, which may be an imported one
		places = slices.Compact(append(c.l.near(filepath.Dir(at.path), path.text), places...))
	}
	src := c.l.open(d, path, "workflow "+s.Name, places)
	if src == nil {
		return nil
	}
	s.File = c.loadSub(src, in)
	return s.runnable(d, source)
}

// runnable is s where its file can be run inside another one; else nil, with an
// error at the node that names it.
func (s *SubWorkflow) runnable(d *decoder, n *node) *SubWorkflow {
	if s.File == nil {
		return nil
	}
	what := ""
	switch {
	case s.File.Kind == MapReduce:
		what = "a map"
	case s.File.Merge != nil:
		what = "a merge block"
	case s.File.Finally != nil:
		what = "a finally block"
	case len(s.File.Workflows) > 0:
		what = "workflows of its own"
	default:
		return s
	}
	d.errorf(n, "unsupported", "the workflow %q has %s and cannot be run inside another workflow", short(s.Name), what).
		Suggest("run it by itself, before or after this one, or put its steps here")
	return nil
}

// subSource is the file of a sub-workflow, subOutputs what it hands back, and subValues
// the values that it is given.
type (
	subSource  struct{ written }
	subOutputs struct{ written }
	subValues  struct {
		*SubWorkflow
		in *given
	}
)

// aroundSub reads how an entry is run, and the values that it gives.
func (d *decoder) aroundSub(o *object, s *SubWorkflow, in *given) {
	subWorkflowTable.read(o, &subValues{s, in})
	subWorkflowTable.read(o, s)
}

func (c *composer) loadSub(src *source, in given) *File {
	in.defaults = c.defaults()
	return c.l.load(src, in, false)
}

// defaults are the file's default values of parameters.
func (c *composer) defaults() map[string]any {
	var own composedOf
	if fileTable.look(c.d.treeRoot, &own); own.defaults.val != nil && own.defaults.val.kind == mapNode {
		return own.defaults.val.value().(map[string]any)
	}
	return nil
}

// inputs reads the values that a sub-workflow takes from the run: names of
// variables, or values. A bare word is a variable where there is one of that
// name, else itself.
func (d *decoder) inputs(n *node, key string, s *SubWorkflow, in *given) {
	s.Inputs = map[string]string{}
	if n.kind != mapNode {
		for _, it := range n.each() {
			if !it.scalar() {
				d.wrong(it, key, "the name of a variable").Suggest("for example: inputs: {level: level}")
				continue
			}
			s.Inputs[it.text] = it.text
			value.Put(&in.later, it.text, true)
		}
		return
	}
	for _, p := range n.pairs {
		if p.val.kind == strNode && d.isVariable(p.val.text) {
			s.Inputs[p.key.text] = p.val.text
			value.Put(&in.later, p.key.text, true)
			continue
		}
		s.With = append(s.With, Arg{Name: p.key.text, Pos: p.key.pos, Value: d.deep(p.val)})
		known, unknown := d.literalArgs(&node{kind: mapNode, pos: n.pos, src: n.src, pairs: []pair{p}}, key)
		in.values = overlay(in.values, known)
		for k := range unknown {
			value.Put(&in.later, k, true)
		}
	}
}

// isVariable reports whether something in the file sets a variable of a name.
func (d *decoder) isVariable(name string) bool {
	if _, ok := d.params[name]; ok || d.names[name] > 0 {
		return true
	}
	head, _, dotted := strings.Cut(name, ".")
	if dotted && identifierText().MatchString(name) && (d.names[head] > 0 || slices.Contains(builtin, head)) {
		return true
	}
	return slices.ContainsFunc(d.file.Env, func(v EnvVar) bool { return v.Name == name })
}

// target finds what a `workflow:` step calls: an entry of workflows:, an
// import, an entry of an import (ALIAS.NAME) or a file.
func (c *composer) target(p pendingCall) *SubWorkflow {
	d, name := c.d, p.call.Workflow
	if e := c.entries[name]; e != nil {
		if !e.inline() && d.file.templates.val.get(name) == e {
			return nil // told already
		}
		return c.subWorkflow(p.n.as(name), e, p.with, false)
	}
	head, rest, dotted := strings.Cut(name, ".")
	for _, i := range c.imports {
		whole := slices.Contains(i.names, name)
		if !whole && !(dotted && slices.Contains(i.names, head)) {
			continue
		}
		if e := c.entryOf(i, rest); !whole && e != nil {
			return c.inlineWorkflow(p.n.as(name), e, p.with, false)
		}
		f := c.loadSub(i.src, d.givenBy(p))
		if f == nil {
			return nil
		}
		if whole {
			s := &SubWorkflow{Name: name, Pos: p.n.pos, File: f}
			return s.runnable(d, p.n)
		}
		for _, s := range f.Workflows {
			if s.Name == rest {
				return s
			}
		}
	}
	if isFileName(name) {
		src := c.l.open(d, p.n, "workflow", c.l.near(c.dir, name))
		if src == nil {
			return nil
		}
		s := &SubWorkflow{Name: name, Pos: p.n.pos, File: c.loadSub(src, d.givenBy(p))}
		return s.runnable(d, p.n)
	}
	known := slices.AppendSeq(slices.Clone(c.taken), maps.Keys(c.entries))
	for _, i := range c.imports {
		known = append(known, i.names...)
	}
	prob := d.errorf(p.n, "unknown-workflow", "there is no imported workflow %q", short(name))
	prob.Near(name, known).Or("import it (imports: [{path: FILE, alias: %s}]), or write its file", nameFrom(name))
	return nil
}

// ordered puts sub-workflows behind those they depend on, keeping the file's
// order otherwise, and reports circles.
func (d *decoder) ordered(list []*SubWorkflow) []*SubWorkflow {
	byName := make(map[string]*SubWorkflow, len(list))
	var names []string
	for _, s := range list {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	for _, s := range list {
		d.dependencies(s, byName, names)
	}
	for _, s := range list {
		if s.Run {
			s.runFirst(byName)
		}
	}
	var out []*SubWorkflow
	state := map[*SubWorkflow]int{} // 1: being placed, 2: placed
	var place func(s *SubWorkflow, chain []string)
	place = func(s *SubWorkflow, chain []string) {
		chain = append(chain, s.Name)
		switch state[s] {
		case 2:
			return
		case 1:
			from := slices.Index(chain, s.Name)
			d.problems.Errorf(s.Pos, "dependency-cycle", "workflows depend on each other in a circle: %s", strings.Join(chain[from:], " → ")).
				Suggest("remove one of these dependencies")
			return
		}
		state[s] = 1
		for _, name := range s.DependsOn {
			if t := byName[name]; t != nil {
				place(t, chain)
			}
		}
		state[s] = 2
		out = append(out, s)
	}
	for _, s := range list {
		place(s, nil)
	}
	return out
}

// runFirst marks what a sub-workflow that runs by itself depends on.
func (s *SubWorkflow) runFirst(byName map[string]*SubWorkflow) {
	for _, name := range s.DependsOn {
		if t := byName[name]; t != nil && !t.Run {
			t.Run = true
			t.runFirst(byName)
		}
	}
}

// dependencies checks the written ones and adds those that the inputs show.
func (d *decoder) dependencies(s *SubWorkflow, byName map[string]*SubWorkflow, names []string) {
	s.DependsOn = slices.DeleteFunc(s.DependsOn, func(name string) bool {
		if byName[name] != nil {
			return false
		}
		p := d.problems.Errorf(s.Pos, "unknown-workflow", "%q depends on %q, which is not there", s.Name, short(name))
		p.Near(name, names).Or("the workflows are %s", strings.Join(names, ", "))
		return true
	})
	for _, a := range s.With {
		t, ok := a.Value.(*template.Text)
		if !ok {
			continue
		}
		for _, r := range t.Refs() {
			if len(r.Path) == 0 {
				continue
			}
			name := r.Path[0].Name
			if byName[name] != nil && name != s.Name && !slices.Contains(s.DependsOn, name) {
				s.DependsOn = append(s.DependsOn, name)
			}
		}
	}
}
