package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
)

// bare says what a step is that is nothing but a text.
type bare uint8

const (
	barePrompt bare = iota // an agent prompt; a slash is put before it
	bareShell              // a command, or a prompt where it begins with a slash
)

// steps reads a list of steps, one step, or a text.
func (d *decoder) steps(n *node, path string, b bare) []*Step {
	var list []*Step
	for i, it := range n.each() {
		if s := d.step(it, fmt.Sprintf("%s[%d]", path, i), b); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// step reads one step; nil where there is nothing to continue with.
func (d *decoder) step(n *node, path string, b bare) *Step {
	if d.full() {
		return nil
	}
	switch {
	case n.kind == mapNode:
		d.useBuiltIns(n)
		o, _ := d.object(n, d.stepTables()...) // it is a map
		s := d.stepFrom(o, path)
		o.close()
		return s
	case n.kind == nullNode:
		d.errorf(n, "empty-step", "a step of the list is empty").Suggest("remove the dash, or write an action: shell: …")
		return nil
	case n.scalar():
		return d.textStep(n, path, b)
	}
	d.wrong(n, "a step", "a map with an action, or a text").Suggest("for example: - shell: make test")
	return nil
}

// stepTables are the keys of a step: the language's and the agents' names.
func (d *decoder) stepTables() []*table {
	if len(d.file.Agents) == 0 {
		return []*table{stepTable}
	}
	return []*table{stepTable, d.agentKeys()}
}

func (d *decoder) agentKeys() *table {
	if d.agentTable == nil {
		var fs []field
		for name := range d.file.Agents {
			fs = append(fs, field{key: name, typ: tText, sample: "do it", doc: "asks the agent " + name, act: agentAction})
		}
		d.agentTable = newTable("agent_step", "a step").of(func() []field { return fs })
	}
	return d.agentTable
}

// textStep reads a step that is a text.
func (d *decoder) textStep(n *node, path string, b bare) *Step {
	if strings.TrimSpace(n.text) == "" {
		d.errorf(n, "empty-step", "a step of the list is empty").Suggest("remove it, or write an action: shell: …")
		return nil
	}
	s := &Step{Pos: n.pos, Path: path}
	s.Capture = defaultCapture()
	if b == bareShell && !isSlashCommand(n.text) {
		if t := d.text(n, "a command"); t != nil {
			d.tellKeys(n, "the command")
			s.Action = &Shell{Text: t}
		}
	} else if t := d.parsed(n, slashed(n.text)); t != nil {
		if key, _ := keyInText(n.text); key != "" && strings.HasPrefix(n.text, key) {
			d.warnf(n, "key-in-text", "%s: is part of a prompt here, and no key: this step is a text", key).
				Suggest("remove the quotes around it")
		} else {
			d.tellCommand(n, "a text alone", nil)
		}
		s.Action = &Claude{Text: t}
		d.migration.prompt(n)
	}
	if s.Action == nil {
		return nil
	}
	s.Retry = d.stepRetry(nil)
	return s
}

// isSlashCommand tells an agent's command such as "/review it" from a shell
// command, which may also begin with a slash, as in "/bin/true", but then has
// another one.
func isSlashCommand(text string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return strings.HasPrefix(word, "/") && !strings.Contains(word[1:], "/")
}

// commandOrPrompt is what a text does that may be either: a prompt where it begins
// with a slash, else a command.
func commandOrPrompt(t *template.Text) Action {
	if isSlashCommand(t.String()) {
		return &Claude{Text: t}
	}
	return &Shell{Text: t}
}

// slashed puts a slash before a prompt that has none, as in the legacy forms
// a prompt is the name of a command of the agent.
func slashed(prompt string) string {
	if t := strings.TrimSpace(prompt); !strings.HasPrefix(t, "/") {
		return "/" + t
	}
	return prompt
}

// stepFrom reads a step's keys out of a map that may have others.
func (d *decoder) stepFrom(o *object, path string) *Step {
	s := &Step{Pos: o.n.pos, Path: path}
	s.Capture = defaultCapture()
	id := stepID{step: s}
	stepTable.read(o, &id)
	d.action(o, s)
	var p stepPolicy
	stepTable.read(o, &p)
	spec := p.spec
	if w := p.attempts; w.val != nil {
		if spec != nil {
			d.warnf(w.key, "no-effect", "%s has no effect beside retry", w.key.text).Suggest("write it inside retry: as attempts")
		} else {
			spec = &retrySpec{n: w.val}
			spec.attempts(d, w.val, w.key.text)
		}
	}
	stepTable.read(o, s)
	if s.Name == "" && s.ID == "" {
		s.Name = id.text
	}
	d.checks(o, s)
	var old oldStep
	if stepTable.read(o, &old); old.val != nil {
		spec = d.metadata(o, old.key.text, old.val, s, spec)
	}
	if s.Action == nil {
		return nil
	}
	if spec != nil || !contains(s.Action) {
		s.Retry = d.stepRetry(spec)
	}
	return s
}

// Keys of a step that are read before the others, or after them.
type (
	stepID struct {
		step *Step
		text string // what is no identifier is a name for people
	}
	stepPolicy struct {
		spec     *retrySpec
		attempts written
	}
	oldStep struct{ written }
)

// contains reports whether an action is made of steps, which have policies of
// their own: the file's defaults on both would multiply.
func contains(a Action) bool {
	switch a.(type) {
	case *Foreach, *GoalSeek, *Validate, *Call, *Analyze:
		return true
	}
	return false
}

// stepRetry lays a step's policy over the file's defaults. Steps of handlers
// and checks take the defaults only as the base of a policy of their own.
func (d *decoder) stepRetry(spec *retrySpec) *Retry {
	if spec == nil && d.nested > 0 {
		return nil
	}
	return d.resolve(spec.over(d.top))
}

var identifierText = pattern.Lazy(`^[\pL_][\pL\pN_.-]*$`)

// IsVariable says whether a variable can have a name.
func IsVariable(name string) bool {
	return identifierText().MatchString(name) || intText().MatchString(name)
}

// id reads the name of a step in variables.
func (id *stepID) read(o *object, key string, n *node) {
	d := o.d
	if n.scalar() {
		id.text = n.text
	}
	if strings.Contains(d.resolved(n).text, "${") { // another one each time
		d.warnf(n, "bad-name", "%s %q is a name for people here: no ${…} can refer to what has a variable in its name", key, short(d.resolved(n).text)).
			Suggest("write a name without a variable where a later step needs its output")
		return
	}
	id.step.ID = d.identifierAt(o, n, key)
}

// identifierAt reads the name of something that variables refer to.
func (d *decoder) identifierAt(o *object, n *node, key string) string {
	id := o.strAt(n, key)
	if id != "" && !IsVariable(id) {
		d.errorf(n, "bad-name", "%s %q cannot be used in ${…}: a name begins with a letter and has letters, digits, - and _", key, short(id)).
			Suggest("for example: %s: %s", key, nameFrom(id))
		return ""
	}
	d.named(id)
	return id
}

func nameFrom(s string) string {
	out := strings.Trim(regexp.MustCompile(`[^\pL\pN_.-]+`).ReplaceAllString(s, "-"), "-.")
	if r := []rune(out); len(r) > 30 {
		out = string(r[:30])
	}
	if out == "" || !identifierText().MatchString(out) {
		return "step-1"
	}
	return out
}

// stepFailure reads what follows a step that failed.
func (d *decoder) stepFailure(o *object, key string, n *node, s *Step) {
	d.nested++
	defer func() { d.nested-- }()
	h := d.onFailure(n, s)
	if s.OnFailure == nil {
		s.OnFailure = h
	} else {
		d.warnf(o.keyNode(key), "no-effect", "test has an on_failure of its own, which counts").Suggest("keep one of the two")
	}
}

// onExitCode reads what follows a step that ended with one of some exit statuses.
func (d *decoder) onExitCode(o *object, key string, n *node, s *Step) {
	d.nested++
	d.handlersOpen++
	defer func() { d.nested--; d.handlersOpen-- }()
	if n.kind != mapNode {
		o.hint(d.wrong(n, key, "a map of exit statuses"), key)
		return
	}
	s.OnExitCode = make(map[int][]*Step, len(n.pairs))
	for _, p := range n.pairs {
		code, prob := d.integer(p.key, key, 0)
		switch {
		case prob != nil:
			prob.Or("its keys are exit statuses, for example: on_exit_code: {2: {shell: …}}")
		case code > 255:
			d.errorf(p.key, "out-of-range", "there is no exit status %d; they go from 0 to 255", code).Suggest("write a status from 0 to 255")
		default:
			s.OnExitCode[code] = d.steps(p.val, fmt.Sprintf("%s.%s.%d", s.Path, key, code), bareShell)
		}
	}
}

// hookSteps reads the steps of a hook. One written as a map may have both a
// command and a prompt, which are then two steps.
func (d *decoder) hookSteps(n *node, path string) []*Step {
	d.nested++
	defer func() { d.nested-- }()
	two := shellAndPrompt(n)
	if !two.shell.there() || !two.claude.there() {
		return d.steps(n, path, bareShell)
	}
	o, _ := d.object(n, d.stepTables()...) // it is a map
	defer o.close()
	return d.both(o, two, path)
}

// twoActions are a command and a prompt that are beside each other.
type twoActions struct{ shell, claude written }

func shellAndPrompt(n *node) (two twoActions) {
	stepTable.look(n, &two)
	return two
}

// both reads a map with shell: and claude: as two steps in the order in which
// they are written. What is beside them holds for either.
func (d *decoder) both(o *object, two twoActions, path string) []*Step {
	var rest []pair
	for i, p := range o.n.pairs {
		if !o.used[i] {
			rest = append(rest, p)
			o.used[i] = true
		}
	}
	var list []*Step
	for _, p := range rest {
		other := map[*node]*node{two.shell.key: two.claude.key, two.claude.key: two.shell.key}[p.key]
		if other == nil {
			continue
		}
		one := *o.n
		one.pairs = slices.DeleteFunc(slices.Clone(rest), func(q pair) bool { return q.key == other })
		own := &object{d: d, n: &one, tables: o.tables, what: o.what, used: make([]bool, len(one.pairs))}
		if s := d.stepFrom(own, fmt.Sprintf("%s[%d]", path, len(list))); s != nil {
			list = append(list, s)
		}
		own.close()
	}
	return list
}

// autoCommit reads how a step's changes are committed. A commit_config without it
// is reported as having no effect.
func (d *decoder) autoCommit(o *object, key string, n *node, s *Step) {
	switch n = d.resolved(n); {
	case n.kind == mapNode:
		s.AutoCommit = d.commit(n)
	case n.kind != boolNode:
		o.hint(d.wrong(n, key, "true, false or a map"), key)
	case isTrue(n):
		s.AutoCommit = &Commit{}
		var c besideCommit
		if stepTable.read(o, &c); c.n != nil {
			s.AutoCommit = d.commit(c.n)
		}
	default:
		s.NoAutoCommit = true
	}
}

// besideCommit is how a step's changes are committed, beside the key that says that
// they are.
type besideCommit struct{ n *node }

func (d *decoder) commit(n *node) *Commit {
	o, ok := d.object(n, commitTable)
	if !ok {
		return &Commit{}
	}
	defer o.close()
	c := &Commit{}
	commitTable.read(o, c)
	return c
}

// author reads who makes a commit.
func (d *decoder) author(o *object, key string, n *node) string {
	author := o.strAt(n, key)
	if author != "" && !regexp.MustCompile(`^[^<>]+ <[^<>]+>$`).MatchString(author) {
		d.errorf(n, "bad-value", "author %q is not of the form NAME <EMAIL>", short(author)).Suggest("for example: author: 'Build <build@example.org>'")
	}
	return author
}

func texts(ns []*node) []string {
	var out []string
	for _, n := range ns {
		out = append(out, n.text)
	}
	return out
}

// mayFail reads a key that lets a step fail.
func (o *object) mayFail(key string, n *node, s *Step) {
	if v, _ := o.d.flag(o, o.d.resolved(n), key); v {
		s.MayFail = true
	}
}

// failWorkflow reads whether a step's failure ends the workflow, whatever else
// lets it fail: a key beside it, or a repair in on_failure that did not mend it.
func (d *decoder) failWorkflow(o *object, key string, n *node, s *Step) {
	fail, ok := d.flag(o, d.resolved(n), key)
	if !ok {
		return
	}
	h := s.OnFailure
	passes := h != nil && (h.Ignore || h.Rerun && !h.FailWorkflow)
	switch {
	case fail && s.MayFail:
		d.warnf(o.keyNode(key), "contradiction", "fail_workflow: true contradicts the key beside it that lets the step fail; fail_workflow counts").
			Suggest("remove one of the two")
	case fail && passes && !h.LetsPass:
		d.warnf(o.keyNode(key), "contradiction", "fail_workflow: true contradicts on_failure, which lets the step fail; the fail_workflow of the step counts").
			Suggest("remove one of the two")
	}
	s.MayFail = !fail
	switch {
	case !fail || !passes:
	case h.Ignore:
		s.OnFailure = nil
	default:
		h.FailWorkflow, h.LetsPass = true, false
	}
}

// metadata reads the metadata of the oldest form of steps.
func (d *decoder) metadata(step *object, key string, n *node, s *Step, spec *retrySpec) *retrySpec {
	o, ok := d.object(n, metadataTable)
	if !ok {
		return spec
	}
	d.liftInto(step, key, n, map[string]string{"retries": "retry"}, "metadata: has fields of the step", "retry:, timeout:, env: of the step itself")
	defer o.close()
	var r oldRetries
	if metadataTable.read(o, &r); r.val != nil {
		again, _ := (&retrySpec{n: n}).retries(d, r.val, r.key.text)
		if spec != nil {
			d.warnf(r.key, "no-effect", "metadata.retries has no effect beside retry").Suggest("remove it")
		} else {
			spec = again
		}
	}
	var m metadata
	metadataTable.read(o, &m)
	if !s.Timeout.Set {
		s.Timeout = m.timeout
	}
	s.MayFail, s.CommitRequired = s.MayFail || m.mayFail, s.CommitRequired || m.commitRequired
	s.Env = append(m.env, s.Env...)
	return spec
}

// oldRetries is how often a step is tried again, in the oldest form.
type oldRetries struct{ written }

// metadata is what the metadata of a step say of it.
type metadata struct {
	timeout                 Duration
	mayFail, commitRequired bool
	env                     []EnvVar
}
