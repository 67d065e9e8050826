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
	"time"
)

// Git has one stash for all worktrees. What a step stashes and does not take back is in no
// merge, and any other item can take it. An item that takes the last entry may take the
// user's.

// Stashed gives the commits in the stash that were stashed since the run began, in
// worktrees of runs: their HEAD is on no branch, or on one of bide's. It leaves out commits
// whose files are in the run's branch as well.
func (run *Run) Stashed(ctx context.Context) (ids []string, err error) {
	all, err := run.repo.Stash()
	began := run.began().Add(time.Minute).Truncate(time.Second)
	for _, e := range all {
		_, on, _ := strings.Cut(e.Message, "n ") // "WIP on BRANCH: COMMIT", or "On BRANCH: MESSAGE"
		if e.at.Before(began) || !strings.HasPrefix(on, "(no branch): ") && !strings.HasPrefix(on, runBranches) {
			continue
		}
		in, err := run.hasFiles(ctx, e.Commit)
		if err != nil {
			return nil, err
		}
		if !in {
			ids = append(ids, e.Commit)
		}
	}
	return ids, err
}

// hasFiles reports whether what a commit changed is in the run's branch as well.
func (run *Run) hasFiles(ctx context.Context, id string) (bool, error) {
	did, err := run.repo.diffTrees(ctx, id+"^1", id)
	if err != nil || len(did) == 0 {
		return false, err
	}
	differ, err := run.repo.diffTrees(ctx, "refs/heads/"+run.Branch, id)
	return !slices.ContainsFunc(did, func(c change) bool {
		return slices.ContainsFunc(differ, func(d change) bool { return d.path == c.path })
	}), err
}

// StashEntry is an entry of the stash of a repository.
type StashEntry struct {
	Commit  string `json:"commit"`
	Message string `json:"message"`

	at time.Time // to the second
}

// Stash gives the entries of the repository's stash, the oldest first. It starts no process.
func (r *Repo) Stash() (list []StashEntry, err error) {
	log, err := os.ReadFile(filepath.Join(r.common, "logs", "refs", "stash"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(log)) {
		// OLD NEW NAME <MAIL> SECONDS ZONE TAB MESSAGE
		head, message, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		f := strings.Fields(head)
		if len(f) < 4 {
			continue
		}
		e := StashEntry{Commit: f[1], Message: message}
		if at, err := strconv.ParseInt(f[len(f)-2], 10, 64); err == nil {
			e.at = time.Unix(at, 0)
		}
		list = append(list, e)
	}
	return list, err
}

// StashStamp gives a text that differs after each use of the stash, also if an entry was
// put there and taken again.
func (r *Repo) StashStamp() (stamp string) {
	for _, name := range []string{"logs/refs", "logs/refs/stash", "refs/stash"} {
		if info, err := os.Lstat(filepath.Join(r.common, filepath.FromSlash(name))); err == nil {
			stamp += fmt.Sprintf("%s %d %d\n", name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return stamp
}

// Unstash puts an entry back into the stash that was taken from it.
func (r *Repo) Unstash(ctx context.Context, e StashEntry) error {
	return r.locked(ctx, func() error {
		_, err := r.git(ctx, r.dir, "stash", "store", "--quiet", "--message", e.Message, e.Commit)
		return err
	})
}

// Took reports whether the work of the run, or the kept work of its items, has a file as an
// entry of the stash has it: then a step has taken the file from the stash.
func (run *Run) Took(ctx context.Context, e StashEntry) (bool, error) {
	r := run.repo
	has := map[string]blob{}
	changes, err := r.diffTrees(ctx, e.Commit+"^1", e.Commit)
	if err != nil {
		return false, err
	}
	for _, c := range changes {
		has[c.path] = c.new
	}
	tips, err := r.Tips(ctx, run.ID)
	if err != nil {
		return false, err
	}
	for _, tip := range tips {
		changes, err := r.diffTrees(ctx, run.Base, tip)
		if err != nil {
			return false, err
		}
		for _, c := range changes {
			if b, ok := has[c.path]; ok && b == c.new {
				return true, nil
			}
		}
	}
	return false, nil
}
