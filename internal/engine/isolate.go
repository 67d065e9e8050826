package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// isolate has the steps of the run where they are isolated, if they are to be, and
// sets what is known of git before the first of them.
func (r *run) isolate(ctx context.Context) error {
	r.gitWork = r.work()
	if r.opt.Part != nil {
		r.gitWork.Shared = r.opt.Part.Git
	}
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
		if err := r.gitWork.Rewind(ctx, r.state.Steps, r.state.Status == event.Running && r.file.Map == nil); err != nil {
			return err
		}
		if err := r.moveIn(ctx); err != nil {
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

// work is what the run has to do with git, which it has asked nothing yet.
func (r *run) work() *gitwork.Work {
	return gitwork.New(gitwork.Options{
		Executor: r.x, Dir: r.opt.Dir, Home: r.dir(), Mode: r.isolation(), Rounds: r.opt.MaxIterations, Yes: r.opt.Yes, Resumed: r.resumed(), Began: r.state.Started,
		Ended: r.state.Status == event.Succeeded || r.state.Status == event.CompletedWithFailures,
		Steps: r.state.Steps, Items: r.state.Items.Counts().Total, Lost: slices.Clone(r.state.LostWork),
		Command: func(ctx context.Context, command *workflow.Shell, dir string) error {
			_, err := r.acts.World.Run(ctx, command, &action.Call{Scope: r.env.Scope, Dir: dir, Env: r.env.Base().List()})
			return err
		},
	})
}

// moveIn has the run in its worktree, which is prepared as the file says.
func (r *run) moveIn(ctx context.Context) error {
	r.env.Move(r.gitWork.Tree.WorkDir)
	r.env.Disinherit(worktree.Elsewhere)
	return r.gitWork.Prepare(ctx)
}
