package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Patterns are those of path.Match, in which ** stands for any number of directories.
// Where files are looked for, a wildcard matches no slash and no dot at the beginning of
// a name, as in a shell, and ** follows no symbolic links.

// Glob gives the regular files below dir that match a pattern, in the order of their
// names; one without a slash matches files in dir alone.
func Glob(dir, pattern string, add func(string) error) error {
	t := machine(dir)
	return glob(t, pattern, func(path string) error {
		if info, err := t.stat(path); err != nil || !info.Mode().IsRegular() {
			return unlessGone(err)
		}
		return add(path)
	})
}

// Find gives the files and directories that match the path as a pattern, by their full
// paths, in order. What looks like a pattern in the name of the directory is none.
func (n Name) Find() (found []string, err error) {
	if !n.ByData {
		err = glob(machine(n.Dir), n.Path, func(path string) error {
			found = append(found, Name{Dir: n.Dir, Path: path}.Full())
			return nil
		})
		slices.Sort(found)
		return found, err
	}
	return within(n, func(root *os.Root, pattern string) ([]string, error) {
		err := glob(confined(root), pattern, func(path string) error {
			found = append(found, filepath.Join(n.Dir, path))
			return nil
		})
		slices.Sort(found)
		return found, err
	})
}

// glob gives what matches a pattern in a tree.
func glob(t tree, pattern string, add func(string) error) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("the pattern %s: %w", pattern, err)
	}
	rest := filepath.ToSlash(pattern)
	root := ""
	if strings.HasPrefix(rest, "/") {
		root = "/"
	}
	names := slices.DeleteFunc(strings.Split(rest, "/"), func(s string) bool { return s == "" || s == "." })
	g := &globber{tree: t, add: add, seen: map[string]bool{}}
	return g.match(root, names)
}

// tree is where files are looked for; names in it are relative to its directory.
type tree struct {
	stat, lstat func(name string) (fs.FileInfo, error)
	read        func(name string) ([]fs.DirEntry, error)
}

// machine is a directory of this machine, out of which names may lead.
func machine(dir string) tree {
	full := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name, ".")
	}
	return tree{
		stat:  func(name string) (fs.FileInfo, error) { return os.Stat(full(name)) },
		lstat: func(name string) (fs.FileInfo, error) { return os.Lstat(full(name)) },
		read:  func(name string) ([]fs.DirEntry, error) { return os.ReadDir(full(name)) },
	}
}

// confined is a directory that nothing leads out of. A link out of it is found where it
// matches, and who opens it is told; what is behind it is not looked for.
func confined(root *os.Root) tree {
	return tree{
		stat:  func(name string) (fs.FileInfo, error) { return root.Stat(filepath.Join(name, ".")) },
		lstat: func(name string) (fs.FileInfo, error) { return root.Lstat(filepath.Join(name, ".")) },
		read: func(name string) ([]fs.DirEntry, error) {
			f, err := root.Open(filepath.Join(name, "."))
			if err != nil {
				return nil, err
			}
			entries, err := f.ReadDir(-1)
			slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return entries, errors.Join(err, f.Close())
		},
	}
}

// Match reports whether a file name matches a pattern. One without a slash is compared
// with the last element of the name, and wildcards match dots everywhere: it says which
// of some files are meant, as git does, and looks for none. The error is
// path.ErrBadPattern.
func Match(pattern, name string) (bool, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return false, err
	}
	if !strings.Contains(pattern, "/") {
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return ok, err
		}
		return path.Match(pattern, path.Base(name))
	}
	if strings.Count(pattern, "**") == 0 {
		return path.Match(pattern, name)
	}
	return matchParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matchParts compares element by element. It keeps, for each prefix of the
// pattern, which prefixes of the name it matches, so that no pattern takes more
// than the product of both lengths.
func matchParts(pattern, name []string) (bool, error) {
	fits := make([]bool, len(name)+1)
	fits[0] = true
	for _, p := range pattern {
		next := make([]bool, len(name)+1)
		for i := range next {
			switch {
			case p == "**":
				next[i] = fits[i] || i > 0 && next[i-1]
			case i > 0 && fits[i-1]:
				ok, err := path.Match(p, name[i-1])
				if err != nil {
					return false, err
				}
				next[i] = ok
			}
		}
		fits = next
	}
	return fits[len(name)], nil
}

type globber struct {
	tree
	add  func(string) error
	seen map[string]bool // two ways of ** may lead to the same file
	many bool            // there is a **: only then can that be
}

// match gives what matches names, below at.
func (g *globber) match(at string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	name, rest := names[0], names[1:]
	if name == "**" {
		g.many = true
		return g.deep(at, rest)
	}
	if !strings.ContainsAny(name, `*?[\`) {
		return g.take(join(at, name), rest)
	}
	entries, err := g.read(at)
	if err != nil {
		return unlessGone(err)
	}
	for _, e := range entries {
		if hidden(name, e.Name()) {
			continue
		}
		if ok, err := path.Match(name, e.Name()); err != nil || !ok {
			continue // the pattern was checked
		}
		if err := g.take(join(at, e.Name()), rest); err != nil {
			return err
		}
	}
	return nil
}

// deep matches rest in at and in all directories below it. ** at the end stands for all
// that is there.
func (g *globber) deep(at string, rest []string) error {
	if len(rest) == 0 {
		rest = []string{"*"}
	}
	if err := g.match(at, rest); err != nil {
		return err
	}
	entries, err := g.read(at)
	if err != nil {
		return unlessGone(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			if err := g.deep(join(at, e.Name()), rest); err != nil {
				return err
			}
		}
	}
	return nil
}

// take continues with a name that matches: into a directory, or it is found.
func (g *globber) take(path string, rest []string) error {
	info, err := g.lstat(path)
	if err != nil {
		return unlessGone(err)
	}
	if len(rest) > 0 {
		link := info.Mode()&fs.ModeSymlink != 0
		if link {
			info, err = g.stat(path)
		}
		switch {
		case err != nil && link:
			return nil // it leads nowhere, or out of the directory
		case !info.IsDir():
			return nil
		}
		return g.match(path, rest)
	}
	if g.seen[path] {
		return nil
	}
	if g.many {
		g.seen[path] = true
	}
	return g.add(path)
}

// join keeps a relative path as it was written.
func join(at, name string) string {
	switch at {
	case "", "/":
		return at + name
	}
	return at + "/" + name
}

// hidden says whether a name begins with a dot that the pattern does not have.
func hidden(pattern, name string) bool {
	return strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".")
}

// unlessGone passes over what is not there, or not a directory, or may not be
// read: a pattern asks for what can be found.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
