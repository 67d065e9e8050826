package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bide-dev/bide/internal/diag"
)

// Kept is work that is not merged and so was not deleted.
type Kept struct {
	// Branch holds the work; "" if nothing was left to keep.
	Branch string
	// Commit is the branch's tip, and Commits how many commits it has that
	// are not merged.
	Commit  string
	Commits int
	// Rescued are the files that were uncommitted and are in the last commit.
	Rescued []string
	// Others are more branches, for work that an agent left by a checkout; usually none.
	Others []string
	// Ignored are the files and directories that git ignores and that an agent left in its
	// worktree. They are deleted.
	Ignored []string
	// Repositories are the directories to which repositories were moved that steps had made
	// in the worktree.
	Repositories []string
	// Submodules are the directories to which submodules were moved because they have
	// something that no other repository has.
	Submodules []string
}

// and combines what both have kept.
func (k Kept) and(other Kept) Kept {
	switch {
	case k.Branch == "":
		return other
	case other.Branch != "":
		k.Others = append(append(k.Others, other.Branch), other.Others...)
	}
	return k
}

// String says where the work is and how to get it.
func (k Kept) String() string {
	if k.Branch == "" {
		return "nothing is left to keep"
	}
	s := fmt.Sprintf("branch %s holds %s that %s not merged", k.Branch, diag.Count(k.Commits, "commit"), diag.Plural(k.Commits, "is", "are"))
	if n := len(k.Rescued); n > 0 {
		s += fmt.Sprintf(", the last of them with %s that %s left uncommitted", diag.Count(n, "file"), diag.Plural(n, "was", "were"))
	}
	if n := len(k.Others); n > 0 {
		s += "; more is in " + diag.Plural(n, "branch ", "branches ") + strings.Join(k.Others, ", ")
	}
	s += "; see it with `git log -p HEAD.." + k.Branch + "`"
	if strings.HasPrefix(k.Branch, itemBranches) {
		return s // a person merges it after the run itself: merged before, the run would have conflicts with it
	}
	return s + ", take it with `git merge --no-ff " + k.Branch + "`"
}

// Remove removes the run's worktree, and its private names in the repository. What is
// uncommitted is committed first. The branch is kept unless all of it is merged into the
// branch that the run started from. Unmerged work of agents stays in their branches.
func (run *Run) Remove(ctx context.Context) (k Kept, err error) {
	if err := run.Follow(ctx); err != nil {
		return k, err
	}
	if _, err := run.retireAll(ctx); err != nil {
		return k, err
	}
	if err := run.dropPrepared(ctx); err != nil {
		return k, err
	}
	err = run.repo.locked(ctx, func() error {
		k, err = run.repo.retire(ctx, run)
		if err != nil {
			return err
		}
		if err := run.sweep(ctx); err != nil {
			return err
		}
		tidy(run.root)
		if err := run.settleItems(ctx); err != nil {
			return err
		}
		return run.repo.forget(ctx, run.ID)
	})
	return k, err
}

// sweep removes what a killed git left of the worktrees of agents and of merges. Their work
// is kept, or never began.
func (run *Run) sweep(ctx context.Context) error {
	r := run.repo
	if run.root == "" {
		return nil
	}
	if err := r.dropHalf(run); err != nil {
		return err
	}
	if err := errors.Join(run.dropGoing(), run.dropDead(ctx)); err != nil {
		return err
	}
	entries, err := r.worktrees(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Dir(e.path) != filepath.Join(run.root, poolDir) && e.path != filepath.Join(run.root, scratchDir) {
			continue
		}
		if filepath.Base(e.path) != scratchDir && !r.intact(e.path) {
			if err := run.moveAside(e.path); err != nil {
				return err
			}
		}
		if err := run.eraseLost(ctx, e.path); err != nil {
			return err
		}
	}
	return nil
}

// settleItems deletes the branches of agents whose work is merged, or was done again and
// then merged. A life of the run that was killed leaves such branches.
func (run *Run) settleItems(ctx context.Context) error {
	branches, err := run.repo.itemBranches(ctx, run.ID)
	errs := []error{err}
	for _, branch := range branches {
		k, err := run.repo.settle(ctx, branch, run)
		if err == nil && k.Branch != "" {
			err = run.settleAgain(ctx, k)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// settleAgain deletes a branch of an agent if each of its commits has the same change as a
// commit that is merged. The agent was killed after the commit, and its work was done
// again.
func (run *Run) settleAgain(ctx context.Context, k Kept) error {
	r := run.repo
	into, err := run.mergedInto(ctx)
	if err != nil {
		return err
	}
	for _, upstream := range into {
		if id, err := r.commit(ctx, r.dir, upstream); err != nil || id == "" {
			if err != nil {
				return err
			}
			continue
		}
		merges, err := r.line(ctx, r.dir, "rev-list", "--merges", "--max-count=1", upstream+".."+k.Commit)
		if err != nil {
			return err
		}
		if merges != "" {
			continue // a merge commit cannot be compared by its change
		}
		lost, err := r.line(ctx, r.dir, "rev-list", "--cherry-pick", "--right-only", "--max-count=1", upstream+"..."+k.Commit)
		if err != nil {
			return err
		}
		if lost == "" {
			return r.deleteBranch(ctx, k.Branch, k.Commit)
		}
	}
	return nil
}

// tidy removes what is left of a run's directory once no worktree is in it. It does not
// remove directories that are not empty, so its failures are normal and not reported.
func tidy(root string) {
	if root == "" {
		return
	}
	_ = os.Remove(filepath.Join(root, poolDir))
	if _, err := os.Lstat(filepath.Join(root, "run")); err == nil {
		return
	}
	_ = os.Remove(filepath.Join(root, "merge.lock"))
	_ = os.Remove(root)
}

// itemBranches gives the branches that hold work of a run's items.
func (r *Repo) itemBranches(ctx context.Context, id string) ([]string, error) {
	out, err := r.git(ctx, r.dir, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"+itemBranches+id+"/")
	return strings.Fields(out), err
}

// forget deletes the private names of a run that has no branch left. Until then, they say
// where the run's work belongs.
func (r *Repo) forget(ctx context.Context, id string) error {
	own, err := r.commit(ctx, r.dir, "refs/heads/"+runBranch(id))
	if err != nil || own != "" {
		return err
	}
	if items, err := r.itemBranches(ctx, id); err != nil || len(items) > 0 {
		return err
	}
	return r.deletePrivate(ctx, id)
}

// deletePrivate deletes the private names of a run.
func (r *Repo) deletePrivate(ctx context.Context, id string) error {
	out, err := r.git(ctx, r.dir, "for-each-ref", "--format=%(refname)", privateRef(id, ""))
	if err != nil {
		return err
	}
	// The name "start" goes first, from the disk too: without it there is no run, and a next
	// life that finds it trusts the others. The target is not listed if its branch is gone. The name that
	// says why there is no worktree goes last, once it is on the disk that there is no run.
	refs := append([]string{privateRef(id, "start")}, strings.Fields(out)...)
	why := privateRef(id, "removed")
	said := slices.Contains(refs, why)
	refs = append(slices.DeleteFunc(refs, func(ref string) bool { return ref == why }), privateRef(id, "target"))
	if _, err := os.Lstat(filepath.Join(r.common, filepath.FromSlash(privateRefs), id)); out == "" && errors.Is(err, fs.ErrNotExist) {
		refs = nil
	}
	for i, ref := range refs {
		if _, err := r.git(ctx, r.dir, "update-ref", "--no-deref", "-d", ref); err != nil {
			return err
		}
		if i == 0 {
			if err := r.Sync(ctx); err != nil {
				return err
			}
		}
	}
	if said {
		if err := r.Sync(ctx); err != nil {
			return err
		}
		if _, err := r.git(ctx, r.dir, "update-ref", "-d", why); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Join(r.common, marksDir)) // of the last run
	refs = []string{filepath.Join(r.common, filepath.FromSlash(privateRefs)), filepath.Join(r.common, "logs", filepath.FromSlash(privateRefs))}
	for _, dir := range refs { // locks that git could not take away, and logs of names that are lost
		if err := os.RemoveAll(filepath.Join(dir, id)); err != nil {
			return err
		}
	}
	return nil
}

// retire removes a run's worktree and settles its branch. A second call is no error.
func (r *Repo) retire(ctx context.Context, run *Run) (Kept, error) {
	path, branch := run.Dir, run.Branch
	e, err := r.registered(ctx, path)
	if err != nil {
		return Kept{}, err
	}
	var rescued, aside, modules []string
	if e != nil {
		if _, err := os.Lstat(filepath.Join(path, ".git")); err == nil {
			if rescued, aside, modules, err = r.rescue(ctx, run, path, branch); err != nil {
				return Kept{}, notSaved(path, err)
			}
		} else if err := run.moveAside(path); err != nil {
			return Kept{}, err
		}
		if err := run.note(ctx, "removed"); err != nil {
			return Kept{}, err
		}
		if err := r.unregister(ctx, path); err != nil {
			return Kept{}, err
		}
	}
	if aside == nil { // a process that died may have moved some
		if aside, err = run.asideAs("run"); err != nil {
			return Kept{}, err
		}
	}
	if err := run.unmark(); err != nil {
		return Kept{}, err
	}
	k, err := r.settle(ctx, branch, run)
	if err != nil {
		return k, err
	}
	other, err := r.settle(ctx, branch+besideSuffix, run)
	k = k.and(other)
	if k.Branch != "" {
		k.Rescued = rescued
	}
	k.Repositories, k.Submodules = aside, modules
	return k, err
}

// rescue commits what is uncommitted in a run's worktree, and makes sure that a branch of
// ours holds the result. It gives the files, and the new places of repositories that steps
// had made in it and of submodules. The private name "left" has the commit before, for
// [Run.unrescue].
func (r *Repo) rescue(ctx context.Context, run *Run, path, branch string) (rescued, aside, modules []string, err error) {
	if err := run.dropStale(); err != nil {
		return nil, nil, nil, err
	}
	st, err := r.State(ctx, path)
	if err != nil {
		return nil, nil, nil, err
	}
	tip := st.Commit
	if len(plainFiles(st.dirty)) > 0 {
		if _, err := r.git(ctx, r.dir, "update-ref", privateRef(run.ID, "left"), tip); err != nil {
			return nil, nil, nil, err
		}
		if tip, err = r.rescueIn(ctx, path, st, ""); err != nil {
			return nil, nil, nil, err
		}
	}
	if st.Branch != branch {
		if err := r.hold(ctx, branch, tip); err != nil {
			return nil, nil, nil, err
		}
	}
	links, err := r.links(ctx, path)
	if err == nil {
		aside, err = run.setAside(ctx, path, "run", append(repositories(st.Untracked), links...))
	}
	if err == nil {
		var admin string
		if admin, err = adminDir(path); err == nil {
			modules, err = run.keepModules(ctx, path, admin, "run", run.Base, tip)
		}
	}
	return plainFiles(st.dirty), aside, modules, err
}

// leftWork ends the message of a commit of uncommitted files.
const leftWork = "work that was left uncommitted"

// unrescue undoes the commit that rescue made in an earlier life of the run, if it is the
// last commit. Its files are uncommitted again, and are not merged with the work of the
// steps that follow.
func (run *Run) unrescue(ctx context.Context) error {
	r := run.repo
	left, err := r.commit(ctx, r.dir, privateRef(run.ID, "left"))
	if err != nil || left == "" {
		return err
	}
	said, err := r.line(ctx, run.Dir, "log", "-1", "--no-show-signature", "--format=%P %s")
	if err != nil || said != left+" "+rescueMessage("") {
		return err
	}
	if err := run.markAt(left, ""); err != nil { // otherwise the next life would rewind to the commit
		return err
	}
	st, err := r.State(ctx, run.Dir)
	if err != nil {
		return err
	}
	if st.Branch != run.Branch { // a step switched to another branch, and rescue made our branch hold the commit as well
		tip, err := r.commit(ctx, r.dir, "refs/heads/"+run.Branch)
		if err != nil {
			return err
		}
		if tip == st.Commit {
			if _, err := r.git(ctx, r.dir, "update-ref", "refs/heads/"+run.Branch, left, tip); err != nil {
				return err
			}
		}
	}
	_, err = r.git(ctx, run.Dir, "reset", "--quiet", "--mixed", left, "--")
	return err
}

func notDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// besideSuffix ends the name of a second branch beside an agent's own.
const besideSuffix = ".head"

// hold makes sure that one of our branches holds a commit that an agent made on another
// branch or on none. It uses branch itself if that loses no commit of the branch, and
// otherwise a second branch.
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

// settle deletes a run's branch, without a worktree, if its work is merged
// already.
func (r *Repo) settle(ctx context.Context, branch string, run *Run) (Kept, error) {
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+branch)
	if err != nil || tip == "" {
		return Kept{}, err
	}
	into, err := run.mergedInto(ctx)
	if err != nil {
		return Kept{}, err
	}
	n, err := r.countNew(ctx, tip, append(into, run.Base)...)
	if err != nil {
		return Kept{}, err
	}
	if n > 0 {
		return Kept{Branch: branch, Commit: tip, Commits: n}, nil
	}
	if branch == run.Branch {
		if err := r.dropTip(ctx, run.ID); err != nil {
			return Kept{}, err
		}
	}
	return Kept{}, r.deleteBranch(ctx, branch, tip)
}

// dropTip deletes the private name "tip" of a run whose branch is merged whole and is
// deleted next. A next life, which runs dead letters, then begins from the user's branch,
// and does not think that somebody deleted the run's branch: so the name is gone from the
// disk when dropTip returns, or a power cut could leave it without the branch.
func (r *Repo) dropTip(ctx context.Context, id string) error {
	if err := os.RemoveAll(filepath.Join(r.common, marksDir, id)); err != nil {
		return err
	}
	if _, err := r.git(ctx, r.dir, "update-ref", "-d", privateRef(id, "tip")); err != nil {
		return err
	}
	return r.Sync(ctx)
}

// isID reports whether a name is a commit's full id.
func isID(name string) bool {
	return (len(name) == 40 || len(name) == 64) && strings.Trim(name, "0123456789abcdef") == ""
}

// countNew counts the commits of tip that are in none of the others. Names that refer to
// nothing are skipped.
func (r *Repo) countNew(ctx context.Context, tip string, others ...string) (int, error) {
	args := []string{"rev-list", "--count", tip}
	for _, o := range others {
		if o == "" {
			continue
		}
		if len(o) == len(tip) && isID(o) {
			args = append(args, "^"+o)
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
