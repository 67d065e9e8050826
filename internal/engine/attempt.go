package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// attempt makes one attempt of a step: its action, the commits that it has to
// make, the variables that it sets.
func (r *run) attempt(ctx context.Context, p place, s *workflow.Step, path string, n int) (_ action.Result, err error) {
	defer func() {
		// A panic in an action fails that action, not the run.
		if x := recover(); x != nil {
			err = fmt.Errorf("panic in the %s action: %v", s.Action.Kind(), x)
		}
	}()
	commits, err := r.beforeCommits(ctx, p, s)
	if err != nil {
		return action.Result{}, err
	}
	res, err := r.act(ctx, p, s, path, n)
	// Before the commit, whose message may read the output.
	if serr := r.setResult(p, s, res, err); err == nil {
		err = serr
	}
	if err == nil {
		if err = commits.after(ctx, p, s); err != nil {
			err = errors.Join(err, r.setResult(p, s, res, err))
		}
	}
	if r.git {
		commits.variables(ctx, p)
	}
	if err == nil {
		err = r.saveOutputs(p, s, res)
	}
	if err == nil && s.Check != nil {
		err = r.check(ctx, p, s.Check)
	}
	return res, err
}

// act runs the action of a step, made of steps or not.
func (r *run) act(ctx context.Context, p place, s *workflow.Step, path string, n int) (action.Result, error) {
	t := r.span(s.Timeout)
	if s.Retry != nil && s.Retry.Timeout > 0 && (t == 0 || s.Retry.Timeout < t) {
		t = s.Retry.Timeout
	}
	switch s.Action.(type) {
	case *workflow.Shell, *workflow.Claude, *workflow.HTTP, *workflow.WriteFile, *workflow.Analyze:
		return r.leafWithin(ctx, p, s, s.Action, path, n, t)
	}
	if t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: fmt.Sprintf("step %q", label(s)), After: t})
		defer cancel()
	}
	start := time.Now()
	q, err := r.surroundings(ctx, p, s, nil)
	if err != nil {
		return action.Result{Start: start}, &action.InputError{Err: err}
	}
	res, err := r.compound(ctx, q, s, path)
	res.Start, res.Duration = start, time.Since(start)
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			err = cause
		}
	}
	return res, err
}

func (r *run) leaf(ctx context.Context, p place, s *workflow.Step, a workflow.Action, path string, n int) (action.Result, error) {
	return r.leafWithin(ctx, p, s, a, path, n, r.span(s.Timeout))
}

// leafWithin runs a leaf action with a timeout.
func (r *run) leafWithin(ctx context.Context, p place, s *workflow.Step, a workflow.Action, path string, n int, t time.Duration) (action.Result, error) {
	if limit := p.limits[a.Kind()]; limit > 0 && (t == 0 || limit < t) {
		t = limit
	}
	c := &action.Call{Timeout: t}
	at, err := r.addDynamic(ctx, p)
	if err == nil {
		at, err = r.surroundings(ctx, at, s, r.agentEnv(a))
	}
	if err != nil {
		return action.Result{Start: time.Now()}, &action.InputError{Err: err}
	}
	vars := ""
	if r.setsVariables(a) {
		if vars, err = r.varFiles.next(); err != nil {
			return action.Result{Start: time.Now()}, err
		}
		at.env = append(slices.Clip(at.env), "BIDE_OUTPUT="+vars, "PRODIGY_OUTPUT="+vars)
	}
	c.Dir, c.Env, c.Scope = at.dir, at.env, at.view()
	out := r.outputsOf(p, path, n, a)
	c.Stdout, c.Stderr, c.Spill, c.Log = out.stdout, out.stderr, out.spill, out.log
	var res action.Result
	if _, isAgent := a.(*workflow.Claude); isAgent {
		res, err = r.askAgent(ctx, p, a, path, c)
	} else {
		res, err = r.world.Run(ctx, a, c)
	}
	if sh, ok := a.(*workflow.Shell); ok && err != nil {
		err = explainUnset(sh.Text, at.view(), err)
	}
	if cerr := out.close(&res); err == nil {
		err = cerr
	}
	if vars != "" {
		if verr := r.takeVariables(p, vars); err == nil {
			err = verr
		}
	}
	if r.mask.Active() {
		res.Output, res.Stderr = r.mask.Seams(res.Output, leftOut()), r.mask.Seams(res.Stderr, leftOut())
	}
	return res, err
}

// explainUnset adds to the failure of a command which variables of its text
// nothing has set: the shell was given them as they are written, and can make
// nothing of a name with a dot.
func explainUnset(text *template.Text, scope *vars.Scope, err error) error {
	var unset []string
	for _, ref := range text.Refs() {
		if ref.Default || len(ref.Path) < 2 || ref.Path[1].Name == "" || slices.Contains(unset, ref.Name) {
			continue
		}
		if _, set := find(scope, ref.Name); !set {
			unset = append(unset, ref.Name)
		}
	}
	if len(unset) == 0 {
		return err
	}
	return fmt.Errorf("%w; nothing has set ${%s}", err, strings.Join(unset, "}, ${"))
}

// askAgent asks an agent, again after each rate limit: an answer that says
// "later" pauses all agents of the run and uses up no attempt.
func (r *run) askAgent(ctx context.Context, p place, a workflow.Action, path string, c *action.Call) (action.Result, error) {
	c.OnMessage = func(m action.Message) {
		e := event.Event{Type: event.AgentMessage, Phase: p.phase, Step: path, Item: p.item, Index: p.index, Message: m.Text}
		if m.Tool != "" {
			e.Data = data(map[string]any{"tool": m.Tool, "input": r.clip(string(m.Input))})
		}
		r.emit(e)
	}
	for {
		if err := r.await(ctx); err != nil {
			return action.Result{Start: time.Now()}, err
		}
		res, err := r.world.Run(ctx, a, c)
		r.used(p, path, res.Usage)
		var ae *action.AgentError
		if errors.As(err, &ae) && ae.Limited && r.pauseFor(ae) {
			continue
		}
		r.agents.passed()
		return res, err
	}
}

// normal restores the kinds of numbers of a value that came out of JSON.
func normal(m map[string]any) map[string]any {
	if len(m) == 0 {
		return nil
	}
	out, ok := normalJSON(m).(map[string]any)
	if !ok {
		return nil
	}
	return out
}
