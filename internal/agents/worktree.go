package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/worktree"
)

// enter gives an agent its own worktree, where the run has one, and a function
// that takes over its work and leaves the place in which it was done.
func (x *Map) enter(ctx context.Context, p *step.Place, a *attempt, last *failure.Failure) (func(context.Context, *step.Place, error) error, error) {
	if x.Git.Tree == nil {
		return func(_ context.Context, _ *step.Place, err error) error { return err }, nil
	}
	tree, err := x.worktree(ctx, a, last)
	if err != nil && a.anew {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the worktree of item %s: %w", items.NameOf(x.Executor.Values.Mask(), a.Item), err)
	}
	if err := x.Git.KeepAll(ctx, a.Item.Index, tree.Kept); err != nil {
		return nil, errors.Join(err, tree.Leave())
	}
	for _, k := range tree.Kept {
		// It is a note of the item: that of the run would say so after the item is merged.
		if err := x.Executor.Recorder.Record(event.Event{Type: event.Note, Phase: "map", Item: a.Item.ID, Index: a.Item.Index, Message: k.String()}); err != nil {
			return nil, errors.Join(err, tree.Leave())
		}
	}
	a.Tree = tree
	a.Result.Worktree, a.Result.Branch = tree.Dir, tree.Branch
	p.Dir = tree.WorkDir
	p.Scope.SetTrusted("WORKTREE", p.Dir)
	return func(ctx context.Context, p *step.Place, err error) error {
		if err != nil && !a.anew && (x.Executor.Life.Stopped(ctx, err) || errors.As(err, new(*step.LimitError))) {
			return errors.Join(err, a.Tree.Leave()) // the next life of the run continues in it
		}
		if err == nil && x.queue != nil {
			if err = x.queue.Submit(ctx, *p, &a.Agent); err == nil {
				return nil
			}
		}
		return x.Git.Leave(ctx, *p, &a.Agent, err)
	}, nil
}

// worktree gives an agent the worktree in which a former life of the run has
// finished steps of it, else one of its own. last is how the attempt before it failed.
func (x *Map) worktree(ctx context.Context, a *attempt, last *failure.Failure) (*worktree.Agent, error) {
	if a.Attempt > 1 { // what is left of the attempt before goes, and is on record as failed
		if err := x.Executor.Recorder.Sync(ctx); err != nil {
			return nil, err
		}
	}
	if !a.past.finished() {
		a.past.elsewhere()
		// After a conflict it would have the same one again, and what is requeued is given
		// to the agent on top of what is merged by then.
		if a.Attempt > 1 && (last == nil || last.Class == worktree.ClassConflict) {
			return x.Git.Tree.NewAgentNow(ctx, a.Item.ID, a.Attempt)
		}
		return x.Git.Tree.NewAgent(ctx, a.Item.ID, a.Attempt)
	}
	tree, err := x.Git.Tree.Continue(ctx, a.Item.ID, a.Attempt)
	if err == nil && tree == nil {
		a.anew = true
		err = errors.New("the worktree with the finished steps is gone, so the item starts over")
	}
	if err != nil {
		return nil, err
	}
	if last := a.past.boundary(x.p, x.Executor.File.Map.Template.Steps); last != "" {
		// What the next step has committed it shall find as if it had not.
		err = tree.Rewind(ctx, func(path string) bool { return path == last }, false)
	}
	return tree, err
}
