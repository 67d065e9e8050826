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

func (d *decoder) envMap(n *node, v *EnvVar) {
	o, _ := d.object(n, envValueTable) // it is a map
	defer o.close()
	if o.yes("secret") {
		d.errorf(o.keyNode("secret"), "unsupported", "secret: true belongs to the env of the whole file, not to one here").
			Suggest("write %s under secrets: at the top of the file", v.Name)
	}
	switch {
	case o.has("command"):
		v.Command = o.text("command")
		v.Cache = true
		o.setFlag(&v.Cache, "cache")
	case o.has("condition"):
		v.Condition = o.condition("condition")
		v.WhenTrue = o.text("when_true")
		v.WhenFalse = o.text("when_false")
		if !o.has("when_true") && !o.has("when_false") {
			d.errorf(n, "missing-key", "the variable %q has a condition and no values", v.Name).Suggest("add when_true: and when_false:")
		}
	case o.has("value"):
		v.Text = o.text("value")
	default:
		d.errorf(n, "missing-key", "the variable %q has no value", v.Name).Suggest("write a text, {command: …} or {condition: …, when_true: …, when_false: …}")
	}
}

var providers = []string{"env", "file", "command", "value"}

var secretRef = pattern.Lazy(`^\s*\$\{([A-Za-z_]+):([^}]+)\}\s*$`)

// conventionalName is what people give to an environment variable; a secret
// that is written so means the variable, not the text.
var conventionalName = pattern.Lazy(`^[A-Z_][A-Z0-9_]*$`)

func (d *decoder) secrets(n *node) []Secret {
	var list []Secret
	for _, p := range d.pairs(n, "secrets", "a map of names", "secrets: {TOKEN: '${env:TOKEN}'}") {
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
	if v := o.peek("provider"); v != nil && !v.scalar() {
		name := "of its own kind"
		if len(v.pairs) == 1 && v.pairs[0].val.scalar() {
			name = v.pairs[0].val.text // {custom: NAME}
		}
		d.goodProvider(v, name)
		o.skip("provider", "key", "version")
		return
	}
	s.Provider = o.str("provider")
	switch {
	case s.Provider == "" && o.has("value"):
		s.Provider, s.Key = "value", o.text("value")
		return
	case s.Provider == "":
		d.errorf(n, "missing-key", "the secret %q has no provider", s.Name).Suggest("write provider: env (or file, command) and key:")
		o.skip("key")
		return
	case !d.goodProvider(o.peek("provider"), s.Provider):
		o.skip("key", "version")
		return
	}
	s.Key = o.text("key")
	if s.Key == nil && !o.has("key") {
		d.errorf(n, "missing-key", "the secret %q has no key", s.Name).Suggest("write key: with the name of the variable, file or command")
	}
}

func (d *decoder) goodProvider(n *node, name string) bool {
	if slices.Contains(providers, name) {
		return true
	}
	p := d.errorf(n, "unknown-provider", "there is no provider of secrets %q here", short(name))
	p.Near(name, providers).Or("use env, file or command: {provider: command, key: '%s read …'} runs the store's own command", short(name))
	return false
}

// profiles reads sets of variables: a map of them, or {env: {…}, description}.
func (d *decoder) profiles(n *node) map[string][]EnvVar {
	out := make(map[string][]EnvVar, len(n.pairs))
	for _, p := range d.pairs(n, "profiles", "a map of profiles", "profiles: {ci: {LEVEL: debug}}") {
		name := p.key.text
		out[name] = nil // a profile may be empty
		switch e := p.val.get("env"); {
		case p.val.kind == nullNode:
		case e != nil && e.kind == mapNode:
			o, _ := d.object(p.val, profileTable) // it is a map
			out[name] = d.env(o.take("env"))
			o.str("description")
			o.close()
		case p.val.kind == mapNode:
			vars := p.val.without("description")
			out[name] = d.env(vars)
		default:
			d.wrong(p.val, "the profile "+name, "a map of variables").Suggest("for example: %s: {LEVEL: debug}", name)
		}
	}
	return out
}

// agentConfigs reads the configured agents.
func (d *decoder) agentConfigs(n *node) map[string]*Agent {
	out := make(map[string]*Agent, len(n.pairs))
	for _, p := range d.pairs(n, "agents", "a map of names", "agents: {helper: {command: [helper, '${prompt}']}}") {
		if _, taken := stepTable.field(p.key.text); taken && p.key.text != "claude" {
			d.errorf(p.key, "bad-name", "an agent cannot be called %q, which is a key of steps", p.key.text).Suggest("choose another name")
			continue
		}
		a := &Agent{Name: p.key.text, Pos: p.key.pos, Output: "text"}
		if p.val.kind != mapNode {
			d.agentCommand(p.val, a)
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
	if o.has("first_of") {
		d.chain(o, a)
		return
	}
	if known := BuiltIn(a.Name); known != nil && !o.has("command") {
		a.Command, a.BuiltIn = known.Command, true
		if !o.has("output") {
			a.Output = known.Output
		}
	}
	if v := o.peek("command"); len(a.Command) == 0 && (v == nil || v.kind == nullNode) {
		d.errorf(n, "missing-key", "the agent %q has no command", a.Name).Suggest("for example: command: [%s, '${prompt}']", a.Name)
	}
	if a.SkipPermissions && !a.asksPermissions() {
		d.warnf(o.keyNode("skip_permissions"), "no-effect", "skip_permissions has no effect: the agent %q is not the claude program", a.Name).
			Suggest("write the option that its program has for this into command:")
	}
}

// agentCommand reads a command line: a list of words, or one text of plain
// words. No shell is between us and an agent, so quotes mean nothing.
func (d *decoder) agentCommand(n *node, a *Agent) {
	if n.kind == listNode {
		for _, it := range n.items {
			if t := d.text(it, "command"); t != nil {
				a.Command = append(a.Command, t)
			}
		}
		if len(n.items) == 0 {
			d.errorf(n, "empty-action", "the agent %q has an empty command", a.Name).Suggest("for example: command: [%s, '${prompt}']", a.Name)
		}
		return
	}
	if n.kind != strNode || strings.TrimSpace(n.text) == "" {
		d.wrong(n, "command", "a list of words").Suggest("for example: command: [%s, '${prompt}']", a.Name)
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
