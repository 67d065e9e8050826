package workflow

import (
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
)

// envFiles reads the names of files, or {path, required}.
func (d *decoder) envFiles(n *node, key string) {
	for _, it := range n.each() {
		f, path := EnvFile{Pos: it.pos}, it
		if it.kind == mapNode {
			o, _ := d.object(it, envFileTable) // it is a map
			var at envFilePath
			envFileTable.read(o, &at)
			envFileTable.read(o, &f)
			o.close()
			if path = at.n; path == nil {
				d.errorf(it, "missing-key", "an entry of env_files needs its path").Suggest("for example: env_files: [{path: .env, required: true}]")
				continue
			}
		}
		if path.kind == nullNode {
			continue
		}
		if f.Path = d.text(path, key); f.Path != nil {
			d.file.EnvFiles = append(d.file.EnvFiles, f)
		}
	}
}

// envFilePath is where one of them is.
type envFilePath struct{ n *node }

// envOfFile reads the env block of a whole file. There a variable may also be a
// secret, {secret: true, value: …}, or have a value for each profile,
// {default: …, PROFILE: …}.
type envOfFile struct {
	d        *decoder
	profiles map[string][]EnvVar // those of profiles:
}

func (e *envOfFile) read(n *node) {
	if n.kind != mapNode {
		e.d.file.Env = e.d.env(n) // which says what is wrong with it
		return
	}
	plain := *n
	plain.pairs = nil
	for _, p := range n.pairs {
		var own envForm
		envValueTable.look(p.val, &own)
		switch {
		case own.secret.val != nil && isTrue(own.secret.val):
			e.secret(p)
		case p.val.kind == mapNode && e.perProfile(p.val):
			e.profiled(p, &plain)
		default:
			plain.pairs = append(plain.pairs, p)
		}
	}
	e.d.file.Env = e.d.env(&plain)
}

// secret reads a variable that is never shown.
func (e *envOfFile) secret(p pair) {
	d := e.d
	if !d.goodEnvName(p.key) {
		return
	}
	s := Secret{Name: p.key.text, Pos: p.key.pos}
	var from secretProvider
	secretTable.look(p.val, &from)
	switch {
	case from.there():
		var own envForm
		envValueTable.look(p.val, &own)
		d.secretMap(p.val.without(own.secret.key.text), &s)
	default:
		o, _ := d.object(p.val, envValueTable) // it is a map
		var from envSecret
		envValueTable.read(o, &from)
		switch v := from.value.val; {
		case from.command.there():
			s.Provider, s.Key = "command", from.command.text(d)
		case v == nil:
			d.errorf(p.val, "missing-key", "the secret %q has no value", s.Name).Suggest("for example: %s: {secret: true, value: '${env:%s}'}", s.Name, s.Name)
		case v.scalar() && secretRef().MatchString(v.text):
			d.shortSecret(v, &s)
		default:
			s.Provider, s.Key = "value", from.value.text(d)
		}
		o.close()
	}
	if s.Key != nil {
		d.file.Secrets = append(d.file.Secrets, s)
	}
}

// envForm says what a variable is that is written as a map, and envSecret is one that is
// never shown: true, with its value or the command whose output that is.
type envForm struct{ secret written }

type envSecret struct {
	secret         bool
	cache          bool // means nothing: the command of a secret runs once
	value, command commandText
}

// perProfile reports whether a map has a value for each profile: it has a
// default, or nothing but names of profiles.
func (e *envOfFile) perProfile(n *node) bool {
	if n.get("default") != nil {
		return true
	}
	for _, p := range n.pairs {
		if _, ok := e.profiles[p.key.text]; !ok {
			return false
		}
	}
	return len(n.pairs) > 0
}

// profiled puts a variable into the profiles that it names; its default stays
// in plain. What a profile says itself under profiles: counts more.
func (e *envOfFile) profiled(p pair, plain *node) {
	d := e.d
	for _, q := range p.val.pairs {
		one := *plain
		one.pairs = []pair{{p.key, q.val}}
		name := q.key.text
		if name == "default" {
			plain.pairs = append(plain.pairs, one.pairs...)
			continue
		}
		if _, known := d.file.Profiles[name]; !known && len(e.profiles) > 0 {
			if near := diag.Nearest(name, slices.Collect(maps.Keys(e.profiles))); near != "" {
				d.warnf(q.key, "unknown-profile", "there is no profile %q under profiles:", short(name)).Suggest("did you mean %q?", near)
			}
		}
		value.Put(&d.file.Profiles, name, append(d.env(&one), d.file.Profiles[name]...))
	}
}
