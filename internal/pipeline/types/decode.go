package types

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/value"
)

// ValueError says all that keeps a JSON value from being one of a type.
type ValueError struct {
	Type     *Type
	Problems []string // each with the path of the part it is about
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("not a value of type %s: %s", e.Type, strings.Join(e.Problems, "; "))
}

// maxProblems bounds what one ValueError lists.
const maxProblems = 10

// Decode turns a JSON value into a run-time value of type t.
//
// Fields that a record type does not name are left out, absent optional ones
// are none. A number without a fraction is an Int however it is written; any
// number is a Float. A member of a union may be given as {"tag": …, "value": …},
// the tag being the member's type or the name it was declared with, or as it
// is: then it is the member that it fits. Of several it is one that takes its
// numbers as they are written (5 is an Int, 5.0 a Float), of these the one that
// names most of the fields in it and fewest that are not, of these the first
// declared. The error is a
// *ValueError.
func Decode(v any, t *Type) (any, error) {
	d := decoder{}
	out := d.decode(v, t, nil)
	if len(d.problems) > 0 {
		return nil, &ValueError{Type: t, Problems: d.problems}
	}
	return out, nil
}

// FromText reads a value as a person gives it on a command line: a String is
// the text itself, anything else JSON.
func FromText(text string, t *Type) (any, error) {
	if t.Kind == StringKind || t.Kind == OptionalKind && t.Elem.Kind == StringKind {
		return Decode(text, t)
	}
	v, err := value.Parse([]byte(text))
	if err != nil {
		if t.Kind == UnionKind && hasMember(t, String) {
			return Decode(text, String)
		}
		problem := "it is " + describe(text)
		if !scalar(t) {
			problem = "it is no JSON; write it as in " + Example(t)
		}
		return nil, &ValueError{Type: t, Problems: []string{problem}}
	}
	return Decode(v, t)
}

// scalar reports whether a type has only numbers and booleans, none included.
func scalar(t *Type) bool {
	switch t.Kind {
	case IntKind, FloatKind, BooleanKind:
		return true
	case OptionalKind:
		return scalar(t.Elem)
	}
	return false
}

type decoder struct {
	problems []string
	named    int // fields and entries of maps that the type names
	absent   int // optional fields that are not there
	loose    int // numbers written as of the other type: 5 as a Float, 5.0 as an Int
}

func (d *decoder) fail(at *path, format string, args ...any) any {
	switch {
	case len(d.problems) < maxProblems:
		text := fmt.Sprintf(format, args...)
		if at != nil {
			text = at.String() + ": " + text
		}
		d.problems = append(d.problems, text)
	case len(d.problems) == maxProblems:
		d.problems = append(d.problems, "and more")
	}
	return nil
}

func (d *decoder) want(at *path, t *Type, v any) any {
	return d.fail(at, "it must be %s, but is %s", t, describe(v))
}

// describe names a value in a message: what kind it is and, if short, itself.
func describe(v any) string {
	kind := value.Kind(v)
	article := "a "
	switch kind {
	case "null":
		return "null"
	case "array", "object":
		article = "an "
	default:
		if text := value.JSON(v); len(text) <= 40 {
			return "the " + kind + " " + text
		}
	}
	return article + kind
}

func (d *decoder) decode(v any, t *Type, at *path) any {
	switch t.Kind {
	case StringKind:
		if text, ok := v.(string); ok {
			if !utf8.ValidString(text) { // a journal, which is JSON, could not have it
				return d.fail(at, "it is no UTF-8 text; write it in UTF-8, for example with iconv")
			}
			return v
		}
	case BooleanKind:
		if _, ok := v.(bool); ok {
			return v
		}
	case IntKind:
		if _, ok := v.(int64); ok {
			return v
		}
		if i, ok := toInt(v); ok {
			if !writtenAsInt(v) {
				d.loose++
			}
			return i
		}
	case FloatKind:
		if _, ok := v.(float64); ok {
			return v
		}
		if f, ok := toFloat(v); ok {
			if writtenAsInt(v) {
				d.loose++
			}
			return f
		}
	case OptionalKind:
		if v == nil {
			return nil
		}
		return d.decode(v, t.Elem, at)
	case ListKind, SeqKind:
		if list, ok := v.([]any); ok {
			return d.list(list, t, at)
		}
	case MapKind:
		if m, ok := v.(map[string]any); ok {
			return d.mapping(m, t, at)
		}
	case RecordKind:
		if m, ok := v.(map[string]any); ok {
			return d.record(m, t, at)
		}
	case UnionKind:
		return d.union(v, t, at)
	}
	return d.want(at, t, v)
}

func toInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		// 2^63 itself is a float64 but no int64.
		if v == math.Trunc(v) && v >= math.MinInt64 && v < math.MaxInt64 {
			return int64(v), true
		}
	case json.Number:
		if r, ok := value.Number(v); ok && r.IsInt() && r.Num().IsInt64() {
			return r.Num().Int64(), true
		}
	}
	return 0, false
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil && !math.IsInf(f, 0)
	}
	return 0, false
}

func (d *decoder) list(list []any, t *Type, at *path) any {
	out := make([]any, len(list))
	in := path{in: at}
	for i, e := range list {
		in.index = i
		out[i] = d.decode(e, t.Elem, &in)
	}
	return out
}

func (d *decoder) mapping(m map[string]any, t *Type, at *path) any {
	out := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !keyFits(k, t.Key) {
			d.fail(at, "the key %q is not %s", k, t.Key)
			continue
		}
		d.named++
		out[k] = d.decode(m[k], t.Elem, &path{in: at, name: k})
	}
	return out
}

func (d *decoder) record(m map[string]any, t *Type, at *path) any {
	out := make(map[string]any, len(t.Fields))
	for _, f := range t.Fields {
		e, there := m[f.Name]
		if !there && f.Type.Kind != OptionalKind {
			d.fail(at, "the field %q is missing", f.Name)
			continue
		}
		if there {
			d.named++
		} else {
			d.absent++
		}
		out[f.Name] = d.decode(e, f.Type, &path{in: at, name: f.Name})
	}
	if t.Open {
		for k, e := range m {
			if _, have := out[k]; !have {
				out[k] = e
			}
		}
	}
	return out
}

// path is where a part of a value is: a field or an entry of the value around it, or,
// where that has no name, an element. It is written out for problems alone.
type path struct {
	in    *path // nil: of the whole
	name  string
	index int
}

func (p *path) String() string {
	switch around := p.in; {
	case p.name == "" && around == nil:
		return fmt.Sprintf("[%d]", p.index)
	case p.name == "":
		return fmt.Sprintf("%s[%d]", around, p.index)
	case around == nil:
		return p.name
	default:
		return around.String() + "." + p.name
	}
}

func (d *decoder) union(v any, t *Type, at *path) any {
	if tag, inner, ok := tagged(v); ok {
		for _, m := range t.Members {
			if m.Name == tag || m.String() == tag || m.outerName() == tag {
				return d.decode(inner, m, &path{in: at, name: "value"})
			}
		}
	}
	var best any
	var found *decoder
	for _, m := range t.Members {
		trial := &decoder{}
		out := trial.decode(v, m, at)
		if len(trial.problems) == 0 && (found == nil || trial.betterThan(found)) {
			best, found = out, trial
		}
	}
	if found == nil {
		return d.want(at, t, v)
	}
	d.named += found.named
	d.absent += found.absent
	d.loose += found.loose
	return best
}

// betterThan reports whether a type fits a value better than another: its
// numbers are of the type that they are written as, it names more of what is
// there, and less of what is not.
func (d *decoder) betterThan(o *decoder) bool {
	return cmp.Or(cmp.Compare(d.loose, o.loose), cmp.Compare(o.named, d.named), cmp.Compare(d.absent, o.absent)) < 0
}

// tagged recognises {"tag": "…", "value": …}.
func tagged(v any) (tag string, inner any, ok bool) {
	m, isMap := v.(map[string]any)
	if !isMap || len(m) != 2 {
		return "", nil, false
	}
	tag, isText := m["tag"].(string)
	inner, there := m["value"]
	return tag, inner, isText && there
}

// writtenAsInt reports whether a number was written without a point.
func writtenAsInt(v any) bool {
	switch v := v.(type) {
	case int64, int:
		return true
	case json.Number:
		return !strings.ContainsAny(string(v), ".eE")
	}
	return false
}

// outerName is the name of a type without its parts: List of List<Int>.
func (t *Type) outerName() string {
	switch t.Kind {
	case ListKind:
		return "List"
	case SeqKind:
		return "Seq"
	case MapKind:
		return "Map"
	case OptionalKind:
		return "Optional"
	}
	return ""
}
