package worktree

import (
	"context"
	"fmt"
	"path/filepath"
)

// This file has what a merge queue does in a repository: it makes merges that are on no
// branch, checks them out in a worktree that belongs to nobody, and moves the run's branch
// to a merge that was verified.

// Merged is a merge that was made: its commit, which need not be on a branch, and its tree.
// Aside is as in [MergeResult].
type Merged struct {
	Commit, Tree string
	Aside        []string
}

// MergeUpon merges a commit, which the branch holds, into the commit onto. No branch moves.
// The result is zero if there is nothing to merge. A conflict that is not resolved is a
// *[Conflict].
func (run *Run) MergeUpon(ctx context.Context, onto, commit, branch string, o MergeOptions) (Merged, error) {
	m := merging{run: run, repo: run.repo, tip: commit, branch: branch, into: run.Branch, before: onto, scratch: filepath.Join(run.root, scratchDir), MergeOptions: o}
	err := run.queue.while(ctx, func() error { return m.compute(ctx) })
	if err != nil || m.result == "" {
		return Merged{}, err
	}
	tree, err := run.repo.Tree(ctx, m.result)
	return Merged{m.result, tree, m.aside}, err
}

// UponTarget merges the user's branch into a commit of the run, if the user's branch has
// moved since the run began or since such a merge was last made. No branch moves. The
// result is zero if it has not moved.
func (run *Run) UponTarget(ctx context.Context, onto string) (Merged, error) {
	if run.Target == "" {
		return Merged{}, nil
	}
	at, err := run.repo.refID(ctx, "refs/heads/"+run.Target)
	if err != nil || at == "" || at == run.Base {
		return Merged{}, err
	}
	return run.MergeUpon(ctx, onto, at, run.Target, MergeOptions{Message: fmt.Sprintf("Merge branch '%s' into %s", run.Target, run.Branch)})
}

// Tip gives the commit of the run's branch.
func (run *Run) Tip(ctx context.Context) (string, error) { return run.branchTip(ctx) }

// Land moves the run's branch from one commit to another. Both are on the disk when it
// returns. The run's worktree follows later.
func (run *Run) Land(ctx context.Context, from, to string) error {
	return run.queue.while(ctx, func() error {
		if err := run.detach(ctx); err != nil {
			return err
		}
		run.last = merged{}
		return run.repo.move(ctx, "refs/heads/"+run.Branch, to, from, privateRef(run.ID, "tip"))
	})
}

// Submitted tells the run which files that setup left uncommitted an agent's work deletes.
// commit is what the agent has committed. tip is what may be merged later.
func (a *Agent) Submitted(ctx context.Context, commit, tip string) error {
	gone, err := a.run.tookAway(ctx, a.Base, commit)
	if err != nil || len(gone) == 0 {
		return err
	}
	return a.run.queue.while(ctx, func() error { return a.run.noteGone(ctx, tip, gone) })
}

// Landed deletes the branch of work that is in the run's branch, if it is still at the
// commit.
func (run *Run) Landed(ctx context.Context, branch, commit string) error {
	return run.repo.deleteBranch(ctx, branch, commit)
}

// Has reports whether the repository has a commit.
func (run *Run) Has(ctx context.Context, commit string) (bool, error) {
	return run.repo.Has(ctx, commit)
}

// nobody is the owner of a worktree of the pool in which no item works: what is left in it
// is no work.
const nobody = "\x00checks"

// Checkout gives a worktree for checks, at the commit that agents start from. What is left
// in it is nobody's work. There is one at a time. To give it back, Reset it to its base and
// call Release, or remove it with [Agent.Drop].
func (run *Run) Checkout(ctx context.Context) (*Agent, error) {
	a, err := run.NewAgent(ctx, nobody, 1)
	if err != nil {
		return nil, fmt.Errorf("a worktree for checks: %w", err)
	}
	return a, nil
}
