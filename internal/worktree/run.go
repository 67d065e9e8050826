package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// ErrRunExists is the error of NewRun for a run that has a worktree with work
// in it. OpenRun is for those.
var ErrRunExists = errors.New("the run has a worktree already")

// errNoWorktree is the error of agents in a run of which only the branch is left.
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
}

// Run is the worktree of a run. Its methods may be called by several
// goroutines at once.
type Run struct {
	Tree
	ID string
	// Target is the branch that the user was on, into which FinalMerge merges;
	// "" if HEAD was detached.
	Target string
	// LeftOut are the files that were uncommitted in the user's working tree:
	// the run does not see them, and a caller says so. Only set by NewRun.
	LeftOut []string

	root  string
	queue *lock // merges into the run, one at a time

	mu   sync.Mutex
	snap *snapshot
}

// Agent is the worktree of one attempt at an item.
type Agent struct {
	Tree
	Item    string
	Attempt int
	// Kept is the work of earlier attempts that was found in the way, and now
	// is in branches of its own.
	Kept []Kept

	run *Run
}

// NewRun makes the branch bide/ID and its worktree Root/run at the user's HEAD.
// Uncommitted files of the user are not taken along; see Run.LeftOut. The
// error is [ErrUnborn] where there is no commit, [ErrRunExists] where the run's
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
	h, err := r.HeadInfo(ctx)
	if err != nil {
		return nil, err
	}
	base := o.Base
	if base == "" {
		base = "HEAD"
	}
	switch run.Base, err = r.commit(ctx, r.dir, base); {
	case err != nil:
		return nil, err
	case h.Commit == "" && run.Base == "":
		return nil, fmt.Errorf("%s: %w", r.dir, ErrUnborn)
	case run.Base == "":
		return nil, fmt.Errorf("%q is no commit of %s", base, r.dir)
	}
	run.Target = h.Branch
	if run.LeftOut, err = r.Uncommitted(ctx); err != nil {
		return nil, err
	}
	err = r.locked(ctx, func() error {
		if err := r.refuseExisting(ctx, run); err != nil {
			return err
		}
		if _, err := r.makeRoom(ctx, run.Dir, run.Branch, run); err != nil {
			return err
		}
		if err := r.note(ctx, run); err != nil {
			return err
		}
		return r.add(ctx, run.Dir, run.Branch, run.Base)
	})
	if err != nil {
		return nil, err
	}
	return run, nil
}

// refuseExisting fails if the run's branch has work in it.
func (r *Repo) refuseExisting(ctx context.Context, run *Run) error {
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+run.Branch)
	if err != nil || tip == "" {
		return err
	}
	n, err := r.countNew(ctx, tip, run.Base)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: branch %s has %s", ErrRunExists, run.Branch, plural(n, "commit"))
	}
	return err
}

// note records where a run started, under its private names.
func (r *Repo) note(ctx context.Context, run *Run) error {
	if _, err := r.git(ctx, r.dir, "update-ref", privateRef(run.ID, "start"), run.Base); err != nil {
		return err
	}
	if run.Target == "" {
		return nil
	}
	_, err := r.git(ctx, r.dir, "symbolic-ref", privateRef(run.ID, "target"), "refs/heads/"+run.Target)
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
	run := &Run{ID: o.ID, root: root, queue: newLock(filepath.Join(root, "merge.lock"))}
	run.Tree = r.tree(filepath.Join(root, "run"), runBranch(o.ID))
	return run, nil
}

func (r *Repo) tree(dir, branch string) Tree {
	return Tree{repo: r, Dir: dir, WorkDir: filepath.Join(dir, filepath.FromSlash(r.prefix)), Branch: branch}
}

// OpenRun finds the worktree of a run that was made before, for a resume. A
// merge that was under way when the run went down is taken back; its item was
// not recorded as finished. One that another process is making at present is
// left alone. The error satisfies errors.Is(err, fs.ErrNotExist)
// if there is no such worktree.
func (r *Repo) OpenRun(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.openRun(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the worktree of run %s: %w", o.ID, err)
	}
	return run, nil
}

func (r *Repo) openRun(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.blankRun(o)
	if err != nil {
		return nil, err
	}
	e, err := r.registered(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	if e == nil || e.half {
		return nil, &os.PathError{Op: "open", Path: run.Dir, Err: os.ErrNotExist}
	}
	if _, err := os.Stat(run.Dir); err != nil {
		return nil, err
	}
	if err := r.recall(ctx, run); err != nil {
		return nil, err
	}
	return run, run.queue.ifFree(func() error {
		if err := r.dropStaleLocks(ctx, run.Dir, run.Branch); err != nil {
			return err
		}
		return run.takeBack(ctx)
	})
}

// recall reads the private names of a run.
func (r *Repo) recall(ctx context.Context, run *Run) (err error) {
	if run.Base, err = r.commit(ctx, r.dir, privateRef(run.ID, "start")); err != nil {
		return err
	}
	target, err := r.line(ctx, r.dir, "symbolic-ref", "--quiet", privateRef(run.ID, "target"))
	if err != nil && status(err) != 1 {
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
	run.snap, err = r.loadSnapshot(ctx, head, base)
	return err
}

// mergedInto gives where the run's work goes: its target, or the user's HEAD
// where it has none.
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

// tips gives what holds the merged work of agents: the run's branch, and the
// HEAD of its worktree, which a step may have put on another branch.
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

// Former gives the worktree that an attempt at an item had in an earlier life of
// the run, to be removed. It may be gone already.
func (run *Run) Former(item string, attempt int) (*Agent, error) {
	if run.root == "" {
		return nil, errNoWorktree
	}
	a := &Agent{run: run, Item: item, Attempt: attempt}
	a.Tree = run.repo.tree(filepath.Join(run.root, "items", encode(item)), itemBranch(run.ID, item, attempt))
	return a, nil
}

// NewAgent makes a fresh worktree for an attempt at an item, at the run's
// snapshot, which the first call takes if [Run.Freeze] has not. The path is the
// same for every attempt at the item; the branch is the attempt's own. A
// worktree that an earlier attempt left there is removed as by
// [Agent.Remove]; see Agent.Kept. The attempt is numbered from 1.
func (run *Run) NewAgent(ctx context.Context, item string, attempt int) (*Agent, error) {
	if attempt < 1 {
		return nil, fmt.Errorf("item %q: attempt %d: attempts are numbered from 1", item, attempt)
	}
	a, err := run.Former(item, attempt)
	if err != nil {
		return nil, err
	}
	s, err := run.frozen(ctx)
	if err != nil {
		return nil, err
	}
	a.Base = s.base
	err = run.repo.locked(ctx, func() (err error) {
		if a.Kept, err = run.repo.makeRoom(ctx, a.Dir, a.Branch, run); err != nil {
			return err
		}
		return run.repo.add(ctx, a.Dir, a.Branch, a.Base)
	})
	if err != nil {
		return nil, fmt.Errorf("make a worktree for item %q, attempt %d: %w", item, attempt, err)
	}
	return a, nil
}
