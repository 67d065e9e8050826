package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// call runs an imported workflow as a step.
func (r *run) call(ctx context.Context, p place, a *workflow.Call, path string) (action.Result, error) {
	if a.Target == nil || a.Target.File == nil {
		return action.Result{}, &action.InputError{Err: fmt.Errorf("no workflow is named %q; import it under `imports:` or `workflows:`", a.Workflow)}
	}
	args := map[string]any{}
	for _, arg := range slices.Concat(a.Target.With, a.With) {
		v, err := action.Expand(arg.Value, p.view())
		if err != nil {
			return action.Result{}, &action.InputError{Err: fmt.Errorf("with %s: %w", arg.Name, err)}
		}
		args[arg.Name] = v
	}
	return r.sub(ctx, p, a.Target, args, path)
}

// sub runs another file's steps inside this run, with variables of its own.
func (r *run) sub(ctx context.Context, p place, w *workflow.SubWorkflow, args map[string]any, path string) (action.Result, error) {
	q := p
	q.scope = p.scope.Child()
	q.at = p.at + "/" + path
	for _, prm := range w.File.Params {
		if prm.HasValue {
			q.scope.SetTrusted(prm.Name, prm.Value)
		}
	}
	var missing []string
	for name, v := range args {
		q.scope.Set(name, v)
	}
	for _, prm := range w.File.Params {
		if _, ok := args[prm.Name]; prm.Required && !prm.HasValue && !ok {
			missing = append(missing, prm.Name)
		}
	}
	if len(missing) > 0 {
		return action.Result{}, &action.InputError{Err: fmt.Errorf("workflow %s needs the parameters %s: give them under `with:`", w.Name, strings.Join(missing, ", "))}
	}
	q, err := r.calledEnv(ctx, q, w.File)
	if err != nil {
		return action.Result{}, &action.InputError{Err: err}
	}
	if w.WorkingDir != nil {
		dir, err := r.workingDir(p, &workflow.Step{WorkingDir: w.WorkingDir})
		if err != nil {
			return action.Result{}, &action.InputError{Err: err}
		}
		q.dir = dir
	}
	for _, d := range []workflow.Duration{w.Timeout, w.File.Timeout} {
		if t := r.span(d); t > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "workflow " + w.Name, After: t})
			defer cancel()
		}
	}
	if err := r.sequence(ctx, q, w.File.Steps); err != nil {
		return action.Result{ExitCode: 1}, err
	}
	out := map[string]any{}
	for _, name := range w.Outputs {
		if v, ok := find(q.scope, name); ok {
			out[name] = v.V
			p.scope.SetValue(name, v)
			p.scope.SetValue(w.Name+"."+name, template.Value{V: v.V, Origin: template.Data})
		}
	}
	res := action.Result{}
	if m, ok := q.scope.Get("last").(map[string]any); ok {
		res.Output = value.Text(m["output"])
	}
	if len(out) > 0 {
		res.Output = value.JSON(out)
	}
	return res, nil
}

// calledEnv is a place with the environment of a called workflow's file: its
// env_files, its env, its profile of the name that the run uses or its own.
func (r *run) calledEnv(ctx context.Context, p place, f *workflow.File) (place, error) {
	for _, file := range f.EnvFiles {
		own := &ownEnv{parent: p.own, vars: map[string]template.Value{}}
		p.env = slices.Clip(p.env)
		if err := r.loadEnvFile(file, f.Path, func(name string, v template.Value) {
			if _, secret := r.env.secrets[name]; !secret {
				own.vars[name] = v
				p.env = append(p.env, name+"="+value.Text(v.V))
			}
		}); err != nil {
			return p, err
		}
		p.own = own
	}
	profile := f.Profile
	if _, has := f.Profiles[r.opt.Profile]; has {
		profile = r.opt.Profile
	}
	return r.addEnv(ctx, p, slices.Concat(f.Env, f.Profiles[profile]))
}

// subWorkflows runs the `workflows:` of a composed file, each after those it
// depends on, those marked parallel at once.
func (r *run) subWorkflows(ctx context.Context) error {
	var todo []*workflow.SubWorkflow
	for _, w := range r.file.Workflows {
		if w.Run {
			todo = append(todo, w)
		}
	}
	done := map[string]bool{}
	for len(todo) > 0 {
		ready, rest := split(todo, done)
		if len(ready) == 0 {
			return fmt.Errorf("the workflows %s wait for each other", subNames(todo))
		}
		if err := r.subBatch(ctx, ready); err != nil {
			return err
		}
		for _, w := range ready {
			done[w.Name] = true
		}
		todo = rest
	}
	return nil
}

// split takes the next workflows to run: the first that is ready, and with it
// every other ready one where all are marked parallel.
func split(todo []*workflow.SubWorkflow, done map[string]bool) (ready, rest []*workflow.SubWorkflow) {
	for _, w := range todo {
		can := !slices.ContainsFunc(w.DependsOn, func(d string) bool { return !done[d] })
		if can && (len(ready) == 0 || w.Parallel && ready[0].Parallel) {
			ready = append(ready, w)
		} else {
			rest = append(rest, w)
		}
	}
	return ready, rest
}

func subNames(list []*workflow.SubWorkflow) string {
	var out []string
	for _, w := range list {
		out = append(out, w.Name)
	}
	return strings.Join(out, ", ")
}

func (r *run) subBatch(ctx context.Context, list []*workflow.SubWorkflow) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, w := range list {
		wg.Go(func() { errs[i] = r.subOne(ctx, w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *run) subOne(ctx context.Context, w *workflow.SubWorkflow) error {
	p := place{r: r, scope: r.scope, dir: r.dir, env: r.base, steps: r.state.Steps}
	args := map[string]any{}
	for name, from := range w.Inputs {
		if v, ok := find(r.scope, from); ok {
			args[name] = v.V
		}
	}
	for _, arg := range w.With {
		v, err := action.Expand(arg.Value, p.scope)
		if err != nil {
			return err
		}
		args[arg.Name] = v
	}
	_, err := r.sub(ctx, p, w, args, "workflows."+w.Name)
	if err != nil && w.ContinueOnError && !r.interrupted(ctx, err) {
		r.note("workflow %s failed and the run goes on (continue_on_error): %v", w.Name, err)
		return nil
	}
	return err
}
