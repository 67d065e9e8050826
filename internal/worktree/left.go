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

// UnresolvedError says that steps left a merge unfinished. bide cannot commit conflicts
// that the steps have not resolved.
type UnresolvedError struct {
	Dir   string
	Files []string // in conflict, relative to the top
}

func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("the steps left %s in conflict (%s), which cannot be committed: resolve and `git add` them in a step, or commit there",
		diag.Count(len(e.Files), "file"), sample(e.Files))
}

// Class is the class of a conflict.
func (*UnresolvedError) Class() string { return ClassConflict }

// commitLeft commits what is uncommitted in a worktree, without running hooks, and gives
// the state after that. st is the state before. The paths in not, and repositories in the
// worktree, are not changed: a commit cannot hold the files of another repository.
func (r *Repo) commitLeft(ctx context.Context, dir string, st State, text string, not []string) (State, error) {
	if len(st.dirty) == 0 {
		return st, nil
	}
	if len(st.unmerged) > 0 {
		return st, &UnresolvedError{Dir: dir, Files: st.unmerged}
	}
	except := append(repositories(st.Untracked), st.unmoved...)
	for _, path := range plainFiles(st.Untracked) {
		if slices.Contains(not, path) {
			except = append(except, path)
		}
	}
	if len(except) < len(st.dirty)+len(st.unmoved) {
		if _, err := r.git(ctx, dir, addAll(except)...); err != nil {
			return st, err
		}
	}
	var err error
	if st, err = r.State(ctx, dir); err != nil || len(st.Staged) == 0 {
		return st, err
	}
	if _, err := r.git(ctx, dir, "commit", "--quiet", "--no-verify", "-m", message(text)); err != nil {
		return st, err
	}
	st.Commit, err = r.headID(ctx, dir)
	st.dirty = slices.DeleteFunc(st.dirty, func(path string) bool {
		return !slices.Contains(st.Unstaged, path) && !slices.Contains(st.Untracked, path)
	})
	st.Staged = nil
	return st, err
}

// CommitLeft commits what is uncommitted in the run's worktree, except for what
// [Run.PrepareOwn] left there. It gives the files that stay uncommitted.
func (run *Run) CommitLeft(ctx context.Context, text string) (left []string, err error) {
	st, err := run.repo.State(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	before := st.Commit
	own, err := run.preparedOwn()
	if err == nil {
		st, err = run.repo.commitLeft(ctx, run.Dir, st, text, own)
	}
	if err == nil && st.Commit != before { // if somebody deletes the branch, it is made again with this commit
		err = run.Mark(ctx, "")
	}
	if err != nil {
		return nil, fmt.Errorf("commit what the steps left in %s: %w", run.Dir, err)
	}
	links, err := run.repo.links(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	modules, err := run.repo.modulesLeft(ctx, run.Dir, run.Base, st.Commit)
	if err != nil {
		return nil, err
	}
	links = append(links, modules...)
	return append(slices.DeleteFunc(st.dirty, func(path string) bool { return slices.Contains(own, path) }), links...), nil
}

// preparedFile is in the private git directory of the run's worktree. It lists the files
// that the preparation left there and git does not ignore, each ended by NUL. It exists
// once the worktree is prepared.
const preparedFile = "bide-prepared"

// PrepareOwn calls f to prepare the run's worktree, unless that was finished before. What f
// leaves there is not part of the run's work.
func (run *Run) PrepareOwn(ctx context.Context, f func(ctx context.Context) error) error {
	admin, err := adminDir(run.Dir)
	if err != nil {
		return err
	}
	name := filepath.Join(admin, preparedFile)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := run.unprepared(ctx, filepath.Join(admin, preparingFile)); err != nil {
		return err
	}
	if err := f(ctx); err != nil {
		return err
	}
	if err := run.repo.noteHidden(ctx, run.Dir); err != nil {
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
	if err := run.repo.noteStands(ctx, run.Dir); err != nil {
		return err
	}
	ignored, err := run.repo.ignored(ctx, run.Dir)
	if err != nil {
		return err
	}
	if err := run.repo.Sync(ctx); err != nil { // who finds the list finds what was prepared
		return err
	}
	if len(ignored) > 0 {
		if err := replace(filepath.Join(admin, ignoredFile), []byte(strings.Join(ignored, "\x00")+"\x00")); err != nil {
			return err
		}
	}
	return errors.Join(replace(name, []byte(list)), run.repo.Sync(ctx))
}

// preparingFile is in the private git directory of the run's worktree from the time on at
// which its preparation begins. It lists the untracked files that were there before, as in a
// worktree that was made anew, where the run had brought them back.
const preparingFile = "bide-preparing"

// unprepared brings the worktree to where its preparation begins: files that one which was
// cut short has left may not be whole.
func (run *Run) unprepared(ctx context.Context, name string) error {
	st, err := run.repo.State(ctx, run.Dir)
	if err != nil {
		return err
	}
	switch text, err := os.ReadFile(name); {
	case errors.Is(err, fs.ErrNotExist):
		return errors.Join(replace(name, []byte(strings.Join(st.Untracked, "\x00"))), run.repo.Sync(ctx))
	case err != nil:
		return err
	default:
		before := splitNUL(string(text))
		left := slices.DeleteFunc(st.Untracked, func(path string) bool { return slices.Contains(before, path) })
		_, err := run.repo.git(ctx, run.Dir, "clean", "-ffdX")
		return errors.Join(err, run.removeLeft(left))
	}
}

// removeLeft removes untracked files of the run's worktree.
func (run *Run) removeLeft(paths []string) error {
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Join(run.Dir, filepath.FromSlash(path))); err != nil {
			return err
		}
	}
	return nil
}

// ignoredFile is in the private git directory of a prepared worktree, also of one of the
// pool. It lists what the preparation left there and git ignores, with NUL between them.
const ignoredFile = "bide-prepared-ignored"

// OnlyIgnored gives the files and directories that git ignores and that an agent left in
// its worktree, if it changed nothing else there. They are deleted with the worktree, and
// are in no merge. Caches of tools are not among them.
func (a *Agent) OnlyIgnored(ctx context.Context) ([]string, error) {
	s := a.held()
	if s == nil || s.kept == nil || s.kept.untouched || s.kept.Commit != s.owner.Base || len(s.kept.dirty) > 0 {
		return nil, nil
	}
	if rows, ok := s.bared(); ok { // what is there now is of the checks
		return rows, nil
	}
	return a.run.repo.ignoredBut(ctx, s.dir, s.prepared)
}

// Ignored gives what git ignores in the run's worktree, except for what [Run.PrepareOwn]
// left there, and caches of tools.
func (run *Run) Ignored(ctx context.Context) ([]string, error) {
	admin, err := adminDir(run.Dir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(admin, ignoredFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return run.repo.ignoredBut(ctx, run.Dir, splitNUL(string(text)))
}

func (r *Repo) ignoredBut(ctx context.Context, dir string, prepared []string) ([]string, error) {
	paths, err := r.ignored(ctx, dir)
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.Contains(prepared, path) || isCache(filepath.Join(dir, filepath.FromSlash(path)))
	}), err
}

// isCache reports whether a directory that git ignores is the cache of a tool: it has the
// tag (https://bford.info/cachedir), it ignores itself, or it has a known name.
func isCache(dir string) bool {
	if base := filepath.Base(dir); base == "node_modules" || base == "__pycache__" {
		return true
	}
	return slices.ContainsFunc([]string{"CACHEDIR.TAG", ".gitignore"}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
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

// dropPrepared removes the files in preparedFile from the run's worktree, which is about to
// be removed. Copies of the user's files, and what the setup made, are nobody's work.
func (run *Run) dropPrepared(ctx context.Context) error {
	own, err := run.preparedOwn()
	if err != nil || len(own) == 0 {
		return nil
	}
	st, err := run.repo.State(ctx, run.Dir)
	if err != nil {
		return err
	}
	return run.removeLeft(slices.DeleteFunc(own, func(path string) bool { return !slices.Contains(st.Untracked, path) }))
}
