package environ

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// Local is the environment of a place in a run: that of the run with what the
// steps around it add. It is a value; to add to it makes another one. What
// programs get is put together when it is asked for.
type Local struct {
	base []string // that of the run
	own  *layer   // what is not the run's; nil for none
}

// layer is the variables of one step around a place.
type layer struct {
	parent  *layer
	vars    map[string]template.Value
	pairs   []string // names and texts in turn, as vars
	list    []string // what programs get of it, beside pairs
	hidden  bool     // only programs read pairs
	cleared bool     // nothing of what lies under it, but the basics
}

// find gives a variable; it is also known where clear_env took it away.
func (o *layer) find(name string) (v template.Value, known bool) {
	for ; o != nil; o = o.parent {
		if v, ok := o.vars[name]; ok {
			return v, true
		}
		for i := len(o.pairs) - 2; i >= 0 && !o.hidden; i -= 2 {
			if o.pairs[i] == name {
				return template.Value{V: o.pairs[i+1], Origin: template.Data}, true
			}
		}
		if o.cleared && !isBasic(name) {
			return template.Value{}, true
		}
	}
	return v, false
}

// Base is the environment of a step without an env of its own.
func (e *Environment) Base() Local { return Local{base: e.base} }

// Of is the environment that a list is, as os/exec wants it.
func Of(list []string) Local { return Local{base: list} }

// List gives the environment as os/exec wants it. It must not be changed.
func (l Local) List() []string {
	if l.own == nil {
		return slices.Clip(l.base)
	}
	return l.own.append(slices.Clone(l.base))
}

// append adds what the layers up to o add, the outermost first.
func (o *layer) append(list []string) []string {
	if o == nil {
		return list
	}
	list = o.parent.append(list)
	if o.cleared {
		list = slices.DeleteFunc(list, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return !isBasic(name)
		})
	}
	list = append(list, o.list...)
	for i := 0; i < len(o.pairs); i += 2 {
		list = append(list, o.pairs[i]+"="+o.pairs[i+1])
	}
	return list
}

// With adds variables, names and values in turn. Texts can read them.
func (l Local) With(pairs ...string) Local {
	l.own = &layer{parent: l.own, pairs: pairs}
	return l
}

// Export is With for what only programs read.
func (l Local) Export(pairs ...string) Local {
	l.own = &layer{parent: l.own, pairs: pairs, hidden: true}
	return l
}

// Cleared leaves the basics: without PATH and HOME hardly a program starts, and
// bide's own variables stay.
func (l Local) Cleared() Local {
	l.own = &layer{parent: l.own, cleared: true}
	return l
}

func isBasic(name string) bool {
	return name == "PATH" || name == "HOME" || strings.HasPrefix(name, "BIDE_") || strings.HasPrefix(name, "PRODIGY_")
}

// Add adds the variables of an env block. Secrets win over them.
func (e *Environment) Add(ctx context.Context, l Local, sc *vars.Scope, list []workflow.EnvVar) (Local, error) {
	if len(list) == 0 {
		return l, nil
	}
	l.own = &layer{parent: l.own, vars: make(map[string]template.Value, len(list))}
	for _, v := range list {
		if _, secret := e.secrets[v.Name]; secret {
			continue
		}
		val, err := e.compute(ctx, v, e.View(ctx, l, sc))
		if err != nil {
			return l, fmt.Errorf("env %s: %w", v.Name, err)
		}
		text := value.Text(val.V)
		if strings.ContainsRune(text, 0) {
			return l, fmt.Errorf("env %s: its value has a NUL byte in it", v.Name)
		}
		l.own.list = append(l.own.list, v.Name+"="+text)
		l.own.vars[v.Name] = exported(val)
	}
	return l, nil
}

// AddStep adds the env of a step. An entry `profile: NAME` in it stands for the
// variables of that profile of the file; its other entries win over them.
// Where the file has no such profile, the entry is a variable like all others.
// more are variables that come before its own.
func (e *Environment) AddStep(ctx context.Context, l Local, sc *vars.Scope, env, more []workflow.EnvVar) (Local, error) {
	profiles := e.opt.File.Profiles
	i := slices.IndexFunc(env, func(v workflow.EnvVar) bool { return v.Name == "profile" && v.Text != nil })
	if i >= 0 && len(profiles) > 0 {
		name, err := expand(env[i].Text, e.View(ctx, l, sc))
		if err != nil {
			return l, fmt.Errorf("env profile: %w", err)
		}
		if vars, ok := profiles[value.Text(name.V)]; ok {
			env = slices.Concat(vars, slices.Delete(slices.Clone(env), i, i+1))
		}
	}
	return e.Add(ctx, l, sc, slices.Concat(more, env))
}

// AddDynamic adds the variables that are computed at each use.
func (e *Environment) AddDynamic(ctx context.Context, l Local, sc *vars.Scope) (Local, error) {
	at := l
	for _, v := range e.dynamic {
		if _, known := l.own.find(v.Name); known {
			continue // a step around this one has set it
		}
		text, err := e.output(ctx, v.Command, e.View(ctx, at, sc))
		if err != nil {
			return l, fmt.Errorf("env %s: %w", v.Name, err)
		}
		l = l.Export(v.Name, text)
	}
	return l, nil
}

// FileValues are the values that the env files of a called workflow give, by name.
func (e *Environment) FileValues(ctx context.Context, f *workflow.File) (map[string]string, error) {
	values := map[string]string{}
	for _, file := range f.EnvFiles {
		if _, err := readFile(ctx, file, f.Path, e.Scope, func(name string, v template.Value) { values[name] = value.Text(v.V) }); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// AddCalled adds the environment of a called workflow's file: its env_files,
// its env, its profile of the name that the run uses or its own.
func (e *Environment) AddCalled(ctx context.Context, l Local, sc *vars.Scope, f *workflow.File) (Local, error) {
	for _, file := range f.EnvFiles {
		own := &layer{parent: l.own, vars: map[string]template.Value{}}
		missing, err := readFile(ctx, file, f.Path, e.Scope, func(name string, v template.Value) {
			if _, secret := e.secrets[name]; !secret {
				own.vars[name] = v
				own.list = append(own.list, name+"="+value.Text(v.V))
			}
		})
		if err != nil {
			return l, err
		}
		if missing != "" {
			e.warn(missing, "%s", missing)
		}
		l.own = own
	}
	profile := f.Profile
	if _, has := f.Profiles[e.opt.Profile]; has {
		profile = e.opt.Profile
	}
	return e.Add(ctx, l, sc, slices.Concat(f.Env, f.Profiles[profile]))
}
