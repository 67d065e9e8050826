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

// Glob gives the files below dir that match a pattern of [Match], in the order of
// their names; one without a slash matches files in dir alone. Wildcards do not match
// a dot at the beginning of a name, and ** does not follow symbolic links.
func Glob(dir, pattern string, add func(string) error) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("the pattern %s: %w", pattern, err)
	}
	rest := filepath.ToSlash(pattern)
	root := ""
	if strings.HasPrefix(rest, "/") {
		root = "/"
	}
	names := slices.DeleteFunc(strings.Split(rest, "/"), func(s string) bool { return s == "" || s == "." })
	g := &globber{dir: dir, add: add, seen: map[string]bool{}}
	return g.match(root, names)
}

// Match reports whether a file name fits a pattern of path.Match, in which **
// stands for any number of directories. A pattern without a slash is compared
// with the last element of the name. The error is path.ErrBadPattern.
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
// pattern, which prefixes of the name it fits, so that no pattern takes more
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
	dir  string // what relative paths start from
	add  func(string) error
	seen map[string]bool // two ways of ** may lead to the same file
	many bool            // there is a **: only then can that be
}

// match gives the files that fit names, below at.
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
	entries, err := os.ReadDir(g.real(at))
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

// deep matches rest in at and in all directories below it. ** at the end
// stands for all files.
func (g *globber) deep(at string, rest []string) error {
	if len(rest) == 0 {
		rest = []string{"*"}
	}
	if err := g.match(at, rest); err != nil {
		return err
	}
	entries, err := os.ReadDir(g.real(at))
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

// take continues with a name that fits: into a directory, or it is a file.
func (g *globber) take(path string, rest []string) error {
	info, err := os.Stat(g.real(path))
	if err != nil {
		return unlessGone(err)
	}
	switch {
	case len(rest) > 0 && info.IsDir():
		return g.match(path, rest)
	case len(rest) > 0 || !info.Mode().IsRegular() || g.seen[path]:
		return nil
	}
	if g.many {
		g.seen[path] = true
	}
	return g.add(path)
}

func (g *globber) real(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(g.dir, path, ".")
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
