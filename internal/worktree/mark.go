package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markFile is in the private git directory of a worktree. It has a line for each step that
// ended in the worktree: the commit that the worktree was at, and the step. After a kill,
// the last lines may be of steps whose end was not recorded; then the line before them
// counts. A line without a step always counts.
const markFile = "bide-step"

// marksDir is in the git directory that all worktrees share. It has such a file for each
// run's own worktree, named by the run's id. The file remains when somebody removes the
// worktree.
const marksDir = "bide-steps"

// marks gives the file of a worktree's marks.
func (t *Tree) marks() (string, error) {
	if id, own := strings.CutPrefix(t.Branch, runBranches); own {
		return filepath.Join(t.repo.common, marksDir, id), nil
	}
	admin, err := adminDir(t.Dir)
	return filepath.Join(admin, markFile), err
}

// unmark removes the marks of the run's own worktree.
func (run *Run) unmark() error {
	path, err := run.marks()
	if err == nil {
		err = os.RemoveAll(path)
	}
	return err
}

// Mark records which step has ended, for [Tree.Rewind]. It syncs nothing.
func (t *Tree) Mark(ctx context.Context, step string) error {
	head, err := t.repo.headID(ctx, t.Dir)
	if err != nil {
		return err
	}
	if err := t.ownHistory(ctx, head); err != nil {
		return err
	}
	return t.markAt(head, step)
}

// ownHistory forgets the last merge of the run's own worktree if the step has rewritten the
// history without it: a step may decide what the branch has.
func (t *Tree) ownHistory(ctx context.Context, head string) error {
	id, own := strings.CutPrefix(t.Branch, runBranches)
	if !own {
		return nil
	}
	ref := privateRef(id, "tip")
	text, _ := os.ReadFile(filepath.Join(t.repo.common, filepath.FromSlash(ref)))
	tip := strings.TrimSpace(string(text))
	if !isID(tip) || tip == head {
		return nil
	}
	if in, err := t.repo.isAncestor(ctx, tip, head); err != nil || in {
		return err
	}
	_, err := t.repo.git(ctx, t.repo.dir, "update-ref", "-d", ref)
	return err
}

func (t *Tree) markAt(commit, step string) error {
	path, err := t.marks()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(commit + " " + step + "\n")
	return errors.Join(err, f.Close())
}

// Rewind undoes the commits that were made since the last marked step that stays as it is:
// the step after it made them, and runs again. What they changed stays: of the first commit
// staged, for an earlier step may have staged that, and what came after it not, or the first
// commit would have all when it is made again, and the next one nothing. If that step
// was not cut short, but failed, Rewind does nothing if somebody has committed since its
// end. It does nothing either if there is no mark, or if a step switched the worktree to
// another branch.
func (t *Tree) Rewind(ctx context.Context, stays func(step string) bool, failed bool) error {
	admin, err := adminDir(t.Dir)
	if err != nil {
		return err
	}
	path, err := t.marks()
	if err != nil {
		return err
	}
	marks, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	was, last := "", ""
	for line := range strings.Lines(string(marks)) {
		text, whole := strings.CutSuffix(line, "\n")
		id, step, ok := strings.Cut(text, " ")
		if !whole || !ok || !isID(id) {
			continue
		}
		last = id
		if step == "" || stays(step) {
			was = id
		}
	}
	head, err := os.ReadFile(filepath.Join(admin, "HEAD"))
	if err != nil {
		return err
	}
	if at := strings.TrimSpace(string(head)); !isID(at) && at != "ref: refs/heads/"+t.Branch {
		return nil
	}
	now, err := t.repo.headID(ctx, t.Dir)
	if err != nil || was == "" || was == now || failed && last != now {
		return err
	}
	first, err := t.repo.firstSince(ctx, t.Dir, was, now)
	if err == nil && first != "" {
		_, err = t.repo.git(ctx, t.Dir, "reset", "--quiet", "--mixed", first, "--")
	}
	if err == nil {
		_, err = t.repo.git(ctx, t.Dir, "reset", "--quiet", "--soft", was, "--")
	}
	return err
}

// firstSince is the first of the commits that were made on a commit since it was the one
// called was; "" if they were not made on that.
func (r *Repo) firstSince(ctx context.Context, dir, was, now string) (string, error) {
	text, err := r.git(ctx, dir, "rev-list", "--first-parent", "--parents", was+".."+now, "--")
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	commit, parents, _ := strings.Cut(lines[len(lines)-1], " ")
	if parent, _, _ := strings.Cut(parents, " "); parent != was {
		return "", nil
	}
	return commit, nil
}

// unmark removes the marks of an attempt that is over.
func (s *slot) unmark() error {
	if err := os.Remove(filepath.Join(s.admin, markFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
