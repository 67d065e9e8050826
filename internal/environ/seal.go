package environ

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/value"
)

// The variables of a record have their secrets masked, as everything that is
// stored. So that a later life of the run has them as they were, the record
// says which secret stood where, and they are put back from the secrets as
// that life reads them.

// Seals are the marks of masked texts by the path of each in a value.
type Seals map[string][]mask.Mark

// Seal is v with every text masked, and what was masked where; it is v itself,
// unchanged, where no secret is in it.
func (e *Environment) Seal(v any) (any, Seals) {
	if !e.Mask().Active() {
		return v, nil
	}
	marks := Seals{}
	return e.seal(v, "", marks), marks
}

func (e *Environment) seal(v any, path string, marks Seals) any {
	switch v := v.(type) {
	case string:
		text, m := e.Mask().Seal(v)
		if m != nil {
			marks[path] = m
		}
		return text
	case map[string]any:
		out := maps.Clone(v)
		for k, x := range v {
			out[k] = e.seal(x, path+"/"+value.Key(k), marks)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, x := range v {
			out[i] = e.seal(x, path+"/"+strconv.Itoa(i), marks)
		}
		return out
	}
	return v
}

// Unseal puts the secrets back into a sealed value. It may change v, and warns
// of what it cannot restore.
func (e *Environment) Unseal(v any, marks Seals) any {
	if len(marks) == 0 {
		return v
	}
	return e.unseal(v, "", marks)
}

func (e *Environment) unseal(v any, path string, marks Seals) any {
	switch v := v.(type) {
	case string:
		m := marks[path]
		if m == nil {
			break
		}
		text, ok := e.Mask().Unseal(v, m)
		if !ok {
			name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
			e.warn("sealed "+name, "the variable %s had a secret in it that cannot be put back; it has *** in its place", name)
		}
		return text
	case map[string]any:
		for k, x := range v {
			v[k] = e.unseal(x, path+"/"+value.Key(k), marks)
		}
	case []any:
		for i, x := range v {
			v[i] = e.unseal(x, path+"/"+strconv.Itoa(i), marks)
		}
	}
	return v
}
