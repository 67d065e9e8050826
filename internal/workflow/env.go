package workflow

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
)

var envName = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// env reads environment variables: scalars of any type, {command, cache} and
// {condition, when_true, when_false}.
func (d *decoder) env(n *node) []EnvVar {
	list := make([]EnvVar, 0, len(n.pairs))
	for _, p := range d.pairs(n, "env", "a map of names and values", "env: {PORT: 8080}") {
		v := EnvVar{Name: p.key.text, Pos: p.key.pos}
		if !d.goodEnvName(p.key) {
			continue
		}
		switch {
		case p.val.scalar():
			// A name without a value is the empty text, which hides an inherited one.
			text := p.val.text
			if p.val.kind == nullNode {
				text = ""
			}
			v.Text = d.parsed(p.val, text)
		case p.val.kind == mapNode:
			d.envMap(p.val, &v)
		default:
			d.wrong(p.val, "env."+v.Name, "a text, a number or a boolean").Suggest("join the list into one text")
		}
		if v.Text != nil || v.Command != nil || v.Condition != nil {
			list = append(list, v)
		}
	}
	return list
}

func (d *decoder) goodEnvName(key *node) bool {
	switch {
	case key.text == "" || strings.ContainsAny(key.text, "=\x00"):
		d.errorf(key, "bad-name", "%q cannot be the name of an environment variable", short(key.text)).Suggest("a name has letters, digits and _")
		return false
	case !envName().MatchString(key.text):
		d.warnf(key, "bad-name", "the shell cannot read an environment variable named %q", short(key.text)).
			Suggest("a name has letters, digits and _; ${env.%s} still reads it", short(key.text))
	}
	return true
}

// secretHere refuses a secret where only the environment of the file may have it.
func (d *decoder) secretHere(o *object, key string, n *node, v *EnvVar) {
	if is, _ := d.flag(o, d.resolved(n), key); is {
		d.errorf(o.keyNode(key), "unsupported", "secret: true belongs to the env of the whole file, not to one here").
			Suggest("write %s under secrets: at the top of the file", v.Name)
	}
}

// What an environment variable may be; each has keys of its own.
type (
	envCommand   EnvVar
	envCondition EnvVar
	envPlain     EnvVar
)

func (d *decoder) envMap(n *node, v *EnvVar) {
	o, _ := d.object(n, envValueTable) // it is a map
	defer o.close()
	envValueTable.read(o, v)
	command, condition, plain := (*envCommand)(v), (*envCondition)(v), (*envPlain)(v)
	switch {
	case o.keyOf(command, &v.Command) != nil:
		v.Cache = true
		envValueTable.read(o, command)
	case o.keyOf(condition, &v.Condition) != nil:
		envValueTable.read(o, condition)
		if o.keyOf(condition, &v.WhenTrue) == nil && o.keyOf(condition, &v.WhenFalse) == nil {
			d.errorf(n, "missing-key", "the variable %q has a condition and no values", v.Name).Suggest("add when_true: and when_false:")
		}
	case o.keyOf(plain, &v.Text) != nil:
		envValueTable.read(o, plain)
	default:
		d.errorf(n, "missing-key", "the variable %q has no value", v.Name).Suggest("write a text, {command: …} or {condition: …, when_true: …, when_false: …}")
	}
}

var providers = []string{"env", "file", "command", "value"}

var secretRef = pattern.Lazy(`^\s*\$\{([A-Za-z_]+):([^}]+)\}\s*$`)

// conventionalName is what people give to an environment variable; a secret
// that is written so means the variable, not the text.
var conventionalName = pattern.Lazy(`^[A-Z_][A-Z0-9_]*$`)

func (d *decoder) secrets(n *node, key string) []Secret {
	var list []Secret
	for _, p := range d.pairs(n, key, "a map of names", "secrets: {TOKEN: '${env:TOKEN}'}") {
		if !d.goodEnvName(p.key) {
			continue
		}
		s := Secret{Name: p.key.text, Pos: p.key.pos}
		if p.val.scalar() && p.val.kind != nullNode {
			d.shortSecret(p.val, &s)
		} else {
			d.secretMap(p.val, &s)
		}
		if s.Key != nil {
			list = append(list, s)
		}
	}
	return list
}

// shortSecret reads ${PROVIDER:KEY}, the name of an environment variable, or
// the value itself.
func (d *decoder) shortSecret(n *node, s *Secret) {
	if m := secretRef().FindStringSubmatch(n.text); m != nil {
		if d.goodProvider(n, m[1]) {
			s.Provider, s.Key = m[1], d.parsed(n, m[2])
		}
		return
	}
	s.Provider = "value"
	if conventionalName().MatchString(n.text) && n.kind == strNode {
		s.Provider = "env"
	}
	s.Key = d.parsed(n, n.text)
}

func (d *decoder) secretMap(n *node, s *Secret) {
	if n.kind != mapNode {
		d.wrong(n, "secrets."+s.Name, "a text or a map").Suggest("for example: %s: '${env:%s}'", s.Name, s.Name)
		return
	}
	o, _ := d.object(n, secretTable) // it is a map
	defer o.close()
	var from secretProvider
	secretTable.read(o, &from)
	v := from.val
	if v != nil && !v.scalar() {
		name := "of its own kind"
		if len(v.pairs) == 1 && v.pairs[0].val.scalar() {
			name = v.pairs[0].val.text // {custom: NAME}
		}
		d.goodProvider(v, name)
		secretTable.skip(o, &otherStore{})
		return
	}
	if v != nil {
		s.Provider = d.resolved(v).text
	}
	key, value := (*secretKey)(s), (*secretValue)(s)
	switch {
	case s.Provider == "" && o.keyOf(value, &s.Key) != nil:
		s.Provider = "value"
		secretTable.read(o, value)
		return
	case s.Provider == "":
		d.errorf(n, "missing-key", "the secret %q has no provider", s.Name).Suggest("write provider: env (or file, command) and key:")
		secretTable.skip(o, key)
		return
	case !d.goodProvider(v, s.Provider):
		secretTable.skip(o, &otherStore{})
		return
	}
	secretTable.read(o, key)
	if s.Key == nil && o.keyOf(key, &s.Key) == nil {
		d.errorf(n, "missing-key", "the secret %q has no key", s.Name).Suggest("write key: with the name of the variable, file or command")
	}
}

// Where a secret comes from: a provider and its key, or the value itself.
type (
	secretProvider struct{ written }
	secretKey      Secret
	secretValue    Secret
	otherStore     struct{ key, version *node } // of a provider that there is not
)

func (d *decoder) goodProvider(n *node, name string) bool {
	if slices.Contains(providers, name) {
		return true
	}
	p := d.errorf(n, "unknown-provider", "there is no provider of secrets %q here", short(name))
	p.Near(name, providers).Or("use env, file or command: {provider: command, key: '%s read …'} runs the store's own command", short(name))
	return false
}

// profiles reads sets of variables: a map of them, or {env: {…}, description}.
func (d *decoder) profiles(n *node, key string) map[string][]EnvVar {
	out := make(map[string][]EnvVar, len(n.pairs))
	for _, p := range d.pairs(n, key, "a map of profiles", "profiles: {ci: {LEVEL: debug}}") {
		name := p.key.text
		out[name] = nil // a profile may be empty
		var form profileForm
		profileTable.look(p.val, &form)
		switch e := form.env.val; {
		case p.val.kind == nullNode:
		case e != nil && e.kind == mapNode:
			o, _ := d.object(p.val, profileTable) // it is a map
			var own profile
			profileTable.read(o, &own)
			out[name] = own.env
			o.close()
		case p.val.kind == mapNode:
			vars := *p.val
			vars.pairs = slices.DeleteFunc(slices.Clone(vars.pairs), func(q pair) bool { return q.key == form.description.key })
			out[name] = d.env(&vars)
		default:
			d.wrong(p.val, "the profile "+name, "a map of variables").Suggest("for example: %s: {LEVEL: debug}", name)
		}
	}
	return out
}

// profile is a set of variables with a description, which is for people; profileForm says
// whether it is written with the two as keys.
type (
	profile struct {
		env         []EnvVar
		description string
	}
	profileForm struct{ env, description written }
)

// agentConfigs reads the configured agents.
func (d *decoder) agentConfigs(n *node, key string) map[string]*Agent {
	out := make(map[string]*Agent, len(n.pairs))
	for _, p := range d.pairs(n, key, "a map of names", "agents: {helper: {command: [helper, '${prompt}']}}") {
		if _, taken := stepTable.field(p.key.text); taken && builtIn[p.key.text] == nil {
			d.errorf(p.key, "bad-name", "an agent cannot be called %q, which is a key of steps", p.key.text).Suggest("choose another name")
			continue
		}
		a := &Agent{Name: p.key.text, Pos: p.key.pos, Output: "text"}
		if p.val.kind != mapNode {
			d.agentCommand(p.key.text, p.val, a)
		} else {
			d.agentMap(p.val, a)
		}
		if len(a.Command)+len(a.FirstOf) > 0 || d.problems.HasErrors() { // a step that names it is not wrong for that
			out[a.Name] = a
		}
	}
	return out
}

func (d *decoder) agentMap(n *node, a *Agent) {
	o, _ := d.object(n, agentTable) // it is a map
	defer o.close()
	agentTable.read(o, a)
	var several agentChain
	if agentTable.read(o, &several); several.there() {
		d.chain(o, a, several.written)
		return
	}
	one := agentProgram{Agent: a}
	if agentTable.read(o, &one); one.command.val != nil {
		d.agentCommand(one.command.key.text, one.command.val, a)
	}
	if w := one.output; w.val != nil {
		a.Output = strings.ReplaceAll(o.choiceAt(a.Output, w.key.text, w.val), "_", "-")
	}
	if known := BuiltIn(a.Name); known != nil && !one.command.there() {
		a.Command, a.BuiltIn = known.Command, true
		if !one.output.there() {
			a.Output = known.Output
		}
	}
	if len(a.Command) == 0 && one.command.val == nil {
		d.errorf(n, "missing-key", "the agent %q has no command", a.Name).Suggest("for example: command: [%s, '${prompt}']", a.Name)
	}
	if a.SkipPermissions && !a.asksPermissions() {
		d.warnf(o.at(&one, &a.SkipPermissions), "no-effect", "skip_permissions has no effect: the agent %q is not the claude program", a.Name).
			Suggest("write the option that its program has for this into command:")
	}
}

// What an agent is: a program, or a chain of others.
type (
	agentProgram struct {
		*Agent
		command, output written
	}
	agentChain struct{ written }
)

// agentCommand reads a command line: a list of words, or one text of plain
// words. No shell is between us and an agent, so quotes mean nothing.
func (d *decoder) agentCommand(key string, n *node, a *Agent) {
	if n.kind == listNode {
		for _, it := range n.items {
			if t := d.text(it, key); t != nil {
				a.Command = append(a.Command, t)
			}
		}
		if len(n.items) == 0 {
			d.errorf(n, "empty-action", "the agent %q has an empty command", a.Name).Suggest("for example: command: [%s, '${prompt}']", a.Name)
		}
		return
	}
	if n.kind != strNode || strings.TrimSpace(n.text) == "" {
		d.wrong(n, key, "a list of words").Suggest("for example: command: [%s, '${prompt}']", a.Name)
		return
	}
	if strings.ContainsAny(n.text, `"'|&;<>()`+"`\\\n") {
		d.errorf(n, "bad-value", "the command of agent %q has quotes or shell characters, and no shell runs it", a.Name).
			Suggest("write it as a list: [sh, -c, …], or one word an entry")
		return
	}
	for _, w := range strings.Fields(n.text) {
		if t := d.parsed(n, w); t != nil {
			a.Command = append(a.Command, t)
		}
	}
}
