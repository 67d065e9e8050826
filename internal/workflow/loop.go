package workflow

import "strings"

// defaultParallel is what `parallel: true` and a map without max_parallel mean.
const defaultParallel = 10

// foreach reads both documented forms: everything inside the key, or the
// values inside, also as a map of their source alone, and the rest beside it.
func (d *decoder) foreach(step *object, n *node, path string) *Foreach {
	o := step
	f := &Foreach{Parallel: Int{N: 1}}
	if n.kind == mapNode {
		o, _ = d.object(n, foreachTable) // it is a map
		defer o.close()
		d.foreachSource(o, f)
		foreachTable.read(o, f)
		if !o.has(o.row("do").spellings...) && step.has("do") {
			o = step
		}
	} else {
		d.foreachValues(n, "foreach", f)
	}
	if o == step {
		foreachTable.read(o, f, "continue_on_error", "max_items", "parallel")
	}
	inside := o.row("do").spellings // beside foreach, commands and steps are no keys
	if _, do := o.first("do"); do != nil {
		d.loops++
		d.looped = true
		f.Do = d.steps(do, path+".do", barePrompt)
		d.loops--
	}
	if len(f.Do) == 0 {
		if !o.has(inside...) {
			d.errorf(n, "missing-key", "a foreach needs do: with its steps").Suggest("for example: do: [{shell: 'make ${item}'}]")
		}
		for _, key := range inside {
			if v := o.peek(key); v != nil && (v.kind == nullNode || v.kind == listNode && len(v.items) == 0) {
				d.errorf(o.keyNode(key), "empty-action", "the foreach has no steps").Suggest("for example: do: [{shell: 'make ${item}'}]")
				break
			}
		}
		return nil
	}
	if f.List == nil && f.Text == nil && f.Input == nil {
		return nil
	}
	return f
}

// foreachSource reads where the values of a nested foreach come from.
func (d *decoder) foreachSource(o *object, f *Foreach) {
	key, n := o.first("foreach", "input")
	if n == nil {
		d.errorf(o.n, "missing-key", "a foreach needs its values").Suggest("write one of items: [a, b], foreach: COMMAND, input: FILE or input: {command: COMMAND}")
		return
	}
	if n = d.resolved(n); key == "input" && n.kind == mapNode {
		d.foreachInput(n, f)
		return
	}
	if key == "input" && n.scalar() && !isVariable(n.text) {
		if d.notPattern(n, n.text) {
			f.Input = d.text(n, key)
		}
		return
	}
	d.foreachValues(n, key, f)
}

// foreachInput reads an input that is written as a map's.
func (d *decoder) foreachInput(n *node, f *Foreach) {
	o, _ := d.object(n, inputTable) // it is a map
	defer o.close()
	m := d.inputOf(o)
	if m.InputKind == "command" {
		f.Text = m.Input
		return
	}
	f.Input = m.Input
	if o.has("format") && m.InputKind != "" && m.InputKind != "file" {
		d.warnf(o.keyNode("format"), "no-effect", "format has no effect in a foreach: the name of the file says what it is").Suggest("name the file with .json, .jsonl or .csv at its end")
	}
}

func (d *decoder) foreachValues(n *node, key string, f *Foreach) {
	if n.kind == listNode {
		f.List = d.deep(n).([]any) // a list stays one
		return
	}
	if !n.scalar() || d.notPattern(n, n.text) {
		f.Text = d.text(n, key)
	}
}

// parallel reads how many run at once: true, false, a number or a variable.
func (d *decoder) parallel(n *node, key string) Int {
	n = d.resolved(n)
	switch {
	case isTrue(n):
		return Int{N: defaultParallel, Set: true}
	case n.kind == boolNode:
		return Int{N: 1, Set: true}
	}
	v, p := d.intVar(n, key, 1)
	if p != nil {
		p.Or("write true (%d at once), false, or a number of 1 or more", defaultParallel)
	}
	if !v.Set {
		v.N = 1
	}
	return v
}

func (d *decoder) goalSeek(n *node, path string) *GoalSeek {
	o, ok := d.object(n, goalSeekTable)
	if !ok {
		return nil
	}
	defer o.close()
	g := &GoalSeek{Threshold: 100, MaxAttempts: 3, FailOnIncomplete: true}
	goalSeekTable.read(o, g)
	g.Do = d.goalAttempts(o, path+".goal_seek")
	d.nested++
	if v := o.take("validate"); v != nil {
		g.Validate = d.steps(v, path+".validate", bareShell)
	}
	d.nested--
	switch {
	case !o.has("claude", "shell", "command", "do"):
		d.errorf(n, "missing-key", "a goal_seek needs an attempt").Suggest("write claude: or shell: with what is to be repeated")
	case !o.has("validate"):
		d.errorf(n, "missing-key", "a goal_seek needs a validate, which prints the score").Suggest("for example: validate: {shell: ./score.sh}")
	}
	if len(g.Do) == 0 || len(g.Validate) == 0 {
		return nil
	}
	return g
}

// goalAttempts reads what a goal_seek repeats. claude: and shell: beside each other
// are two steps, in the order in which they are written.
func (d *decoder) goalAttempts(o *object, path string) []*Step {
	if !o.has("claude") || !o.has("shell") || o.has("command", "do") {
		return d.inline(o, path, "do")
	}
	var list node
	list.kind = listNode
	for _, p := range o.n.pairs {
		if p.key.text != "claude" && p.key.text != "shell" {
			continue
		}
		if len(list.items) == 0 {
			list.pos, list.src = p.key.pos, p.key.src
		} else {
			d.warnf(p.key, "several-actions", "this goal_seek has claude and shell; each attempt runs both, as they are written").
				Suggest("keep one of the two, or put both into do: [ … ]")
		}
		list.items = append(list.items, &node{kind: mapNode, pos: p.key.pos, src: p.key.src, pairs: []pair{p}})
	}
	o.skip("claude", "shell")
	return d.steps(&list, path, barePrompt)
}

// inline reads steps that stand as claude:, shell: or command: among other
// keys, or as a list under listKey. command: is a prompt, except under
// validate, where it is a command, and under goal_seek, where it is one unless
// it begins with a slash.
func (d *decoder) inline(o *object, path, listKey string) []*Step {
	var steps []*Step
	for _, key := range []string{"shell", "claude", "command"} {
		n := o.take(key)
		if n == nil {
			continue
		}
		if len(steps) > 0 {
			d.errorf(o.keyNode(key), "several-actions", "%s has one action; this has %s besides %s", o.what, key, steps[0].Action.Kind()).
				Suggest("put several steps into %s: [ … ]", listKey)
			continue
		}
		s := &Step{Pos: n.pos, Path: path + "[0]", Capture: defaultCapture()}
		shell := key == "shell" || key == "command" && (o.tables[0] == validateTable ||
			o.tables[0] == goalSeekTable && !isSlashCommand(n.text) && !strings.HasPrefix(n.text, "claude:") && !strings.HasPrefix(n.text, "shell:"))
		if key == "command" && !shell {
			s.Action = d.legacyCommand(n)
		} else if t := d.text(n, key); t != nil && shell {
			s.Action = &Shell{Text: t}
		} else if t != nil {
			s.Action = &Claude{Text: t}
		}
		if s.Action == nil {
			continue
		}
		steps = append(steps, s)
	}
	n := o.take(listKey)
	if n == nil {
		return steps
	}
	if len(steps) > 0 {
		d.errorf(o.keyNode(listKey), "several-actions", "%s has steps in %s and %s beside it", o.what, listKey, steps[0].Action.Kind()).
			Suggest("put all of them into %s", listKey)
		return steps
	}
	return d.steps(n, path, barePrompt)
}
