package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// CannotMerge says that a run was not merged into the user's branch, and what
// to do by hand. Nothing has been changed.
type CannotMerge struct {
	Why     string
	Command string // to be run by hand
}

func (e *CannotMerge) Error() string {
	return "the run is not merged: " + e.Why + "; merge it with `" + e.Command + "`"
}

// MergeCommand gives the command by which the user merges the run.
func (run *Run) MergeCommand() string {
	s := "git merge --no-ff " + run.Branch
	if run.Target != "" {
		s = "git switch " + run.Target + " && " + s
	}
	return "cd " + diag.ShellWord(run.repo.dir) + " && " + s
}

// FinalMerge merges the run's commits into the user's branch, in the user's
// working tree, as `git merge --no-ff` does. It gives a *[CannotMerge], having
// changed nothing, if the user's HEAD is not on the branch that the run started
// from, or uncommitted files are in the way; and a *[Conflict] as Merge does.
//
// The merge is computed first. That it is about to come into the working tree is noted
// under the private name "final"; then the files that differ are written, and then HEAD
// moves. A FinalMerge after one that was cut short finds the note and continues.
func (run *Run) FinalMerge(ctx context.Context, o MergeOptions) (res MergeResult, err error) {
	if err := run.Follow(ctx); err != nil {
		return res, err
	}
	tip, err := run.gather(ctx)
	if err != nil {
		return res, err
	}
	if tip == "" {
		return res, fmt.Errorf("merge run %s: there is no branch %s", run.ID, run.Branch)
	}
	o.Message = cmp.Or(o.Message, "Merge bide run "+run.ID)
	return run.finalMerge(ctx, run.Branch, tip, o)
}

// FinalMergeItem is FinalMerge of work that was kept of an item, in a branch of ours.
func (run *Run) FinalMergeItem(ctx context.Context, branch string, o MergeOptions) (res MergeResult, err error) {
	tip, err := run.repo.commit(ctx, run.repo.dir, "refs/heads/"+branch)
	if err != nil || tip == "" {
		return res, err // it was taken over before
	}
	o.Message = cmp.Or(o.Message, "Merge "+branch)
	return run.finalMerge(ctx, branch, tip, o)
}

func (run *Run) finalMerge(ctx context.Context, branch, tip string, o MergeOptions) (res MergeResult, err error) {
	r := run.repo
	if err := run.endFinal(ctx); err != nil {
		return res, err
	}
	if res.Commits, err = r.countNew(ctx, tip, "HEAD"); err != nil || res.Commits == 0 {
		return res, err
	}
	res.Merged = tip
	if err := run.mayMerge(ctx, tip); err != nil {
		return res, err
	}
	old, err := r.commit(ctx, r.dir, "HEAD")
	if err != nil {
		return res, err
	}
	m := merging{repo: r, tip: tip, branch: branch, into: run.Target, before: old, scratch: filepath.Join(cmp.Or(run.root, r.common), scratchDir), MergeOptions: o}
	err = m.compute(ctx)
	if err == nil && m.result != "" && o.Verify != nil {
		var tree string
		if tree, err = r.Tree(ctx, m.result); err == nil {
			err = o.Verify(ctx, m.result, tree)
		}
	}
	if err == nil && m.result != "" {
		if err = r.move(ctx, privateRef(run.ID, "final"), m.result, strings.Repeat("0", len(old))); err == nil {
			err = run.endFinal(ctx)
		}
	}
	if err == nil {
		res.Commit, res.Resolved = m.result, m.resolved
	}
	if conflict := (*Conflict)(nil); err != nil && !errors.As(err, &conflict) && !errors.As(err, new(*CannotMerge)) {
		err = fmt.Errorf("merge run %s (merge it by hand with `%s`): %w", run.ID, run.MergeCommand(), err)
	}
	return res, err
}

// endFinal brings the merge that is noted into the user's working tree; nothing where
// none is. Where that cannot be done, the files are put back as they were.
func (run *Run) endFinal(ctx context.Context) error {
	r := run.repo
	to, err := r.commit(ctx, r.dir, privateRef(run.ID, "final"))
	if err != nil || to == "" {
		return err
	}
	old, err := r.commit(ctx, r.dir, to+"^1")
	if err != nil {
		return err
	}
	head, err := r.commit(ctx, r.dir, "HEAD")
	if err != nil {
		return err
	}
	switch in, err := r.isAncestor(ctx, to, "HEAD"); {
	case err != nil:
		return err
	case in:
		return run.forgetFinal(ctx)
	}
	refused := error(nil)
	if head == old {
		refused = r.carry(ctx, r.dir, old, to, "", func(path string) error {
			return &CannotMerge{Why: fmt.Sprintf("uncommitted in %s, and changed by the run: %s; commit or stash first", r.dir, path), Command: run.MergeCommand()}
		})
		if refused == nil {
			if err := r.move(ctx, "HEAD", to, old); err != nil {
				return err
			}
			return run.forgetFinal(ctx)
		}
	} else {
		refused = &CannotMerge{Why: fmt.Sprintf("%s has moved to %s while the merge was under way", r.dir, head), Command: run.MergeCommand()}
	}
	ctx, cancel := cleanup(ctx)
	defer cancel()
	back := r.carry(ctx, r.dir, to, old, "", func(string) error { return nil }) // what is the user's stays
	if back != nil {
		return errors.Join(refused, fmt.Errorf("put the files back: %w", back))
	}
	return errors.Join(refused, run.forgetFinal(ctx))
}

func (run *Run) forgetFinal(ctx context.Context) error {
	_, err := run.repo.git(ctx, run.repo.dir, "update-ref", "-d", privateRef(run.ID, "final"))
	return err
}

// gather brings the run's branch to the HEAD of the run's worktree, where a
// step left the branch for another, and gives its tip; "" if it has none.
func (run *Run) gather(ctx context.Context) (string, error) {
	r := run.repo
	names, err := run.tips(ctx)
	if err != nil {
		return "", err
	}
	tip, err := r.commit(ctx, r.dir, names[0])
	if err != nil || tip == "" || len(names) == 1 || names[1] == tip {
		return tip, err
	}
	ahead, err := r.isAncestor(ctx, tip, names[1])
	if err != nil {
		return "", err
	}
	if !ahead {
		return "", &CannotMerge{
			Why:     fmt.Sprintf("a step left branch %s in %s for %s, which does not contain it", run.Branch, run.Dir, names[1]),
			Command: run.MergeCommand() + " " + names[1],
		}
	}
	return names[1], r.locked(ctx, func() error {
		_, err := r.git(ctx, r.dir, "update-ref", names[0], names[1], tip)
		return err
	})
}

// mayMerge looks whether the user's working tree can take the merge.
func (run *Run) mayMerge(ctx context.Context, tip string) error {
	r := run.repo
	refuse := func(why string) error { return &CannotMerge{Why: why, Command: run.MergeCommand()} }
	h, err := r.HeadInfo(ctx)
	if err != nil {
		return err
	}
	switch {
	case run.Target == "":
		return refuse("it was started from a detached HEAD, so that there is no branch to merge into")
	case h.Branch != run.Target:
		now := "is on branch " + h.Branch
		if h.Branch == "" {
			now = "has a detached HEAD"
		}
		return refuse(fmt.Sprintf("it started from branch %s, and %s %s now", run.Target, r.dir, now))
	}
	for _, ref := range []string{"MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if id, err := r.commit(ctx, r.dir, ref); err != nil {
			return err
		} else if id != "" {
			return refuse(fmt.Sprintf("%s is in the middle of something else (%s)", r.dir, ref))
		}
	}
	dirty, err := r.Uncommitted(ctx)
	if err != nil || len(dirty) == 0 {
		return err
	}
	base, err := r.line(ctx, r.dir, "merge-base", "HEAD", tip)
	if err != nil {
		return err
	}
	changes, err := r.diffTrees(ctx, base, tip)
	if err != nil {
		return err
	}
	var both []string
	for _, c := range changes {
		if slices.Contains(dirty, c.path) {
			both = append(both, c.path)
		}
	}
	if len(both) > 0 {
		return refuse(fmt.Sprintf("uncommitted in %s, and changed by the run: %s; commit or stash first", r.dir, sample(both)))
	}
	return nil
}
