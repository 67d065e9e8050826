package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kept is work that is not merged and so was not deleted.
type Kept struct {
	// Branch holds the work; "" where nothing was left to keep.
	Branch string
	// Commit is the branch's tip, and Commits how many commits it has that
	// are not merged.
	Commit  string
	Commits int
	// Rescued are the files that were uncommitted and are in the last commit.
	Rescued []string
	// Other is a second branch, where an agent had left its own branch for
	// work that does not follow from it; mostly "".
	Other string
}

// String says how to get at the work.
func (k Kept) String() string {
	if k.Branch == "" {
		return "nothing is left to keep"
	}
	s := fmt.Sprintf("branch %s holds %s that %s not merged", k.Branch, plural(k.Commits, "commit"), isAre(k.Commits))
	if n := len(k.Rescued); n > 0 {
		s += fmt.Sprintf(", the last of them with %s that were left uncommitted", plural(n, "file"))
	}
	if k.Other != "" {
		s += "; more is in branch " + k.Other
	}
	return s + "; see it with `git log -p HEAD.." + k.Branch + "`, take it with `git merge --no-ff " + k.Branch + "`"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Remove removes the agent's worktree. What is uncommitted in it is committed
// first; the branch is deleted if all of it is merged into the run, and kept
// otherwise, without the run's snapshot. Ignored files are deleted.
func (a *Agent) Remove(ctx context.Context) (k Kept, err error) {
	err = a.repo.locked(ctx, func() error {
		k, err = a.repo.retire(ctx, a.Dir, a.Branch, a.run)
		return err
	})
	return k, err
}

// Remove removes the run's worktree, and its private names in the repository.
// What is uncommitted is committed first, and the branch is kept unless all of
// it is merged into the branch that the run started from.
func (run *Run) Remove(ctx context.Context) (k Kept, err error) {
	err = run.repo.locked(ctx, func() error {
		k, err = run.repo.retire(ctx, run.Dir, run.Branch, run)
		if err != nil {
			return err
		}
		tidy(run.root)
		if k.Branch != "" {
			return nil
		}
		return run.repo.deletePrivate(ctx, run.ID)
	})
	return k, err
}

// tidy removes what is left of a run's directory once no worktree is in it.
// Directories that are not empty stay, so that a failure is the usual case
// and says nothing.
func tidy(root string) {
	if root == "" {
		return
	}
	_ = os.Remove(filepath.Join(root, "items"))
	if _, err := os.Lstat(filepath.Join(root, "run")); err == nil {
		return
	}
	_ = os.Remove(filepath.Join(root, "merge.lock"))
	_ = os.Remove(root)
}

// deletePrivate deletes the private names of a run.
func (r *Repo) deletePrivate(ctx context.Context, id string) error {
	out, err := r.git(ctx, r.dir, "for-each-ref", "--format=%(refname)", privateRef(id, ""))
	if err != nil {
		return err
	}
	// The target is not listed where its branch is gone.
	for _, ref := range append(strings.Fields(out), privateRef(id, "target")) {
		if _, err := r.git(ctx, r.dir, "update-ref", "--no-deref", "-d", ref); err != nil {
			return err
		}
	}
	return nil
}

// retire removes a worktree and settles its branch. A second call is no error.
func (r *Repo) retire(ctx context.Context, path, branch string, run *Run) (Kept, error) {
	e, err := r.registered(ctx, path)
	if err != nil {
		return Kept{}, err
	}
	var rescued []string
	if e != nil {
		if _, err := os.Lstat(filepath.Join(path, ".git")); err == nil {
			if rescued, err = r.rescue(ctx, path, branch); err != nil {
				return Kept{}, fmt.Errorf("save what is uncommitted in %s (the worktree stays as it is): %w", path, err)
			}
		} else if err := r.moveAside(path); err != nil {
			return Kept{}, err
		}
		if err := r.unregister(ctx, path); err != nil {
			return Kept{}, err
		}
	}
	k, err := r.settle(ctx, branch, run)
	if err != nil {
		return k, err
	}
	other, err := r.settle(ctx, branch+besideSuffix, run)
	switch {
	case k.Branch == "":
		k = other
	default:
		k.Other = other.Branch
	}
	if k.Branch != "" {
		k.Rescued = rescued
	}
	return k, err
}

// rescue commits what is uncommitted in a worktree whose agent has ended, and
// makes sure that a branch of ours holds the result. It gives the files.
func (r *Repo) rescue(ctx context.Context, path, branch string) ([]string, error) {
	if err := r.dropStaleLocks(ctx, path, branch); err != nil {
		return nil, err
	}
	files, err := r.dirty(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		if _, err := r.git(ctx, path, "add", "-A"); err != nil {
			return nil, err
		}
		_, err := r.git(ctx, path, "commit", "--quiet", "--no-verify", "--allow-empty", "-m", "bide: work that was left uncommitted")
		if err != nil {
			return nil, err
		}
	}
	h, err := r.head(ctx, path)
	if err != nil || h.Branch == branch {
		return files, err
	}
	return files, r.hold(ctx, branch, h.Commit)
}

// dropStaleLocks deletes the lock files that a killed git left in the private
// part of a worktree, and those of its own branch. No process of ours works
// there any more.
func (r *Repo) dropStaleLocks(ctx context.Context, path, branch string) error {
	dir, err := r.line(ctx, path, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return err
	}
	names := []string{filepath.Join(dir, "index.lock"), filepath.Join(dir, "HEAD.lock")}
	for _, b := range []string{branch, branch + besideSuffix} {
		if !strings.HasPrefix(b, itemBranches) && !strings.HasPrefix(b, runBranches) {
			continue // the user's: somebody else may be at work on it
		}
		names = append(names, filepath.Join(r.common, "refs", "heads", filepath.FromSlash(b)+".lock"))
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	return nil
}

// besideSuffix names the branch beside an agent's own.
const besideSuffix = ".head"

// hold makes sure that one of our branches holds a commit that an agent made on
// another branch or on none: branch itself where that loses nothing of it,
// else one beside it.
func (r *Repo) hold(ctx context.Context, branch, commit string) error {
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+branch)
	if err != nil {
		return err
	}
	if tip != "" {
		ahead, err := r.isAncestor(ctx, tip, commit)
		if err != nil {
			return err
		}
		if !ahead {
			branch += besideSuffix
		}
	}
	_, err = r.git(ctx, r.dir, "update-ref", "refs/heads/"+branch, commit)
	return err
}

// settle takes the snapshot out of a branch without a worktree, and deletes
// the branch if its work is merged already.
func (r *Repo) settle(ctx context.Context, branch string, run *Run) (Kept, error) {
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+branch)
	if err != nil || tip == "" {
		return Kept{}, err
	}
	var into []string
	if branch == run.Branch || branch == run.Branch+besideSuffix {
		into, err = run.mergedInto(ctx)
	} else {
		into, err = run.tips(ctx)
	}
	if err != nil {
		return Kept{}, err
	}
	if clean, err := run.withoutSnapshot(ctx, tip); err != nil {
		return Kept{}, err
	} else if clean != tip {
		if _, err := r.git(ctx, r.dir, "update-ref", "refs/heads/"+branch, clean, tip); err != nil {
			return Kept{}, err
		}
		if _, err := r.git(ctx, r.dir, "update-ref", "-d", privateRef(run.ID, publishedRef(branch))); err != nil {
			return Kept{}, err
		}
		tip = clean
	}
	n, err := r.countNew(ctx, tip, append(into, run.Base)...)
	if err != nil {
		return Kept{}, err
	}
	if n == 0 {
		return Kept{}, r.deleteBranch(ctx, branch, tip)
	}
	return Kept{Branch: branch, Commit: tip, Commits: n}, nil
}

// countNew counts the commits of tip that are in none of the others. Names that
// stand for nothing are passed over.
func (r *Repo) countNew(ctx context.Context, tip string, others ...string) (int, error) {
	args := []string{"rev-list", "--count", tip}
	for _, o := range others {
		if o == "" {
			continue
		}
		id, err := r.commit(ctx, r.dir, o)
		if err != nil {
			return 0, err
		}
		if id != "" {
			args = append(args, "^"+id)
		}
	}
	s, err := r.line(ctx, r.dir, args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(s))
}
