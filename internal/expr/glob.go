package expr

import (
	"strings"

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/value"
)

// fitting is ${files:*.go}: those of a list of file names that match a pattern.
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
		ok, err := files.Match(n.pattern, value.Text(e))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}
