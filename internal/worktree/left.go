package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// UnresolvedError says that steps left a merge in the middle: nobody can commit for them
// what they have not resolved.
type UnresolvedError struct {
	Dir   string
	Files []string // in conflict, relative to the top
}

func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("the steps left %s in conflict (%s), which cannot be committed: resolve and `git add` them in a step, or commit there",
		diag.Count(len(e.Files), "file"), sample(e.Files))
}

// Class is that of a conflict.
func (*UnresolvedError) Class() string { return ClassConflict }

// commitLeft commits what is uncommitted in a worktree, without running hooks, and gives
// how it stands then. st is how it stood. The paths that are not to be committed, and
// repositories in it, stay as they are: a commit cannot hold the files of another
// repository.
func (r *Repo) commitLeft(ctx context.Context, dir string, st State, text string, not []string) (State, error) {
	if len(st.dirty) == 0 {
		return st, nil
	}
	if len(st.unmerged) > 0 {
		return st, &UnresolvedError{Dir: dir, Files: st.unmerged}
	}
	except := repositories(st.Untracked)
	for _, path := range plainFiles(st.Untracked) {
		if slices.Contains(not, path) {
			except = append(except, path)
		}
	}
	if len(except) < len(st.dirty) {
		if _, err := r.git(ctx, dir, addAll(except)...); err != nil {
			return st, err
		}
	}
	var err error
	if st, err = r.State(ctx, dir); err != nil || len(st.Staged) == 0 {
		return st, err
	}
	if _, err := r.git(ctx, dir, "commit", "--quiet", "--no-verify", "--cleanup=strip", "-m", message(text)); err != nil {
		return st, err
	}
	st.Commit, err = r.headID(ctx, dir)
	st.dirty = slices.DeleteFunc(st.dirty, func(path string) bool {
		return !slices.Contains(st.Unstaged, path) && !slices.Contains(st.Untracked, path)
	})
	st.Staged = nil
	return st, err
}

// CommitLeft commits what is uncommitted in the run's worktree, but for what
// [Run.PrepareOwn] left there, and gives the files that stay uncommitted.
func (run *Run) CommitLeft(ctx context.Context, text string) (left []string, err error) {
	st, err := run.repo.State(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	own, err := run.preparedOwn()
	if err == nil {
		st, err = run.repo.commitLeft(ctx, run.Dir, st, text, own)
	}
	if err != nil {
		return nil, fmt.Errorf("commit what the steps left in %s: %w", run.Dir, err)
	}
	links, err := run.repo.links(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	return append(slices.DeleteFunc(st.dirty, func(path string) bool { return slices.Contains(own, path) }), links...), nil
}

// preparedFile has, in the private git directory of the run's worktree, the files that
// its preparation left there and git does not ignore, a NUL after each. It is there when
// the worktree is prepared.
const preparedFile = "bide-prepared"

// PrepareOwn has f prepare the run's worktree, unless that was done to its end. What f
// leaves there is not of the run's work.
func (run *Run) PrepareOwn(ctx context.Context, f func(ctx context.Context) error) error {
	admin, err := adminDir(run.Dir)
	if err != nil {
		return err
	}
	name := filepath.Join(admin, preparedFile)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f(ctx); err != nil {
		return err
	}
	st, err := run.repo.State(ctx, run.Dir)
	if err != nil {
		return err
	}
	list := strings.Join(st.Untracked, "\x00")
	if list != "" {
		list += "\x00"
	}
	return errors.Join(replace(name, []byte(list)), run.repo.Sync(ctx))
}

// preparedOwn gives the files of preparedFile.
func (run *Run) preparedOwn() ([]string, error) {
	admin, err := adminDir(run.Dir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(admin, preparedFile))
	if errors.Is(err, fs.ErrNotExist) || len(text) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), err
}

// dropPrepared removes the files of preparedFile from the run's worktree, which is about
// to go: copies of the user's, and what the setup made, are nobody's work.
func (run *Run) dropPrepared(ctx context.Context) error {
	own, err := run.preparedOwn()
	if err != nil || len(own) == 0 {
		return nil
	}
	st, err := run.repo.State(ctx, run.Dir)
	if err != nil {
		return err
	}
	for _, path := range own {
		if slices.Contains(st.Untracked, path) {
			if err := os.RemoveAll(filepath.Join(run.Dir, filepath.FromSlash(path))); err != nil {
				return err
			}
		}
	}
	return nil
}
