package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
)

// CannotMerge says that a run was not merged into the user's branch, and what
// to do by hand. Nothing has been changed.
type CannotMerge struct {
	Why     string
	Command string // to be run by hand
	Always  bool   // no later merge by bide can succeed either

	again mergeAgain
}

// mergeAgain says when another try at a final merge is worth it.
type mergeAgain int

const (
	noAgain   mergeAgain = iota
	atOnce               // somebody has moved HEAD
	afterWait            // somebody has locked the index
)

func (e *CannotMerge) Error() string { return "the run is not merged: " + e.Why }

// ByHand gives the command with which a person merges the work that is left after this
// error. It is "" if that is not needed: bide merges the work once the cause is removed.
func ByHand(err error) string {
	if c := (*Conflict)(nil); errors.As(err, &c) {
		return c.Command
	}
	if e := (*CannotMerge)(nil); errors.As(err, &e) && e.Always {
		return e.Command
	}
	return ""
}

// MergeCommand gives the command by which the user merges the run.
func (run *Run) MergeCommand() string { return run.mergeCommand(run.Target) }

// mergeCommand gives the command by which the user merges the run into a branch, or into
// HEAD if that is "".
func (run *Run) mergeCommand(into string) string {
	s := "git merge --no-ff " + run.Branch
	if into != "" {
		s = "git switch " + into + " && " + s
	}
	return "cd " + diag.ShellWord(cmp.Or(run.repo.home, run.repo.dir)) + " && " + s
}

// FinalMerge merges the run's commits into the user's branch, in the user's
// working tree, as `git merge --no-ff` does. It gives a *[CannotMerge], having
// changed nothing, if the user's HEAD is not on the branch that the run started
// from, or uncommitted files are in the way; and a *[Conflict] as Merge does.
//
// The merge is computed first. Then a note under the private name "final" says that the
// merge is about to be written to the working tree. Then the files that differ are written,
// and then HEAD moves. If a FinalMerge is cut short, the next one finds the note and
// continues.
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

// FinalMergeItem is FinalMerge for the kept work of an item, in a branch of ours.
func (run *Run) FinalMergeItem(ctx context.Context, branch string, o MergeOptions) (res MergeResult, err error) {
	tip, err := run.repo.commit(ctx, run.repo.dir, "refs/heads/"+branch)
	if err != nil || tip == "" {
		return res, err // it was merged before
	}
	o.Message = cmp.Or(o.Message, "Merge "+branch)
	return run.finalMerge(ctx, branch, tip, o)
}

// mostMoves is how often a final merge is computed again because HEAD has moved meanwhile.
// mostLocks is how often it is tried again because the index was locked; these waits
// double, beginning with lockWait.
const (
	mostMoves = 16
	mostLocks = 4
	lockWait  = 100 * time.Millisecond
)

func (run *Run) finalMerge(ctx context.Context, branch, tip string, o MergeOptions) (res MergeResult, err error) {
	for moves, locks := 0, 0; ; {
		var again bool
		if res, again, err = run.tryFinal(ctx, branch, tip, o); err == nil && !again {
			return res, nil
		} else if err == nil {
			err = run.movedAway(nil)
		}
		refused := (*CannotMerge)(nil)
		if !errors.As(err, &refused) || refused.again == noAgain || moves == mostMoves || locks == mostLocks || ctx.Err() != nil {
			break
		}
		if refused.again == atOnce {
			moves++
			continue
		}
		select {
		case <-time.After(lockWait << locks):
			locks++
		case <-ctx.Done():
		}
	}
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		if conflict.Command = run.MergeCommand(); branch != run.Branch {
			conflict.Command = "cd " + diag.ShellWord(conflict.Dir) + " && git merge --no-ff " + branch
		}
	} else if err != nil && !errors.As(err, new(*CannotMerge)) {
		err = fmt.Errorf("merge run %s (merge it by hand with `%s`): %w", run.ID, run.MergeCommand(), err)
	}
	return res, err
}

// tryFinal makes the merge once. again says that HEAD has moved while the merge was
// computed. Only one merge at a time changes the user's working tree.
func (run *Run) tryFinal(ctx context.Context, branch, tip string, o MergeOptions) (res MergeResult, again bool, err error) {
	r, old := run.repo, ""
	err = r.locked(ctx, func() (err error) {
		if err := run.endFinal(ctx); err != nil {
			return err
		}
		if err := run.catchUp(ctx); err != nil {
			return err
		}
		if res.Commits, err = r.countNew(ctx, tip, "HEAD"); err != nil || res.Commits == 0 {
			return err
		}
		if err := run.mayMerge(ctx, tip); err != nil {
			return err
		}
		old, err = r.commit(ctx, r.dir, "HEAD")
		return err
	})
	if err != nil || res.Commits == 0 {
		return res, false, err
	}
	res.Merged = tip
	m := merging{run: run, repo: r, tip: tip, branch: branch, into: run.Target, before: old, scratch: run.finalScratch(), MergeOptions: o}
	if err := m.compute(ctx); err != nil || m.result == "" {
		return res, false, err
	}
	if o.Verify != nil {
		tree, err := r.Tree(ctx, m.result)
		if err == nil {
			err = o.Verify(ctx, m.result, tree)
		}
		if err != nil {
			return res, false, err
		}
	}
	err = r.locked(ctx, func() error {
		if head, err := r.commit(ctx, r.dir, "HEAD"); err != nil || head != old {
			again = err == nil
			return err
		}
		if err := r.move(ctx, privateRef(run.ID, "final"), m.result, strings.Repeat("0", len(old))); err != nil {
			return err
		}
		return run.endFinal(ctx)
	})
	if err == nil {
		res.Commit, res.Resolved = m.result, m.resolved
	}
	return res, again, err
}

// catchUp brings the user's working tree to its branch after somebody moved the branch from
// another worktree, as `git checkout -B main` in an item does with some versions of git.
// The log of HEAD does not show this. Without catchUp, the working tree would look as if
// the user had reverted the new commits. What the user has changed stays.
func (run *Run) catchUp(ctx context.Context) error {
	r := run.repo
	log, err := os.ReadFile(filepath.Join(r.admin, "logs", "HEAD"))
	if err != nil || run.Target == "" {
		return nil // it cannot be found out
	}
	lines := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
	f := strings.Fields(lines[len(lines)-1])
	if len(f) < 2 || !isID(f[1]) {
		return nil
	}
	h, err := r.HeadInfo(ctx)
	if err != nil || h.Branch != run.Target || h.Commit == f[1] {
		return err
	}
	if at, err := r.commit(ctx, r.dir, f[1]); err != nil || at == "" {
		return err
	}
	if ahead, err := r.isAncestor(ctx, f[1], h.Commit); err != nil || !ahead {
		return err
	}
	run.CaughtUp = f[1]
	return r.carry(ctx, r.dir, f[1], h.Commit, "", func(string) (bool, error) { return true, nil })
}

// finalScratch gives the directory in which a final merge makes a scratch worktree. Two
// runs may be merged at the same time.
func (run *Run) finalScratch() string {
	if run.root == "" {
		return filepath.Join(run.repo.common, "bide-merging", run.ID, scratchDir)
	}
	return filepath.Join(run.root, scratchDir)
}

// endFinal finishes the merge that is noted, in the user's working tree. Without a note it
// does nothing. If the merge cannot be finished because HEAD has moved, endFinal puts the
// files back.
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
	h, err := r.HeadInfo(ctx)
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
	if h.Commit == old && h.Branch == run.Target {
		refused = r.carry(ctx, r.dir, old, to, "", func(path string) (bool, error) {
			return false, run.wouldOverwrite([]string{path})
		})
		if refused == nil {
			err := r.move(ctx, "HEAD", to, old)
			if err == nil {
				return run.forgetFinal(ctx)
			}
			if at, herr := r.commit(ctx, r.dir, "HEAD"); herr != nil || at == old {
				return err
			}
			refused = run.movedAway(err)
		} else if isLocked(refused) {
			return run.indexLocked(ctx, true) // the files cannot be put back either: the next try continues
		}
	} else {
		refused = run.movedAway(nil)
	}
	ctx, cancel := cleanup(ctx)
	defer cancel()
	back := run.takeOut(ctx, old, to)
	if isLocked(back) {
		return run.indexLocked(ctx, true)
	}
	if back != nil {
		return errors.Join(refused, fmt.Errorf("put the files back: %w", back))
	}
	return errors.Join(refused, run.forgetFinal(ctx))
}

// takeOut removes what a merge has written from the user's working tree: each path that the
// merge changes gets the content that HEAD has. What the user has committed or changed
// stays.
func (run *Run) takeOut(ctx context.Context, old, merged string) error {
	r := run.repo
	head, err := r.commit(ctx, r.dir, "HEAD")
	if err != nil {
		return err
	}
	written, err := r.diffTrees(ctx, old, merged)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, c := range written {
		ours[c.path] = true
	}
	changes, err := r.diffTrees(ctx, merged, head)
	if err != nil {
		return err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool { return !ours[c.path] })
	return r.carryOnly(ctx, r.dir, changes, merged, head, "", func(path string) (bool, error) {
		half, err := r.halfWritten(ctx, r.dir, path, merged) // by the git that was killed
		return !half, err
	})
}

// movedAway is the error for a HEAD that the user or another program moved during a merge.
func (run *Run) movedAway(err error) error {
	return errors.Join(&CannotMerge{Why: fmt.Sprintf("HEAD of %s has moved while the merge was under way", run.repo.dir), Command: run.MergeCommand(), again: atOnce}, err)
}

// indexLocked is the error of a final merge that finds the user's index locked; nil if
// there is no lock now. met says that git failed because of the lock.
func (run *Run) indexLocked(ctx context.Context, met bool) error {
	admin, err := run.repo.gitDir(ctx, run.repo.dir)
	if err != nil {
		return err
	}
	lock := filepath.Join(admin, "index.lock")
	if _, err := os.Lstat(lock); err != nil && !met {
		return nil
	}
	return &CannotMerge{
		Why:     fmt.Sprintf("a git command is at work in %s, and has locked its index: merge again when it has ended; if none is at work, remove %s", run.repo.dir, lock),
		Command: run.MergeCommand(), again: afterWait,
	}
}

func (run *Run) forgetFinal(ctx context.Context) error {
	_, err := run.repo.git(ctx, run.repo.dir, "update-ref", "-d", privateRef(run.ID, "final"))
	return err
}

// gather brings the run's branch to the HEAD of the run's worktree if a step switched to
// another branch. It gives the tip; "" if there is none.
func (run *Run) gather(ctx context.Context) (string, error) {
	r := run.repo
	names, err := run.tips(ctx)
	if err != nil {
		return "", err
	}
	tip, err := run.branchTip(ctx)
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
			Command: run.MergeCommand() + " " + names[1], Always: true,
		}
	}
	return names[1], r.locked(ctx, func() error {
		_, err := r.git(ctx, r.dir, "update-ref", names[0], names[1], tip)
		return err
	})
}

// mayMerge checks whether the user's working tree can take the merge.
func (run *Run) mayMerge(ctx context.Context, tip string) error {
	r := run.repo
	refuse := func(why string) error {
		return &CannotMerge{Why: why, Command: run.MergeCommand(), Always: run.Target == ""}
	}
	h, err := r.HeadInfo(ctx)
	if err != nil {
		return err
	}
	switch {
	case run.Target == "":
		return refuse("it was started from a detached HEAD, so that there is no branch to merge into")
	case h.Branch != run.Target:
		if at, err := r.commit(ctx, r.dir, "refs/heads/"+run.Target); err != nil {
			return err
		} else if at == "" {
			return &CannotMerge{Why: fmt.Sprintf("it started from branch %s, and there is no branch %[1]s any more in %s", run.Target, r.dir), Command: run.mergeCommand(""), Always: true}
		}
		now := "is on branch " + h.Branch
		if h.Branch == "" {
			now = "has a detached HEAD"
		}
		return refuse(fmt.Sprintf("it started from branch %s, and %s %s now", run.Target, r.dir, now))
	}
	if err := run.indexLocked(ctx, false); err != nil {
		return err
	}
	for _, ref := range []string{"MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if id, err := r.commit(ctx, r.dir, ref); err != nil {
			return err
		} else if id != "" {
			return refuse(fmt.Sprintf("%s is in the middle of something else (%s)", r.dir, ref))
		}
	}
	dirty, err := r.Uncommitted(ctx)
	if err != nil {
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
	theirs, err := r.overwritten(ctx, r.dir, changes, "HEAD", tip)
	if err == nil && len(theirs) > 0 {
		err = run.wouldOverwrite(theirs)
	}
	return err
}

// wouldOverwrite is the error of a merge that would remove the only copy of files of the
// user, or write into a repository of the user.
func (run *Run) wouldOverwrite(paths []string) error {
	named := slices.Clone(paths)
	for i, path := range named {
		if isRepository(filepath.Join(run.repo.dir, filepath.FromSlash(path))) {
			named[i] += "/ (a git repository)"
		}
	}
	return &CannotMerge{
		Why:     fmt.Sprintf("it would overwrite, change or remove what no commit has, in %s: %s; move it away, or commit it, first", run.repo.dir, sample(named)),
		Command: run.MergeCommand(),
	}
}
