package worktree

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// Where one machine has the run, what steps commit outside the branch that is merged
// remains in the user's repository. Where many machines share the run, it is in a clone
// that is deleted with its worker. So it is kept in branches of bide's, which are brought
// home.

// inNoBranch reports whether a commit has something that is in no branch and in none of the
// others. Branches of a clone that are not bide's do not count: they are deleted with the
// clone.
func (run *Run) inNoBranch(ctx context.Context, commit string, others ...string) (bool, error) {
	args := []string{"rev-list", "--max-count=1", commit}
	for _, o := range others {
		if o != "" {
			args = append(args, "^"+o)
		}
	}
	args = append(args, "--not")
	if run.pull == nil {
		args = append(args, "--branches")
	} else {
		args = append(args, "--branches="+runBranches+"*", "--branches="+itemBranches+"*")
	}
	lost, err := run.repo.line(ctx, run.repo.dir, args...)
	return lost != "", err
}

// lastAtWork reports, for a slot whose steps are over, whether the steps of all other slots
// are over too. Git has one stash for all worktrees: while another agent works, an entry
// may belong to that agent, which may take it back. tips are the last commits of agents
// that have ended and are not settled yet.
func (run *Run) lastAtWork(s *slot, tip string) (last bool, tips []string) {
	p := &run.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.over, s.tip, last = true, tip, true
	for _, other := range p.held {
		last = last && other.over
		if other.over && other.tip != "" {
			tips = append(tips, other.tip)
		}
	}
	return last, tips
}

// keepStash makes branches hold what is in the stash of a clone. Their name is branch, with
// a number if that is taken.
func (run *Run) keepStash(ctx context.Context, branch string) (k Kept, err error) {
	all, err := run.repo.Stash()
	if err != nil {
		return k, err
	}
	for _, e := range all {
		lost, err := run.inNoBranch(ctx, e.Commit)
		if err != nil {
			return k, err
		}
		if !lost {
			continue
		}
		name, err := run.repo.nameCommit(ctx, branch, e.Commit)
		if err != nil {
			return k, err
		}
		k = k.and(Kept{Branch: name, Commit: e.Commit, Commits: 1})
	}
	return k, nil
}

// ownBeside begins the names of branches with work of the run's own steps. No item has this
// name.
func (run *Run) ownBeside() string { return itemBranch(run.ID, "", 1) + besideSuffix }

// KeepBeside makes branches hold what the run's own steps left in the stash of a clone, on
// their own branches and in their own worktrees. No agent works at that time.
func (run *Run) KeepBeside(ctx context.Context) (k Kept, err error) {
	if k, err = run.keepStash(ctx, run.ownBeside()); err != nil {
		return k, err
	}
	tips, err := run.tips(ctx)
	if err != nil {
		return k, err
	}
	commits, err := run.named(ctx)
	if err != nil {
		return k, err
	}
	named, err := run.keepNamed(ctx, commits, append(tips, run.Base), true, func(commit string) (Kept, error) {
		branch, err := run.repo.nameCommit(ctx, run.ownBeside(), commit)
		return Kept{Branch: branch, Commit: commit, Commits: 1}, err
	})
	return k.and(named), err
}

// keepNamed makes branches hold what would be deleted with a clone: commits under branches
// and tags that are not bide's, and what is in worktrees that are not bide's. Commits that
// known contains are accounted for. Unless last is true, it keeps nothing: other agents may
// still be working on the rest.
func (run *Run) keepNamed(ctx context.Context, commits, known []string, last bool, keep func(commit string) (Kept, error)) (k Kept, err error) {
	if last {
		own, err := run.inOwnWorktrees(ctx)
		if err != nil {
			return k, err
		}
		commits = append(commits, own...)
	}
	for _, commit := range commits {
		if run.pool.isAccounted(commit) {
			continue
		}
		lost, err := run.inNoBranch(ctx, commit, known...)
		if err != nil {
			return k, err
		}
		if lost && !last {
			continue
		}
		if lost {
			left, err := keep(commit)
			if err != nil {
				return k, err
			}
			k = k.and(left)
		}
		run.pool.account(commit)
	}
	return k, nil
}

func (p *pool) isAccounted(commit string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accounted[commit]
}

func (p *pool) account(commit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	value.Put(&p.accounted, commit, true)
}

// named gives the commits that have a branch or a tag which is not bide's.
func (run *Run) named(ctx context.Context) (commits []string, err error) {
	out, err := run.repo.git(ctx, run.repo.dir, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname) %(objecttype) %(*objectname) %(*objecttype)", "refs/heads/", "refs/tags/")
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], runBranches) || strings.HasPrefix(f[0], itemBranches) {
			continue // kept, and there may be many
		}
		if f[len(f)-1] == "commit" { // otherwise a tag of a file, of a directory, or of a tag
			commits = append(commits, f[len(f)-2])
			continue
		}
		commit, err := run.repo.commit(ctx, run.repo.dir, f[1])
		if err != nil && status(err) <= 0 {
			return nil, err
		}
		if commit != "" {
			commits = append(commits, commit)
		}
	}
	return commits, err
}

// inOwnWorktrees gives the commits of the worktrees that steps have made. For a worktree
// with uncommitted files, it gives a commit of these.
func (run *Run) inOwnWorktrees(ctx context.Context) (commits []string, err error) {
	r := run.repo
	entries, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		if i == 0 || e.half || e.path == run.Dir || e.path == filepath.Join(run.root, scratchDir) {
			continue // the clone itself is the first
		}
		admin, err := adminDir(e.path)
		if err != nil { // its directory is gone
			commits = append(commits, e.head)
			continue
		}
		if _, err := os.Lstat(filepath.Join(admin, lockFile)); err == nil {
			continue // of the pool
		}
		at, err := r.Mark(ctx, e.path)
		if err != nil {
			return commits, err
		}
		commit := at.Commit
		if at.Tree != "" {
			if commit, err = run.commitOf(ctx, at); err != nil {
				return commits, err
			}
		}
		commits = append(commits, commit)
	}
	return commits, nil
}

// commitOf gives a commit of what is uncommitted in a worktree. The same content gets the
// same commit.
func (run *Run) commitOf(ctx context.Context, at Point) (commit string, err error) {
	p := &run.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if commit = p.uncommitted[at]; commit == "" {
		commit, err = run.repo.line(ctx, run.repo.dir, "commit-tree", at.Tree, "-p", at.Commit, "-m", "bide: files that were uncommitted in a worktree that a step made")
		value.Put(&p.uncommitted, at, commit)
	}
	return commit, err
}

// Beside gives the branches that KeepBeside has made, in any clone of the run.
func (run *Run) Beside(ctx context.Context) (list []string, err error) {
	tips, err := run.repo.Tips(ctx, run.ID)
	for branch := range tips {
		if strings.HasPrefix(branch, run.ownBeside()) {
			list = append(list, branch)
		}
	}
	return list, err
}
