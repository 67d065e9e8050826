package expr

import (
	"path"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// Glob reports whether a file name fits a pattern of path.Match, in which **
// stands for any number of directories. A pattern without a slash is compared
// with the last element of the name. The error is path.ErrBadPattern.
func Glob(pattern, name string) (bool, error) {
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
	return globParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// globParts compares element by element. It keeps, for each prefix of the
// pattern, which prefixes of the name it fits, so that no pattern takes more
// than the product of both lengths.
func globParts(pattern, name []string) (bool, error) {
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

// fitting is ${files:*.go}: those of a list of file names that fit a pattern.
type fitting struct {
	x       node
	pattern string
}

func (n fitting) eval(r Resolver) (any, error) {
	v, err := n.x.eval(r)
	if err != nil || v == nil {
		return v, err
	}
	names, isList := v.([]any)
	if !isList {
		for _, w := range strings.Fields(value.Text(v)) {
			names = append(names, w)
		}
	}
	out := []any{}
	for _, e := range names {
		ok, err := Glob(n.pattern, value.Text(e))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}
