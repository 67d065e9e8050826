package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// overwritten gives the files of a worktree that changes would overwrite or remove, and
// that differ at their place from all of the known commits. It reads the files instead of
// asking git: git does not see ignored files, and takes files with the bits skip-worktree
// or assume-unchanged for unchanged. Such a file may be at the path of a change, in place
// of a directory above it, or below it where a directory is to become a file. A repository
// in such a place counts as a whole: nothing may be written into one, either.
func (r *Repo) overwritten(ctx context.Context, dir string, changes []change, known ...string) ([]string, error) {
	at := occupied{dir: dir, plain: map[string]bool{}, other: map[string]bool{}, dirs: map[string]bool{}}
	for _, c := range changes {
		if err := at.look(c); err != nil {
			return nil, err
		}
	}
	unknown := at.other
	if len(at.plain) > 0 {
		now, err := r.treeWith(ctx, dir, at.plain)
		if err != nil {
			return nil, err
		}
		for _, commit := range known {
			differ, err := r.diffTrees(ctx, commit, now)
			if err != nil {
				return nil, err
			}
			others := map[string]bool{}
			for _, c := range differ {
				others[c.path] = at.plain[c.path]
			}
			at.plain = others
		}
		for path, is := range at.plain {
			if is {
				unknown[path] = true
			}
		}
	}
	var paths []string
	for path := range unknown {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, nil
}

// occupied is what exists in a worktree at the paths that are to change.
type occupied struct {
	dir   string
	plain map[string]bool // files and symbolic links
	other map[string]bool // what no git commit can have: repositories, sockets, devices
	dirs  map[string]bool // directories that were found to be none of those
}

// look notes what exists at the path of a change, above it and below it.
func (o *occupied) look(c change) error {
	for i := range c.path {
		if above := c.path[:i]; c.path[i] == '/' && !o.dirs[above] {
			info, err := os.Lstat(o.file(above))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if !info.IsDir() {
				o.note(above, info.Mode())
				return nil
			}
			if isRepository(o.file(above)) {
				o.other[above] = true
				return nil
			}
			o.dirs[above] = true
		}
	}
	info, err := os.Lstat(o.file(c.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		o.note(c.path, info.Mode())
		return nil
	case c.new.mode == gitlink, c.old.mode == gitlink && c.new == (blob{}):
		return nil // the files of a submodule stay as they are
	}
	return o.below(c.path)
}

// below notes what is in a directory.
func (o *occupied) below(dir string) error {
	entries, err := os.ReadDir(o.file(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		switch {
		case e.Name() == ".git":
			o.other[dir] = true
			return nil
		case e.IsDir():
			if err := o.below(path); err != nil {
				return err
			}
		default:
			o.note(path, e.Type())
		}
	}
	return nil
}

// isRepository says whether a directory is the working tree of a git repository.
func isRepository(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

func (o *occupied) note(path string, mode fs.FileMode) {
	if mode.IsRegular() || mode.Type() == fs.ModeSymlink {
		o.plain[path] = true
	} else {
		o.other[path] = true
	}
}

func (o *occupied) file(path string) string { return filepath.Join(o.dir, filepath.FromSlash(path)) }

// treeWith gives the tree of a worktree's index with some of its files as they are now.
func (r *Repo) treeWith(ctx context.Context, dir string, files map[string]bool) (tree string, err error) {
	index, drop, err := r.copyIndex(ctx, dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, drop()) }()
	env := []string{"GIT_INDEX_FILE=" + index}
	tagged, err := r.run(ctx, call{dir: dir, env: env, args: []string{"ls-files", "-v", "-z"}})
	if err != nil {
		return "", err
	}
	var marked []string
	var all strings.Builder
	for _, row := range splitNUL(tagged) {
		if tag, path, _ := strings.Cut(row, " "); files[path] && tag != "H" {
			marked = append(marked, path)
		}
	}
	for path := range files {
		all.WriteString(path + "\x00")
	}
	if err := r.clearBits(ctx, call{dir: dir, env: env}, marked); err != nil {
		return "", err
	}
	if all.Len() > 0 {
		c := call{dir: dir, env: env, stdin: all.String(), args: []string{"update-index", "-z", "--add", "--replace", "--stdin"}}
		if _, err := r.run(ctx, c); err != nil {
			return "", err
		}
	}
	out, err := r.run(ctx, call{dir: dir, env: env, args: []string{"write-tree"}})
	return strings.TrimSpace(out), err
}

// notEmpty reports whether the error of a removal says that a directory is not empty.
func notEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}
