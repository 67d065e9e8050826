package workflow

import "strings"

// defaultParallel is what `parallel: true` and a map without max_parallel mean.
const defaultParallel = 10

// foreach reads both documented forms: everything inside the key, or the
// values inside, also as a map of their source alone, and the rest beside it.
func (d *decoder) foreach(step *object, path, key string, n *node) *Foreach {
	f := &Foreach{Parallel: Int{N: 1}}
	var do loopSteps
	if n.kind == mapNode {
		o, _ := d.object(n, foreachTable) // it is a map
		defer o.close()
		d.foreachSource(o, f)
		foreachTable.read(o, f)
		foreachTable.read(o, &do)
	} else {
		d.foreachValues(n, key, f)
	}
	if !do.there() { // it is beside the foreach, with what bounds it
		if stepTable.read(step, &do); n.kind != mapNode || do.there() {
			stepTable.read(step, f)
		}
	}
	if do.val != nil {
		d.loops++
		d.looped = true
		f.Do = d.steps(do.val, path+".do", barePrompt)
		d.loops--
	}
	if len(f.Do) == 0 {
		const example = "for example: do: [{shell: 'make ${item}'}]"
		switch {
		case !do.there():
			d.errorf(n, "missing-key", "a foreach needs do: with its steps").Suggest(example)
		case do.val == nil || do.val.kind == listNode && len(do.val.items) == 0:
			d.errorf(do.key, "empty-action", "the foreach has no steps").Suggest(example)
		}
		return nil
	}
	if f.List == nil && f.Text == nil && f.Input == nil {
		return nil
	}
	d.neverEnoughValues(f, step, n)
	return f
}

// neverEnoughValues tells of a foreach that cannot have as many values as it must have.
func (d *decoder) neverEnoughValues(f *Foreach, beside *object, n *node) {
	most, said := atMost(len(f.List), f.List != nil, f.MaxItems)
	if !said || f.MinItems.Text != nil || f.MinItems.N <= most {
		return
	}
	at := beside.keyNode(stepTable.keyFor(f, &f.MinItems))
	if n.kind == mapNode {
		o, _ := d.object(n, foreachTable)
		if key := foreachTable.keyFor(f, &f.MinItems); o.has(key) {
			at = o.keyNode(key)
		}
	}
	d.neverEnough(at, f.MinItems.N, most, "the foreach")
}

// loopSteps are the steps of a foreach, and loopValues where its values come from: a
// list, a command, or an input as that of a map.
type (
	loopSteps  struct{ written }
	loopValues struct{ list, input written }
)

// foreachSource reads where the values of a nested foreach come from.
func (d *decoder) foreachSource(o *object, f *Foreach) {
	var from loopValues
	foreachTable.read(o, &from)
	n := from.input.val
	switch {
	case from.list.val != nil:
		if n != nil {
			o.saysTheSame(from.input.key.text, from.list.key.text, from.list.val)
		}
		d.foreachValues(d.resolved(from.list.val), from.list.key.text, f)
		return
	case n == nil:
		d.errorf(o.n, "missing-key", "a foreach needs its values").Suggest("write one of items: [a, b], foreach: COMMAND, input: FILE or input: {command: COMMAND}")
		return
	}
	key := from.input.key.text
	if n = d.resolved(n); n.kind == mapNode {
		d.foreachInput(n, f)
		return
	}
	if n.scalar() && !isVariable(n.text) {
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
	m, format := d.inputOf(o)
	if m.InputKind == "command" {
		f.Text = m.Input
		return
	}
	f.Input = m.Input
	if format != nil && m.InputKind != "" && m.InputKind != "file" {
		d.warnf(format, "no-effect", "format has no effect in a foreach: the name of the file says what it is").Suggest("name the file with .json, .jsonl or .csv at its end")
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

// readParallel is the reader of parallel, beside a foreach and in it.
func readParallel(o *object, key string, n *node, f *Foreach) {
	if n = o.d.resolved(n); n.kind == mapNode || n.text == "auto" {
		f.Adaptive, f.Parallel = o.d.adaptive(key, n)
		return
	}
	f.Parallel = o.d.parallel(n, key)
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
		p.Or("write true (%d at once), false, a number of 1 or more, auto, or as in {min: 2, max: 32}", defaultParallel)
	}
	if !v.Set {
		v.N = 1
	}
	return v
}

func (d *decoder) goalSeek(path string, n *node) *GoalSeek {
	o, ok := d.object(n, goalSeekTable)
	if !ok {
		return nil
	}
	defer o.close()
	d.goals++
	defer func() { d.goals-- }()
	g := &GoalSeek{Threshold: 100, MaxAttempts: 3, FailOnIncomplete: true}
	goalSeekTable.read(o, g)
	in := inlineSteps{command: commandUnlessSlash}
	goalSeekTable.read(o, &in)
	g.Do = d.goalAttempts(o, &in, path+".goal_seek")
	var by scoring
	goalSeekTable.read(o, &by)
	d.nested++
	if by.check != nil {
		g.Validate = d.steps(by.check, path+".validate", bareShell)
	}
	d.nested--
	switch {
	case !in.there():
		d.errorf(n, "missing-key", "a goal_seek needs an attempt").Suggest("write claude: or shell: with what is to be repeated")
	case o.keyOf(&by, &by.check) == nil:
		d.errorf(n, "missing-key", "a goal_seek needs a validate, which prints the score").Suggest("for example: validate: {shell: ./score.sh}")
	}
	if len(g.Do) == 0 || len(g.Validate) == 0 {
		return nil
	}
	return g
}

// goalAttempts reads what a goal_seek repeats. claude: and shell: beside each other
// are two steps, in the order in which they are written.
func (d *decoder) goalAttempts(o *object, in *inlineSteps, path string) []*Step {
	if in.claude.val == nil || in.shell.val == nil || in.legacy.there() || in.list.there() {
		return d.inline(o, in, path)
	}
	var list node
	list.kind = listNode
	for _, p := range o.n.pairs {
		if p.key != in.claude.key && p.key != in.shell.key {
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
	return d.steps(&list, path, barePrompt)
}

// scoring is what looks at a step, or at an attempt of a goal_seek.
type scoring struct{ check *node }

// inlineSteps are steps that stand as claude:, shell: or command: among other keys, or
// as a list.
type inlineSteps struct {
	shell, claude, legacy, list written // legacy is command:
	command                     commandMeans
}

// commandMeans says what command: is: a prompt, except where it checks something, and
// where it is a command unless it begins with a slash.
type commandMeans uint8

const (
	commandIsPrompt commandMeans = iota
	commandIsShell
	commandUnlessSlash
)

// there reports whether any of them is written.
func (in *inlineSteps) there() bool {
	return in.shell.there() || in.claude.there() || in.legacy.there() || in.list.there()
}

// inline reads steps that are among other keys.
func (d *decoder) inline(o *object, in *inlineSteps, path string) []*Step {
	var steps []*Step
	list := o.tables[0].keyFor(in, &in.list)
	for _, w := range []written{in.shell, in.claude, in.legacy} {
		n := w.val
		if n == nil {
			continue
		}
		if len(steps) > 0 {
			d.errorf(w.key, "several-actions", "%s has one action; this has %s besides %s", o.what, w.key.text, steps[0].Action.Kind()).
				Suggest("put several steps into %s: [ … ]", list)
			continue
		}
		s := &Step{Pos: n.pos, Path: path + "[0]", Capture: defaultCapture()}
		shell := w == in.shell || w == in.legacy && in.legacyIsShell()
		if w == in.legacy && !shell {
			s.Action = d.legacyCommand(n, w.key.text)
		} else if t := d.text(n, w.key.text); t != nil && shell {
			s.Action = &Shell{Text: t}
		} else if t != nil {
			s.Action = &Claude{Text: t}
		}
		if s.Action == nil {
			continue
		}
		steps = append(steps, s)
	}
	if in.list.val == nil {
		return steps
	}
	if len(steps) > 0 {
		d.errorf(in.list.key, "several-actions", "%s has steps in %s and %s beside it", o.what, in.list.key.text, steps[0].Action.Kind()).
			Suggest("put all of them into %s", in.list.key.text)
		return steps
	}
	return d.steps(in.list.val, path, barePrompt)
}

func (in *inlineSteps) legacyIsShell() bool {
	text := in.legacy.val.text
	return in.command == commandIsShell ||
		in.command == commandUnlessSlash && !isSlashCommand(text) && !strings.HasPrefix(text, "claude:") && !strings.HasPrefix(text, "shell:")
}
