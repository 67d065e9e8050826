package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Conflict is a merge that git cannot make by itself and nobody resolved. The
// worktree is as it was before the merge.
type Conflict struct {
	Branch string   // the branch that was to be merged
	Commit string   // its commit to merge: of an agent's, without the run's snapshot
	Into   string   // the branch, or commit, that it was to be merged into
	Files  []string // in conflict, relative to the top
	Dir    string   // where to merge by hand: the repository, as the worktree of a run ends with it
	// Err is why the resolver did not resolve it; nil without a resolver.
	Err error
}

func (c *Conflict) Error() string {
	s := fmt.Sprintf("merging %s into %s: conflict in %s", c.Branch, c.Into, strings.Join(c.Files, ", "))
	if c.Err != nil {
		s += fmt.Sprintf("; the resolver failed: %v", c.Err)
	}
	return s + fmt.Sprintf("; the work stays in the branch: merge it by hand with `cd %s && git merge --no-ff %s`", shellQuote(c.Dir), c.Branch)
}

func (c *Conflict) Unwrap() error { return c.Err }

// ConflictInfo is what a resolver gets to know.
type ConflictInfo struct {
	Dir    string   // the worktree, in the middle of the merge
	Branch string   // that is being merged
	Commit string   // its tip
	Into   string   // the branch of Dir
	Files  []string // in conflict, relative to Dir
}

// Resolver resolves a conflict in a worktree in the middle of a merge: it edits
// the files, marks them resolved with `git add`, and commits. A commit that it
// leaves to us is made. Its error, an unresolved file or a conflict
// marker that is left over takes the merge back.
type Resolver func(ctx context.Context, c ConflictInfo) error

// MergeOptions are the options of a merge; all may be zero.
type MergeOptions struct {
	// Message is the message of the merge commit; "" means one of ours.
	Message string
	// Resolve is called on a conflict; nil means that a conflict fails.
	Resolve Resolver
	// Before is called when there is something to merge, with the commit that is
	// about to be merged, and the work that is in it; its error leaves the merge.
	// nil means nobody wants to know.
	Before func(commit string, work MergeResult) error
}

// MergeResult is a merge that was made, or was not needed.
type MergeResult struct {
	// Commit is the merge commit; "" where there was nothing to merge.
	Commit string
	// Merged is the tip that was merged, and Commits the number of its commits.
	Merged  string
	Commits int
	// CommitIDs are the commits that the agent made, oldest first, and Files what
	// they change in all, also where they are not merged.
	CommitIDs, Files []string
	// Resolved says that there was a conflict and the resolver resolved it.
	Resolved bool
	// Uncommitted are files that were left uncommitted in the agent's worktree
	// and so are not in the merge.
	Uncommitted []string
}

// Merge merges the agent's commits into the run's worktree with `git merge
// --no-ff`; merges into one run are made one after the other. Nothing
// happens where the agent made no commit, or its commits are merged already.
// An unresolved conflict is a *[Conflict].
func (run *Run) Merge(ctx context.Context, a *Agent, o MergeOptions) (MergeResult, error) {
	res, _, err := run.mergeOne(ctx, a, o)
	return res, err
}

// mergeOne is Merge; it also gives how the agent's worktree stood.
func (run *Run) mergeOne(ctx context.Context, a *Agent, o MergeOptions) (res MergeResult, st *look, err error) {
	if run.queue == nil {
		return res, &look{}, errNoWorktree
	}
	st, err = run.look(ctx, run.pool.of(a))
	if err == nil {
		res, err = run.mergeWork(ctx, a, st.State, o)
	}
	if err != nil {
		if conflict := (*Conflict)(nil); !errors.As(err, &conflict) {
			err = fmt.Errorf("merge the work of item %q: %w", a.Item, err)
		}
	}
	return res, st, err
}

// mergeWork merges what an agent has committed. Only the merge itself holds up
// the other agents.
func (run *Run) mergeWork(ctx context.Context, a *Agent, st State, o MergeOptions) (res MergeResult, err error) {
	res.Uncommitted = st.dirty
	if st.Commit == a.Base {
		return res, nil
	}
	if res.CommitIDs, res.Files, err = run.repo.workSince(ctx, a.Base, st.Commit); err != nil {
		return res, err
	}
	tip, err := run.withoutSnapshot(ctx, st.Commit)
	if err != nil {
		return res, err
	}
	o.Message = cmp.Or(o.Message, fmt.Sprintf("Merge item %s, attempt %d", oneLine(a.Item), a.Attempt))
	err = run.queue.while(ctx, func() error { return run.merge(ctx, a, tip, o, &res) })
	return res, err
}

// merge merges tip into the run. Git says itself whether something is in its
// way; only then is it looked for.
func (run *Run) merge(ctx context.Context, a *Agent, tip string, o MergeOptions, res *MergeResult) error {
	if err := run.notMerging(); err != nil {
		return err
	}
	if o.Before != nil {
		if err := o.Before(tip, *res); err != nil {
			return err
		}
	}
	m := merging{repo: run.repo, dir: run.Dir, tip: tip, branch: a.Branch, into: run.Branch, MergeOptions: o}
	m.stale = run.dropStale
	err := m.make(ctx)
	if m.inTheWay {
		err = run.unstaged(ctx, func() error {
			return run.withRoom(ctx, tip, func() error { return m.make(ctx) })
		})
	}
	res.Commit, res.Resolved = m.result, m.resolved
	if m.result != "" {
		res.Merged, res.Commits = tip, len(res.CommitIDs)
	}
	return err
}

// Holds says whether the run's branch, or what its worktree is at, has a commit.
// One that is not in the repository is in neither.
func (run *Run) Holds(ctx context.Context, commit string) (bool, error) {
	id, err := run.repo.commit(ctx, run.repo.dir, commit)
	if err != nil || id == "" {
		return false, err
	}
	tips, err := run.tips(ctx)
	if err != nil {
		return false, err
	}
	n, err := run.repo.countNew(ctx, id, tips...)
	return n == 0, err
}

// notMerging fails if somebody else's merge is under way in the run's worktree.
func (run *Run) notMerging() error {
	admin, err := adminDir(run.Dir)
	if err != nil {
		return err
	}
	other, err := os.ReadFile(filepath.Join(admin, "MERGE_HEAD"))
	if err != nil {
		return nil // there is none
	}
	return fmt.Errorf("%s is in the middle of another merge, of %s; end it with `git merge --continue` or `git merge --abort`", run.Dir, strings.TrimSpace(string(other)))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// merging is one merge in a worktree.
type merging struct {
	MergeOptions
	repo         *Repo
	dir          string
	tip          string
	branch, into string
	stale        func() error // drops the lock files of a killed git
	before       string       // HEAD before it
	result       string       // HEAD after it; "" where there was nothing to merge
	resolved     bool
	inTheWay     bool // git refused to begin: files of the worktree are in the way
}

func (m *merging) make(ctx context.Context) (err error) {
	if m.before, err = m.repo.headID(ctx, m.dir); err != nil {
		return err
	}
	m.inTheWay = false
	said, mergeErr := m.repo.git(ctx, m.dir, "merge", "--no-ff", "--no-edit", "--no-verify", "--no-stat", "-m", m.Message, m.tip)
	if mergeErr == nil {
		if strings.HasPrefix(said, "Already up to date") {
			return nil
		}
		m.result, err = m.repo.headID(ctx, m.dir)
		return err
	}
	// What is left of the merge is taken back also when ctx has ended.
	clean, cancel := cleanup(ctx)
	defer cancel()
	files, err := m.repo.unmerged(clean, m.dir)
	if err != nil || len(files) == 0 || ctx.Err() != nil {
		m.inTheWay = err == nil && ctx.Err() == nil
		return errors.Join(mergeErr, err, m.takeBack(clean))
	}
	if m.branch, err = m.repo.nameCommit(clean, m.branch, m.tip); err != nil {
		return errors.Join(mergeErr, err, m.takeBack(clean))
	}
	conflict := &Conflict{Branch: m.branch, Commit: m.tip, Into: m.into, Files: files, Dir: m.repo.dir}
	if m.Resolve != nil {
		conflict.Err = m.resolve(ctx, files)
		if conflict.Err == nil {
			if strings.HasPrefix(m.branch, itemBranches) {
				return m.repo.deleteBranch(ctx, m.branch, m.tip)
			}
			return nil
		}
	}
	clean, cancel = cleanup(ctx)
	defer cancel()
	if err := m.takeBack(clean); err != nil {
		return errors.Join(conflict, fmt.Errorf("take the merge back: %w", err))
	}
	return conflict
}

func (r *Repo) unmerged(ctx context.Context, dir string) ([]string, error) {
	return r.list(ctx, dir, "diff", "--name-only", "-z", "--diff-filter=U")
}

// headID gives the commit that a worktree is at: from its files, and from git
// where they are kept in another way.
func (r *Repo) headID(ctx context.Context, dir string) (string, error) {
	if admin, err := adminDir(dir); err == nil {
		head, _ := os.ReadFile(filepath.Join(admin, "HEAD"))
		id := strings.TrimSpace(string(head))
		if ref, ok := strings.CutPrefix(id, "ref: refs/heads/"); ok {
			tip, _ := os.ReadFile(filepath.Join(r.common, "refs", "heads", filepath.FromSlash(ref)))
			id = strings.TrimSpace(string(tip))
		}
		if isID(id) {
			return id, nil
		}
	}
	return r.commit(ctx, dir, "HEAD")
}

// resolve calls the resolver and looks whether the conflict is resolved.
func (m *merging) resolve(ctx context.Context, files []string) error {
	info := ConflictInfo{Dir: m.dir, Branch: m.branch, Commit: m.tip, Into: m.into, Files: files}
	if err := m.Resolve(ctx, info); err != nil {
		return err
	}
	left, err := m.repo.unmerged(ctx, m.dir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("these files are not marked as resolved: %s", strings.Join(left, ", "))
	}
	pending, err := m.repo.commit(ctx, m.dir, "MERGE_HEAD")
	if err != nil {
		return err
	}
	if pending != "" {
		if _, err := m.repo.git(ctx, m.dir, "commit", "--quiet", "--no-verify", "--no-edit"); err != nil {
			return err
		}
	}
	return m.check(ctx, files)
}

// check makes sure that HEAD has both sides, and no conflict marker.
func (m *merging) check(ctx context.Context, files []string) error {
	head, err := m.repo.commit(ctx, m.dir, "HEAD")
	if err != nil {
		return err
	}
	for _, side := range []string{m.before, m.tip} {
		in, err := m.repo.isAncestor(ctx, side, head)
		if err != nil {
			return err
		}
		if !in {
			return fmt.Errorf("it did not commit the merge: %s is not in %s", side, head)
		}
	}
	for _, f := range files {
		marked, err := m.hasMarkers(ctx, head, f)
		if err != nil {
			return err
		}
		if marked {
			return fmt.Errorf("conflict markers are left in %s", f)
		}
	}
	m.result, m.resolved = head, true
	return nil
}

func (m *merging) hasMarkers(ctx context.Context, commit, file string) (bool, error) {
	exists, err := m.repo.list(ctx, m.dir, "--literal-pathspecs", "ls-tree", "-z", "--name-only", "--full-tree", commit, "--", file)
	if err != nil || len(exists) == 0 {
		return false, err
	}
	text, err := m.repo.git(ctx, m.dir, "cat-file", "blob", commit+":"+file)
	if err != nil {
		return false, err
	}
	text = "\n" + text
	return strings.Contains(text, "\n<<<<<<< ") && strings.Contains(text, "\n>>>>>>> "), nil
}

// takeBack puts the worktree to where it was before the merge.
func (m *merging) takeBack(ctx context.Context) error {
	if m.stale != nil {
		if err := m.stale(); err != nil {
			return err
		}
	}
	return m.repo.abortMerge(ctx, m.dir, m.before)
}

// abortMerge ends a merge that is under way, and goes back to a commit.
func (r *Repo) abortMerge(ctx context.Context, dir, to string) error {
	pending, err := r.commit(ctx, dir, "MERGE_HEAD")
	if err != nil {
		return err
	}
	if pending != "" {
		if _, err := r.git(ctx, dir, "merge", "--abort"); err != nil {
			return err
		}
	}
	head, err := r.commit(ctx, dir, "HEAD")
	if err != nil || head == to {
		return err
	}
	_, err = r.git(ctx, dir, "reset", "--quiet", "--merge", to)
	return err
}
