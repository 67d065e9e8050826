package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
)

// ErrRunExists is the error of NewRun for a run that has a worktree with work in it.
// OpenRun opens such a run.
var ErrRunExists = errors.New("the run has a worktree already")

// errNoWorktree is the error for agents in a run that has only its branch left.
var errNoWorktree = errors.New("the run has no worktree any more, only its branch")

// RunOptions say which run's worktree to make or to open.
type RunOptions struct {
	// ID is the run's id: letters, digits, '-' and '_', at most 64.
	ID string
	// Root is the directory for the worktrees of this run, and of no other:
	// <state directory>/worktrees/<run>.
	Root string
	// Base is the commit or branch to start from; "" means the user's HEAD.
	// OpenRun does not read it.
	Base string
	// Began is when the run began; zero if that is not known. What a git left that was killed since
	// then is taken away.
	Began time.Time
}

// Run is the worktree of a run. Several goroutines may call its methods at once.
type Run struct {
	Tree
	ID string
	// Target is the branch that the user was on, into which FinalMerge merges;
	// "" if HEAD was detached.
	Target string
	// LeftOut are the files that were uncommitted in the user's working tree. The run does
	// not see them, and the caller should say so. Only set by NewRun.
	LeftOut []string
	// Remade says that the worktree was gone and was made anew from the branch. What was
	// uncommitted in it is lost, except for files of the snapshot from which agents start:
	// Restored is how many of these are back. Only set by OpenRun, and Remade by FindRun, in
	// each life until Told is called.
	Remade   bool
	Restored int
	// Gone says that the run's own branch is merged and deleted, and branches of its items
	// are left. Only set by FindRun.
	Gone bool
	// Lacks is the last merge of the run, if its branch no longer contains it because
	// somebody has moved the branch. Only set by FinalMerge, for a run from FindRun.
	Lacks string
	// CaughtUp is the commit at which the user's working tree was, if somebody had moved
	// its branch from another worktree. Only set by FinalMerge.
	CaughtUp string
	// Lost are files of the worktree that were moved aside because nobody knows who wrote
	// them.
	Lost []string
	// Locks are the lock files of a killed git that were removed. Only set by OpenRun.
	Locks []string

	root  string
	since time.Time // when the run began, or zero
	found bool      // by FindRun
	queue *lock     // merges into the run, one at a time

	// detached says that the worktree's HEAD is off the branch, because agents are being
	// merged. last is the last merge that was made, and its tree. Both belong to the holder
	// of queue.
	detached bool
	last     merged

	mu       sync.Mutex
	snap     *snapshot
	inTheWay []string // of [Run.InTheWay]
	putBack  string   // of [Run.PutBack]

	pull func(ctx context.Context) error // of [Run.Share]; nil if one machine has the run

	pool    pool
	prepare func(ctx context.Context, dir string) error // a new worktree of the pool
}

// NewRun makes the branch bide/ID and its worktree Root/run at the user's HEAD.
// Uncommitted files of the user are not taken along; see Run.LeftOut. The
// error is [ErrUnborn] if there is no commit, and [ErrRunExists] if the run's
// branch has commits.
func (r *Repo) NewRun(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.newRun(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("make the worktree of run %s: %w", o.ID, err)
	}
	return run, nil
}

func (r *Repo) newRun(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.blankRun(o)
	if err != nil {
		return nil, err
	}
	now, err := r.State(ctx, r.dir)
	if err != nil {
		return nil, err
	}
	run.Base, run.Target, run.LeftOut = now.Commit, now.Branch, now.dirty
	if o.Base != "" {
		if run.Base, err = r.commit(ctx, r.dir, o.Base); err != nil {
			return nil, err
		}
	}
	switch {
	case now.Commit == "" && run.Base == "":
		return nil, fmt.Errorf("%s: %w", r.dir, ErrUnborn)
	case run.Base == "":
		return nil, fmt.Errorf("%q is no commit of %s", o.Base, r.dir)
	}
	if sub := strings.TrimSuffix(r.prefix, "/"); sub != "" {
		has, err := r.yes(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", run.Base+":"+sub)
		if err != nil {
			return nil, err
		}
		if !has {
			return nil, fmt.Errorf("%s is not in commit %.12s, so that the worktree would not have it: commit a file in it, or run with --isolation none", filepath.Join(r.dir, filepath.FromSlash(sub)), run.Base)
		}
	}
	err = r.locked(ctx, func() error { return r.makeRun(ctx, run) })
	if err != nil {
		return nil, err
	}
	return run, r.Sync(ctx)
}

// makeRun makes all that a run has in the repository. Once that is on the disk, the private
// name "start" publishes it: a run without this name never began. The caller holds the
// repository's lock.
func (r *Repo) makeRun(ctx context.Context, run *Run) error {
	for _, below := range []string{runBranches, itemBranches} {
		if name := strings.TrimSuffix(below, "/"); r.hasBranchFile(name) {
			return fmt.Errorf("branch %[1]s is in the way: the branches that bide makes are called %[1]s/…, and git can have only one of both; rename yours (git branch -m %[1]s NAME), or run with --isolation none", name)
		}
	}
	if err := r.dropHalf(run); err != nil {
		return err
	}
	if err := r.refuseExisting(ctx, run); err != nil {
		return err
	}
	if err := r.dropUnbegun(ctx, run); err != nil {
		return err
	}
	if err := r.makeRoom(ctx, run); err != nil {
		return err
	}
	if err := r.add(ctx, run.Dir, run.Branch, run.Base); err != nil {
		return err
	}
	if run.Target != "" {
		// git does not sync this name. Where an earlier life has it, a power cut must not empty it.
		target := "refs/heads/" + run.Target
		if was, err := r.target(ctx, run.ID); err != nil {
			return err
		} else if was != target {
			if _, err := r.git(ctx, r.dir, "symbolic-ref", privateRef(run.ID, "target"), target); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(run.unmark(), run.dropRefs(ctx, "tip", "left", "removed", "remade")); err != nil {
		return err
	}
	if err := run.Mark(ctx, ""); err != nil {
		return err
	}
	if err := errors.Join(run.makeLogs(), r.Sync(ctx)); err != nil {
		return err
	}
	_, err := r.git(ctx, r.dir, "update-ref", privateRef(run.ID, "start"), run.Base)
	return err
}

// hasBranchFile reports whether there is a branch of a name, without a process of git.
func (r *Repo) hasBranchFile(name string) bool {
	ref := "refs/heads/" + name
	if info, err := os.Lstat(filepath.Join(r.common, filepath.FromSlash(ref))); err == nil && !info.IsDir() {
		return true
	}
	packed, err := os.ReadFile(filepath.Join(r.common, "packed-refs"))
	return err == nil && bytes.Contains(packed, []byte(" "+ref+"\n"))
}

// dropUnbegun removes what is left of a run whose process was killed while it made the run:
// nobody can have worked in it.
func (r *Repo) dropUnbegun(ctx context.Context, run *Run) error {
	if start, err := r.commit(ctx, r.dir, privateRef(run.ID, "start")); err != nil || start != "" {
		return err
	}
	if err := os.RemoveAll(filepath.Join(r.common, filepath.FromSlash(privateRefs+run.ID))); err != nil {
		return err
	}
	if err := r.erase(run.Dir); err != nil {
		return err
	}
	if tip, err := r.commit(ctx, r.dir, "refs/heads/"+run.Branch); err != nil || tip != "" {
		return err // makeRoom makes the name free
	}
	return r.dropTornRef("refs/heads/" + run.Branch)
}

// refuseExisting fails if the run's branch has work in it.
func (r *Repo) refuseExisting(ctx context.Context, run *Run) error {
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+run.Branch)
	if err != nil || tip == "" {
		return err
	}
	n, err := r.countNew(ctx, tip, run.Base)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: branch %s has %s", ErrRunExists, run.Branch, diag.Count(n, "commit"))
	}
	return err
}

func (r *Repo) blankRun(o RunOptions) (*Run, error) {
	if err := checkRunID(o.ID); err != nil {
		return nil, err
	}
	if o.Root == "" {
		return nil, errors.New("no directory for the worktrees is given")
	}
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	// git lists worktrees by their real paths.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	r.disks.add(root)
	r.disks.add(r.dir)
	r.mu.Lock()
	r.roots = append(slices.Clip(r.roots), root)
	r.mu.Unlock()
	run := &Run{ID: o.ID, root: root, since: o.Began, queue: newLock(filepath.Join(root, "merge.lock"))}
	run.Tree = r.tree(filepath.Join(root, "run"), runBranch(o.ID))
	return run, nil
}

func (r *Repo) tree(dir, branch string) Tree {
	return Tree{repo: r, Dir: dir, WorkDir: filepath.Join(dir, filepath.FromSlash(r.prefix)), Branch: branch}
}

// OpenRun finds the worktree of an existing run, for a resume. It repairs what a kill or a
// power cut left half done: locks of its git, objects and an index that are not on the
// disk, a worktree that is gone, files that are not at the run's branch yet. The error
// satisfies errors.Is(err, fs.ErrNotExist) if the run has no branch.
func (r *Repo) OpenRun(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.openRun(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the worktree of run %s: %w", o.ID, err)
	}
	return run, nil
}

// mendRepo takes away what a git of the run that was killed, or a power cut, has left in the repository:
// locks, worktrees that are half made, without which git lists none, and torn objects.
func (r *Repo) mendRepo(ctx context.Context, run *Run) (err error) {
	if run.Locks, err = r.unlock(ctx, run); err != nil {
		return err
	}
	return r.locked(ctx, func() error { return errors.Join(r.dropHalf(run), r.dropTorn(run.began())) })
}

func (r *Repo) openRun(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.blankRun(o)
	if err != nil {
		return nil, err
	}
	if err := r.mendRepo(ctx, run); err != nil {
		return nil, err
	}
	if run.Base, err = r.commit(ctx, r.dir, privateRef(run.ID, "start")); err != nil {
		return nil, err
	}
	if run.Base == "" { // it was not made, or not completed
		return nil, &os.PathError{Op: "open", Path: run.Dir, Err: os.ErrNotExist}
	}
	if tip, err := r.mendBranch(ctx, run); err != nil {
		return nil, err
	} else if tip == "" {
		return nil, &os.PathError{Op: "open", Path: run.Dir, Err: os.ErrNotExist}
	}
	if err := errors.Join(r.recall(ctx, run), run.makeLogs(), r.dropLost(ctx, run)); err != nil {
		return nil, err
	}
	for _, dir := range []string{r.dir, run.Dir} {
		if admin, err := r.gitDir(ctx, dir); err == nil {
			dropIndexes(admin)
		}
	}
	return run, run.queue.ifFree(func() error {
		if err := run.dropGoing(); err != nil {
			return err
		}
		if err := r.remake(ctx, run); err != nil {
			return err
		}
		if err := run.unrescue(ctx); err != nil {
			return err
		}
		if err := run.endMerge(ctx); err != nil {
			return err
		}
		return run.follow(ctx)
	})
}

// began gives the earliest time at which the run may have written into the repository.
func (run *Run) began() time.Time {
	if !run.since.IsZero() {
		return run.since.Add(-time.Minute)
	}
	for _, name := range []string{filepath.Join(run.repo.common, filepath.FromSlash(privateRef(run.ID, "start"))), run.root} {
		if info, err := os.Stat(name); err == nil {
			return info.ModTime().Add(-time.Minute)
		}
	}
	return time.Time{}
}

// remake makes the run's worktree anew from its branch if it is gone, or was never
// complete. Two private names say, to later lives too, why there is no worktree. "removed"
// is written before the run removes its own worktree, in which nothing is uncommitted, and
// deleted when there is one again. "remade" is written before a worktree is made anew that
// the run did not remove, and deleted when the loss is on record. What is found in the
// place of the worktree is never deleted unless git has all of it: somebody may have worked
// there.
func (r *Repo) remake(ctx context.Context, run *Run) error {
	return r.locked(ctx, func() error {
		removed, err := r.commit(ctx, r.dir, privateRef(run.ID, "removed"))
		if err != nil {
			return err
		}
		remade, err := r.commit(ctx, r.dir, privateRef(run.ID, "remade"))
		if err != nil {
			return err
		}
		run.Remade = remade != ""
		gone, err := r.worktreeGone(ctx, run, run.Remade)
		switch {
		case err != nil:
			return err
		case !gone:
			return run.dropRefs(ctx, "removed") // the removal did not begin
		case removed == "" && remade == "":
			if err := run.note(ctx, "remade"); err != nil {
				return err
			}
			run.Remade = true
		}
		if err := run.eraseLost(ctx, run.Dir); err != nil {
			return err
		}
		if _, err := r.git(ctx, r.dir, "worktree", "add", "--force", "--", run.Dir, run.Branch); err != nil {
			return err
		}
		if err := run.markRemade(ctx); err != nil {
			return err
		}
		if removed == "" { // otherwise those files were committed, or a merge deleted them
			if err := run.restore(ctx); err != nil {
				return err
			}
		}
		if err := r.Sync(ctx); err != nil {
			return err
		}
		return run.dropRefs(ctx, "removed")
	})
}

// worktreeGone reports whether the run's worktree has to be made anew. What is in its place
// is moved aside, unless git was just making it. again says that an earlier life began to
// make it, and may have written only a part of its files.
func (r *Repo) worktreeGone(ctx context.Context, run *Run, again bool) (bool, error) {
	e, err := r.registered(ctx, run.Dir)
	if err != nil {
		return false, err
	}
	if e != nil && !e.half && r.intact(run.Dir) {
		whole, err := r.mend(ctx, &run.Tree, run.Base)
		if err != nil || whole && !again {
			return false, err
		}
		if whole { // what an earlier life wrote need not be kept
			if dirty, err := r.dirty(ctx, run.Dir); err != nil || len(dirty) == 0 {
				return true, err
			}
		}
	}
	if _, err := os.Lstat(run.Dir); err == nil && (e == nil || !e.half) {
		return true, run.moveAside(run.Dir)
	}
	return true, nil
}

// markRemade makes the marks of the lost worktree true for the new one. If no agents were
// merged since, they are still true: the commit of a step that was cut short is still to be
// undone.
func (run *Run) markRemade(ctx context.Context) error {
	merged, err := run.repo.commit(ctx, run.repo.dir, privateRef(run.ID, "tree"))
	if err != nil {
		return err
	}
	path, err := run.marks()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); merged == "" && err == nil {
		return nil
	}
	if err := run.Mark(ctx, ""); err != nil {
		return err
	}
	return run.dropRefs(ctx, "tree")
}

// note writes a private name, whose existence says something, and syncs it to the disk.
func (run *Run) note(ctx context.Context, name string) error {
	if _, err := run.repo.git(ctx, run.repo.dir, "update-ref", privateRef(run.ID, name), cmp.Or(run.Base, "refs/heads/"+run.Branch)); err != nil {
		return err
	}
	return run.repo.Sync(ctx)
}

// dropRefs deletes private names, if they exist.
func (run *Run) dropRefs(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := run.repo.git(ctx, run.repo.dir, "update-ref", "-d", privateRef(run.ID, name)); err != nil {
			return err
		}
	}
	return nil
}

// Told says that the loss of the worktree that was Remade is on record.
func (run *Run) Told(ctx context.Context) error {
	if !run.Remade {
		return nil
	}
	return run.dropRefs(ctx, "remade")
}

// restore brings back, in a worktree that was made anew, what was uncommitted when the
// agents started. It leaves out files that the branch has changed since, or that a merge
// deleted.
func (run *Run) restore(ctx context.Context) error {
	r, s := run.repo, run.snap
	if s == nil || s.base == s.head {
		return nil
	}
	since, err := r.diffTrees(ctx, s.head, "refs/heads/"+run.Branch)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, c := range since {
		changed[c.path] = true
	}
	brought, err := r.diffTrees(ctx, s.head, s.base)
	if err != nil {
		return err
	}
	taken, err := run.takenAway(ctx)
	if err != nil {
		return err
	}
	var back, gone []string
	for _, c := range brought {
		switch {
		case changed[c.path], c.new != blob{} && taken[c.path] == c.new:
		case c.new == (blob{}):
			gone = append(gone, c.path)
		default:
			back = append(back, c.path)
		}
	}
	run.Restored = len(back) + len(gone)
	for _, path := range gone {
		if err := os.Remove(filepath.Join(run.Dir, filepath.FromSlash(path))); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if len(back) == 0 {
		return nil
	}
	_, err = r.run(ctx, call{dir: run.Dir, stdin: strings.Join(back, "\x00") + "\x00",
		args: []string{"--literal-pathspecs", "restore", "--source=" + s.base, "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul"}})
	return err
}

// recall reads the private names of a run.
func (r *Repo) recall(ctx context.Context, run *Run) (err error) {
	if run.Base, err = r.commit(ctx, r.dir, privateRef(run.ID, "start")); err != nil {
		return err
	}
	target, err := r.target(ctx, run.ID)
	if err != nil {
		return err
	}
	run.Target = strings.TrimPrefix(target, "refs/heads/")
	base, err := r.commit(ctx, r.dir, privateRef(run.ID, "base"))
	if err != nil || base == "" {
		return err
	}
	head, err := r.commit(ctx, r.dir, privateRef(run.ID, "head"))
	if err != nil || head == "" {
		return err
	}
	if whole, err := r.connected(ctx, r.dir, base, run.Base); err != nil || !whole {
		return err // nobody has worked on it
	}
	run.snap, err = r.loadSnapshot(ctx, head, base)
	return err
}

// target gives the ref of the branch that a run started from; "" if it has none.
func (r *Repo) target(ctx context.Context, id string) (string, error) {
	ref, err := r.line(ctx, r.dir, "symbolic-ref", "--quiet", privateRef(id, "target"))
	if status(err) > 0 {
		return "", nil // the run has none, or it was not on the disk yet: then the run never began
	}
	return ref, err
}

// mergedInto gives the branch that the run's work is merged into: its target, or the user's
// HEAD if it has none.
func (run *Run) mergedInto(ctx context.Context) ([]string, error) {
	if run.Target == "" {
		return []string{"HEAD"}, nil
	}
	id, err := run.repo.commit(ctx, run.repo.dir, "refs/heads/"+run.Target)
	if err != nil || id == "" {
		return []string{"HEAD"}, err
	}
	return []string{id}, nil
}

// tips gives the commits that hold the merged work of agents: the run's branch, and the
// HEAD of its worktree, which a step may have switched to another branch.
func (run *Run) tips(ctx context.Context) ([]string, error) {
	names := []string{"refs/heads/" + run.Branch}
	if _, err := os.Stat(filepath.Join(run.Dir, ".git")); run.Dir == "" || err != nil {
		return names, nil
	}
	head, err := run.repo.commit(ctx, run.Dir, "HEAD")
	if err != nil {
		return nil, err
	}
	return append(names, head), nil
}
