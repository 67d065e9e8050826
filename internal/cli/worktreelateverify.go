package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/worktree"
)

// lateVerify checks the merges of worktree merge as the merge queue of the run would.
type lateVerify struct {
	*engine.LateMerge
	run  string
	root string                        // of the worktrees of the run
	skip bool                          // --no-verify
	say  func(format string, a ...any) // prints to the user, who may wait for the verify
	left bool                          // the verify was skipped although it was due
}

// lateVerify returns nil for a run without a merge queue.
func (o *worktreeMergeOptions) lateVerify(ctx context.Context, st *journal.Store, j *journal.Journal) (*lateVerify, error) {
	late, err := engine.MergeLate(ctx, j, engine.Options{Store: st})
	if err != nil || late == nil {
		return nil, err
	}
	return &lateVerify{LateMerge: late, run: shortRun(j.Run()), root: gitwork.Root(st.RunDir(j.Run()), j.Run()), skip: o.noVerify, say: o.tell}, nil
}

// find finds the run. If its merges will be verified, find makes sure that it has a worktree:
// the verify uses worktrees beside it.
func (v *lateVerify) find(ctx context.Context, repo *worktree.Repo, o worktree.RunOptions) (*worktree.Run, error) {
	run, err := repo.FindRun(ctx, o)
	if err != nil || v == nil || v.skip || run.Gone {
		return run, err
	}
	if _, err := os.Stat(run.Dir); run.Dir != "" && !errors.Is(err, fs.ErrNotExist) {
		return run, nil
	}
	o.Root = v.root
	switch _, err := repo.OpenRun(ctx, o); {
	case errors.Is(err, fs.ErrNotExist): // it was being removed, and is merged
		return run, nil
	case err != nil:
		return nil, err
	}
	return repo.FindRun(ctx, o)
}

// of returns the check of a merge of the run; nil for none.
func (v *lateVerify) of(repo *worktree.Repo, run *worktree.Run) worktree.Verify {
	if v == nil {
		return nil
	}
	return func(ctx context.Context, commit, tree string) error {
		green, err := v.Verified(ctx, tree)
		if err != nil || green {
			return err
		}
		if v.left = v.skip; v.skip {
			return nil
		}
		v.say("the verify of the merge queue runs on the merge with %s as it is now", cmp.Or(run.Target, "HEAD"))
		if err := v.Verify(ctx, repo, run, commit, tree); err != nil {
			return fmt.Errorf("%w; fix that and merge again; to merge without the verify: bide worktree merge %s --no-verify", err, v.run)
		}
		return nil
	}
}
