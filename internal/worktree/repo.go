// Package worktree isolates a run, and each agent of its map, in a git worktree
// of its own, and brings their work back by merging.
//
//	repo ── the user's working tree: read, and written only by FinalMerge
//	  └─ run ── branch bide/RUN, worktree ROOT/run
//	       ├─ pool ── worktree ROOT/pool/1, detached: an agent, then the next
//	       └─ pool ── worktree ROOT/pool/2 …
//
// # The pool
//
// There are as many worktrees for agents as agents work at the same time. When
// one has ended, git is asked once how its worktree stands; what it committed is
// merged into the run's branch, and what is neither merged nor worthless is kept in a
// branch bide-item/RUN/ITEM/ATTEMPT ([Agent.Finish], [Agent.Keep]). Once the end of the
// attempt is on record, the worktree is put back to the snapshot ([Agent.Release]), with
// nothing of the agent left in it, ignored files and empty directories included.
// A branch is made only where there is work to keep. A worktree that cannot be put
// back, as in the middle of a rebase, is removed, and a new one takes its place.
//
// Whose work is in a worktree stands in a file in its private git directory from
// before the agent begins. So the next life of a run that was killed finds it,
// continues with it ([Run.Continue]) or keeps it.
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
// brought and the agent did not change. So what setup left uncommitted is in no merge of
// an agent unless that changed it; it is committed at the end of the run
// ([Run.CommitLeft]).
//
// # Merges
//
// A merge is computed and published by one update of a ref: nothing half-way can exist.
// The run's worktree stays where it is while agents are merged, and follows when the map
// has ended ([Run.Follow]). A conflict is resolved in a scratch worktree. The final merge
// into the user's checkout writes the paths that differ behind a note that a resume
// finds, and overwrites nothing that no commit has. Before a ref moves, and before its caller records anything, all that git wrote
// is synced ([Repo.Sync]).
//
// # Work is never lost
//
// Before a worktree is put back or removed, what is uncommitted in it is committed
// (a rescue commit), and a branch holds all that has not been merged; the answer
// says how to get at it. Work that an agent left by a checkout of something else is
// found in the log of HEAD. Directories that git knows nothing of are moved aside,
// not deleted.
//
// # Locking
//
// Parallel changes of one repository's worktrees and configuration lose against
// each other on git's lock files. So worktrees are added and removed, and branches
// deleted, under one lock per repository, of the process and (by flock on a file
// in the common git directory) among processes. Merges into one run are made one
// after another, under a lock of the run. A lock ends with its process.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
	home   string // where a person finds its branches; "": in dir
	prefix string // of the directory given to Open inside it, "" at the top
	common string // the common git directory
	env    []string
	mutex  *lock
	disks  *syncer
	opened time.Time

	admin    string   // the git directory of the user's working tree
	settings []string // of deciding, as they were when the repository was opened
	shared   shared   // what all worktrees share, as somebody looked at it last

	mu    sync.Mutex
	roots []string // the directories of the worktrees of runs

	started atomic.Int64 // git processes, for tests of what something costs
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
	r := &Repo{dir: dir, env: baseEnv(), opened: time.Now()}
	if err := r.checkVersion(ctx); err != nil {
		return nil, err
	}
	out, err := r.git(ctx, dir, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--git-common-dir", "--absolute-git-dir", "--show-prefix", "--show-toplevel")
	facts := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	switch {
	case err != nil && strings.Contains(err.Error(), "not a git repository"):
		return nil, fmt.Errorf("%s: %w", dir, ErrNotRepo)
	case len(facts) > 1 && facts[1] == "true":
	case len(facts) > 1 && facts[0] == "true":
		return nil, fmt.Errorf("%s: %w", dir, ErrBare)
	case len(facts) > 1: // inside a .git directory
		return nil, fmt.Errorf("%s: inside a git directory: %w", dir, ErrNotRepo)
	}
	if err != nil {
		return nil, err
	}
	if len(facts) != 6 {
		return nil, fmt.Errorf("%s: a path with a line end in it cannot be isolated; run with --isolation none", dir)
	}
	common := facts[2]
	if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	if r.common, err = filepath.EvalSymlinks(common); err != nil {
		return nil, err
	}
	r.prefix, r.dir = facts[4], facts[5]
	r.mutex = newLock(filepath.Join(r.common, "bide.lock"))
	r.disks = &syncer{sync: syncFileSystem}
	r.disks.add(r.common)
	if err := r.readSettings(ctx); err != nil {
		return nil, err
	}
	r.admin, r.shared = facts[3], readShared(r.common)
	return r, nil
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

// readSettings reads those of [deciding], and gives commits of ours an author where none is
// configured; what is configured is left alone. It refuses a repository whose
// refs are no files: locks, names and marks of ours are found beside them.
func (r *Repo) readSettings(ctx context.Context) error {
	out, err := r.git(ctx, r.dir, "config", "--null", "--get-regexp", `^(extensions\.refstorage|core\.[a-z]*|(user|author|committer)\.(name|email))$`)
	if err != nil && status(err) != 1 {
		return err
	}
	configured := map[string]bool{}
	decide := deciding()
	for _, entry := range splitNUL(out) {
		key, value, isSet := strings.Cut(entry, "\n")
		configured[key] = value != ""
		if !isSet {
			value = "true"
		}
		if _, ok := decide[key]; ok {
			decide[key] = value
		}
		if key == "extensions.refstorage" && value != "files" {
			return fmt.Errorf("%s keeps its refs as %s, in which bide cannot work: run with --isolation none, or convert it (git refs migrate --ref-format=files)", r.dir, value)
		}
	}
	for key, value := range decide {
		r.settings = append(r.settings, "-c", key+"="+value)
	}
	for _, who := range []string{"author", "committer"} {
		for _, f := range []struct{ key, value string }{{"name", "bide"}, {"email", "bide@localhost"}} {
			variable := "GIT_" + strings.ToUpper(who+"_"+f.key)
			if os.Getenv(variable) != "" || f.key == "email" && os.Getenv("EMAIL") != "" {
				continue
			}
			if !configured["user."+f.key] && !configured[who+"."+f.key] {
				r.env = append(r.env, variable+"="+f.value)
			}
		}
	}
	return nil
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
func (r *Repo) HeadInfo(ctx context.Context) (HeadInfo, error) {
	s, err := r.State(ctx, r.dir)
	return HeadInfo{s.Commit, s.Branch}, err
}

// Uncommitted gives the paths, relative to the top, that differ from HEAD in
// the user's working tree, untracked files included.
func (r *Repo) Uncommitted(ctx context.Context) ([]string, error) { return r.dirty(ctx, r.dir) }

func (r *Repo) dirty(ctx context.Context, dir string) ([]string, error) {
	s, err := r.State(ctx, dir)
	return s.dirty, err
}
