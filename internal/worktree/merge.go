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

	"github.com/bide-dev/bide/internal/diag"
)

// Conflict is a merge that git cannot make by itself and nobody resolved. The
// worktree is as it was before the merge.
type Conflict struct {
	Branch string   // the branch that was to be merged
	Commit string   // its commit to merge: of an agent's, without the run's snapshot
	Files  []string // in conflict, relative to the top
	Dir    string   // where to merge by hand: the repository, as the worktree of a run ends with it
	// Err is why the resolver did not resolve it; nil without a resolver.
	Err error
}

func (c *Conflict) Error() string {
	s := "conflict in " + strings.Join(c.Files, ", ")
	if c.Err != nil {
		s += fmt.Sprintf("; the resolver failed: %v", c.Err)
	}
	return s + fmt.Sprintf("; the work is not merged, and stays in its branch: merge it by hand with `cd %s && git merge --no-ff %s`", diag.ShellWord(c.Dir), c.Branch)
}

func (c *Conflict) Unwrap() error { return c.Err }

// ClassConflict is the class of errors of work that is not merged because of a conflict.
const ClassConflict = "conflict"

// Class is the class of the error, whatever made its resolver fail.
func (c *Conflict) Class() string { return ClassConflict }

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
	// Trailers stand at the end of the message of the merge commit, also of one that a
	// resolver made. See [Trailers].
	Trailers string
	// Left is the message of a commit of what an agent left uncommitted, which is merged
	// as well; "" leaves it.
	Left string
	// Resolve is called on a conflict; nil means that a conflict fails.
	Resolve Resolver
	// Verify is called with the commit and the tree of a final merge before it is made;
	// its error leaves it. nil means that it is made.
	Verify func(ctx context.Context, commit, tree string) error
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
	// Left is why something could not be cleared away after the merge was made, which
	// holds all the same.
	Left error
	// Resolved says that there was a conflict and the resolver resolved it.
	Resolved bool
	// Uncommitted are files that were left uncommitted in the agent's worktree
	// and so are not in the merge.
	Uncommitted []string
}

// Merge merges the agent's commits into the run's branch, as `git merge --no-ff`
// does, and brings the run's worktree there; merges into one run are made one after
// the other. Nothing happens where the agent made no commit, or its commits are
// merged already. An unresolved conflict is a *[Conflict].
func (run *Run) Merge(ctx context.Context, a *Agent, o MergeOptions) (MergeResult, error) {
	res, _, err := run.mergeOne(ctx, a, o)
	return res, errors.Join(err, run.Follow(ctx))
}

// mergeOne is Merge without the worktree; it also gives how the agent's stood.
func (run *Run) mergeOne(ctx context.Context, a *Agent, o MergeOptions) (res MergeResult, st *look, err error) {
	if run.queue == nil {
		return res, &look{}, errNoWorktree
	}
	s := run.pool.of(a)
	st, err = run.look(ctx, s)
	if err == nil && o.Left != "" {
		st.State, err = run.repo.commitLeft(ctx, s.dir, st.State, o.Left, nil)
	}
	if err == nil {
		res, err = run.mergeWork(ctx, a, st.State, o)
		st.links = linked(s.dir, res.Files)
		res.Uncommitted = append(slices.Clip(res.Uncommitted), st.links...)
	}
	if err != nil {
		if conflict := (*Conflict)(nil); !errors.As(err, &conflict) && !errors.As(err, new(*UnresolvedError)) {
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
	tip, err := run.withoutSnapshot(ctx, st.Commit, a.Base)
	if err != nil {
		return res, err
	}
	gone, err := run.tookAway(ctx, a.Base, st.Commit)
	if err != nil {
		return res, err
	}
	o.Message = cmp.Or(o.Message, fmt.Sprintf("Merge item %s, attempt %d", Subject(a.Item), a.Attempt))
	err = run.queue.while(ctx, func() error { return run.merge(ctx, a, tip, gone, o, &res) })
	return res, err
}

// merge merges tip into the run's branch, and notes what it takes away of what is
// uncommitted. The run's worktree is not touched: it follows later. See follow.go.
func (run *Run) merge(ctx context.Context, a *Agent, tip string, gone []goneFile, o MergeOptions, res *MergeResult) error {
	if o.Before != nil {
		if err := o.Before(tip, *res); err != nil {
			return err
		}
	}
	if err := run.detach(ctx); err != nil {
		return err
	}
	ref := "refs/heads/" + run.Branch
	old, err := run.repo.refID(ctx, ref)
	if err != nil {
		return err
	}
	m := merging{repo: run.repo, tip: tip, last: run.last, branch: a.Branch, into: run.Branch, before: old, scratch: filepath.Join(run.root, scratchDir), MergeOptions: o}
	err = m.compute(ctx)
	if err == nil && m.result != "" {
		if err = run.noteGone(ctx, m.result, gone); err == nil {
			err = run.repo.move(ctx, ref, m.result, old)
		}
	}
	if err != nil {
		return err
	}
	res.Commit, res.Resolved = m.result, m.resolved
	if m.result != "" {
		res.Merged, res.Commits = tip, len(res.CommitIDs)
		run.last = m.last
	}
	res.Left = errors.Join(res.Left, m.left, m.dropBranch(ctx))
	return nil
}

// merged is a merge commit and its tree.
type merged struct{ commit, tree string }

// refID gives the commit of a branch: from its file, and from git where it is kept in
// another way.
func (r *Repo) refID(ctx context.Context, ref string) (string, error) {
	text, _ := os.ReadFile(filepath.Join(r.common, filepath.FromSlash(ref)))
	if id := strings.TrimSpace(string(text)); isID(id) {
		return id, nil
	}
	return r.commit(ctx, r.dir, ref)
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

// maxSubject is how many characters of a name stand in a message.
const maxSubject = 200

// Subject is a name, of an item perhaps, which may be anything, as it stands in the
// message of a commit: in one line, with nothing that a terminal would obey, and not
// longer than a person reads. Secrets in it are masked before.
func Subject(name string) string {
	return diag.Clip(diag.Visible(strings.Join(strings.Fields(name), " ")), maxSubject)
}

// merging is one merge, computed by git without a worktree. Only where that meets a
// conflict, or git is too old to compute it, it is performed: in a scratch worktree
// that is nobody's, so that one that is cut short leaves nothing behind that could be
// taken for work.
type merging struct {
	MergeOptions
	repo         *Repo
	tip          string
	branch, into string
	before       string // the commit that it is merged into
	scratch      string // where the scratch worktree is made
	dir          string // of it
	kept         string // the branch that was made for the tip while a conflict was resolved
	result       string // the merge commit, in no branch yet; "" where there was nothing to merge
	resolved     bool
	left         error  // why the scratch worktree could not be removed
	last         merged // the merge before this one, if it is known, and then this one
}

// compute makes the merge commit.
func (m *merging) compute(ctx context.Context) error {
	tree, err := m.repo.mergeTree(ctx, m.before, m.tip)
	if err != nil && !errors.Is(err, errNotClean) {
		return err
	}
	if err != nil || m.last.commit != m.before || m.last.tree == tree { // else it changes something
		if done, err := m.repo.isAncestor(ctx, m.tip, m.before); err != nil || done {
			return err
		}
	}
	if err != nil {
		return m.perform(ctx)
	}
	m.result, err = m.repo.line(ctx, m.repo.dir, "commit-tree", tree, "-p", m.before, "-p", m.tip, "-m", message(m.Message+m.Trailers))
	m.last = merged{m.result, tree}
	return err
}

// errNotClean says that a merge cannot be computed.
var errNotClean = errors.New("the merge has conflicts")

// mergeTree gives the tree of a merge; errNotClean where it has conflicts, or git has
// no merge-tree --write-tree (before 2.38).
func (r *Repo) mergeTree(ctx context.Context, into, tip string) (string, error) {
	out, err := r.git(ctx, r.dir, "merge-tree", "--write-tree", "--no-messages", into, tip)
	if code := status(err); code == 1 || code == 129 {
		return "", errNotClean
	}
	tree := strings.TrimSpace(out)
	if err == nil && !isID(tree) {
		return "", errNotClean
	}
	return tree, err
}

// perform makes the merge in a scratch worktree, and has a conflict resolved there.
func (m *merging) perform(ctx context.Context) (err error) {
	drop, err := m.makeScratch(ctx)
	if err != nil {
		return err
	}
	defer func() { m.left = drop() }()
	_, mergeErr := m.repo.git(ctx, m.dir, "merge", "--no-ff", "--no-edit", "--no-verify", "--no-stat", "-m", message(m.Message+m.Trailers), m.tip)
	if mergeErr == nil {
		m.result, err = m.repo.headID(ctx, m.dir)
		return err
	}
	clean, cancel := cleanup(ctx)
	defer cancel()
	files, err := m.repo.unmerged(clean, m.dir)
	if err != nil || len(files) == 0 || ctx.Err() != nil {
		return errors.Join(mergeErr, err)
	}
	// The tip gets a name before anybody works on it.
	if m.kept, err = m.repo.nameCommit(clean, m.branch, m.tip); err != nil {
		return errors.Join(mergeErr, err)
	}
	conflict := &Conflict{Branch: m.kept, Commit: m.tip, Files: files, Dir: m.repo.dir}
	if m.Resolve == nil {
		return conflict
	}
	if conflict.Err = m.resolve(ctx, files); conflict.Err != nil {
		return conflict
	}
	return nil
}

// makeScratch makes the scratch worktree at the commit that is merged into. What a
// merge that was cut short left there goes first.
func (m *merging) makeScratch(ctx context.Context) (drop func() error, err error) {
	r := m.repo
	err = r.locked(ctx, func() error {
		if err := r.erase(m.scratch); err != nil {
			return err
		}
		return r.add(ctx, m.scratch, "", m.before)
	})
	m.dir = m.scratch
	return func() error {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		return r.locked(ctx, func() error { return r.erase(m.scratch) })
	}, err
}

// scratchDir is the name of the scratch worktree in a run's directory.
const scratchDir = "merging"

// dropBranch deletes the branch that held the tip while its conflict was resolved.
func (m *merging) dropBranch(ctx context.Context) error {
	if m.kept == "" || !strings.HasPrefix(m.kept, itemBranches) {
		return nil
	}
	return m.repo.deleteBranch(ctx, m.kept, m.tip)
}

// move publishes a commit by a ref that is at old, once the commit is on the disk.
// When it returns, so is the ref.
func (r *Repo) move(ctx context.Context, ref, to, old string) error {
	if err := r.Sync(ctx); err != nil {
		return err
	}
	if _, err := r.git(ctx, r.dir, "update-ref", "-m", "bide: merge", ref, to, old); err != nil {
		// A git that was killed may have done it: who takes it for undone does it twice.
		look, cancel := cleanup(ctx)
		defer cancel()
		if at, lerr := r.commit(look, r.dir, ref); lerr != nil || at != to {
			return errors.Join(err, lerr)
		}
	}
	return r.Sync(ctx)
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
		if ref, ok := strings.CutPrefix(id, "ref: "); ok {
			return r.refID(ctx, ref)
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
	return m.trail(ctx)
}

// trail has the trailers in a merge that a resolver committed with a message of its own.
func (m *merging) trail(ctx context.Context) error {
	if m.Trailers == "" {
		return nil
	}
	text, err := m.repo.git(ctx, m.dir, "log", "-1", "--format=%P%n%B", m.result)
	if err != nil {
		return err
	}
	parents, text, _ := strings.Cut(text, "\n")
	if strings.Contains(text, strings.TrimSpace(m.Trailers)) || parents != m.before+" "+m.tip {
		return nil
	}
	m.result, err = m.repo.line(ctx, m.repo.dir, "commit-tree", m.result+"^{tree}", "-p", m.before, "-p", m.tip, "-m", message(strings.TrimRight(text, "\n")+m.Trailers))
	return err
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
