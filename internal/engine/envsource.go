package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// source answers the scopes of a run for what is made when asked for.
type source struct {
	r   *run
	env *environment
}

// Value gives date:, uuid, file:, env: and cmd: values.
func (s *source) Value(name string) (template.Value, bool) {
	if name == "uuid" {
		return template.Value{V: newUUID(), Origin: template.Trusted}, true
	}
	kind, arg, ok := strings.Cut(name, ":")
	if !ok {
		if rest, isEnv := strings.CutPrefix(name, "env."); isEnv {
			return s.Env(rest)
		}
		return s.declared(name)
	}
	switch kind {
	case "env":
		return s.Env(arg)
	case "date":
		return template.Value{V: strftime(arg, time.Now()), Origin: template.Trusted}, true
	case "file":
		return s.r.fileValue(arg)
	case "cmd":
		return s.r.commandValue(arg)
	case "json":
		return s.r.jsonValue(arg)
	}
	return template.Value{}, false
}

// declared gives the variables of env blocks and secrets, which may be named
// without env.; inherited variables are left to the shell.
func (s *source) declared(name string) (template.Value, bool) {
	if _, ok := s.r.declared[name]; !ok {
		return template.Value{}, false
	}
	return s.Env(name)
}

// Env gives a variable of the environment.
func (s *source) Env(name string) (template.Value, bool) {
	if v, ok := s.env.dynamic[name]; ok {
		text, err := s.r.dynamicValue(context.Background(), v, s.r.scope)
		if err != nil {
			s.r.noteOnce("env "+name, fmt.Sprintf("env %s: %v", name, err))
			return template.Value{}, false
		}
		return template.Value{V: text, Origin: template.Data}, true
	}
	v, ok := s.env.values[name]
	return v, ok
}

// exported is a value of an env block as steps read it. Their shells
// have it in the environment, where it is no code: one that would mean
// something else when pasted is handed over as data, so that "$NAME" is the
// same with us and with the shell.
func exported(v template.Value) template.Value {
	if s, ok := v.V.(string); ok && strings.ContainsAny(s, "$`\"'\\;&|<>()#!\n") {
		v.Origin = template.Data
	}
	return v
}

// ownEnv is the environment of a step and of the steps around it, over that of
// the run.
type ownEnv struct {
	vars    map[string]template.Value
	cleared bool // nothing of what lies under it, but the basics
	parent  *ownEnv
}

// find gives a variable; it is also known where clear_env took it away.
func (o *ownEnv) find(name string) (v template.Value, known bool) {
	for ; o != nil; o = o.parent {
		if v, ok := o.vars[name]; ok {
			return v, true
		}
		if o.cleared && !isBasic(name) {
			return template.Value{}, true
		}
	}
	return v, false
}

// ownSource is the source of a place with an environment of its own.
type ownSource struct {
	r   *run
	own *ownEnv
}

func (s *ownSource) base() *source { return &source{s.r, s.r.env} }

// Value gives what the source of the run gives, and the place's own variables.
func (s *ownSource) Value(name string) (template.Value, bool) {
	kind, arg, ok := strings.Cut(name, ":")
	if ok && kind == "env" {
		return s.Env(arg)
	}
	if rest, isEnv := strings.CutPrefix(name, "env."); isEnv && !ok {
		return s.Env(rest)
	}
	if v, known := s.own.find(name); known && !ok && (v.V != nil || s.r.declared[name]) {
		return v, v.V != nil
	}
	return s.base().Value(name)
}

// Env gives a variable of the environment.
func (s *ownSource) Env(name string) (template.Value, bool) {
	if v, known := s.own.find(name); known {
		return v, v.V != nil
	}
	return s.base().Env(name)
}

// fileValue is ${file:PATH}: a file inside the working directory.
func (r *run) fileValue(path string) (template.Value, bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.noteOnce("file:"+path, fmt.Sprintf("${file:%s}: %v", path, err))
		return template.Value{}, false
	}
	return template.Value{V: strings.TrimRight(string(b), "\n"), Origin: template.Data}, true
}

// jsonValue is ${json:PATH:FILE}: a value out of a JSON file.
func (r *run) jsonValue(arg string) (template.Value, bool) {
	path, file, ok := strings.Cut(arg, ":")
	if !ok {
		return template.Value{}, false
	}
	text, ok := r.fileValue(file)
	if !ok {
		return template.Value{}, false
	}
	doc, err := value.Parse([]byte(fmt.Sprint(text.V)))
	if err != nil {
		r.noteOnce("json:"+arg, fmt.Sprintf("${json:%s}: %s is no JSON: %v", arg, file, err))
		return template.Value{}, false
	}
	at, err := expr.ParsePath(strings.TrimPrefix(path, "$."))
	if err != nil {
		r.noteOnce("json:"+arg, fmt.Sprintf("${json:%s}: %v", arg, err))
		return template.Value{}, false
	}
	v, ok := expr.Walk(doc, at)
	return template.Value{V: v, Origin: template.Data}, ok
}

// commandValue is ${cmd:TEXT}: the output of a command. The text is the
// workflow's own, so it may be a shell text; variables in it are not expanded.
func (r *run) commandValue(text string) (template.Value, bool) {
	out, err := r.output(context.Background(), r.scope, text)
	if err != nil {
		r.noteOnce("cmd:"+text, fmt.Sprintf("${cmd:%s}: %v", text, err))
		return template.Value{}, false
	}
	return template.Value{V: out, Origin: template.Data}, true
}

// output runs a trusted shell text in the run's directory.
func (r *run) output(ctx context.Context, sc *vars.Scope, text string) (string, error) {
	t, err := template.Parse(text)
	if err != nil {
		return "", err
	}
	res, err := r.world.Run(ctx, &workflow.Shell{Text: t}, &action.Call{
		Scope: sc, Dir: r.dir, Env: r.baseEnv(), Timeout: 5 * time.Minute,
	})
	return res.Output, err
}
