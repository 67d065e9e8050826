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
)

// Tree is one worktree of ours.
type Tree struct {
	// Dir is the top of the worktree.
	Dir string
	// WorkDir is the directory in it that corresponds to the one that the
	// repository was opened by; equal to Dir at the top.
	WorkDir string
	// Branch is the branch that was made with the worktree.
	Branch string
	// Base is the commit that the worktree started from.
	Base string

	repo *Repo
}

// add makes a worktree at a commit, on a new branch or, if branch is "", on none. It
// verifies that the worktree is complete, and removes what is half made after a failure.
// The caller holds the repository's lock.
func (r *Repo) add(ctx context.Context, path, branch, base string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, cancel := cleanup(ctx)
			defer cancel()
			err = errors.Join(err, r.discard(ctx, path, branch, base))
		}
	}()
	on := []string{"--detach"}
	if branch != "" {
		on = []string{"--no-track", "-b", branch}
	}
	// --force, because git may still list this place from an add that could not be undone.
	// If something exists there, git refuses all the same.
	if _, err := r.git(ctx, r.dir, append(append([]string{"worktree", "add", "--force"}, on...), "--", path, base)...); err != nil {
		return err
	}
	return r.verify(ctx, path, base)
}

// verify makes sure that a new worktree is at its base with every file in place. A
// difference that comes from the repository's own settings for line ends or from its
// filters is no error.
func (r *Repo) verify(ctx context.Context, path, base string) error {
	head, err := r.commit(ctx, path, "HEAD")
	if err != nil {
		return err
	}
	if head != base {
		return fmt.Errorf("the new worktree %s is at %s, not at its base %s", path, head, base)
	}
	missing, err := r.list(ctx, path, "diff", "--name-only", "-z", "--no-renames", "--diff-filter=DUT", "HEAD", "--")
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("the new worktree %s is incomplete: %d files are missing, such as %s", path, len(missing), missing[0])
	}
	return nil
}

// discard removes a worktree in which nobody has worked, and its branch if the branch is
// still at base.
func (r *Repo) discard(ctx context.Context, path, branch, base string) error {
	if err := r.erase(path); err != nil {
		return err
	}
	if branch == "" {
		return nil
	}
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+branch)
	if err != nil || tip != base {
		return err
	}
	return r.deleteBranch(ctx, branch, tip)
}

// unregister removes a worktree with all that is in it. A directory that git no longer
// takes for a worktree is left in place. The worktree is renamed before its first file is
// removed. Otherwise, if git were killed half-way, a next life would think that a step had
// deleted the missing files, and would commit that.
func (r *Repo) unregister(ctx context.Context, path string) error {
	admin, err := adminDir(path)
	if of, complete := worktreeOf(admin); err != nil || !complete || of != path || filepath.Dir(admin) != filepath.Join(r.common, "worktrees") {
		_, err := r.git(ctx, r.dir, "worktree", "remove", "--force", "--force", "--", path)
		return err
	}
	going := path + goingSuffix
	if err := os.RemoveAll(going); err != nil {
		return err
	}
	if err := os.Rename(path, going); err != nil {
		return err
	}
	// Otherwise a power cut could keep the old name and lose the files.
	if err := r.Sync(ctx); err != nil {
		return errors.Join(err, os.Rename(going, path))
	}
	if err := os.RemoveAll(admin); err != nil {
		return err
	}
	if err := os.RemoveAll(going); err != nil {
		return errors.Join(err, os.Rename(going, path))
	}
	return nil
}

// goingSuffix ends the name of a worktree that is being removed.
const goingSuffix = ".going"

// dropGoing removes what is left of worktrees whose removal was cut short.
func (run *Run) dropGoing() error {
	names, err := filepath.Glob(filepath.Join(run.root, poolDir, "*"+goingSuffix))
	for _, name := range append(names, filepath.Join(run.root, "run")+goingSuffix) {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}

// erase removes a worktree in which nothing is of value, in any state, and its private git
// directory. The caller holds the repository's lock.
func (r *Repo) erase(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	dirs, err := subdirs(filepath.Join(r.common, "worktrees"))
	errs := []error{err}
	for _, dir := range dirs {
		if of, complete := worktreeOf(dir); complete && of == path {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// deleteBranch deletes a branch if it still is at the commit tip.
func (r *Repo) deleteBranch(ctx context.Context, branch, tip string) error {
	_, err := r.git(ctx, r.dir, "update-ref", "-d", "refs/heads/"+branch, tip)
	return err
}

// entry is a worktree as git lists it.
type entry struct {
	path, head, branch string
	half               bool // git was killed while it made this one
}

func (r *Repo) worktrees(ctx context.Context) ([]entry, error) {
	fields, err := r.list(ctx, r.dir, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, f := range fields {
		key, value, _ := strings.Cut(f, " ")
		if key == "worktree" {
			all = append(all, entry{path: value})
		}
		if len(all) == 0 {
			continue
		}
		e := &all[len(all)-1]
		switch key {
		case "HEAD":
			e.head = value
		case "branch":
			e.branch = strings.TrimPrefix(value, "refs/heads/")
		case "locked":
			e.half = value == "initializing"
		}
	}
	return all, nil
}

// registered finds the worktree at a path, or gives nil.
func (r *Repo) registered(ctx context.Context, path string) (*entry, error) {
	all, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(e entry) bool { return e.path == path }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// makeRoom frees the path and the branch for a run's worktree after an earlier try that was
// not completed. Work in the old worktree is kept, as by Remove. The caller holds the
// repository's lock.
func (r *Repo) makeRoom(ctx context.Context, run *Run) error {
	e, err := r.registered(ctx, run.Dir)
	if err != nil {
		return err
	}
	_, statErr := os.Lstat(filepath.Join(run.Dir, ".git"))
	switch {
	case e == nil || statErr != nil:
		err = run.moveAside(run.Dir)
		if err == nil && e != nil {
			err = r.unregister(ctx, run.Dir)
		}
	case e.half:
		err = r.unregister(ctx, run.Dir)
	default:
		_, err = r.retire(ctx, run)
	}
	if err == nil {
		err = r.freeBranch(ctx, run.Branch, run)
	}
	if err != nil {
		return fmt.Errorf("make room for a worktree at %s: %w", run.Dir, err)
	}
	return nil
}

// moveAside moves a directory that git does not know out of the way. Nobody can say what is
// in it, so it is deleted only if it is empty.
func (run *Run) moveAside(path string) error {
	if err := os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := 1; ; i++ {
		aside := path + ".lost-" + strconv.Itoa(i)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			if err := os.Rename(path, aside); err != nil {
				return err
			}
			run.mu.Lock()
			defer run.mu.Unlock()
			run.inTheWay = append(run.inTheWay, aside)
			return nil
		}
	}
}

// InTheWay gives, once, the directories that were found where worktrees of the run belong.
// They were moved to a place beside these, because somebody may have put files there.
func (run *Run) InTheWay() []string {
	run.mu.Lock()
	defer run.mu.Unlock()
	dirs := run.inTheWay
	run.inTheWay = nil
	return dirs
}

// freeBranch frees the name of a run's branch: it deletes the branch if its work is merged
// already, and renames it otherwise.
func (r *Repo) freeBranch(ctx context.Context, branch string, run *Run) error {
	k, err := r.settle(ctx, branch, run)
	if err != nil || k.Branch == "" {
		return err
	}
	if _, err = r.nameCommit(ctx, branch+".1", k.Commit); err == nil {
		err = r.deleteBranch(ctx, branch, k.Commit)
	}
	return err
}
