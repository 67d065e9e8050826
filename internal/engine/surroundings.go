package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// workingDir is where a step runs.
func (r *run) workingDir(p place, s *workflow.Step) (string, error) {
	if s.WorkingDir == nil {
		return p.dir, nil
	}
	dir, err := s.WorkingDir.Expand(p.scope)
	if err != nil {
		return "", fmt.Errorf("working_dir: %w", err)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.dir, dir)
	}
	if info, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("working_dir: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("working_dir: %s is no directory", dir)
	}
	return dir, nil
}

// surroundings is the place that a step has with its working_dir, env and
// clear_env, which also hold for the steps inside it. more are variables that
// come before its own.
func (r *run) surroundings(ctx context.Context, p place, s *workflow.Step, more []workflow.EnvVar) (place, error) {
	var err error
	if p.dir, err = r.workingDir(p, s); err != nil {
		return p, err
	}
	if s.ClearEnv {
		p.env, p.own = keepBasics(p.env), &ownEnv{cleared: true}
	}
	env, err := r.withProfile(s.Env, p)
	if err != nil {
		return p, err
	}
	return r.addEnv(ctx, p, slices.Concat(more, env))
}

// withProfile is the env of a step in which an entry `profile: NAME` stands for
// the variables of that profile of the file; its other entries win over them.
// Where the file has no such profile, the entry is a variable like all others.
func (r *run) withProfile(env []workflow.EnvVar, p place) ([]workflow.EnvVar, error) {
	i := slices.IndexFunc(env, func(v workflow.EnvVar) bool { return v.Name == "profile" && v.Text != nil })
	if i < 0 || len(r.file.Profiles) == 0 {
		return env, nil
	}
	name, err := expandEnv(env[i].Text, p.view())
	if err != nil {
		return nil, fmt.Errorf("env profile: %w", err)
	}
	vars, ok := r.file.Profiles[value.Text(name.V)]
	if !ok {
		return env, nil
	}
	return slices.Concat(vars, slices.Delete(slices.Clone(env), i, i+1)), nil
}

// addDynamic computes the variables that are computed at each use.
func (r *run) addDynamic(ctx context.Context, p place) (place, error) {
	for _, v := range r.env.dynamic {
		if _, known := p.own.find(v.Name); known {
			continue // a step around this one has set it
		}
		text, err := r.dynamicValue(ctx, v, p.scope)
		if err != nil {
			return p, fmt.Errorf("env %s: %w", v.Name, err)
		}
		p.env = append(slices.Clip(p.env), v.Name+"="+text)
	}
	return p, nil
}

// addEnv adds variables to the environment of a place. Secrets win over them.
func (r *run) addEnv(ctx context.Context, p place, list []workflow.EnvVar) (place, error) {
	if len(list) == 0 {
		return p, nil
	}
	p.env = slices.Clip(p.env)
	p.own = &ownEnv{parent: p.own, vars: make(map[string]template.Value, len(list))}
	for _, v := range list {
		if _, secret := r.env.secrets[v.Name]; secret {
			continue
		}
		val, err := r.envValue(ctx, v, p.view())
		if err != nil {
			return p, fmt.Errorf("env %s: %w", v.Name, err)
		}
		text := value.Text(val.V)
		if strings.ContainsRune(text, 0) {
			return p, fmt.Errorf("env %s: its value has a NUL byte in it", v.Name)
		}
		p.env = append(p.env, v.Name+"="+text)
		p.own.vars[v.Name] = exported(val)
	}
	return p, nil
}

// leftOut is what stands where the middle of a large output was left out.
var leftOut = pattern.Lazy(`\n?… \d+ bytes left out …\n`)

// agentEnv gives the variables that are configured for an agent.
func (r *run) agentEnv(a workflow.Action) []workflow.EnvVar {
	if c, ok := a.(*workflow.Claude); ok {
		if cfg := r.world.Agents[action.AgentName(c)]; cfg != nil {
			return cfg.Env
		}
	}
	return nil
}

// keepBasics is what is left of an environment that is cleared: without PATH
// and HOME hardly a program starts, and bide's own variables stay.
func keepBasics(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if isBasic(name) {
			out = append(out, kv)
		}
	}
	return out
}

func isBasic(name string) bool {
	return name == "PATH" || name == "HOME" || strings.HasPrefix(name, "BIDE_") || strings.HasPrefix(name, "PRODIGY_")
}
