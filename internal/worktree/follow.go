package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// While agents are merged, the run's branch moves and the run's worktree does not: its HEAD
// is detached at the commit that its files come from. The private name "tree" has that
// commit. Follow brings the files to the branch, path by path. Each path is as the old
// commit, the snapshot or the new commit has it; nobody knows who wrote anything else. So a
// process that is killed half-way does no harm: the next one follows again.

// detach detaches the HEAD of the run's worktree from the run's branch, before the branch
// moves.
func (run *Run) detach(ctx context.Context) error {
	if run.detached {
		return nil
	}
	r := run.repo
	if at, err := r.commit(ctx, r.dir, privateRef(run.ID, "tree")); err != nil {
		return err
	} else if head, err := r.headID(ctx, run.Dir); err != nil {
		return err
	} else if at != "" && at == head { // another process detached it, and has not followed yet
		run.detached = true
		return nil
	}
	tip, err := run.gather(ctx)
	if err != nil {
		return err
	}
	if tip == "" {
		return fmt.Errorf("there is no branch %s any more", run.Branch)
	}
	if _, err := r.git(ctx, r.dir, "update-ref", privateRef(run.ID, "tree"), tip); err != nil {
		return err
	}
	if _, err := r.git(ctx, run.Dir, "update-ref", "--no-deref", "-m", "bide: stay while agents are merged", "HEAD", tip); err != nil {
		return err
	}
	run.detached = true
	return nil
}

// Follow brings the run's worktree to the run's branch, after agents were merged.
// Uncommitted files stay, unless a merge changed them.
func (run *Run) Follow(ctx context.Context) error {
	if run.queue == nil || run.Dir == "" {
		return nil
	}
	if old, err := run.repo.commit(ctx, run.repo.dir, privateRef(run.ID, "tree")); err != nil || old == "" {
		return err
	}
	err := run.queue.while(ctx, func() error { return run.follow(ctx) })
	if err != nil {
		return fmt.Errorf("bring the worktree %s to branch %s: %w", run.Dir, run.Branch, err)
	}
	return nil
}

func (run *Run) follow(ctx context.Context) error {
	r := run.repo
	old, err := r.commit(ctx, r.dir, privateRef(run.ID, "tree"))
	if err != nil || old == "" {
		return err
	}
	tip, err := run.branchTip(ctx)
	if err != nil {
		return err
	}
	if tip == "" {
		return fmt.Errorf("there is no branch %s any more", run.Branch)
	}
	if tip != old {
		if err := run.notMerging(); err != nil {
			return err
		}
		if err := run.dropStale(); err != nil {
			return err
		}
		base := ""
		if run.snap != nil && run.snap.head == old {
			base = run.snap.base
		}
		if err := r.unhide(ctx, run.Dir); err != nil { // otherwise hidden files would not be updated
			return err
		}
		if err := run.noteMerged(ctx, old, tip); err != nil {
			return err
		}
		if err := r.carry(ctx, run.Dir, old, tip, base, run.aside); err != nil {
			return err
		}
	}
	taken, err := run.takeAway(ctx, tip)
	if err != nil {
		return err
	}
	if _, err := r.git(ctx, run.Dir, "symbolic-ref", "-m", "bide: agents are merged", "HEAD", "refs/heads/"+run.Branch); err != nil {
		return err
	}
	if err := run.Mark(ctx, ""); err != nil {
		return err
	}
	if err := r.Sync(ctx); err != nil {
		return err
	}
	if taken != nil {
		if err := taken(); err != nil {
			return err
		}
	}
	if _, err := r.git(ctx, r.dir, "update-ref", "-d", privateRef(run.ID, "tree")); err != nil {
		return err
	}
	run.detached = false
	return nil
}

// notMerging fails if a step's merge is in progress in the run's worktree.
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

// endMerge aborts a merge of a step that was cut short in the run's worktree.
func (run *Run) endMerge(ctx context.Context) error {
	if run.notMerging() == nil {
		return nil
	}
	_, err := run.repo.git(ctx, run.Dir, "merge", "--abort")
	return err
}

// aside moves a file of the run's worktree to a place beside the worktree if no known
// commit has it: a git that was killed wrote half of it, or an unknown step wrote it.
func (run *Run) aside(path string) (stay bool, err error) {
	from := filepath.Join(run.Dir, filepath.FromSlash(path))
	to := filepath.Join(run.root, "lost", filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return false, err
	}
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%d", to, i)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			run.Lost = append(run.Lost, name)
			return false, os.Rename(from, name)
		}
	}
}

// carry brings the files and the index of a worktree from the commit old to the commit to.
// It may be repeated after any part of it was done. A file in the way that differs from
// old, from to and from base (which may be "") is given to foreign before anything changes.
// foreign makes room for it, or says that it stays, with all that would change at its path,
// or gives an error.
func (r *Repo) carry(ctx context.Context, dir, old, to, base string, foreign func(path string) (stay bool, err error)) error {
	changes, err := r.diffTrees(ctx, old, to)
	if err != nil {
		return err
	}
	return r.carryOnly(ctx, dir, changes, old, to, base, foreign)
}

// carryOnly is carry for some of the changes.
func (r *Repo) carryOnly(ctx context.Context, dir string, changes []change, old, to, base string, foreign func(path string) (stay bool, err error)) error {
	if err := r.mendIndex(ctx, dir); err != nil {
		return err
	}
	known := []string{old, to}
	if base != "" {
		known = append(known, base)
	}
	paths, err := r.overwritten(ctx, dir, changes, known...)
	if err != nil {
		return err
	}
	for _, path := range paths {
		half, err := r.halfWritten(ctx, dir, path, to)
		if err != nil {
			return err
		}
		if half {
			continue // a git of ours was killed while it wrote this file
		}
		stay, err := foreign(path)
		if err != nil {
			return err
		}
		if stay {
			changes = slices.DeleteFunc(changes, func(c change) bool { return touches(c.path, path) })
		}
	}
	var write, remove []string
	for _, c := range changes {
		if c.new == (blob{}) {
			remove = append(remove, c.path)
		} else {
			write = append(write, c.path)
		}
	}
	return errors.Join(r.removePaths(ctx, dir, remove), r.writePaths(ctx, dir, to, write))
}

// touches says whether two paths are the same, or one is below the other.
func touches(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// halfWritten reports whether a file is the beginning of what a commit has at its path, or
// is gone. A git that is killed while it writes leaves a file so. After a power cut there
// may be zeros where the disk had no bytes yet.
func (r *Repo) halfWritten(ctx context.Context, dir, path, commit string) (bool, error) {
	name := filepath.Join(dir, filepath.FromSlash(path))
	info, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil || !info.Mode().IsRegular() { // git makes a link at once
		return false, nil
	}
	have, err := os.ReadFile(name)
	if err != nil {
		return false, nil
	}
	there, err := r.list(ctx, dir, "--literal-pathspecs", "ls-tree", "-z", "--name-only", "--full-tree", commit, "--", path)
	if err != nil || len(there) == 0 {
		return false, err
	}
	want, err := r.git(ctx, dir, "cat-file", "--filters", commit+":"+path)
	if err != nil || len(have) > len(want) {
		return false, err
	}
	for i, b := range have {
		if b != 0 && b != want[i] {
			return false, nil
		}
	}
	return true, nil
}

// removePaths removes files from a worktree and from its index. If a directory is at such a
// path, it stays: its content belongs to somebody else.
func (r *Repo) removePaths(ctx context.Context, dir string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	for _, path := range paths {
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.Remove(full); err != nil && !errors.Is(err, os.ErrNotExist) && !notDir(err) && !notEmpty(err) {
			return err
		}
		for up := filepath.Dir(full); up != dir && os.Remove(up) == nil; up = filepath.Dir(up) {
		}
	}
	_, err := r.run(ctx, call{dir: dir, stdin: strings.Join(paths, "\x00") + "\x00", args: []string{"update-index", "-z", "--force-remove", "--stdin"}})
	return err
}

// writePaths writes files as a commit has them into a worktree and its index.
func (r *Repo) writePaths(ctx context.Context, dir, commit string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := r.pathspec(ctx, dir, paths, "restore", "--quiet", "--source="+commit, "--staged", "--worktree")
	return err
}
