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

// While agents are merged, the run's branch moves and the run's worktree stays: its
// HEAD is detached at the commit that its files are of, and the private name "tree" has
// that commit. Follow brings the files to the branch, path by path: each path is as the
// old commit, the snapshot or the new one has it, or nobody can know whose it is. So a
// process that goes down half-way does no harm: the next one follows again.

// detach takes the run's worktree off the run's branch, before that moves.
func (run *Run) detach(ctx context.Context) error {
	if run.detached {
		return nil
	}
	r := run.repo
	if at, err := r.commit(ctx, r.dir, privateRef(run.ID, "tree")); err != nil {
		return err
	} else if head, err := r.headID(ctx, run.Dir); err != nil {
		return err
	} else if at != "" && at == head { // by another process, which has not followed yet
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
// Uncommitted files stay, as far as no merge changed them.
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
		if err := r.unhide(ctx, run.Dir); err != nil { // else what is hidden stays as it is
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

// endMerge ends a merge of a step that was cut short in the run's worktree.
func (run *Run) endMerge(ctx context.Context) error {
	if run.notMerging() == nil {
		return nil
	}
	_, err := run.repo.git(ctx, run.Dir, "merge", "--abort")
	return err
}

// aside keeps a file of the run's worktree that is of no commit that is known, beside
// the worktree: a git that was killed wrote half of it, or a step that nobody knows of.
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

// carry brings the files and the index of a worktree from the commit old to the commit
// to. It may be repeated, whatever part of it was done. A file in the way that is neither
// as old, nor as to, nor as the commit base (may be "") has it is given to foreign, which
// makes room for it, or has it stay as it is with all that is to change there, or gives an
// error, before anything has changed.
func (r *Repo) carry(ctx context.Context, dir, old, to, base string, foreign func(path string) (stay bool, err error)) error {
	changes, err := r.diffTrees(ctx, old, to)
	if err != nil {
		return err
	}
	return r.carryOnly(ctx, dir, changes, old, to, base, foreign)
}

// carryOnly is carry of some of what differs.
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
			continue // a git of ours was killed while it wrote it
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

// halfWritten says whether a file is the beginning of what a commit has at its path, or
// is gone, as a git that was killed while it wrote leaves it. A power cut may leave zeros
// where the disk had no bytes yet.
func (r *Repo) halfWritten(ctx context.Context, dir, path, commit string) (bool, error) {
	have, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, nil // a directory, or a link that leads nowhere
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

// removePaths removes files from a worktree and from its index. A directory in the place of
// one stays: what is in it is somebody else's.
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
