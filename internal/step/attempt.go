package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// perform makes one attempt of a step: its action, the commits that it has to
// make, the variables that it sets.
func (x *Executor) perform(ctx context.Context, p *Place, s *workflow.Step, path string, n int, res *action.Result) error {
	commits, err := x.beforeCommits(ctx, p, s)
	if err != nil {
		return err
	}
	err = x.act(ctx, p, s, path, n, res)
	if len(res.Output) > Inline && res.StdoutFile == "" {
		if kerr := x.log(p, path, n, res); err == nil {
			err = kerr
		}
	}
	// Before the commit, whose message may read the output.
	if err = x.setResult(ctx, p, s, res, err); err == nil {
		if err = commits.after(ctx, p, s); err != nil {
			err = x.setResult(ctx, p, s, res, err)
		}
	}
	x.gitVariables(ctx, p)
	switch serr := x.saveFile(ctx, p, s, res, err); {
	case err == nil:
		err = serr
	case serr != nil:
		err = errors.Join(err, serr)
	}
	if err == nil {
		err = x.nameOutputs(ctx, p, s, res)
	}
	if err == nil && s.Check != nil {
		err = x.check(ctx, p, s.Check)
	}
	if err == nil && s.Retry != nil && s.Retry.Until != nil { // the values are made for it
		err = s.Retry.Unmet(template.Resolver(x.View(ctx, p)), res.Values())
	}
	return err
}

// log has the output of an attempt in a log, where it is large and in no file.
//
//go:noinline
func (x *Executor) log(p *Place, path string, n int, res *action.Result) (err error) {
	*res, err = x.Actions.Keep(&Call{Address: p.Address, Path: path, Number: n}, *res)
	return err
}

// act runs the action of a step, made of steps or not.
func (x *Executor) act(ctx context.Context, p *Place, s *workflow.Step, path string, n int, res *action.Result) error {
	t, err := x.stepTimeout(ctx, p, s)
	if err != nil {
		res.Start = x.Clock.Now()
		return err
	}
	switch s.Action.(type) {
	case *workflow.Shell, *workflow.Claude, *workflow.HTTP, *workflow.WriteFile, *workflow.Analyze:
		return x.leafWithin(ctx, p, s, s.Action, path, n, t, res)
	}
	start := x.Clock.Now()
	err = x.within(ctx, t, fmt.Sprintf("step %q", s.Label()), func(ctx context.Context) error {
		q, err := x.inside(ctx, *p, s)
		if err != nil {
			return &action.InputError{Err: err}
		}
		*res, err = x.compound(ctx, q, s, path)
		if err != nil && ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				err = cause
			}
		}
		return err
	})
	res.Start, res.Duration = start, x.Clock.Now().Sub(start)
	return err
}

// compound runs an action that is made of steps.
func (x *Executor) compound(ctx context.Context, p Place, s *workflow.Step, path string) (res action.Result, err error) {
	switch a := s.Action.(type) {
	case *workflow.Foreach:
		return x.foreach(ctx, p, a, s.Label(), path)
	case *workflow.Validate:
		res.Incomplete, err = x.validate(ctx, p, a)
		return res, err
	case *workflow.GoalSeek:
		return x.goalSeek(ctx, p, a)
	case *workflow.Call:
		return x.call(ctx, p, a, path)
	case *workflow.Pipeline:
		if x.Pipeline != nil {
			return x.Pipeline(ctx, p, a, path)
		}
	}
	return res, fmt.Errorf("a step of kind %T cannot be run", s.Action)
}

// stepTimeout is the timeout of each attempt of a step.
func (x *Executor) stepTimeout(ctx context.Context, p *Place, s *workflow.Step) (time.Duration, error) {
	t, err := x.Span(ctx, p, s.Timeout)
	if err != nil {
		return 0, inputError("timeout: %w", err)
	}
	if len(s.Timeouts) > 0 {
		t = workflow.ForAttempt(s.Timeouts, p.Tried.Number)
	}
	if s.Retry != nil && s.Retry.Timeout > 0 && (t == 0 || s.Retry.Timeout < t) {
		t = s.Retry.Timeout
	}
	return t, nil
}

// leaf runs an action that is not the step's own: a fallback, a check.
func (x *Executor) leaf(ctx context.Context, p Place, s *workflow.Step, a workflow.Action, path string, n int) (res action.Result, err error) {
	t, err := x.Span(ctx, &p, s.Timeout)
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, inputError("timeout: %w", err)
	}
	err = x.leafWithin(ctx, &p, s, a, path, n, t, &res)
	return res, err
}

// leafWithin runs a leaf action with a timeout. res is what it did.
func (x *Executor) leafWithin(ctx context.Context, p *Place, s *workflow.Step, a workflow.Action, path string, n int, t time.Duration, res *action.Result) error {
	if len(p.Limits) > 0 {
		t = p.bounded(s, a, t)
	}
	dir := p.Dir
	env, err := x.Values.AddDynamic(ctx, p.Env, p.Scope)
	if err == nil {
		dir, env, err = x.around(ctx, p, env, s, x.agentEnv(a))
	}
	if err != nil {
		res.Start = x.Clock.Now()
		return &action.InputError{Err: err}
	}
	stall, err := x.Span(ctx, p, s.Stall)
	if err != nil {
		res.Start = x.Clock.Now()
		return inputError("stall_timeout: %w", err)
	}
	c := &Call{Address: p.Address, Step: s, Path: path, Number: n, Priority: s.Priority, Action: a, Timeout: t, Dir: dir, Quiet: p.Quiet, Listing: p.Listing, Stall: stall}
	c.Scope, c.Environ = x.Values.View(ctx, env, p.Scope), env
	if p.Alone && !p.Quiet {
		c.Alone, c.Read = true, func() bool { return workflow.OutputIsRead(x.File, s) }
	}
	if agent, isAgent := a.(*workflow.Claude); isAgent {
		err = x.askLeaf(ctx, p, c, agent, res)
	} else {
		if _, is := a.(*workflow.HTTP); is { // the results of a map have what its items leave
			c.Unread = p.Index == 0 && !workflow.OutputIsRead(x.File, s)
		}
		if *res, err = x.Attempt(ctx, p, c); res.Cut {
			x.NoteOnce("cut "+path, fmt.Sprintf("step %q: the answer is longer than max_body; the rest of it is left out, as nothing reads it", s.Label()))
		}
	}
	for _, v := range res.Set {
		p.Scope.Set(v[0], v[1])
	}
	return err
}

// askLeaf asks the agent of a step.
func (x *Executor) askLeaf(ctx context.Context, p *Place, c *Call, agent *workflow.Claude, res *action.Result) (err error) {
	switch {
	case !x.handsOver(agent):
	case agent.ContinueSession && !p.Tried.Full && p.Tried.Session != "":
		c.Session = p.Tried.Session
	default:
		c.Summary = p.Tried.Summary
	}
	*res, err = x.AskAgent(ctx, *p, c)
	x.summed(res, p.Tried.Summary)
	return err
}

// bounded is the timeout of a command, which timeout_config bounds by the
// step's id or name, or by the kind of command.
func (p *Place) bounded(s *workflow.Step, a workflow.Action, t time.Duration) time.Duration {
	if limit := workflow.CommandLimit(p.Limits, s, a); limit > 0 && (t == 0 || limit < t) {
		return limit
	}
	return t
}

// inside is the place that a step has with its working_dir, env and clear_env,
// which also hold for the steps inside it.
func (x *Executor) inside(ctx context.Context, p Place, s *workflow.Step) (Place, error) {
	dir, env, err := x.around(ctx, &p, p.Env, s, nil)
	p.Dir, p.Env = dir, env
	return p, err
}

// around is the directory and the environment of a step at a place, where env is that of
// the place. more are variables that come before the step's own.
func (x *Executor) around(ctx context.Context, p *Place, env environ.Local, s *workflow.Step, more []workflow.EnvVar) (dir string, _ environ.Local, err error) {
	dir = p.Dir
	if s.WorkingDir != nil {
		q := *p
		q.Env = env
		if dir, err = x.workingDir(ctx, q, s.WorkingDir); err != nil {
			return dir, env, err
		}
	}
	if s.ClearEnv {
		env = env.Cleared()
	}
	env, err = x.Values.AddStep(ctx, env, p.Scope, s.EnvOf(p.Tried.Number), more)
	return dir, env, err
}

// workingDir is where a step runs.
func (x *Executor) workingDir(ctx context.Context, p Place, text *template.Text) (string, error) {
	if text == nil {
		return p.Dir, nil
	}
	dir, err := text.Expand(x.View(ctx, &p))
	if err == nil {
		err = x.Actions.IsDir(ctx, p.File(text, dir))
		dir = p.File(text, dir).Full()
	}
	if err != nil {
		return "", fmt.Errorf("working_dir: %w", err)
	}
	return dir, nil
}

// File is a file that a text names where the steps of p run.
func (p Place) File(text *template.Text, path string) files.Name {
	return files.Name{Dir: p.Dir, Path: path, ByData: p.namesData(text)}
}

// agentEnv gives the variables that are configured for an agent.
func (x *Executor) agentEnv(a workflow.Action) []workflow.EnvVar {
	if cfg := x.AgentConfigs[agentName(a)]; cfg != nil {
		return cfg.Env
	}
	return nil
}
