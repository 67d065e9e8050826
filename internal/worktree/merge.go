package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// Conflict is a merge that git cannot make by itself and nobody resolved. The worktree is
// unchanged.
type Conflict struct {
	Branch string   // the branch that was to be merged
	Commit string   // its commit to merge: of an agent's, without the run's snapshot
	Files  []string // in conflict, relative to the top
	Dir    string   // where to merge by hand: the repository, because the worktree of a run is removed with the run
	// Command is how a person merges it. It is "" for an item's work that was to be merged
	// into the run: if a person merged it before the run, the run would get the same
	// conflict.
	Command string
	// Err is why the resolver did not resolve it; nil without a resolver.
	Err error
}

func (c *Conflict) Error() string {
	s := "conflict in " + strings.Join(c.Files, ", ")
	if c.Err != nil {
		s += fmt.Sprintf("; the resolver failed: %v", c.Err)
	}
	return s + "; the work is not merged, and stays in its branch"
}

func (c *Conflict) Unwrap() error { return c.Err }

// ClassConflict is the class of errors of work that is not merged because of a conflict.
const ClassConflict = "conflict"

// Class is the class of a conflict, whatever the error of the resolver was.
func (c *Conflict) Class() string { return ClassConflict }

// ConflictInfo is what a resolver is given.
type ConflictInfo struct {
	Dir    string   // the worktree, in the middle of the merge
	Branch string   // that is being merged
	Commit string   // its tip
	Into   string   // the branch of Dir
	Files  []string // in conflict, relative to Dir
}

// Resolver resolves a conflict in a worktree in the middle of a merge: it edits the files,
// marks them resolved with `git add`, and commits. If it does not commit, bide does. If it
// returns an error, or leaves an unresolved file or a conflict marker, the merge is undone.
type Resolver func(ctx context.Context, c ConflictInfo) error

// MergeOptions are the options of a merge; all may be zero.
type MergeOptions struct {
	// Message is the message of the merge commit; "" means one of ours.
	Message string
	// Trailers are put at the end of the message of the merge commit, also of one that a
	// resolver made. See [Trailers].
	Trailers string
	// Left is the message for a commit of what an agent left uncommitted, which is then
	// merged as well. With "" it stays uncommitted. The same is true for what a resolver
	// left, but with "" the conflict then counts as not resolved.
	Left string
	// Resolve is called on a conflict; nil means that a conflict is an error.
	Resolve Resolver
	// Verify is called before a final merge is made; nil means that it is made without.
	Verify Verify
	// Before is called when there is something to merge, with the commit that is about to
	// be merged, and the work that is in it. With an error from it, nothing is merged. It
	// may be nil.
	Before func(commit string, work MergeResult) error
	// Publish, if not nil, tells the other machines that share the run about a merge before
	// the run's branch moves here. If it returns [ErrMoved], the merge is made again.
	Publish func(ctx context.Context, m Move) error
}

// Verify is called with the commit and the tree of a merge before it is made. With an error
// from it, the merge is not made.
type Verify func(ctx context.Context, commit, tree string) error

// MergeResult is a merge that was made, or was not needed.
type MergeResult struct {
	// Commit is the merge commit; "" if there was nothing to merge.
	Commit string
	// Merged is the tip that was merged, and Commits is how many commits came with it.
	Merged  string
	Commits int
	// CommitIDs are the commits that the agent made, oldest first, and Files are the paths
	// that they change together, also if they are not merged.
	CommitIDs, Files []string
	// Left says why something could not be removed after the merge. The merge was made all
	// the same.
	Left error
	// Resolved says that there was a conflict and the resolver resolved it.
	Resolved bool
	// Uncommitted are files that were left uncommitted in the agent's worktree
	// and so are not in the merge.
	Uncommitted []string
	// Aside are the directories to which the resolver's own repositories were moved, and
	// submodules in which it did something that no other repository has.
	Aside []string
}

// Merge merges the agent's commits into the run's branch, as `git merge --no-ff` does, and
// brings the run's worktree to the result. Merges into one run are made one after another.
// Nothing happens if the agent made no commit, or its commits are merged already. An
// unresolved conflict is a *[Conflict].
func (run *Run) Merge(ctx context.Context, a *Agent, o MergeOptions) (MergeResult, error) {
	res, _, err := run.mergeOne(ctx, a, o)
	return res, errors.Join(err, run.Follow(ctx))
}

// mergeOne is Merge without moving the run's worktree. It also gives the state of the
// agent's.
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
		res, err = run.mergeWork(ctx, a, st, o)
	}
	if err != nil {
		if conflict := (*Conflict)(nil); !errors.As(err, &conflict) && !errors.As(err, new(*UnresolvedError)) {
			err = fmt.Errorf("merge the work of item %q: %w", a.Item, err)
		}
	}
	return res, st, err
}

// mergeWork merges what an agent has committed. Other agents wait only for the merge
// itself.
func (run *Run) mergeWork(ctx context.Context, a *Agent, st *look, o MergeOptions) (res MergeResult, err error) {
	if st.untouched {
		return res, nil
	}
	modules, err := run.repo.modulesLeft(ctx, a.Dir, a.Base, st.Commit)
	if err != nil {
		return res, err
	}
	res.Uncommitted = append(slices.Clip(st.dirty), modules...)
	if st.Commit == a.Base {
		return res, nil
	}
	if res.CommitIDs, res.Files, err = run.repo.workSince(ctx, a.Base, st.Commit); err != nil {
		return res, err
	}
	st.links = linked(a.Dir, res.Files)
	res.Uncommitted = append(res.Uncommitted, st.links...)
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

// merge merges tip into the run's branch, and notes which uncommitted files the merge
// deletes. The run's worktree does not change: it follows later. See follow.go.
func (run *Run) merge(ctx context.Context, a *Agent, tip string, gone []goneFile, o MergeOptions, res *MergeResult) error {
	if o.Before != nil {
		if err := o.Before(tip, *res); err != nil {
			return err
		}
	}
	m, err := run.mergeTip(ctx, a, tip, gone, o)
	for errors.Is(err, ErrMoved) {
		m, err = run.mergeTip(ctx, a, tip, gone, o)
	}
	if err != nil {
		return err
	}
	res.Commit, res.Resolved, res.Aside = m.result, m.resolved, m.aside
	if m.result != "" {
		res.Merged, res.Commits = tip, len(res.CommitIDs)
		run.last = m.last
	}
	res.Left = errors.Join(res.Left, m.left, m.dropBranch(ctx))
	return nil
}

// mergeTip makes the merge, and moves the run's branch to it.
func (run *Run) mergeTip(ctx context.Context, a *Agent, tip string, gone []goneFile, o MergeOptions) (*merging, error) {
	if run.pull != nil {
		if err := run.pull(ctx); err != nil {
			return nil, err
		}
	}
	if err := run.detach(ctx); err != nil {
		return nil, err
	}
	ref := "refs/heads/" + run.Branch
	old, err := run.branchTip(ctx)
	if err != nil {
		return nil, err
	}
	m := &merging{run: run, repo: run.repo, tip: tip, last: run.last, branch: a.Branch, into: run.Branch, before: old, scratch: filepath.Join(run.root, scratchDir), MergeOptions: o}
	if err := m.compute(ctx); err != nil || m.result == "" {
		return m, err
	}
	if o.Publish != nil {
		if err := o.Publish(ctx, Move{From: old, To: m.result, Gone: goneFiles(gone)}); err != nil {
			return m, err
		}
	}
	if err := run.noteGone(ctx, m.result, gone); err != nil {
		return m, err
	}
	return m, run.repo.move(ctx, ref, m.result, old, privateRef(run.ID, "tip"))
}

// merged is a merge commit and its tree.
type merged struct{ commit, tree string }

// refID gives the commit of a branch. It reads the file of the branch, and asks git if
// there is no such file.
func (r *Repo) refID(ctx context.Context, ref string) (string, error) {
	text, _ := os.ReadFile(filepath.Join(r.common, filepath.FromSlash(ref)))
	if id := strings.TrimSpace(string(text)); isID(id) {
		return id, nil
	}
	return r.commit(ctx, r.dir, ref)
}

// branchTip gives the commit of the run's branch, with all that the run has merged into it.
// The private name "tip" has the last merge. If somebody has deleted the branch since, or
// moved it back, branchTip sets it to that merge again. If the branch has gone elsewhere,
// that is an error: the record says that items are merged whose work the branch does not
// have. For a run from FindRun, which does not continue, any branch that a person has made
// is accepted.
func (run *Run) branchTip(ctx context.Context) (string, error) {
	r, ref := run.repo, "refs/heads/"+run.Branch
	at, err := r.refID(ctx, ref)
	if err != nil {
		return "", err
	}
	tip, err := r.refID(ctx, privateRef(run.ID, "tip"))
	if err != nil || tip == "" || tip == at {
		return at, err
	}
	if at != "" {
		if ahead, err := r.isAncestor(ctx, tip, at); err != nil || ahead {
			return at, err
		}
		if run.found {
			run.Lacks = tip
			return at, nil
		}
		if behind, err := r.isAncestor(ctx, at, tip); err != nil {
			return "", err
		} else if !behind {
			return "", fmt.Errorf("branch %s is at %s, which does not have what was merged into it until %s: merge that into it by `git merge`, put it back with `git branch -f %[1]s %[3]s`, or have it stay as it is with `git update-ref -d %[4]s`", run.Branch, at, tip, privateRef(run.ID, "tip"))
		}
	}
	if err := r.move(ctx, ref, tip, cmp.Or(at, strings.Repeat("0", len(tip)))); err != nil {
		return "", err
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.putBack = tip
	return tip, nil
}

// PutBack gives, once, the commit to which the run's branch was set again after somebody
// had deleted it or moved it back; "" if nobody has.
func (run *Run) PutBack() string {
	run.mu.Lock()
	defer run.mu.Unlock()
	tip := run.putBack
	run.putBack = ""
	return tip
}

// Holds reports whether the run's branch, or the commit of its worktree, contains a commit.
// A commit that is not in the repository is in neither.
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

// maxSubject is how many characters of a name go into a message.
const maxSubject = 200

// Subject makes a name, perhaps of an item, fit for the message of a commit: one line, no
// terminal control characters, and not too long for a reader. Secrets in the name are
// masked before.
func Subject(name string) string {
	return diag.Clip(diag.Visible(strings.Join(strings.Fields(name), " ")), maxSubject)
}

// merging is one merge, computed by git without a worktree. If there is a conflict, or git
// is too old to compute it, the merge is performed in a scratch worktree. That worktree
// belongs to nobody, so a merge that is cut short leaves nothing that looks like work.
type merging struct {
	MergeOptions
	run          *Run
	repo         *Repo
	tip          string
	branch, into string
	before       string // the commit that it is merged into
	scratch      string // where the scratch worktree is made
	dir          string // of it
	kept         string // the branch that was made for the tip while a conflict was resolved
	result       string // the merge commit, in no branch yet; "" if there was nothing to merge
	resolved     bool
	left         error    // why the scratch worktree could not be removed
	aside        []string // of [MergeResult]
	last         merged   // the merge before this one, if it is known, and then this one
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

// errNotClean says that a merge cannot be computed without a worktree.
var errNotClean = errors.New("the merge has conflicts")

// mergeTree gives the tree of a merge. It gives errNotClean if the merge has conflicts, or
// git has no merge-tree --write-tree (before 2.38).
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

// perform makes the merge in a scratch worktree, and has the resolver resolve a conflict
// there.
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
	conflict := &Conflict{Branch: m.kept, Commit: m.tip, Files: files, Dir: cmp.Or(m.repo.home, m.repo.dir)}
	if m.Resolve == nil {
		return conflict
	}
	conflict.Err = m.resolve(ctx, files)
	if err := m.putAside(ctx); err != nil {
		return err
	}
	if conflict.Err != nil {
		if len(m.aside) > 0 {
			conflict.Err = fmt.Errorf("%w; repositories that it made or changed are kept as %s", conflict.Err, strings.Join(m.aside, ", "))
		}
		return conflict
	}
	return nil
}

// putAside moves repositories and submodules out of the scratch worktree, which is about to
// be removed, if they have something that no commit of it can have.
func (m *merging) putAside(ctx context.Context) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	r := m.repo
	if !r.intact(m.dir) {
		return nil // the resolver removed it, or made it another repository
	}
	admin, err := adminDir(m.dir)
	if err != nil {
		return err
	}
	st, err := r.State(ctx, m.dir)
	if err != nil {
		return err
	}
	links, err := r.links(ctx, m.dir)
	if err != nil {
		return err
	}
	name := "merging-" + strings.ReplaceAll(strings.TrimPrefix(m.branch, itemBranches+m.run.ID+"/"), "/", "-")
	repositories, err := m.run.setAside(ctx, m.dir, name, append(repositories(st.Untracked), links...))
	if err == nil {
		m.aside, err = m.run.keepModules(ctx, m.dir, admin, name, m.before, st.Commit)
	}
	m.aside = append(repositories, m.aside...)
	return err
}

// makeScratch makes the scratch worktree at the commit that is merged into. It first
// removes what an earlier merge left there when it was cut short.
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
		err := r.locked(ctx, func() error { return r.erase(m.scratch) })
		if m.run.root == "" {
			up := filepath.Dir(m.scratch)
			_, _ = os.Remove(up), os.Remove(filepath.Dir(up)) // of the last of them
		}
		return err
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

// move publishes a commit: it moves a ref from old to the commit, once the commit is on the
// disk. When it returns, the ref is on the disk too. Other refs move with it, wherever they
// were.
func (r *Repo) move(ctx context.Context, ref, to, old string, also ...string) error {
	if err := r.Sync(ctx); err != nil {
		return err
	}
	moves := fmt.Sprintf("update %s %s %s\n", ref, to, old)
	for _, other := range also {
		moves += fmt.Sprintf("update %s %s\n", other, to)
	}
	if _, err := r.run(ctx, call{dir: r.dir, stdin: moves, args: []string{"update-ref", "-m", "bide: merge", "--stdin"}}); err != nil {
		// A git that was killed may have moved the ref: the caller would merge a second
		// time.
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

// headID gives the commit that a worktree is at. It reads files, and asks git if these do
// not say it.
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

// resolve calls the resolver and checks that the conflict is resolved.
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
		if _, err := m.repo.git(ctx, m.dir, "commit", "--quiet", "--no-verify", "-m", message(m.Message+m.Trailers)); err != nil {
			return err
		}
	}
	if err := m.commitLeft(ctx); err != nil {
		return err
	}
	return m.check(ctx, files)
}

// commitLeft commits what the resolver left uncommitted beside the merge.
func (m *merging) commitLeft(ctx context.Context) error {
	st, err := m.repo.State(ctx, m.dir)
	if err != nil {
		return err
	}
	if left := plainFiles(st.dirty); len(left) > 0 && m.Left == "" {
		return fmt.Errorf("it left %s uncommitted (%s), and auto_commit is false: commit them in the step", diag.Count(len(left), "file"), sample(left))
	}
	_, err = m.repo.commitLeft(ctx, m.dir, st, m.Left, nil)
	return err
}

// check makes sure that HEAD contains both sides, and no conflict marker.
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

// trail adds the trailers to a merge that a resolver committed with its own message.
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

// hasMarkers reports whether a file of a commit has conflict markers, of the size that the
// repository's attributes give them.
func (m *merging) hasMarkers(ctx context.Context, commit, file string) (bool, error) {
	exists, err := m.repo.list(ctx, m.dir, "--literal-pathspecs", "ls-tree", "-z", "--name-only", "--full-tree", commit, "--", file)
	if err != nil || len(exists) == 0 {
		return false, err
	}
	text, err := m.repo.git(ctx, m.dir, "cat-file", "blob", commit+":"+file)
	if err != nil {
		return false, err
	}
	attr, err := m.repo.list(ctx, m.dir, "check-attr", "-z", "conflict-marker-size", "--", file)
	if err != nil {
		return false, err
	}
	size := 0
	if len(attr) == 3 {
		size, _ = strconv.Atoi(attr[2]) // unspecified, or no number
	}
	if size <= 0 {
		size = 7
	}
	if size > len(text) {
		return false, nil
	}
	text = "\n" + text
	return strings.Contains(text, "\n"+strings.Repeat("<", size)+" ") && strings.Contains(text, "\n"+strings.Repeat(">", size)+" "), nil
}
