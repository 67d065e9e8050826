// Package worktree isolates a run, and each agent of its map, in a git worktree
// of its own, and brings their work back by merging.
//
//	repo ── the user's working tree: read, and written only by FinalMerge
//	  └─ run ── branch bide/RUN, worktree ROOT/run
//	       ├─ agent ── branch bide-item/RUN/ITEM/1, worktree ROOT/items/ITEM
//	       └─ agent …
//
// # What an agent starts from
//
// Agents branch from the run's worktree as it is when the map starts,
// uncommitted and untracked files included (ignored ones not). The state is
// kept as a snapshot: a commit on top of the run's HEAD, under the private name
// refs/bide/RUN/base, made through an index of its own, so that the worktree's
// index and files are not touched. To the agent the snapshot's files look
// committed: `git status` is clean, and what it changes is its own work. When
// its work is taken over, the snapshot is taken out again: each commit is
// written anew on the run's HEAD, without the files that only the snapshot
// brought and the agent did not change. So what setup left uncommitted stays
// uncommitted in the run, and is in no merge unless an agent changed it.
//
// # Work is never lost
//
// Removing a worktree first commits what is uncommitted in it (a rescue commit)
// and then deletes its branch only if all of it has been merged; otherwise the
// branch stays, and the answer says how to get at it. Directories that git
// knows nothing of are moved aside, not deleted.
//
// # Locking
//
// Parallel changes of one repository's worktrees, branches and configuration
// lose against each other on git's lock files. So all that this package
// changes there is done under one lock per repository, of the process and
// (by flock on a file in the common git directory) among processes. A lock
// ends with its process.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Errors that tell why there is no isolation to be had.
var (
	// ErrNoGit: there is no git command, or one that lacks what is used here.
	ErrNoGit = errors.New("git 2.36 or later was not found in PATH; install it, or run with --isolation none")
	// ErrNotRepo: the directory is in no git repository.
	ErrNotRepo = errors.New("not a git repository")
	// ErrBare: the repository has no working tree.
	ErrBare = errors.New("a bare git repository has no working tree to start from")
	// ErrUnborn: there is no commit to branch from.
	ErrUnborn = errors.New("the repository has no commit yet; make a first one (git commit --allow-empty -m start), or run with --isolation none")
)

// Repo is the git repository of a working tree. Its methods may be called by
// several goroutines at once.
type Repo struct {
	dir    string // top of the working tree
	prefix string // of the directory given to Open inside it, "" at the top
	common string // the common git directory
	env    []string
	mutex  *lock
}

// Open finds the repository of a directory. The error is [ErrNotRepo],
// [ErrBare], [ErrNoGit], or a *[GitError] with git's own words.
func Open(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	r := &Repo{dir: dir, env: baseEnv()}
	if err := r.checkVersion(ctx); err != nil {
		return nil, err
	}
	out, err := r.line(ctx, dir, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")
	if err != nil {
		if strings.Contains(err.Error(), "not a git repository") {
			return nil, fmt.Errorf("%s: %w", dir, ErrNotRepo)
		}
		return nil, err
	}
	switch bare, inside, _ := strings.Cut(out, "\n"); {
	case inside == "true":
	case bare == "true":
		return nil, fmt.Errorf("%s: %w", dir, ErrBare)
	default: // inside a .git directory
		return nil, fmt.Errorf("%s: inside a git directory: %w", dir, ErrNotRepo)
	}
	if r.dir, err = r.line(ctx, dir, "rev-parse", "--show-toplevel"); err != nil {
		return nil, err
	}
	if r.prefix, err = r.line(ctx, dir, "rev-parse", "--show-prefix"); err != nil {
		return nil, err
	}
	if r.common, err = r.commonDir(ctx, dir); err != nil {
		return nil, err
	}
	r.mutex = newLock(filepath.Join(r.common, "bide.lock"))
	return r, r.fillIdentity(ctx)
}

// checkVersion looks whether git is new enough for `worktree list -z`. A
// version that it cannot read passes.
func (r *Repo) checkVersion(ctx context.Context) error {
	out, err := r.line(ctx, r.dir, "version")
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(out, "git version %d.%d", &major, &minor); err == nil && (major < 2 || major == 2 && minor < 36) {
		return fmt.Errorf("%s is too old: %w", out, ErrNoGit)
	}
	return nil
}

func (r *Repo) commonDir(ctx context.Context, dir string) (string, error) {
	common, err := r.line(ctx, dir, "rev-parse", "--git-common-dir")
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	return filepath.EvalSymlinks(common)
}

// fillIdentity gives commits of ours an author where none is configured. What
// is configured is left alone.
func (r *Repo) fillIdentity(ctx context.Context) error {
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		for _, f := range []struct{ key, name, value string }{
			{"user.name", "NAME", "bide"},
			{"user.email", "EMAIL", "bide@localhost"},
		} {
			variable := "GIT_" + who + "_" + f.name
			if os.Getenv(variable) != "" || f.name == "EMAIL" && os.Getenv("EMAIL") != "" {
				continue
			}
			specific := strings.ToLower(who) + "." + strings.ToLower(f.name)
			configured, err := r.configured(ctx, f.key, specific)
			if err != nil {
				return err
			}
			if !configured {
				r.env = append(r.env, variable+"="+f.value)
			}
		}
	}
	return nil
}

func (r *Repo) configured(ctx context.Context, keys ...string) (bool, error) {
	for _, key := range keys {
		value, err := r.line(ctx, r.dir, "config", "--get", key)
		if err != nil && status(err) != 1 {
			return false, err
		}
		if value != "" {
			return true, nil
		}
	}
	return false, nil
}

// Dir gives the top of the working tree.
func (r *Repo) Dir() string { return r.dir }

// locked runs f under the repository's lock.
func (r *Repo) locked(ctx context.Context, f func() error) error { return r.mutex.while(ctx, f) }

// HeadInfo is where a working tree stands.
type HeadInfo struct {
	Commit string // full id; "" if there is no commit yet
	Branch string // short name; "" if HEAD is detached
}

// HeadInfo gives where the user's working tree stands.
func (r *Repo) HeadInfo(ctx context.Context) (HeadInfo, error) { return r.head(ctx, r.dir) }

func (r *Repo) head(ctx context.Context, dir string) (h HeadInfo, err error) {
	if h.Commit, err = r.commit(ctx, dir, "HEAD"); err != nil {
		return h, err
	}
	ref, err := r.line(ctx, dir, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && status(err) != 1 {
		return h, err
	}
	h.Branch = strings.TrimPrefix(ref, "refs/heads/")
	return h, nil
}

// Uncommitted gives the paths, relative to the top, that differ from HEAD in
// the user's working tree, untracked files included.
func (r *Repo) Uncommitted(ctx context.Context) ([]string, error) { return r.dirty(ctx, r.dir) }

// IsDirty reports whether anything is uncommitted in the user's working tree.
func (r *Repo) IsDirty(ctx context.Context) (bool, error) {
	files, err := r.Uncommitted(ctx)
	return len(files) > 0, err
}

func (r *Repo) dirty(ctx context.Context, dir string) ([]string, error) {
	entries, err := r.list(ctx, dir, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if len(e) > 3 {
			paths = append(paths, e[3:])
		}
	}
	return paths, nil
}
