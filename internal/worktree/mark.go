package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markFile has, in a slot's private git directory, the step that ended last and
// the commit that the worktree was at.
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
	if err := os.WriteFile(path+".tmp", []byte(strings.TrimSpace(string(head))+" "+step), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// Rewind takes back the commits that were made since a step was marked, by the
// next one, which was cut short: what they changed stays, staged. It does nothing
// where the mark is that of another step, and where a branch is checked out.
func (a *Agent) Rewind(ctx context.Context, step string) error {
	admin, err := adminDir(a.Dir)
	if err != nil {
		return err
	}
	mark, err := os.ReadFile(filepath.Join(admin, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(admin, "HEAD"))
	if err != nil {
		return err
	}
	was, of, _ := strings.Cut(string(mark), " ")
	now := strings.TrimSpace(string(head))
	if of != step || !isID(was) || !isID(now) || was == now {
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
