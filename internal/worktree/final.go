package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	return "cd " + shellQuote(run.repo.dir) + " && " + s
}

func shellQuote(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+", c))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// FinalMerge merges the run's commits into the user's branch, in the user's
// working tree, with `git merge --no-ff`. It gives a *[CannotMerge], having
// changed nothing, if the user's HEAD is not on the branch that the run started
// from, or uncommitted files are in the way; and a *[Conflict] as Merge does.
func (run *Run) FinalMerge(ctx context.Context, o MergeOptions) (res MergeResult, err error) {
	r := run.repo
	tip, err := run.gather(ctx)
	if err != nil {
		return res, err
	}
	if tip == "" {
		return res, fmt.Errorf("merge run %s: there is no branch %s", run.ID, run.Branch)
	}
	if res.Commits, err = r.countNew(ctx, tip, "HEAD"); err != nil || res.Commits == 0 {
		return res, err
	}
	res.Merged = tip
	if err := run.mayMerge(ctx, tip); err != nil {
		return res, err
	}
	o.Message = cmp.Or(o.Message, "Merge bide run "+run.ID)
	m := merging{repo: r, dir: r.dir, tip: tip, branch: run.Branch, into: run.Target, MergeOptions: o}
	err = m.make(ctx)
	res.Commit, res.Resolved = m.result, m.resolved
	if conflict := (*Conflict)(nil); err != nil && !errors.As(err, &conflict) {
		err = fmt.Errorf("merge run %s (merge it by hand with `%s`): %w", run.ID, run.MergeCommand(), err)
	}
	return res, err
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
