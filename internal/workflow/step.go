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

// step reads one step; nil where there is nothing to go on with.
func (d *decoder) step(n *node, path string, b bare) *Step {
	if d.full() {
		return nil
	}
	switch {
	case n.kind == mapNode:
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
			fs = append(fs, field{key: name, typ: tText, sample: "do it", doc: "asks the agent " + name})
		}
		d.agentTable = newTable("agent_step", "a step", func() []field { return fs })
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
			s.Action = &Shell{Text: t}
		}
	} else if t := d.parsed(n, slashed(n.text)); t != nil {
		d.tellCommand(n, "a text alone", nil)
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
	s.ID = d.identifier(o, "id")
	s.Description = o.str("description")
	d.action(o, s)
	if o.has("name") && s.Name == "" {
		s.Name = o.str("name")
	} else if id := o.peek("id"); id != nil && s.ID == "" && s.Name == "" && id.scalar() {
		s.Name = id.text
	}
	s.When = o.condition("when", "condition", "if")
	s.Timeout = o.positiveDuration("timeout", "timeout_secs")
	d.byAttempt(o, s)
	spec := firstOf(o, []string{"retry", "retry_config"}, d.retrySpec)
	if n := o.take("max_attempts"); n != nil {
		if spec != nil {
			d.warnf(o.keyNode("max_attempts"), "no-effect", "max_attempts has no effect beside retry").Suggest("write it inside retry: as attempts")
		} else {
			spec = &retrySpec{n: n}
			spec.attempts(d, n, "max_attempts")
		}
	}
	d.hooks(o, s)
	d.captures(o, s)
	d.surroundings(o, s)
	d.commits(o, s)
	d.checks(o, s)
	d.leniency(o, s)
	if n := o.take("metadata"); n != nil {
		spec = d.metadata(o, n, s, spec)
	}
	if s.Action == nil {
		return nil
	}
	if spec != nil || !contains(s.Action) {
		s.Retry = d.stepRetry(spec)
	}
	return s
}

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

// identifier reads the name of something that variables refer to.
func (d *decoder) identifier(o *object, key string) string {
	id := o.str(key)
	if key == "id" && strings.Contains(id, "${") { // another one each time
		d.warnf(o.peek(key), "bad-name", "%s %q is a name for people here: no ${…} can refer to what has a variable in its name", key, short(id)).
			Suggest("write a name without a variable where a later step needs its output")
		return ""
	}
	if id != "" && !IsVariable(id) {
		d.errorf(o.peek(key), "bad-name", "%s %q cannot be used in ${…}: a name begins with a letter and has letters, digits, - and _", key, short(id)).
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

// hooks reads what follows a step.
func (d *decoder) hooks(o *object, s *Step) {
	d.nested++
	defer func() { d.nested-- }()
	if n := o.take("on_failure"); n != nil {
		h := d.onFailure(n, s)
		if s.OnFailure == nil {
			s.OnFailure = h
		} else {
			d.warnf(o.keyNode("on_failure"), "no-effect", "test has an on_failure of its own, which counts").Suggest("keep one of the two")
		}
	}
	if n := o.take("on_success"); n != nil {
		s.OnSuccess = d.hookSteps(n, s.Path+".on_success")
	}
	n := o.take("on_exit_code")
	if n == nil {
		return
	}
	d.handlersOpen++
	defer func() { d.handlersOpen-- }()
	if n.kind != mapNode {
		o.hint(d.wrong(n, "on_exit_code", "a map of exit statuses"), "on_exit_code")
		return
	}
	s.OnExitCode = make(map[int][]*Step, len(n.pairs))
	for _, p := range n.pairs {
		code, prob := d.integer(p.key, "on_exit_code", 0)
		switch {
		case prob != nil:
			prob.Or("its keys are exit statuses, for example: on_exit_code: {2: {shell: …}}")
		case code > 255:
			d.errorf(p.key, "out-of-range", "there is no exit status %d; they go from 0 to 255", code).Suggest("write a status from 0 to 255")
		default:
			s.OnExitCode[code] = d.steps(p.val, fmt.Sprintf("%s.on_exit_code.%d", s.Path, code), bareShell)
		}
	}
}

// hookSteps reads the steps of a hook. One written as a map may have both a
// command and a prompt, which are then two steps.
func (d *decoder) hookSteps(n *node, path string) []*Step {
	if n.kind != mapNode || n.get("shell") == nil || n.get("claude") == nil {
		return d.steps(n, path, bareShell)
	}
	o, _ := d.object(n, d.stepTables()...) // it is a map
	defer o.close()
	return d.both(o, path)
}

// both reads a map with shell: and claude: as two steps in the order in which
// they are written. What stands beside them holds for either.
func (d *decoder) both(o *object, path string) []*Step {
	var rest []pair
	for i, p := range o.n.pairs {
		if !o.used[i] {
			rest = append(rest, p)
			o.used[i] = true
		}
	}
	var list []*Step
	for _, p := range rest {
		other := map[string]string{"shell": "claude", "claude": "shell"}[p.key.text]
		if other == "" {
			continue
		}
		one := *o.n
		one.pairs = slices.DeleteFunc(slices.Clone(rest), func(q pair) bool { return q.key.text == other })
		own := &object{d: d, n: &one, tables: o.tables, what: o.what, used: make([]bool, len(one.pairs))}
		if s := d.stepFrom(own, fmt.Sprintf("%s[%d]", path, len(list))); s != nil {
			list = append(list, s)
		}
		own.close()
	}
	return list
}

// surroundings reads where and with what a step runs.
func (d *decoder) surroundings(o *object, s *Step) {
	if n := o.take("env"); n != nil {
		s.Env = append(s.Env, d.env(n)...)
	}
	s.WorkingDir = o.text("working_dir", "cwd")
	s.ClearEnv = o.yes("clear_env")
	s.OutputFile = o.text("output_file")
}

// commits reads what a step does with git.
func (d *decoder) commits(o *object, s *Step) {
	s.CommitRequired = o.yes("commit_required")
	n := o.take("auto_commit")
	if n == nil {
		return // commit_config without it is reported as having no effect
	}
	switch n = d.resolved(n); {
	case n.kind == mapNode:
		s.AutoCommit = d.commit(n)
	case n.kind != boolNode:
		o.hint(d.wrong(n, "auto_commit", "true, false or a map"), "auto_commit")
	case isTrue(n):
		s.AutoCommit = &Commit{}
		read(o, "commit_config", &s.AutoCommit, d.commit)
	}
}

func (d *decoder) commit(n *node) *Commit {
	o, ok := d.object(n, commitTable)
	if !ok {
		return &Commit{}
	}
	defer o.close()
	c := &Commit{
		Message: o.text("message_template", "message"),
		Pattern: o.pattern("message_pattern"),
		Sign:    o.yes("sign"),
		Author:  o.str("author"),
		Include: texts(o.strings("include_files")),
		Exclude: texts(o.strings("exclude_files")),
		Squash:  o.yes("squash"),
	}
	if c.Author != "" && !regexp.MustCompile(`^[^<>]+ <[^<>]+>$`).MatchString(c.Author) {
		d.errorf(o.peek("author"), "bad-value", "author %q is not of the form NAME <EMAIL>", short(c.Author)).Suggest("for example: author: 'Build <build@example.org>'")
	}
	return c
}

func texts(ns []*node) []string {
	var out []string
	for _, n := range ns {
		out = append(out, n.text)
	}
	return out
}

// leniency reads the keys that let a step fail.
func (d *decoder) leniency(o *object, s *Step) {
	for _, key := range []string{"continue_on_error", "allow_failure", "ignore_errors"} {
		if o.yes(key) {
			s.MayFail = true
		}
	}
	if fail, written := o.flag("fail_workflow"); written {
		if fail && s.MayFail {
			d.warnf(o.keyNode("fail_workflow"), "contradiction", "fail_workflow: true contradicts the key beside it that lets the step fail; fail_workflow counts").
				Suggest("remove one of the two")
		}
		s.MayFail = !fail
	}
}

// metadata reads the metadata of the oldest form of steps.
func (d *decoder) metadata(step *object, n *node, s *Step, spec *retrySpec) *retrySpec {
	o, ok := d.object(n, metadataTable)
	if !ok {
		return spec
	}
	d.liftInto(step, "metadata", n, map[string]string{"retries": "retry"}, "metadata: has fields of the step", "retry:, timeout:, env: of the step itself")
	defer o.close()
	if retries, ok := o.integer(0, "retries"); ok {
		if spec != nil {
			d.warnf(o.keyNode("retries"), "no-effect", "metadata.retries has no effect beside retry").Suggest("remove it")
		} else {
			spec = (&retrySpec{n: n}).retries(retries)
		}
	}
	if t := o.positiveDuration("timeout"); t.Set && !s.Timeout.Set {
		s.Timeout = t
	}
	if o.yes("continue_on_error") {
		s.MayFail = true
	}
	if o.yes("commit_required") {
		s.CommitRequired = true
	}
	if e := o.take("env"); e != nil {
		s.Env = append(d.env(e), s.Env...)
	}
	return spec
}
