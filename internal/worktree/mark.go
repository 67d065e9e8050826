package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markFile has, in a slot's private git directory, a line for each step that
// ended: the commit that the worktree was at, and the step. The last one may be of
// a step whose end was not recorded before a kill; then the line before it counts.
const markFile = "bide-step"

// Mark notes which step of the agent has ended, for [Agent.Rewind]. It asks no
// git and syncs nothing.
func (a *Agent) Mark(step string) error {
	admin, err := adminDir(a.Dir)
	if err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(admin, "HEAD"))
	if err != nil {
		return err
	}
	path := filepath.Join(admin, markFile)
	marks, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	marks = append(marks, strings.TrimSpace(string(head))+" "+step+"\n"...)
	if err := os.WriteFile(path+".tmp", marks, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// Rewind takes back the commits that were made since a step was marked, by the
// next one, which was cut short: what they changed stays, staged. It does nothing
// where the step has no mark, and where a branch is checked out.
func (a *Agent) Rewind(ctx context.Context, step string) error {
	admin, err := adminDir(a.Dir)
	if err != nil {
		return err
	}
	marks, err := os.ReadFile(filepath.Join(admin, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(admin, "HEAD"))
	if err != nil {
		return err
	}
	var was string
	for line := range strings.Lines(string(marks)) {
		if id, of, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); of == step {
			was = id
		}
	}
	now := strings.TrimSpace(string(head))
	if !isID(was) || !isID(now) || was == now {
		return nil
	}
	_, err = a.repo.git(ctx, a.Dir, "reset", "--quiet", "--soft", was, "--")
	return err
}

// unmark forgets the step of an attempt that is over.
func (s *slot) unmark() error {
	if err := os.Remove(filepath.Join(s.admin, markFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
