package worktree

import (
	"context"
	"strings"
)

// What steps commit beside the branch that is merged stays in the user's repository, where
// one machine has the run. Where many share it, it is in a clone that goes with its worker:
// it is kept in branches of bide's, which come home.

// inNoBranch says whether a commit has something that is in no branch, nor in the others. The
// branches of a clone that are not bide's go with it.
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

// lastAtWork says of a slot whose steps are over whether those of all others are over too. Git
// has one stash for all worktrees: as long as another agent works, it may be that one's, who
// may take it back.
func (run *Run) lastAtWork(s *slot) bool {
	p := &run.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.over = true
	for _, other := range p.held {
		if !other.over {
			return false
		}
	}
	return true
}

// keepStash has branches hold what is in the stash of a clone, under a name, or under the name
// and a number.
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

// ownBeside begins the names of branches with work of the run's own steps: no item has it.
func (run *Run) ownBeside() string { return itemBranch(run.ID, "", 1) + besideSuffix }

// KeepBeside has branches hold what the run's own steps left in the stash of a clone, and on
// branches of their own. No agent works meanwhile.
func (run *Run) KeepBeside(ctx context.Context) (k Kept, err error) {
	if k, err = run.keepStash(ctx, run.ownBeside()); err != nil {
		return k, err
	}
	tips, err := run.tips(ctx)
	if err != nil {
		return k, err
	}
	out, err := run.repo.git(ctx, run.repo.dir, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname) %(*objectname)", "refs/heads/", "refs/tags/")
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], runBranches) || strings.HasPrefix(f[0], itemBranches) {
			continue // kept, and there may be many
		}
		commit, cerr := run.repo.commit(ctx, run.repo.dir, f[len(f)-1]) // not the tag itself
		if cerr != nil && status(cerr) <= 0 {
			return k, cerr
		}
		if commit == "" {
			continue // a tag of a file, or of a directory
		}
		lost, lerr := run.inNoBranch(ctx, commit, append(tips, run.Base)...)
		if lerr != nil {
			return k, lerr
		}
		if !lost {
			continue
		}
		branch, nerr := run.repo.nameCommit(ctx, run.ownBeside(), commit)
		if nerr != nil {
			return k, nerr
		}
		k = k.and(Kept{Branch: branch, Commit: commit, Commits: 1})
	}
	return k, err
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
