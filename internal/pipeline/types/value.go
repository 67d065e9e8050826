package types

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Zero is the value that `on_error: skip` and `log` give in place of a result:
// "", 0, 0.0, false, an empty list or map, none, a record of zeroes, the zero of
// the first declared member of a union.
func Zero(t *Type) any {
	switch t.Kind {
	case StringKind:
		return ""
	case IntKind:
		return int64(0)
	case FloatKind:
		return float64(0)
	case BooleanKind:
		return false
	case ListKind, SeqKind:
		return []any{}
	case MapKind:
		return map[string]any{}
	case RecordKind:
		m := make(map[string]any, len(t.Fields))
		for _, f := range t.Fields {
			m[f.Name] = Zero(f.Type)
		}
		return m
	case UnionKind:
		return Zero(t.Members[0])
	}
	return nil // none, and the types that have no values
}

// Conforms reports whether a run-time value is one of type t. Further fields
// of a record do not matter; an absent optional field is none.
func Conforms(v any, t *Type) bool {
	switch t.Kind {
	case InvalidKind, VarKind:
		return true
	case StringKind:
		_, ok := v.(string)
		return ok
	case IntKind:
		_, ok := v.(int64)
		return ok
	case FloatKind:
		_, ok := v.(float64)
		return ok
	case BooleanKind:
		_, ok := v.(bool)
		return ok
	case ListKind, SeqKind:
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(e any) bool { return !Conforms(e, t.Elem) })
	case MapKind:
		return conformsMap(v, t)
	case RecordKind:
		return conformsRecord(v, t)
	case OptionalKind:
		return v == nil || Conforms(v, t.Elem)
	case UnionKind:
		return slices.ContainsFunc(t.Members, func(m *Type) bool { return Conforms(v, m) })
	}
	return false
}

func conformsMap(v any, t *Type) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for k, e := range m {
		if !keyFits(k, t.Key) || !Conforms(e, t.Elem) {
			return false
		}
	}
	return true
}

func conformsRecord(v any, t *Type) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, f := range t.Fields {
		if e, there := m[f.Name]; !there && f.Type.Kind != OptionalKind || !Conforms(e, f.Type) {
			return false
		}
	}
	return true
}

// keyFits reports whether the text of a map's key spells a value of the key's
// type. Only String, Int, Float and Boolean keys can be written in JSON.
func keyFits(key string, t *Type) bool {
	switch t.Kind {
	case StringKind, InvalidKind, VarKind:
		return true
	case IntKind:
		_, err := strconv.ParseInt(key, 10, 64)
		return err == nil
	case FloatKind:
		_, err := strconv.ParseFloat(key, 64)
		return err == nil
	case BooleanKind:
		return key == "true" || key == "false"
	case UnionKind:
		return slices.ContainsFunc(t.Members, func(m *Type) bool { return keyFits(key, m) })
	}
	return false
}

// Member tells which member of a union a run-time value is of: of those it
// conforms to, the one that names most of the fields in it, the first declared
// of several; -1 if it is of none. For a type that is no union it is 0 or -1.
func Member(v any, t *Type) int {
	if t.Kind == OptionalKind {
		t = t.Elem
	}
	if t.Kind != UnionKind {
		if Conforms(v, t) {
			return 0
		}
		return -1
	}
	best, fields := -1, -1
	for i, m := range t.Members {
		if !Conforms(v, m) {
			continue
		}
		if n := named(v, m); n > fields {
			best, fields = i, n
		}
	}
	return best
}

// named counts the fields, and entries of maps, in a value of type t that the
// type names.
func named(v any, t *Type) (n int) {
	switch t.Kind {
	case OptionalKind:
		return named(v, t.Elem)
	case UnionKind:
		if i := Member(v, t); i >= 0 {
			return named(v, t.Members[i])
		}
	case ListKind, SeqKind:
		list, _ := v.([]any)
		for _, e := range list {
			n += named(e, t.Elem)
		}
	case MapKind:
		m, _ := v.(map[string]any)
		for _, e := range m {
			n += 1 + named(e, t.Elem)
		}
	case RecordKind:
		m, _ := v.(map[string]any)
		for _, f := range t.Fields {
			if e, there := m[f.Name]; there {
				n += 1 + named(e, f.Type)
			}
		}
	}
	return n
}

// Encode turns a run-time value into one that prints as JSON which [Decode]
// reads back as the same: a Float without a fraction keeps its ".0", so that it
// stays a Float in a union with Int. It does not change v, and copies only
// what has such a Float in it.
func Encode(v any) any {
	out, _ := encode(v)
	return out
}

func encode(v any) (out any, changed bool) {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e21 { // beyond, it is written with an exponent
			return json.Number(strconv.FormatFloat(v, 'f', 1, 64)), true
		}
	case []any:
		var list []any
		for i, e := range v {
			if n, other := encode(e); other {
				if list == nil {
					list = slices.Clone(v)
				}
				list[i] = n
			}
		}
		if list != nil {
			return list, true
		}
	case map[string]any:
		var m map[string]any
		for k, e := range v {
			if n, other := encode(e); other {
				if m == nil {
					m = maps.Clone(v)
				}
				m[k] = n
			}
		}
		if m != nil {
			return m, true
		}
	}
	return v, false
}
