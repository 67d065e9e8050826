package workflow

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
)

// actionKey is the row of a key that says what a step does; nil for others.
func (d *decoder) actionKey(key string) *field {
	for _, t := range d.stepTables() {
		if f, ok := t.field(key); ok && f.act != nil {
			return f
		}
	}
	return nil
}

// isAction reports whether a key is one of which a step has exactly one.
func (d *decoder) isAction(key string) bool {
	f := d.actionKey(key)
	return f != nil && !f.alone
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
			Suggest("%s", apart(written))
		o.skip(written...)
		besideActions(o)
		return
	}
	key := written[0]
	f := d.actionKey(key)
	n := o.peek(key)
	o.skip(key)
	d.noteFormer(o, o.keyNode(key))
	if n.kind == nullNode && f.inert == "" {
		d.errorf(o.keyNode(key), "empty-action", "the step's %s is empty", key).Suggest("write what it does behind %s:", key)
		besideActions(o)
		return
	}
	if n.scalar() && f.inert == "" && strings.TrimSpace(n.text) == "" {
		d.errorf(n, "empty-action", "the step's %s is empty", key).Suggest("write what it does behind %s:", key)
		return
	}
	s.Action = f.act(d, o, s, key, n)
}

// apart says how a step with several actions is to be written.
func apart(written []string) string {
	if len(written) == 2 {
		if i := slices.Index(written, "foreach"); i >= 0 {
			return fmt.Sprintf("write what it does for each value as do: [{%s: …}] beside foreach", written[1-i])
		}
	}
	return fmt.Sprintf("make it %d steps", len(written))
}

// besideActions passes over the keys of a step that belong to an action which is wrong.
func besideActions(o *object) {
	stepTable.skip(o, &arguments{}, &loopSteps{}, &Foreach{}, &promptWords{})
}

// The readers of actions, which are nil after an error: a typed nil never leaves them.

func shellAction(d *decoder, _ *object, _ *Step, key string, n *node) Action {
	if t := d.text(n, key); t != nil {
		d.tellKeys(n, "the command")
		return &Shell{Text: t}
	}
	return nil
}

func claudeAction(d *decoder, o *object, _ *Step, key string, n *node) Action {
	if t := d.text(n, key); t != nil {
		return d.prompt(o, t, "")
	}
	return nil
}

// agentAction is the prompt of an agent whose name is the key.
func agentAction(d *decoder, o *object, _ *Step, key string, n *node) Action {
	if t := d.text(n, key); t != nil {
		return d.prompt(o, t, key)
	}
	return nil
}

func commandAction(d *decoder, o *object, _ *Step, key string, n *node) Action {
	a := d.legacyCommand(n, key)
	if c, ok := a.(*Claude); ok {
		d.tellCommand(n, key+":", o)
		return d.prompt(o, c.Text, "")
	}
	return a
}

func pipelineAction(d *decoder, o *object, _ *Step, key string, n *node) Action {
	if t := d.text(n, key); t != nil {
		return &Pipeline{File: t, With: argumentsOf(o).list}
	}
	return nil
}

func callAction(d *decoder, o *object, _ *Step, key string, n *node) Action {
	return actionOrNil(d.call(o, n, key))
}

func analyzeAction(d *decoder, o *object, _ *Step, key string, _ *node) Action {
	d.warnf(o.keyNode(key), "no-effect", "%s has no effect: %s", key, o.row(key).inert).Suggest("remove the step")
	return &Analyze{}
}

func handlerAction(d *decoder, _ *object, _ *Step, key string, n *node) Action {
	d.errorf(n, "unsupported", "%s: names a handler of the program it was written for, which does not exist here", key).
		Suggest("put its commands into a shell: or claude: step")
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
func (d *decoder) legacyCommand(n *node, key string) Action {
	if !d.isText(n, key) {
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
	var alone scoring
	if stepTable.read(o, &alone); alone.check != nil {
		s.Action = actionOrNil(d.validate(alone.check, s.Path))
		return
	}
	var names []string
	for _, t := range d.stepTables() {
		for _, f := range t.fields() {
			if f.act != nil {
				names = append(names, f.key)
			}
		}
	}
	if mistaken, near := o.mistaken(names, foreignActions); mistaken != nil {
		d.errorf(mistaken, "no-action", "this step does nothing: it has no action, and %q is no key of a step", mistaken.text).
			Suggest("%s", cmp.Or(writtenFor(stepTable, mistaken.text, o.n.get(mistaken.text), foreignActions[mistaken.text] != ""), fmt.Sprintf("did you mean %q?", near)))
		o.skip(mistaken.text)
		return
	}
	var p promptName
	stepTable.read(o, &p)
	named := p.name.val != nil && p.name.val.scalar()
	if key, text := o.asAgent(); key != nil {
		d.errorf(key, "no-action", "this step does nothing: it has no action, and %q is no key of a step", key.text).Suggest("%s", text)
		o.skip("agent", "prompt")
		return
	}
	if key := o.stranger(); key != nil && !named && isCommand().MatchString(key.text) && o.n.get(key.text).scalar() {
		d.errorf(key, "no-action", "this step does nothing: it has no action, and %q is no key of a step", key.text).
			Suggest("%s", cmp.Or(writtenFor(stepTable, key.text, o.n.get(key.text), false), asAction(key.text, o.n.get(key.text).text)))
		o.skip(key.text)
		return
	}
	if key := o.stranger(); key != nil && named { // it is what the step was to do, and the name is no prompt
		d.errorf(key, "no-action", "this step does nothing: it has no action, and %q is no key of a step", key.text).
			Suggest("write shell: with the command, or claude: with the prompt")
		return
	}
	if named {
		d.namedPrompt(o, p.name, s)
		return
	}
	problem := d.errorf(o.n, "no-action", "this step does nothing: it has no action")
	problem.EndColumn = 0
	problem.Suggest("write one of shell, claude, http, write_file, foreach, validate, goal_seek, test, pipeline or workflow")
}

// isCommand finds a key that may be the name of a program.
var isCommand = pattern.Lazy(`^[A-Za-z][\w.-]*$`)

// asAction is how a step is written here whose key is no action and whose value is a text.
func asAction(key, text string) string {
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		return "write http: " + short(text)
	}
	return fmt.Sprintf("write shell: %s %s, if that is a command; an agent of this name is defined under agents:", key, short(text))
}

// stranger finds a key that no step has.
func (o *object) stranger() *node {
	for _, q := range o.n.pairs {
		if _, known := o.field(q.key.text); !known {
			return q.key
		}
	}
	return nil
}

// asAgent finds the keys of others for a step of an agent, and says how such a step is
// written here.
func (o *object) asAgent() (key *node, text string) {
	name, prompt := "claude", "what to do"
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
	if strings.Contains(name, "/") { // the program itself
		return key, fmt.Sprintf("write - coder: %q, with agents: {coder: {command: [%s]}} at the top of the file (bide docs agents)", prompt, name)
	}
	text = fmt.Sprintf("the name of the agent is the key of its step: - %s: %q", name, prompt)
	if o.d.file.Agents[name] == nil && builtIn[name] == nil {
		text += fmt.Sprintf(", with %s defined under agents: (bide docs agents)", name)
	}
	return key, text
}

// foreignCommands are the keys that others have for the command of an agent.
var foreignCommands = []string{"cmd", "run", "shell", "exec", "program", "argv", "script"}

// foreignActions are the keys that others have for an action of ours.
var foreignActions = map[string]string{"run": "shell", "script": "shell", "cmd": "shell", "bash": "shell", "sh": "shell", "exec": "shell", "delay": "initial_delay",
	"loop": "foreach", "with_items": "foreach", "each": "foreach", "for_each": "foreach", "for": "foreach"}

// foreignKeys are the keys that others have for keys that are no action. The first that the
// place has is meant.
var foreignKeys = map[string][]string{
	"concurrency": {"max_parallel"}, "parallelism": {"max_parallel"}, "workers": {"max_parallel"}, "threads": {"max_parallel"},
	"tries": {"attempts", "retry"}, "times": {"attempts"}, "count": {"attempts"}, "max": {"max_delay"}, "min": {"initial_delay"}, "wait": {"initial_delay"}, "interval": {"initial_delay"}, "on": {"retry_on"},
	"on_error": {"on_failure"}, "onerror": {"on_failure"}, "rescue": {"on_failure"},
	"timeout": {"agent_timeout"}, "budget": {"item_budget"},
}

// foreignKey is the key of a place that is meant by the key of another tool; "" for none.
func foreignKey(key string, names []string) string {
	for _, ours := range append(foreignKeys[key], foreignActions[key]) {
		if slices.Contains(names, ours) {
			return ours
		}
	}
	return ""
}

// namedPrompt reads {name: x, args: […]}: the agent's command /x.
func (d *decoder) namedPrompt(o *object, name written, s *Step) {
	n := name.val
	text := slashed(n.text)
	var words promptWords
	stepTable.read(o, &words)
	for _, a := range words.list(o) {
		text += " " + a.text
	}
	more := promptInputs{step: s}
	stepTable.read(o, &more)
	text += more.text
	if !words.there() && strings.Contains(strings.TrimSpace(n.text), " ") {
		d.warnf(n, "name-as-prompt", "this step has no action, so its name is run as the agent prompt %q", short(text)).
			Suggest("write claude: %s to say so, or add the action that is missing", short(text))
	}
	if t := d.parsed(n, text); t != nil {
		s.Action = &Claude{Text: t}
	}
	if len(o.n.pairs) == 1 {
		d.migration.replace(name.key, "claude")
		d.migration.replace(n, slashed(n.text))
	} else {
		d.migration.liftPrompt(name, words.written, more.there, text)
	}
}

// prompt reads what is beside an agent's prompt.
func (d *decoder) prompt(o *object, t *template.Text, provider string) Action {
	c := &Claude{Text: t, Provider: provider}
	stepTable.read(o, c)
	var words promptWords
	stepTable.read(o, &words)
	c.Args = texts(words.list(o))
	return c
}

// promptWords are the words that are beside a prompt, and promptName the prompt that
// is the name of a step.
type (
	promptWords struct{ written }
	promptName  struct{ name written }
)

func (w promptWords) list(o *object) []*node {
	if w.val == nil {
		return nil
	}
	return o.stringsAt(w.val, w.key.text)
}

// skipPermissions reads whether an agent asks for permissions.
func (d *decoder) skipPermissions(o *object, key string, n *node, c *Claude) {
	v, ok := d.flag(o, d.resolved(n), key)
	if !ok {
		return
	}
	c.SkipPermissions = &v
	if a := d.file.Agents[c.Provider]; v && a != nil && !a.asksPermissions() {
		d.warnf(o.keyNode(key), "no-effect", "%s has no effect: the agent %q is not the claude program", key, c.Provider).
			Suggest("write the option that its program has for this into its command, under agents:")
	}
}

// asksPermissions reports whether the agent's program knows how to skip
// permissions: it is claude, or only the run will know what it is.
func (a *Agent) asksPermissions() bool {
	if len(a.Command) == 0 {
		return true
	}
	return a.BuiltIn || len(a.Command[0].Refs()) > 0 || filepath.Base(a.Command[0].String()) == "claude"
}

// arguments are those of a step's pipeline or workflow, as a map and one by one.
type arguments struct {
	n    *node
	list []Arg
}

func argumentsOf(o *object) (a arguments) {
	stepTable.read(o, &a)
	return a
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
	with := argumentsOf(o)
	c := &Call{Workflow: n.text, With: with.list}
	d.calls = append(d.calls, pendingCall{c, n, with.n})
	return c
}

// test reads the old name of a shell step with a repair loop.
func (d *decoder) test(step *object, s *Step, key string, n *node) *Shell {
	if n.scalar() {
		if t := d.text(n, key); t != nil {
			return &Shell{Text: t, Test: true}
		}
		return nil
	}
	o, ok := d.object(n, testTable)
	if !ok {
		return nil
	}
	d.liftInto(step, key, n, map[string]string{"command": key, "shell": key}, "the command and its repairs stand inside test:", "test: COMMAND, with on_failure: beside it")
	defer o.close()
	var command commandText
	testTable.read(o, &command)
	d.nested++
	testTable.read(o, s)
	d.nested--
	t := command.text(d)
	if t == nil {
		d.errorf(n, "missing-key", "a test needs a command").Suggest("for example: test: {command: make test}")
		return nil
	}
	return &Shell{Text: t, Test: true}
}

// commandText is a command that is under one of several keys.
type commandText struct{ written }

// text reads it; nil where it is not written, or after an error.
func (c commandText) text(d *decoder) *template.Text {
	if c.val == nil {
		return nil
	}
	return d.text(c.val, c.key.text)
}
