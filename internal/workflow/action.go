package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/template"
)

// actionKeys are the keys of which a step has exactly one. validate is one
// only where it stands alone.
var actionKeys = []string{
	"shell", "claude", "command", "http", "write_file", "foreach", "goal_seek", "test", "pipeline", "workflow", "use", "template", "analyze", "handler",
}

// isAction reports whether a key says what a step does.
func (d *decoder) isAction(key string) bool {
	return slices.Contains(actionKeys, key) || d.file.Agents[key] != nil
}

// action reads what a step does into s.Action; nil after an error.
func (d *decoder) action(o *object, s *Step) {
	var written []string
	for _, p := range o.n.pairs {
		if d.isAction(p.key.text) {
			written = append(written, p.key.text)
		}
	}
	switch {
	case len(written) == 0:
		d.actionless(o, s)
		return
	case len(written) > 1:
		d.errorf(o.keyNode(written[1]), "several-actions", "a step has one action; this has %s", strings.Join(written, " and ")).
			Suggest("make it %d steps", len(written))
		o.skip(written...)
		o.skip("with", "do", "parallel", "max_items", "args")
		return
	}
	key := written[0]
	n := o.peek(key)
	o.skip(key)
	d.noteFormer(o, o.keyNode(key))
	if n.kind == nullNode && key != "analyze" {
		d.errorf(o.keyNode(key), "empty-action", "the step's %s is empty", key).Suggest("write what it does behind %s:", key)
		o.skip("with", "do", "parallel", "max_items", "args", "name")
		return
	}
	if n.scalar() && key != "analyze" && strings.TrimSpace(n.text) == "" {
		d.errorf(n, "empty-action", "the step's %s is empty", key).Suggest("write what it does behind %s:", key)
		return
	}
	s.Action = d.actionOf(o, s, key, n)
}

// actionOf reads the one action of a step. A typed nil never leaves it.
func (d *decoder) actionOf(o *object, s *Step, key string, n *node) Action {
	switch key {
	case "shell":
		if t := d.text(n, key); t != nil {
			return &Shell{Text: t}
		}
	case "claude":
		if t := d.text(n, key); t != nil {
			return d.prompt(o, t, "")
		}
	case "command":
		switch a := d.legacyCommand(n).(type) {
		case *Claude:
			d.tellCommand(n, "command:", o)
			return d.prompt(o, a.Text, "")
		default:
			return a
		}
	case "http":
		return actionOrNil(d.http(n))
	case "write_file":
		return actionOrNil(d.writeFile(n))
	case "foreach":
		return actionOrNil(d.foreach(o, n, s.Path))
	case "goal_seek":
		return actionOrNil(d.goalSeek(n, s.Path))
	case "test":
		return actionOrNil(d.test(o, n, s))
	case "pipeline":
		if t := d.text(n, key); t != nil {
			return &Pipeline{File: t, With: d.with(o)}
		}
	case "workflow", "use", "template":
		return actionOrNil(d.call(o, n, key))
	case "analyze":
		f, _ := stepTable.field("analyze")
		d.warnf(o.keyNode(key), "no-effect", "analyze has no effect: %s", f.inert).Suggest("remove the step")
		return &Analyze{}
	case "handler":
		d.errorf(n, "unsupported", "handler: names a handler of the program it was written for, which does not exist here").
			Suggest("put its commands into a shell: or claude: step")
	default:
		if t := d.text(n, key); t != nil {
			return d.prompt(o, t, key)
		}
	}
	return nil
}

// actionOrNil is an action, or an Action that is nil where there is none.
func actionOrNil[T any, P interface {
	*T
	Action
}](a P) Action {
	if a == nil {
		return nil
	}
	return a
}

// legacyCommand reads the text of command:, which is a prompt, or says itself
// what it is: "claude: /review", "shell: make". Nil after an error.
func (d *decoder) legacyCommand(n *node) Action {
	if !d.isText(n, "command") {
		return nil
	}
	text := n.text
	if rest, ok := strings.CutPrefix(text, "shell:"); ok {
		if t := d.parsed(n, strings.TrimSpace(rest)); t != nil {
			return &Shell{Text: t}
		}
		return nil
	}
	if rest, ok := strings.CutPrefix(text, "claude:"); ok {
		text = strings.TrimSpace(rest)
	} else {
		text = slashed(text)
	}
	if t := d.parsed(n, text); t != nil {
		return &Claude{Text: t}
	}
	return nil
}

// actionless is a step without an action key: a validation of its own, a
// prompt in the legacy form, or a mistake.
func (d *decoder) actionless(o *object, s *Step) {
	if n := o.take("validate"); n != nil {
		s.Action = actionOrNil(d.validate(n, s.Path))
		return
	}
	names := slices.AppendSeq(append(slices.Clone(actionKeys), "validate"), maps.Keys(d.file.Agents))
	if mistaken, near := o.mistaken(names, foreignActions); mistaken != nil {
		d.errorf(mistaken, "no-action", "this step does nothing: it has no action, and %q is no key of a step", mistaken.text).
			Suggest("%s", cmp.Or(instead[mistaken.text], fmt.Sprintf("did you mean %q?", near)))
		o.skip(mistaken.text)
		return
	}
	if n := o.take("name"); n != nil && n.scalar() {
		d.namedPrompt(o, n, s)
		return
	}
	if key, text := o.asAgent(); key != nil {
		d.errorf(key, "no-action", "this step does nothing: it has no action, and %q is no key of a step", key.text).Suggest("%s", text)
		o.skip("agent", "prompt")
		return
	}
	p := d.errorf(o.n, "no-action", "this step does nothing: it has no action")
	p.EndColumn = 0
	p.Suggest("write one of shell, claude, http, write_file, foreach, validate, goal_seek, test, pipeline or workflow")
}

// asAgent finds the keys of others for a step of an agent, and says how such a step is
// written here.
func (o *object) asAgent() (key *node, text string) {
	name, prompt := "claude", "what it is to do"
	for _, q := range o.n.pairs {
		switch {
		case q.key.text != "agent" && q.key.text != "prompt":
			continue
		case !q.val.scalar():
		case q.key.text == "prompt" || strings.ContainsAny(q.val.text, " \n"):
			prompt = short(q.val.text)
		case q.val.text != "":
			name = short(q.val.text)
		}
		if key == nil {
			key = q.key
		}
	}
	text = fmt.Sprintf("the name of the agent is the key of its step: - %s: %q", name, prompt)
	if o.d.file.Agents[name] == nil && builtIn[name] == nil {
		text += fmt.Sprintf(", with %s defined under agents: (bide docs agents)", name)
	}
	return key, text
}

// foreignActions are the keys that others have for an action of ours.
var foreignActions = map[string]string{"run": "shell", "script": "shell", "cmd": "shell", "bash": "shell", "sh": "shell"}

// namedPrompt reads {name: x, args: […]}: the agent's command /x.
func (d *decoder) namedPrompt(o *object, n *node, s *Step) {
	text := slashed(n.text)
	for _, a := range o.strings("args") {
		text += " " + a.text
	}
	text += d.inputsOf(o, s)
	if !o.has("args") && strings.Contains(strings.TrimSpace(n.text), " ") {
		d.warnf(n, "name-as-prompt", "this step has no action, so its name is run as the agent prompt %q", short(text)).
			Suggest("write claude: %s to say so, or add the action that is missing", short(text))
	}
	if t := d.parsed(n, text); t != nil {
		s.Action = &Claude{Text: t}
	}
	if len(o.n.pairs) == 1 {
		d.migration.replace(o.keyNode("name"), "claude")
		d.migration.replace(n, slashed(n.text))
	} else {
		d.migration.liftPrompt(o, n, text)
	}
}

// prompt reads what stands beside an agent's prompt.
func (d *decoder) prompt(o *object, t *template.Text, provider string) Action {
	c := &Claude{Text: t, Provider: provider, Args: texts(o.strings("args"))}
	if v, ok := o.flag("skip_permissions"); ok {
		c.SkipPermissions = &v
		if a := d.file.Agents[provider]; v && a != nil && !a.asksPermissions() {
			d.warnf(o.keyNode("skip_permissions"), "no-effect", "skip_permissions has no effect: the agent %q is not the claude program", provider).
				Suggest("write the option that its program has for this into its command, under agents:")
		}
	}
	d.continueSession(o, c)
	return c
}

// asksPermissions reports whether the agent's program knows how to skip
// permissions: it is claude, or only the run will know what it is.
func (a *Agent) asksPermissions() bool {
	if len(a.Command) == 0 {
		return true
	}
	return a.BuiltIn || len(a.Command[0].Refs()) > 0 || filepath.Base(a.Command[0].String()) == "claude"
}

// with reads the arguments of a pipeline or workflow.
func (d *decoder) with(o *object) []Arg {
	return firstOf(o, []string{"with", "parameters"}, d.args)
}

func (d *decoder) args(n *node, key string) []Arg {
	list := make([]Arg, 0, len(n.pairs))
	for _, p := range d.pairs(n, key, "a map of values", key+": {level: high}") {
		list = append(list, Arg{Name: p.key.text, Pos: p.key.pos, Value: d.deep(p.val)})
	}
	return list
}

func (d *decoder) call(o *object, n *node, key string) *Call {
	if !n.scalar() {
		d.wrong(n, key, "the name of an imported workflow or of a template").Suggest("for example: workflow: deploy, with the import's name under imports")
		return nil
	}
	with := cmp.Or(o.peek("with"), o.peek("parameters"))
	c := &Call{Workflow: n.text, With: d.with(o)}
	d.calls = append(d.calls, pendingCall{c, n, with})
	return c
}

// test reads the old name of a shell step with a repair loop.
func (d *decoder) test(step *object, n *node, s *Step) *Shell {
	if n.scalar() {
		if t := d.text(n, "test"); t != nil {
			return &Shell{Text: t, Test: true}
		}
		return nil
	}
	o, ok := d.object(n, testTable)
	if !ok {
		return nil
	}
	d.liftInto(step, "test", n, map[string]string{"command": "test", "shell": "test"}, "the command and its repairs stand inside test:", "test: COMMAND, with on_failure: beside it")
	defer o.close()
	t := o.text("command", "shell")
	d.nested++
	read(o, "on_failure", &s.OnFailure, func(n *node) *Handler { return d.onFailure(n, s) })
	d.nested--
	if t == nil {
		d.errorf(n, "missing-key", "a test needs a command").Suggest("for example: test: {command: make test}")
		return nil
	}
	return &Shell{Text: t, Test: true}
}
