package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/retry"
)

// Run runs an agent for an item.
func (x *Map) Run(ctx context.Context, at *mapper.Attempt, e *mapper.Ending) {
	a := &attempt{Agent: gitwork.Agent{Item: at.Item, Attempt: at.Number, Label: at.Label, Start: at.Start}, past: x.takePast(at.Item.Index)}
	err := x.elsewhere(ctx, a)
	if errors.Is(err, errNotMerged) {
		err = x.agent(ctx, a, at)
	}
	e.Result, e.Recorded, e.Used = a.Result, a.Recorded, a.used
	if e.Parked = a.Parked; err == nil && e.Parked != nil {
		return
	}
	if err == nil {
		x.counted(&a.Result, cmp.Or(at.Label, a.Item.ID))
		return
	}
	e.Err, e.RetryAfter = step.Cause(err), retryAfter(err)
	e.Failure = *failure.From(e.Err) // its step has a place of its own
	e.Failure.Stdout, e.Failure.Stderr = x.Executor.Tail(e.Failure.Stdout), x.Executor.Tail(e.Failure.Stderr)
	if se, ok := errors.AsType[*step.Error](err); ok {
		e.Step, e.StepLabel = se.Step, se.Label
	}
	e.Interrupted, e.Anew = a.anew || x.Executor.Life.Stopped(ctx, err), a.anew
	_, e.Limited = errors.AsType[*step.LimitError](err)
	if a.anew {
		x.Executor.Note("item %s: %v", items.NameOf(x.Executor.Values.Mask(), a.Item), err)
	}
	e.Shortage = failure.Shortage(err)
	x.timedOut(e, err)
	x.exceeded(e, err)
	if unset, ok := errors.AsType[*step.UnsetError](err); ok && unset.OfItem {
		e.Err = retry.Permanent(e.Err) // no other agent finds more in the item
	}
	if len(a.set) > 0 {
		e.State = func() json.RawMessage { return step.Data(x.Executor.Seal(a.set)) }
	}
}

// errNotMerged says of an item that no machine has merged its work.
var errNotMerged = errors.New("the item is not merged")

// elsewhere takes over an item whose work another machine has merged, which could not
// record its end.
func (x *Map) elsewhere(ctx context.Context, a *attempt) error {
	m, err := x.Git.Elsewhere(ctx, a.Item)
	switch {
	case err != nil:
		return err
	case m == nil:
		return errNotMerged
	}
	a.Result = m.Result
	return nil
}

// agent runs the template's steps on an item.
func (x *Map) agent(ctx context.Context, a *attempt, at *mapper.Attempt) error {
	a.used = at.Used
	name, what := cmp.Or(at.Label, at.Item.ID), ""
	if x.timeout > 0 {
		what = "the agent of item " + name
	}
	return x.Executor.Within(step.Finish(ctx), x.timeout, what, func(ctx context.Context) error {
		var budget *step.ItemBudget
		if max := x.Executor.File.Map.Budget; max != nil {
			own, end := context.WithCancelCause(ctx)
			defer end(nil)
			ctx, budget = own, step.NewItemBudget(max, at.Used, name, end)
			defer func() { a.used = budget.Used() }()
			if max.Time > 0 && at.Used.Time >= max.Time {
				return budget.Over()
			}
		}
		it := step.ItemAttempt{Item: a.Item, Attempt: a.Attempt, Recoveries: at.Recoveries, Last: at.Last, Probe: at.Probe}
		p := &a.place
		*p = x.p
		if err := x.Executor.ForItem(p, it, x.Total); err != nil {
			return err
		}
		p.Holding, p.Unmended, p.Budget = at.Holding, &a.unmended, budget
		if x.Executor.File.Policy.Handler != "" {
			mark := p.Scope.Mark()
			defer func() { a.set = p.Scope.Since(mark); p.Scope.Unmark() }()
		}
		leave, err := x.enter(ctx, p, a, at.Last)
		if err != nil {
			return err
		}
		p.Past = a.past
		x.checks.Set(p, at.Last)
		if err := x.printed(ctx, p, a); err != nil {
			return leave(ctx, p, err)
		}
		ended := a.room[:0]
		ended = append(ended, make([]*step.Outcome, len(x.Executor.File.Map.Template.Steps))...)
		if a.Tree != nil {
			p.Mark = func(path string) { x.mark(a, path) }
		}
		err = x.Executor.Template(ctx, p, x.Executor.File.Map.Template, func(i int, out *step.Outcome) {
			ended[i] = out
			if a.Tree == nil || i+1 == len(ended) {
				return
			}
			path := p.Path(x.Executor.File.Map.Template.Steps[i].Path)
			if out.Status == event.Skipped || a.past[path].Over() { // others are marked before their ends are recorded
				x.mark(a, path)
			}
		})
		x.collect(a, ended)
		if a.unmended.Load() { // a step in a foreach of it, perhaps
			a.Result.Kind, a.Result.Unmended = event.Tolerated, true
		}
		if err != nil && a.Tree != nil && !x.Executor.Life.Stopped(ctx, err) && a.past.cutShort(*p, x.Executor.File.Map.Template.Steps, ended) {
			a.anew = true
			err = fmt.Errorf("the interrupted step failed again in its worktree, so the item starts over: %w", err)
		}
		if err == nil {
			err = x.checks.Show(ctx, p, &a.Agent)
		}
		return leave(ctx, p, err)
	})
}

// mark notes in the agent's worktree which step of it has ended.
func (x *Map) mark(a *attempt, path string) {
	if err := a.Tree.Mark(context.Background(), path); err != nil {
		x.Executor.NoteOnce("mark", fmt.Sprintf("the worktree of item %s: %v", items.NameOf(x.Executor.Values.Mask(), a.Item), err))
	}
}

// retryAfter is how long the other side asked to be left alone.
func retryAfter(err error) time.Duration {
	type hint interface {
		error
		RetryAfter() (time.Duration, bool)
	}
	if e, ok := errors.AsType[hint](err); ok {
		if d, ok := e.RetryAfter(); ok {
			return d
		}
	}
	return 0
}

// exceeded applies on_exceeded to an item that has used up its budget.
func (x *Map) exceeded(e *mapper.Ending, err error) {
	if !step.Spent(err) || e.Interrupted {
		return
	}
	switch e.Err = retry.Permanent(err); x.Executor.File.Map.Budget.OnExceeded {
	case "skip":
		e.LeftOut = true
	case "stop":
		e.Halt = "item_budget: on_exceeded: stop"
	}
}

// timedOut applies timeout_action to an agent that took too long.
func (x *Map) timedOut(e *mapper.Ending, err error) {
	act := x.Executor.File.Map.TimeoutAction
	if act == "" || act == "retry" || !errors.As(err, new(*step.TimeoutError)) || step.Spent(err) {
		return
	}
	switch act {
	case "skip":
		e.LeftOut = true
	case "dlq", "fail", "graceful_terminate":
		e.Err = retry.Permanent(err)
	}
	if act == "fail" {
		e.Halt = "timeout_action: fail"
	}
}
