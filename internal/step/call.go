package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// call runs an imported workflow as a step.
func (x *Executor) call(ctx context.Context, p Place, a *workflow.Call, path string) (action.Result, error) {
	if a.Target == nil || a.Target.File == nil {
		return action.Result{}, inputError("no workflow is named %q; import it under `imports:` or `workflows:`", a.Workflow)
	}
	args := map[string]any{}
	for _, arg := range slices.Concat(a.Target.With, a.With) {
		v, err := action.Expand(arg.Value, x.View(ctx, &p))
		if err != nil {
			return action.Result{}, inputError("with %s: %w", arg.Name, err)
		}
		args[arg.Name] = v
	}
	return x.Call(ctx, p, a.Target, args, path)
}

// Call runs another file's steps inside this run, with variables of its own.
func (x *Executor) Call(ctx context.Context, p Place, w *workflow.SubWorkflow, args map[string]any, path string) (action.Result, error) {
	q := p
	q.Scope = p.Scope.Child()
	q.Rounds += "/" + path
	for _, prm := range w.File.Params {
		if prm.HasValue {
			q.Scope.SetTrusted(prm.Name, prm.Value)
		}
	}
	var missing []string
	for name, v := range args {
		q.Scope.Set(name, v)
	}
	for _, prm := range w.File.Params {
		if _, ok := args[prm.Name]; prm.Required && !prm.HasValue && !ok {
			missing = append(missing, prm.Name)
		}
	}
	if len(missing) > 0 {
		return action.Result{}, inputError("workflow %s needs the parameters %s: give them under `with:`", w.Name, strings.Join(missing, ", "))
	}
	var err error
	if q.Env, err = x.Values.AddCalled(ctx, q.Env, q.Scope, w.File); err == nil {
		q.Dir, err = x.workingDir(ctx, p, w.WorkingDir)
	}
	if err != nil {
		return action.Result{}, &action.InputError{Err: err}
	}
	t, err := x.shorter(ctx, q, w.Timeouts())
	if err != nil {
		return action.Result{}, inputError("the timeout of workflow %s: %w", w.Name, err)
	}
	err = x.within(ctx, t, "workflow "+w.Name, func(ctx context.Context) error { return x.Sequence(ctx, &q, w.File.Steps) })
	if err != nil {
		return action.Result{ExitCode: 1}, err
	}
	out := map[string]any{}
	for _, name := range w.Outputs {
		v, ok, err := Lookup(x.View(ctx, &q), name)
		if err != nil {
			return action.Result{ExitCode: 1}, inputError("the output %s of workflow %s: %w", name, w.Name, err)
		}
		if ok {
			out[name] = v.V
			p.Scope.SetValue(name, v)
			p.Scope.SetValue(w.Name+"."+name, template.Value{V: v.V, Origin: template.Data})
		}
	}
	res := action.Result{Output: q.lastOutput()}
	if len(out) > 0 {
		res.Output = value.JSON(out)
	}
	return res, nil
}

// shorter is the shorter of two timeouts, of which either may be none.
func (x *Executor) shorter(ctx context.Context, p Place, of [2]workflow.Duration) (time.Duration, error) {
	t, err := x.Span(ctx, &p, of[0])
	other, oerr := x.Span(ctx, &p, of[1])
	if t == 0 || other > 0 && other < t {
		t = other
	}
	return t, errors.Join(err, oerr)
}
