package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Steps may make git repositories of their own below a worktree. No commit of the worktree
// has the files of such a repository, even if it names the repository. They are uncommitted
// work. They are moved to a directory of the run before the worktree goes to the next item
// or is removed.

// repositoriesDir is the name of that directory.
const repositoriesDir = "repositories"

// repositories gives the repositories among untracked paths, which git lists with a "/" at
// the end.
func repositories(untracked []string) (list []string) {
	for _, path := range untracked {
		if strings.HasSuffix(path, "/") {
			list = append(list, path)
		}
	}
	return list
}

// plainFiles gives the paths that are not repositories.
func plainFiles(paths []string) (list []string) {
	for _, path := range paths {
		if !strings.HasSuffix(path, "/") {
			list = append(list, path)
		}
	}
	return list
}

// addAll gives the arguments with which git stages all but some paths.
func addAll(except []string) []string {
	args := []string{"add", "-A", "--sparse", "--", ":(top)"}
	for _, path := range except {
		args = append(args, ":(top,exclude,literal)"+path)
	}
	return args
}

// linked gives the repositories among the paths that commits have changed. A commit names
// only the commit that such a repository is at, and has none of its content. A submodule is
// not one of them: others can fetch it.
func linked(dir string, changed []string) []string {
	list := []string{}
	for _, path := range changed {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(path), ".git")); err == nil && !isSubmodule(dir, path) {
			list = append(list, path+"/")
		}
	}
	return list
}

// links gives the repositories in a worktree that its index names.
func (r *Repo) links(ctx context.Context, dir string) (list []string, err error) {
	rows, err := r.list(ctx, dir, "ls-files", "--stage", "-z", "--full-name", ":(top)")
	for _, row := range rows {
		if info, path, _ := strings.Cut(row, "\t"); strings.HasPrefix(info, "160000 ") {
			list = append(list, linked(dir, []string{path})...)
		}
	}
	return list, err
}

func isSubmodule(dir, path string) bool { return slices.Contains(modulePaths(dir), path) }

// modulePaths gives the paths of the submodules that a worktree names.
func modulePaths(dir string) (list []string) {
	text, err := os.ReadFile(filepath.Join(dir, ".gitmodules"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) == "path" {
			list = append(list, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return list
}

// SetAside gives the directory with the repositories that steps made and that no branch
// has; "" if there are none.
func (run *Run) SetAside() string {
	dir := filepath.Join(run.root, repositoriesDir)
	if _, err := os.Lstat(dir); err != nil {
		return ""
	}
	return dir
}

// setAside moves repositories from a worktree to a directory of the run, and gives the places
// of all that are there by this name: a process that died may have moved some. They and all
// that is in them are on the disk when it returns.
func (run *Run) setAside(ctx context.Context, dir, name string, paths []string) (kept []string, err error) {
	if len(paths) == 0 {
		return run.asideAs(name)
	}
	place := func(path string) string {
		return filepath.Join(run.asideDir(name), filepath.FromSlash(strings.TrimSuffix(path, "/")))
	}
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(place(path)), 0o700); err != nil {
			return nil, err
		}
	}
	// Otherwise a power cut could keep the move and lose what it leads to.
	if err := run.repo.Sync(ctx); err != nil {
		return nil, err
	}
	for _, path := range paths {
		to := freeName(place(path))
		if err := os.Rename(filepath.Join(dir, filepath.FromSlash(path)), to); err != nil {
			return nil, err
		}
	}
	if err := run.repo.Sync(ctx); err != nil {
		return nil, err
	}
	return run.asideAs(name)
}

func (run *Run) asideDir(name string) string {
	return filepath.Join(run.root, repositoriesDir, filepath.FromSlash(name))
}

// asideAs gives the repositories and the submodules that are kept by a name.
func (run *Run) asideAs(name string) (kept []string, err error) {
	err = filepath.WalkDir(run.asideDir(name), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case strings.HasSuffix(path, partSuffix): // it is being moved
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(path, ".git")); err != nil {
			return nil
		}
		kept = append(kept, path)
		return fs.SkipDir
	})
	return kept, err
}

// freeName gives a name that nothing has: this one, or this one with something added.
func freeName(name string) string {
	for {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name += ".1"
	}
}
