package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// environment is the variables in which steps run. Precedence, low to high:
// inherited, env_files, env, profile, (step env,) secrets.
type environment struct {
	names  []string // in order of definition
	values map[string]template.Value
	// dynamic variables are computed at each use
	dynamic map[string]workflow.EnvVar
	secrets map[string]string
}

func newEnvironment(inherited []string) *environment {
	e := &environment{values: map[string]template.Value{}, dynamic: map[string]workflow.EnvVar{}, secrets: map[string]string{}}
	for _, kv := range inherited {
		name, v, ok := strings.Cut(kv, "=")
		// CLAUDECODE makes an agent CLI refuse to run inside another one.
		if ok && name != "CLAUDECODE" {
			// What was inherited is nobody's code.
			e.set(name, template.Value{V: v, Origin: template.Data})
		}
	}
	return e
}

func (e *environment) set(name string, v template.Value) {
	if _, old := e.values[name]; !old {
		e.names = append(e.names, name)
	}
	e.values[name] = v
}

// list gives the environment as os/exec wants it.
func (e *environment) list() []string {
	out := make([]string, 0, len(e.names)+4)
	for _, n := range e.names {
		out = append(out, n+"="+fmt.Sprint(e.values[n].V))
	}
	return out
}

// setupEnv computes the environment and the secrets, and with them the mask.
func (r *run) setupEnv(ctx context.Context) error {
	f := r.file
	r.declared = map[string]bool{}
	r.env = newEnvironment(r.opt.Environ)
	r.scope = vars.New(&source{r, r.env})
	for _, p := range f.Params {
		if p.HasValue {
			r.scope.SetTrusted(p.Name, p.Value)
		}
	}
	r.setBuiltins()
	for _, file := range f.EnvFiles {
		if err := r.loadEnvFile(file, r.file.Path, func(name string, v template.Value) {
			r.declared[name] = true
			r.env.set(name, v)
		}); err != nil {
			return err
		}
	}
	if err := r.loadSecrets(ctx); err != nil { // which the files may hold
		return err
	}
	if err := r.setAll(ctx, f.Env); err != nil {
		return err
	}
	profile := r.opt.Profile
	if profile == "" {
		profile = f.Profile
	}
	if profile != "" {
		vars, ok := f.Profiles[profile]
		if !ok {
			return fmt.Errorf("%s has no profile %q; it has: %s", f.Path, profile, names(f.Profiles))
		}
		if err := r.setAll(ctx, vars); err != nil {
			return err
		}
	}
	for name, v := range r.env.secrets {
		r.env.set(name, template.Value{V: v, Origin: template.Data})
		r.declared[name] = true
	}
	for _, kv := range [][2]string{{"BIDE_AUTOMATION", "true"}, {"PRODIGY_AUTOMATION", "true"}, {"BIDE_RUN", r.id}} {
		r.env.set(kv[0], template.Value{V: kv[1], Origin: template.Trusted})
	}
	r.base = r.env.list()
	return nil
}

func names[V any](m map[string]V) string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (r *run) setAll(ctx context.Context, list []workflow.EnvVar) error {
	for _, v := range list {
		r.declared[v.Name] = true
		if v.Command != nil && !v.Cache {
			r.env.dynamic[v.Name] = v
		}
		val, err := r.envValue(ctx, v, r.scope)
		if err != nil {
			return fmt.Errorf("%s: env %s: %w", v.Pos, v.Name, err)
		}
		r.env.set(v.Name, exported(val))
	}
	return nil
}

// envValue computes one variable of an env block.
func (r *run) envValue(ctx context.Context, v workflow.EnvVar, sc *vars.Scope) (template.Value, error) {
	switch {
	case v.Command != nil:
		text, err := r.dynamicValue(ctx, v, sc)
		return template.Value{V: text, Origin: template.Data}, err
	case v.Condition != nil:
		ok, err := v.Condition.EvalBool(template.Resolver(sc))
		if err != nil {
			return template.Value{}, err
		}
		text := v.WhenFalse
		if ok {
			text = v.WhenTrue
		}
		return expandEnv(text, sc)
	}
	return expandEnv(v.Text, sc)
}

func expandEnv(t *template.Text, sc *vars.Scope) (template.Value, error) {
	if t == nil {
		return template.Value{V: ""}, nil
	}
	s, origin, err := t.ExpandOrigin(envScope{sc})
	return template.Value{V: s, Origin: origin}, err
}

// envScope is a scope for texts that no shell will see: there ${HOME} is the
// inherited variable, which is left to the shell elsewhere.
type envScope struct{ *vars.Scope }

// Lookup finds a variable, else one of the environment.
func (s envScope) Lookup(name string) (template.Value, bool) {
	if v, ok := s.Scope.Lookup(name); ok || !isEnvName(name) {
		return v, ok
	}
	return s.Env(name)
}

func (r *run) dynamicValue(ctx context.Context, v workflow.EnvVar, sc *vars.Scope) (string, error) {
	res, err := r.world.Run(ctx, &workflow.Shell{Text: v.Command}, &action.Call{
		Scope: sc, Dir: r.dir, Env: r.env.list(), Timeout: 5 * time.Minute,
	})
	return res.Output, err
}

// baseEnv is the environment of a step without an env of its own.
func (r *run) baseEnv() []string {
	if r.base != nil {
		return r.base
	}
	return r.env.list()
}
