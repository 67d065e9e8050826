package gitwork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/workflow"
)

// Prepare prepares the worktree of the run as the file says, if it is new, and prepares
// those of its agents when they are made.
func (g *Work) Prepare(ctx context.Context) error {
	w, tree := g.x.File.Worktree, g.Tree
	if g.Made {
		g.tellSubmodules(w, tree.Dir)
	}
	if w == nil {
		return nil
	}
	err := tree.PrepareOwn(ctx, func(ctx context.Context) error {
		if err := g.prepareIn(ctx, w, g.Dir, tree.WorkDir); err != nil {
			return err
		}
		_, err := g.Repo.SharedChanges(ctx) // the changes of the setup, which the file asks for
		return err
	})
	if err != nil {
		return err
	}
	tree.Prepare(func(ctx context.Context, dir string) error { return g.prepareIn(ctx, w, tree.WorkDir, dir) })
	return nil
}

// tellSubmodules reports that git leaves the directories of submodules empty in a worktree,
// unless the setup fetches them.
func (g *Work) tellSubmodules(w *workflow.Worktree, dir string) {
	if w != nil && w.Setup != nil && strings.Contains(w.Setup.String(), "submodule") {
		return
	}
	if _, err := os.Stat(filepath.Join(dir, ".gitmodules")); err == nil {
		g.x.Note("the repository has submodules, which are empty in a worktree; to have them: worktree: {setup: git submodule update --init}")
	}
}

// prepareIn copies files from a directory into a worktree, and runs the setup in it.
func (g *Work) prepareIn(ctx context.Context, w *workflow.Worktree, from, to string) error {
	for _, pattern := range w.Copy {
		paths, err := files.Name{Dir: from, Path: pattern}.Find()
		if err != nil {
			return fmt.Errorf("worktree.copy: %w", err)
		}
		if len(paths) == 0 {
			g.x.NoteOnce("copy "+pattern, fmt.Sprintf("worktree.copy: there is no %s in %s", pattern, from))
		}
		for _, path := range paths {
			if err := copyInto(path, from, to); err != nil {
				return fmt.Errorf("worktree.copy: %w", err)
			}
		}
	}
	if w.Setup == nil {
		return nil
	}
	if err := g.Command(ctx, &workflow.Shell{Text: w.Setup}, to); err != nil {
		return fmt.Errorf("worktree.setup: %w", err)
	}
	return nil
}

// copyInto copies a file, or a directory with all that is in it, to the same place in
// another directory. What exists there already stays: it comes from the repository.
func copyInto(path, from, to string) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o777)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(to, target)
			}
			return unlessThere(err)
		}
		if !info.Mode().IsRegular() {
			return nil // a socket or the like is not configuration
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
		if err != nil {
			return unlessThere(err)
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	})
}

func unlessThere(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
