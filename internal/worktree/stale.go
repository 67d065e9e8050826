package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/pattern"
)

// A git that is killed leaves its lock files, and every later git is refused. Lock files
// that only bide and the steps of its runs can have made are removed when they are in the
// way, and by the next life of a run. Lock files that the user's git makes as well are
// removed only by the next life, which reports it.

// dropStale deletes the lock files that a killed git left for the run's
// worktree and its branches.
func (run *Run) dropStale() error {
	admin, err := adminDir(run.Dir)
	if err != nil {
		return err
	}
	heads := filepath.Join(run.repo.common, "refs", "heads")
	return dropStale(admin, filepath.Join(heads, filepath.FromSlash(run.Branch)+".lock"), filepath.Join(heads, filepath.FromSlash(run.Branch+besideSuffix)+".lock"))
}

// dropStale deletes the lock files that a killed git left in the private git directory of a
// worktree, and the others that are named. No process of ours works there any more.
func dropStale(admin string, others ...string) error {
	return dropLocks(append(others, filepath.Join(admin, "index.lock"), filepath.Join(admin, "HEAD.lock"))...)
}

func dropLocks(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !notDir(err) {
			return err
		}
	}
	return nil
}

// unlock removes the lock files that a killed git of an earlier life of the run left: those
// of the run, and shared ones (of packed refs, of the user's checkout and its branch) if
// they are younger than the run and no process has them open. It gives the shared ones that
// it removed.
func (r *Repo) unlock(ctx context.Context, run *Run) (removed []string, err error) {
	if err := dropLocks(append(r.nameLocks(run), filepath.Join(r.common, "refs", "heads", filepath.FromSlash(run.Branch)+".lock"))...); err != nil {
		return nil, err
	}
	if admin, err := adminDir(run.Dir); err == nil && run.Dir != "" && filepath.Dir(admin) == filepath.Join(r.common, "worktrees") { // a power cut may have damaged the link
		if err := dropStale(admin); err != nil {
			return nil, err
		}
	}
	began := run.began()
	if began.IsZero() {
		return nil, nil
	}
	shared := []string{filepath.Join(r.common, "packed-refs.lock"), filepath.Join(r.common, "config.lock"), filepath.Join(r.common, "objects", "maintenance.lock")}
	if admin, err := r.gitDir(ctx, r.dir); err == nil {
		shared = append(shared, filepath.Join(admin, "index.lock"), filepath.Join(admin, "HEAD.lock"), filepath.Join(admin, "ORIG_HEAD.lock"))
	}
	if target, err := r.target(ctx, run.ID); err == nil && target != "" {
		shared = append(shared, filepath.Join(r.common, filepath.FromSlash(target)+".lock"))
	}
	for _, name := range shared {
		dead, err := deadLock(ctx, name, began, r.dir, r.common, run.root)
		if err != nil {
			return removed, err
		}
		if !dead {
			continue
		}
		if err := dropLocks(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// nameLocks gives the lock files of the private names of a run and of the branches of its items.
func (r *Repo) nameLocks(run *Run) (locks []string) {
	for _, dir := range []string{filepath.FromSlash(privateRefs + run.ID), filepath.Join("refs", "heads", filepath.FromSlash(itemBranches+run.ID))} {
		_ = filepath.WalkDir(filepath.Join(r.common, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && strings.HasSuffix(path, ".lock") {
				locks = append(locks, path)
			}
			return nil
		})
	}
	return locks
}

// dropDead removes the locks of the run's own names that a git which was killed left in this
// life of the run.
func (run *Run) dropDead(ctx context.Context) error {
	r := run.repo
	for _, name := range r.nameLocks(run) {
		dead, err := deadLock(ctx, name, r.opened, r.dir, r.common, run.root)
		if err == nil && dead {
			err = dropLocks(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deadLock reports whether a lock file was made after a time by a process that has ended. A
// living process has the file open, or is a git that began before the file was made and
// works in one of the directories: git has closed the lock of packed refs, and that of the
// index while an editor is open. A young file is given a second.
func deadLock(ctx context.Context, name string, since time.Time, dirs ...string) (bool, error) {
	for {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil || info.ModTime().Before(since) {
			return false, err
		}
		held, known := held(name, info.ModTime(), dirs)
		least := time.Second
		if !known {
			least = time.Minute
		}
		age := time.Since(info.ModTime())
		if held {
			return false, nil
		}
		if age >= least {
			return true, nil
		}
		if !known {
			return false, nil
		}
		select {
		case <-time.After(least - age):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// inTheWay finds, in an error message of git, the lock file that git could not make.
var inTheWay = pattern.Lazy(`Unable to create '([^'\n]+\.lock)': File exists`)

// isLocked reports whether git was refused because of a lock file.
func isLocked(err error) bool { return err != nil && inTheWay().MatchString(err.Error()) }

// freed removes the lock file that stopped a call of git in a directory, if the file is in
// a place of ours, no process holds it, and it was made in this life. It reports whether
// the call should be tried again.
func (r *Repo) freed(ctx context.Context, dir string, refused error) bool {
	git, ok := errors.AsType[*GitError](refused)
	if !ok {
		return false
	}
	found := inTheWay().FindStringSubmatch(git.Stderr)
	if found == nil || !r.isOurs(found[1], dir) {
		return false
	}
	dead, err := deadLock(ctx, found[1], r.opened, dir, r.common)
	return err == nil && dead && dropLocks(found[1]) == nil
}

// isOurs reports whether a lock file belongs to a ref of bide's, or to the worktree of a
// run.
func (r *Repo) isOurs(name, dir string) bool {
	for _, refs := range []string{privateRefs, "refs/heads/" + runBranches, "refs/heads/" + itemBranches} {
		if strings.HasPrefix(name, filepath.Join(r.common, filepath.FromSlash(refs))+string(filepath.Separator)) {
			return true
		}
	}
	admin, err := adminDir(dir)
	return err == nil && dir != r.dir && filepath.Dir(name) == admin && filepath.Dir(filepath.Dir(admin)) == r.common
}
