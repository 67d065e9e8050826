package engine

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/mask"
)

// The variables of a record have their secrets masked, as everything that is
// stored. So that a later life of the run has them as they were, the record
// says which secret stood where, and they are put back from the secrets as
// that life reads them.

// seals are the marks of masked texts by the path of each in the variables.
type seals map[string][]mask.Mark

// encode is the JSON text of a record, its variables masked.
func (r *run) encode(d recorded) json.RawMessage {
	if r.mask.Active() && len(d.Vars) > 0 {
		d.Secrets = seals{}
		d.Vars, _ = r.seal(d.Vars, "", d.Secrets).(map[string]any)
	}
	return data(d)
}

// seal is v with every text masked; it is v itself, unchanged, where no secret
// is in it.
func (r *run) seal(v any, path string, marks seals) any {
	switch v := v.(type) {
	case string:
		text, m := r.mask.Seal(v)
		if m != nil {
			marks[path] = m
		}
		return text
	case map[string]any:
		out := maps.Clone(v)
		for k, e := range v {
			out[k] = r.seal(e, path+"/"+escape.Replace(k), marks)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, e := range v {
			out[i] = r.seal(e, path+"/"+strconv.Itoa(i), marks)
		}
		return out
	}
	return v
}

// escape makes one part of a path of any key, as in RFC 6901.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// unseal puts the secrets back into a sealed value. It may change v, and notes
// what it cannot restore.
func (r *run) unseal(v any, marks seals) any {
	if len(marks) == 0 {
		return v
	}
	var open func(v any, path string) any
	open = func(v any, path string) any {
		switch v := v.(type) {
		case string:
			m := marks[path]
			if m == nil {
				break
			}
			text, ok := r.mask.Unseal(v, m)
			if !ok {
				name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
				r.noteOnce("sealed "+name, "the variable "+name+" had a secret in it that cannot be put back; it has *** in its place")
			}
			return text
		case map[string]any:
			for k, e := range v {
				v[k] = open(e, path+"/"+escape.Replace(k))
			}
		case []any:
			for i, e := range v {
				v[i] = open(e, path+"/"+strconv.Itoa(i))
			}
		}
		return v
	}
	return open(v, "")
}
