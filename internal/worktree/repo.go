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
// There are as many worktrees for agents as agents work at the same time. When an agent has
// ended, git is asked once for the state of its worktree. What the agent committed is
// merged into the run's branch. What is neither merged nor worthless is kept in a branch
// bide-item/RUN/ITEM/ATTEMPT ([Agent.Finish], [Agent.Keep]); a branch is made only if there
// is work to keep. Once the end of the attempt is on record, the worktree is put back to
// the snapshot ([Agent.Release]), with nothing of the agent left in it, ignored files and
// empty directories included. A worktree that cannot be put back, for example in the middle
// of a rebase, is removed, and a new one takes its place.
//
// A file in the private git directory of a worktree says whose work is in the worktree. It
// is written before the agent begins. A run has lives: its first process, and one for each
// resume. So when a life was killed, the next one finds the work, and continues with it
// ([Run.Continue]) or keeps it.
//
// # What an agent starts from
//
// Agents branch from the run's worktree as it is when the map starts, uncommitted and
// untracked files included, ignored files not. This state is kept as a snapshot: a commit
// on top of the run's HEAD, under the private name refs/bide/RUN/base. It is made with an
// index of its own, so the worktree's index and files do not change. To the agent, the
// snapshot's files look committed: `git status` is clean, and what the agent changes is its
// own work. When its work is merged, the snapshot is taken out again: each commit is
// rewritten on the run's HEAD, without the files that only the snapshot brought and the
// agent did not change. So what setup left uncommitted is in no agent's merge, unless the
// agent changed it. It is committed at the end of the run ([Run.CommitLeft]).
//
// # Merges
//
// A merge is computed, and then published by one update of a ref, so nothing half-merged
// can exist. While agents are merged, the run's worktree does not change; it follows when
// the map has ended ([Run.Follow]). A conflict is resolved in a scratch worktree. The final
// merge into the user's checkout first writes a note, which a resume finds, and then the
// paths that differ. It never overwrites anything that no commit has. Before a ref moves,
// and before the caller records anything, all that git wrote is synced ([Repo.Sync]).
//
// # Work is never lost
//
// Before a worktree is put back or removed, what is uncommitted in it is committed (a
// rescue commit), and a branch holds all that has not been merged. The result says where
// that work is. Work that an agent left by a checkout of something else is found in the log
// of HEAD. Directories that git does not know are moved aside, not deleted.
//
// # Locking
//
// Parallel changes of one repository's worktrees and configuration fail on each other's
// lock files of git. So worktrees are added and removed, and branches deleted, under one
// lock per repository, within the process and (by flock on a file in the common git
// directory) between processes. Merges into one run are made one after another, under a
// lock of the run. A lock ends with its process.
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

// Errors that say why a run cannot be isolated.
var (
	// ErrNoGit says that there is no git command, or one that is too old.
	ErrNoGit = errors.New("git 2.36 or later was not found in PATH; install it, or run with --isolation none")
	// ErrNotRepo says that the directory is in no git repository.
	ErrNotRepo = errors.New("not a git repository")
	// ErrBare says that the repository has no working tree.
	ErrBare = errors.New("a bare git repository has no working tree to start from")
	// ErrUnborn says that there is no commit to branch from.
	ErrUnborn = errors.New("the repository has no commit yet; make a first one (git commit --allow-empty -m start), or run with --isolation none")
)

// Repo is the git repository of a working tree. Several goroutines may call its methods at
// once.
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
	settings []string // the values of deciding when the repository was opened
	shared   shared   // what all worktrees share, as it was read last

	mu    sync.Mutex
	roots []string // the directories of the worktrees of runs

	started atomic.Int64 // git processes, counted for tests of costs
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
		return nil, fmt.Errorf("%s: %w%s", dir, ErrNotRepo, namedElsewhere(dir))
	case len(facts) > 1 && facts[1] == "true":
	case len(facts) > 1 && facts[0] == "true":
		return nil, fmt.Errorf("%s: %w", dir, ErrBare)
	case len(facts) > 1: // inside a .git directory, or not in the working tree of its repository
		if inside, err := r.line(ctx, dir, "rev-parse", "--is-inside-git-dir"); err == nil && inside == "false" {
			return nil, fmt.Errorf("%s: the working tree of its git repository is elsewhere, as core.worktree says: start bide there, or unset core.worktree: %w here", dir, ErrNotRepo)
		}
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

// namedElsewhere says what to do where git would find the repository of a directory only by
// the variable GIT_DIR, which bide does not use; "" if the variable is not set.
func namedElsewhere(dir string) string {
	at := os.Getenv("GIT_DIR")
	if at == "" {
		return ""
	}
	if abs, err := filepath.Abs(at); err == nil {
		at = abs
	}
	return fmt.Sprintf("; bide does not use GIT_DIR (%s): write the line \"gitdir: %[1]s\" into %s, or run with --isolation none", at, filepath.Join(dir, ".git"))
}

// checkVersion checks that git is new enough for `worktree list -z`. A version that it
// cannot read is accepted.
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

// readSettings reads the settings in [deciding]. It gives bide's commits an author if none
// is configured, and changes no configuration. It refuses a repository whose refs are not
// files, because bide finds its locks, names and marks beside them.
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

// HeadInfo says which commit and branch a working tree is at.
type HeadInfo struct {
	Commit string // full id; "" if there is no commit yet
	Branch string // short name; "" if HEAD is detached
}

// HeadInfo says which commit and branch the user's working tree is at.
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
