package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// perform makes one attempt of a step: its action, the commits that it has to
// make, the variables that it sets.
func (x *Executor) perform(ctx context.Context, p Site, s *workflow.Step, path string, n int) (action.Result, error) {
	commits, err := x.beforeCommits(ctx, p, s)
	if err != nil {
		return action.Result{}, err
	}
	res, err := x.act(ctx, p, s, path, n)
	if len(res.Output) > Inline && res.StdoutFile == "" {
		var kerr error
		if res, kerr = x.Actions.Keep(&Call{Place: p.Place, Path: path, Number: n}, res); err == nil {
			err = kerr
		}
	}
	// Before the commit, whose message may read the output.
	if serr := x.setResult(ctx, p, s, res, err); err == nil {
		err = serr
	}
	if err == nil {
		if err = commits.after(ctx, p, s); err != nil {
			err = errors.Join(err, x.setResult(ctx, p, s, res, err))
		}
	}
	commits.variables(ctx, p)
	if err == nil {
		err = x.saveOutputs(ctx, p, s, res)
	}
	if err == nil && s.Check != nil {
		err = x.check(ctx, p, s.Check)
	}
	if err == nil && s.Retry != nil && s.Retry.Until != nil { // the values are made for it
		err = s.Retry.Unmet(template.Resolver(x.View(ctx, p)), res.Values())
	}
	return res, err
}

// act runs the action of a step, made of steps or not.
func (x *Executor) act(ctx context.Context, p Site, s *workflow.Step, path string, n int) (action.Result, error) {
	t, err := x.stepTimeout(ctx, p, s)
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, err
	}
	switch s.Action.(type) {
	case *workflow.Shell, *workflow.Claude, *workflow.HTTP, *workflow.WriteFile, *workflow.Analyze:
		return x.leafWithin(ctx, p, s, s.Action, path, n, t)
	}
	var res action.Result
	start := x.Clock.Now()
	err = x.within(ctx, t, fmt.Sprintf("step %q", s.Label()), func(ctx context.Context) error {
		q, err := x.inside(ctx, p, s, nil)
		if err != nil {
			return &action.InputError{Err: err}
		}
		res, err = x.compound(ctx, q, s, path)
		if err != nil && ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				err = cause
			}
		}
		return err
	})
	res.Start, res.Duration = start, x.Clock.Now().Sub(start)
	return res, err
}

// compound runs an action that is made of steps.
func (x *Executor) compound(ctx context.Context, p Site, s *workflow.Step, path string) (res action.Result, err error) {
	switch a := s.Action.(type) {
	case *workflow.Foreach:
		return x.foreach(ctx, p, a, path)
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
func (x *Executor) stepTimeout(ctx context.Context, p Site, s *workflow.Step) (time.Duration, error) {
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
func (x *Executor) leaf(ctx context.Context, p Site, s *workflow.Step, a workflow.Action, path string, n int) (action.Result, error) {
	t, err := x.Span(ctx, p, s.Timeout)
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, inputError("timeout: %w", err)
	}
	return x.leafWithin(ctx, p, s, a, path, n, t)
}

// leafWithin runs a leaf action with a timeout.
func (x *Executor) leafWithin(ctx context.Context, p Site, s *workflow.Step, a workflow.Action, path string, n int, t time.Duration) (action.Result, error) {
	t = p.bounded(s, a, t)
	at := p
	var err error
	if at.Env, err = x.Values.AddDynamic(ctx, p.Env, p.Scope); err == nil {
		at, err = x.inside(ctx, at, s, x.agentEnv(a))
	}
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, &action.InputError{Err: err}
	}
	stall, err := x.Span(ctx, p, s.Stall)
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, inputError("stall_timeout: %w", err)
	}
	c := &Call{Place: p.Place, Path: path, Number: n, Action: a, Timeout: t, Dir: at.Dir, Quiet: p.Quiet, Stall: stall}
	if !x.Bare {
		c.Scope, c.Env = x.View(ctx, at), at.Env.List()
	}
	if p.Alone && !p.Quiet {
		c.Alone, c.Read = true, func() bool { return workflow.OutputIsRead(x.File, s) }
	}
	if sh, ok := a.(*workflow.Shell); ok && !x.Bare {
		if err := lacksField(sh.Text, c.Scope); err != nil {
			return action.Result{Start: x.Clock.Now()}, err
		}
	}
	var res action.Result
	if agent, isAgent := a.(*workflow.Claude); isAgent {
		x.warnUnset(p, s, agent.Text)
		if agent.ContinueSession {
			c.Session = p.Tried.Session
		}
		res, err = x.AskAgent(ctx, p, c)
	} else {
		res, err = x.Actions.Run(ctx, c)
	}
	if sh, ok := a.(*workflow.Shell); ok && err != nil && !x.Bare {
		err = explainUnset(sh.Text, c.Scope, err)
	}
	for _, v := range res.Set {
		p.Scope.Set(v[0], v[1])
	}
	return res, err
}

// bounded is the timeout of a command, which timeout_config bounds by the
// step's id or name, or by the kind of command.
func (p Site) bounded(s *workflow.Step, a workflow.Action, t time.Duration) time.Duration {
	if limit := workflow.CommandLimit(p.Limits, s, a); limit > 0 && (t == 0 || limit < t) {
		return limit
	}
	return t
}

// inside is the site that a step has with its working_dir, env and clear_env,
// which also hold for the steps inside it. more are variables that come before
// its own.
func (x *Executor) inside(ctx context.Context, p Site, s *workflow.Step, more []workflow.EnvVar) (Site, error) {
	var err error
	if p.Dir, err = x.workingDir(ctx, p, s.WorkingDir); err != nil {
		return p, err
	}
	if s.ClearEnv {
		p.Env = p.Env.Cleared()
	}
	p.Env, err = x.Values.AddStep(ctx, p.Env, p.Scope, s.EnvOf(p.Tried.Number), more)
	return p, err
}

// workingDir is where a step runs.
func (x *Executor) workingDir(ctx context.Context, p Site, text *template.Text) (string, error) {
	if text == nil {
		return p.Dir, nil
	}
	dir, err := text.Expand(x.View(ctx, p))
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
func (p Site) File(text *template.Text, path string) files.Name {
	return files.Name{Dir: p.Dir, Path: path, ByData: p.namesData(text)}
}

// agentEnv gives the variables that are configured for an agent.
func (x *Executor) agentEnv(a workflow.Action) []workflow.EnvVar {
	if cfg := x.AgentConfigs[agentName(a)]; cfg != nil {
		return cfg.Env
	}
	return nil
}

// explainUnset says of the failure of a command which variables of its text nothing
// has set: the shell was given them as they are written. One that could make nothing
// of such a name fails the next time as well, and what it said is no help.
func explainUnset(text *template.Text, scope *vars.Scope, err error) error {
	unset := unsetIn(text.Refs(), scope)
	if len(unset) == 0 {
		return err
	}
	var exit *action.ExitError
	if !errors.As(err, &exit) || !badSubstitution().MatchString(exit.Stderr) {
		return fmt.Errorf("%w; nothing has set ${%s}", err, strings.Join(unset, "}, ${"))
	}
	return &UnsetError{Text: lacking(unset, scope), OfItem: strings.HasPrefix(unset[0], "item.")}
}

// lacksField is the error of a command that names a field which the item does not
// have, where a shell could not but fail of it: none is started.
func lacksField(text *template.Text, scope *vars.Scope) error {
	refs := slices.DeleteFunc(text.Refs(), func(r template.Ref) bool {
		return len(r.Path) < 2 || r.Path[0].Name != "item" || !text.MustExpand(r.Offset)
	})
	if unset := unsetIn(refs, scope); len(unset) > 0 {
		return &UnsetError{Text: lacking(unset, scope), OfItem: true}
	}
	return nil
}

// UnsetError is a command whose text names what nothing has set, and that failed of it.
type UnsetError struct {
	Text   string
	OfItem bool // it is a field that the item does not have: no other attempt at the item has it
}

func (e *UnsetError) Error() string { return e.Text }

// Input is true: another attempt would meet the same.
func (e *UnsetError) Input() bool { return true }

// Class is "input".
func (e *UnsetError) Class() string { return "input" }

// badSubstitution is what shells say of a name that they cannot read.
var badSubstitution = pattern.Lazy(`(?i)bad substitution`)

// unsetIn gives the names that nothing has set, that have no default, and that no shell
// could read: those with members, and of the environment.
func unsetIn(refs []template.Ref, scope *vars.Scope) (unset []string) {
	for _, ref := range refs {
		member := len(ref.Path) > 1 && ref.Path[1].Name != "" || strings.HasPrefix(ref.Name, "env:")
		if !member || ref.Default || slices.Contains(unset, ref.Name) {
			continue
		}
		if _, set, err := Lookup(scope, ref.Name); !set && err == nil {
			unset = append(unset, ref.Name)
		}
	}
	return unset
}

// mostFields is how many fields of an item are listed.
const mostFields = 12

// lacking says what is not there, what the item has, and what may be meant.
func lacking(unset []string, scope *vars.Scope) string {
	said := fmt.Sprintf("nothing has set ${%s}", strings.Join(unset, "}, ${"))
	name, ofItem := strings.CutPrefix(unset[0], "item.")
	if !ofItem {
		return said + "; write ${" + unset[0] + ":-} where it may be missing"
	}
	item, isObject := scope.Get("item").(map[string]any)
	if !isObject {
		return said + ": the item is no object and has no fields; ${item} is all of it"
	}
	return said + ": the item " + FieldsText(slices.Sorted(maps.Keys(item)), name, "write ${"+unset[0]+":-} where it may be missing")
}

// FieldsText says which fields there are, and what may be meant by a name that is
// none of them: one of a similar name, else what instead says.
func FieldsText(fields []string, name, instead string) string {
	hint := instead
	if near := diag.Nearest(name, fields); near != "" {
		hint = fmt.Sprintf("did you mean ${item.%s}? (or %s)", near, instead)
	}
	more := ""
	if n := len(fields) - mostFields; n > 0 {
		fields, more = fields[:mostFields], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("has %s%s; %s", strings.Join(fields, ", "), more, hint)
}

// warnUnset tells once of a step that its prompt names a field that an item does not
// have: the agent is given the name as it is written.
func (x *Executor) warnUnset(p Site, s *workflow.Step, text *template.Text) {
	if p.Index == 0 || x.Bare {
		return
	}
	refs := slices.DeleteFunc(text.Refs(), func(r template.Ref) bool { return r.Path == nil || r.Path[0].Name != "item" })
	if unset := unsetIn(refs, p.Scope); len(unset) > 0 {
		x.NoteOnce("unset "+s.Path, fmt.Sprintf("%s: step %q, first of item %s: %s", s.Pos, s.Label(), p.Item, lacking(unset, p.Scope)))
	}
}

// warnMisspelt tells once of a step that its condition, which does not hold, reads a
// field that the item does not have, where it has one of a similar name.
func (x *Executor) warnMisspelt(p Site, s *workflow.Step) {
	item, ok := p.Scope.Get("item").(map[string]any)
	if p.Index == 0 || x.Bare || !ok {
		return
	}
	maybe := s.When.Optional()
	for i, path := range s.When.Refs() {
		if maybe[i] || path[0].Name != "item" || len(path) < 2 || path[1].Name == "" {
			continue
		}
		if _, has := item[path[1].Name]; has {
			continue
		}
		if near := diag.Nearest(path[1].Name, slices.Sorted(maps.Keys(item))); near != "" {
			x.NoteOnce("when "+s.Path, fmt.Sprintf("%s: step %q is skipped, first of item %s: its when reads item.%s, which is not there; did you mean item.%s? (or write ${item.%[4]s:-} where it may be missing)",
				s.Pos, s.Label(), p.Item, path[1].Name, near))
		}
	}
}
