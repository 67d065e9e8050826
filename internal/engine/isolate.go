package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// isolate has the steps of the run where they are isolated, if they are to be, and
// sets what is known of git before the first of them.
func (r *run) isolate(ctx context.Context) error {
	r.gitWork = gitwork.New(gitwork.Options{
		Executor: r.x, Dir: r.opt.Dir, Home: r.dir(), Mode: r.isolation(), Rounds: r.opt.MaxIterations, Yes: r.opt.Yes, Resumed: r.resumed(),
		Steps: r.state.Steps, Items: r.state.Items.Counts().Total, Lost: slices.Clone(r.state.LostWork),
		Command: func(ctx context.Context, command *workflow.Shell, dir string) error {
			_, err := r.acts.World.Run(ctx, command, &action.Call{Scope: r.env.Scope, Dir: dir, Env: r.env.Base().List()})
			return err
		},
	})
	asks, err := r.host.git(ctx)
	if err != nil {
		return err
	}
	if r.x.Git = asks; asks == nil {
		return nil
	}
	if s := r.gitWork.Unsafe(); s != nil {
		r.note("isolation: none: the items write with git (%s) in one working tree: they see each other's files, and meet on git's locks", s.Pos)
	}
	if r.gitWork.Tree != nil {
		r.x.Safe = r.gitWork.Safe
		if err := r.gitWork.Rewind(ctx, r.state.Steps); err != nil {
			return err
		}
		r.env.Move(r.gitWork.Tree.WorkDir)
		if err := r.gitWork.Prepare(ctx); err != nil {
			return err
		}
	}
	if asks.Context {
		r.env.Scope.SetTrusted("step", step.GitContext(worktree.GitContext{}))
		whole := step.GitContext(worktree.GitContext{})
		if known, ok := r.env.Scope.Get("workflow").(map[string]any); ok {
			maps.Copy(whole, known)
		}
		r.env.Scope.SetTrusted("workflow", whole)
	}
	return nil
}

func (r *run) isolation() string {
	if r.opt.Isolation != "" {
		return r.opt.Isolation
	}
	if r.file.Isolation != "" {
		return r.file.Isolation
	}
	return "auto"
}

// mergeBlock runs the merge block of the file, whose steps read vars.
func (r *run) mergeBlock(ctx context.Context, vars map[string]any) error {
	p := r.site()
	p.Scope = r.env.Scope.Child()
	p.Scope.Set("merge", vars)
	return r.phase(ctx, p, "merge", func(ctx context.Context, p step.Site) error {
		return r.x.Block(ctx, p, r.file.Merge, "merge", nil)
	})
}

// enter gives an agent its own worktree, where the run has one, and a function
// that takes over its work and leaves.
func (x *mapRun) enter(ctx context.Context, p *step.Site, a *agentRun) (func(context.Context, error) error, error) {
	r := x.r
	if r.gitWork.Tree == nil {
		return func(_ context.Context, err error) error { return err }, nil
	}
	tree, err := x.worktree(ctx, a)
	if err != nil && a.anew {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the worktree of item %s: %w", items.NameOf(r.env.Mask(), a.Item), err)
	}
	for _, k := range tree.Kept {
		r.note("item %s: %s", items.NameOf(r.env.Mask(), a.Item), k)
	}
	a.Tree = tree
	a.Result.Worktree, a.Result.Branch = tree.Dir, tree.Branch
	p.Dir = tree.WorkDir
	p.Scope.SetTrusted("WORKTREE", p.Dir)
	return func(ctx context.Context, err error) error {
		if err != nil && !a.anew && (x.interrupted(ctx, err) || errors.As(err, new(*step.OutlastedError))) {
			return errors.Join(err, a.Tree.Leave()) // the next life of the run continues in it
		}
		if err == nil && x.queue != nil {
			if err = x.queue.submit(ctx, *p, a); err == nil {
				return nil
			}
		}
		return r.gitWork.Leave(ctx, *p, &a.Agent, err)
	}, nil
}

// worktree gives an agent the worktree in which a former life of the run has
// finished steps of it, else one of its own.
func (x *mapRun) worktree(ctx context.Context, a *agentRun) (*worktree.Agent, error) {
	if a.Attempt > 1 { // what is left of the attempt before goes, and is on record as failed
		if err := x.r.x.Recorder.Sync(ctx); err != nil {
			return nil, err
		}
	}
	if !a.past.finished() {
		return x.r.gitWork.Tree.NewAgent(ctx, a.Item.ID, a.Attempt)
	}
	tree, err := x.r.gitWork.Tree.Continue(ctx, a.Item.ID, a.Attempt)
	if err == nil && tree == nil {
		a.anew = true
		err = errors.New("the worktree with the steps that were finished is gone, and the item begins anew")
	}
	if err != nil {
		return nil, err
	}
	if last := a.past.boundary(x.p, x.r.file.Map.Template.Steps); last != "" {
		// What the next step has committed it shall find as if it had not.
		err = tree.Rewind(ctx, func(path string) bool { return path == last })
	}
	return tree, err
}
