package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The run's worktree may hold, uncommitted, files that the agent got by the
// snapshot, changed and committed. Git refuses to merge over them. Where such a
// file is still as the snapshot has it, the agent's is its successor: it is set
// aside for the merge, and put back if the merge is not made. The list of what
// is set aside is kept in a file until then, for a run that goes down meanwhile.

// unstaged calls merge with nothing staged in the run's worktree: git refuses
// to merge while something is, whatever it is. What was staged is staged again.
func (run *Run) unstaged(ctx context.Context, merge func() error) error {
	r := run.repo
	staged, err := r.list(ctx, run.Dir, "diff", "--cached", "--name-only", "-z", "--no-renames")
	if err != nil {
		return err
	}
	if len(staged) == 0 {
		return merge()
	}
	if _, err := r.git(ctx, run.Dir, "reset", "--quiet", "--mixed"); err != nil {
		return err
	}
	err = merge()
	ctx, cancel := cleanup(ctx)
	defer cancel()
	dirty, again := r.dirty(ctx, run.Dir)
	staged = slices.DeleteFunc(staged, func(p string) bool { return !slices.Contains(dirty, p) })
	if again == nil && len(staged) > 0 {
		_, again = r.pathspec(ctx, run.Dir, staged, "add", "-A")
	}
	return errors.Join(err, again)
}

// withRoom sets aside what is in the way of merging tip, and calls merge.
func (run *Run) withRoom(ctx context.Context, tip string, merge func() error) error {
	aside, err := run.inTheWay(ctx, tip)
	if err != nil {
		return err
	}
	if len(aside) == 0 {
		return merge()
	}
	list, err := run.asideList()
	if err != nil {
		return err
	}
	head, err := run.repo.commit(ctx, run.Dir, "HEAD")
	if err != nil {
		return err
	}
	if err := os.WriteFile(list, []byte(strings.Join(append([]string{head}, aside...), "\x00")), 0o600); err != nil {
		return err
	}
	err = run.setAside(ctx, aside)
	if err == nil {
		err = merge()
	}
	if err != nil {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		err = errors.Join(err, run.putBack(ctx, aside))
	}
	return errors.Join(err, os.Remove(list))
}

func (run *Run) asideList() (string, error) {
	dir, err := adminDir(run.Dir)
	return filepath.Join(dir, "bide-set-aside"), err
}

// inTheWay gives the uncommitted files of the run's worktree that merging tip
// would write, as far as they are as the snapshot has them. The others are left
// for git to refuse.
func (run *Run) inTheWay(ctx context.Context, tip string) ([]string, error) {
	r := run.repo
	dirty, err := r.dirty(ctx, run.Dir)
	if err != nil || len(dirty) == 0 {
		return nil, err
	}
	base, err := r.line(ctx, run.Dir, "merge-base", "HEAD", tip)
	if err != nil {
		return nil, err
	}
	changes, err := r.diffTrees(ctx, base, tip)
	if err != nil {
		return nil, err
	}
	s, err := run.frozen(ctx)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, c := range changes {
		if _, ours := s.files[c.path]; ours && slices.Contains(dirty, c.path) {
			paths = append(paths, c.path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	now, err := r.writeTree(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	since, err := r.diffTrees(ctx, s.base, now)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(paths, func(p string) bool {
		return slices.ContainsFunc(since, func(c change) bool { return c.path == p })
	}), nil
}

func (run *Run) setAside(ctx context.Context, paths []string) error {
	r := run.repo
	if _, err := r.pathspec(ctx, run.Dir, paths, "reset", "--quiet", "HEAD"); err != nil {
		return err
	}
	for _, p := range paths {
		tracked, err := r.list(ctx, run.Dir, "--literal-pathspecs", "ls-tree", "-z", "--name-only", "--full-tree", "HEAD", "--", p)
		if err != nil {
			return err
		}
		if len(tracked) == 0 {
			if err := os.Remove(filepath.Join(run.Dir, p)); err != nil {
				return err
			}
		} else if _, err := r.pathspec(ctx, run.Dir, []string{p}, "checkout", "--quiet", "HEAD"); err != nil {
			return err
		}
	}
	return nil
}

// pathspec runs a git command on exactly these paths.
func (r *Repo) pathspec(ctx context.Context, dir string, paths []string, args ...string) (string, error) {
	args = append(append([]string{"--literal-pathspecs"}, args...), "--pathspec-from-file=-", "--pathspec-file-nul")
	return r.run(ctx, call{dir: dir, args: args, stdin: strings.Join(paths, "\x00")})
}

// putBack writes files as the snapshot has them.
func (run *Run) putBack(ctx context.Context, paths []string) error {
	s, err := run.frozen(ctx)
	if err != nil {
		return err
	}
	for _, p := range paths {
		has, err := run.repo.list(ctx, run.Dir, "--literal-pathspecs", "ls-tree", "-z", "--name-only", "--full-tree", s.base, "--", p)
		if err != nil {
			return err
		}
		if len(has) == 0 {
			if err := os.Remove(filepath.Join(run.Dir, p)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		} else if _, err := run.repo.pathspec(ctx, run.Dir, []string{p}, "restore", "--quiet", "--source="+s.base, "--worktree"); err != nil {
			return err
		}
	}
	return nil
}

// takeBack takes back a merge that was under way when the run went down.
func (run *Run) takeBack(ctx context.Context) error {
	head, err := run.repo.commit(ctx, run.Dir, "HEAD")
	if err != nil {
		return err
	}
	if err := run.repo.abortMerge(ctx, run.Dir, head); err != nil {
		return err
	}
	list, err := run.asideList()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(list)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	paths := strings.Split(string(data), "\x00")
	if paths[0] == head && run.snap != nil {
		if err := run.putBack(ctx, paths[1:]); err != nil {
			return err
		}
	}
	return os.Remove(list)
}
