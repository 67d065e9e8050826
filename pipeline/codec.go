package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"

	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// codec turns the run-time values of one type into values of a Go type and
// back. It is made once, when a function is registered; using it looks nothing
// up.
type codec struct {
	typ    *types.Type
	direct bool // the run-time value is the Go value
	decode func(v any, into reflect.Value) error
	encode func(v reflect.Value) (any, error)
}

// inputs are the parameters of a function.
type inputs struct {
	params []types.Param
	direct bool // the one parameter is a run-time value as it is
	fields []field
	single *codec // if In is no struct
}

// field is one field of a struct.
type field struct {
	name  string
	index int
	codec *codec
}

func newParams(t reflect.Type) (*inputs, error) {
	in := &inputs{}
	if t.Kind() != reflect.Struct {
		c, err := newCodec(t)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		in.single, in.direct = c, c.direct
		in.params = []types.Param{{Name: "value", Type: c.typ}}
		return in, nil
	}
	fields, err := structFields(t, nil)
	for _, f := range fields {
		in.params = append(in.params, types.Param{Name: f.name, Type: f.codec.typ})
	}
	in.fields = fields
	if err != nil {
		err = fmt.Errorf("input: %w", err)
	}
	return in, err
}

func (in *inputs) decode(args []any, into reflect.Value) error {
	if in.single != nil {
		return in.single.decode(args[0], into)
	}
	for i := range in.fields {
		f := &in.fields[i]
		if err := f.codec.decode(args[i], into.Field(f.index)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func newCodec(t reflect.Type) (*codec, error) { return codecOf(t, nil) }

// codecOf makes the codec of a type; inside are the structs that it is part
// of.
func codecOf(t reflect.Type, inside []reflect.Type) (*codec, error) {
	for _, outer := range inside {
		if outer == t {
			return nil, fmt.Errorf("the type %s contains itself, which no type of a pipeline can", t)
		}
	}
	if t.Implements(reflect.TypeFor[error]()) || t.PkgPath() == "time" {
		return nil, unsupported(t)
	}
	switch t.Kind() {
	case reflect.String:
		return scalar(types.String, t == reflect.TypeFor[string](), stringValue, func(v reflect.Value) any { return v.String() }), nil
	case reflect.Bool:
		return scalar(types.Boolean, t == reflect.TypeFor[bool](), boolValue, func(v reflect.Value) any { return v.Bool() }), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return scalar(types.Int, t == reflect.TypeFor[int64](), intValue, func(v reflect.Value) any { return v.Int() }), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned(), nil
	case reflect.Float32, reflect.Float64:
		return float(), nil
	case reflect.Slice:
		return slice(t, inside)
	case reflect.Map:
		return mapping(t, inside)
	case reflect.Pointer:
		return optional(t, inside)
	case reflect.Struct:
		return structure(t, inside)
	}
	return nil, unsupported(t)
}

func unsupported(t reflect.Type) error {
	return fmt.Errorf("pipelines have no type for %s; use string, numbers, bool, slices, maps with string keys, pointers for what may be absent, and structs of these", t)
}

func mismatch(v any, want *types.Type) error {
	return fmt.Errorf("the value is a %T, but must be %s", v, want)
}

func scalar(t *types.Type, direct bool, decode func(any, reflect.Value) error, encode func(reflect.Value) any) *codec {
	return &codec{typ: t, direct: direct, decode: decode, encode: func(v reflect.Value) (any, error) { return encode(v), nil }}
}

func stringValue(v any, into reflect.Value) error {
	s, ok := v.(string)
	if !ok {
		return mismatch(v, types.String)
	}
	into.SetString(s)
	return nil
}

func boolValue(v any, into reflect.Value) error {
	b, ok := v.(bool)
	if !ok {
		return mismatch(v, types.Boolean)
	}
	into.SetBool(b)
	return nil
}

func intValue(v any, into reflect.Value) error {
	i, ok := v.(int64)
	switch {
	case !ok:
		return mismatch(v, types.Int)
	case into.OverflowInt(i):
		return fmt.Errorf("%d does not fit into a Go %s", i, into.Type())
	}
	into.SetInt(i)
	return nil
}

func unsigned() *codec {
	return &codec{typ: types.Int,
		decode: func(v any, into reflect.Value) error {
			i, ok := v.(int64)
			switch {
			case !ok:
				return mismatch(v, types.Int)
			case i < 0 || into.OverflowUint(uint64(i)):
				return fmt.Errorf("%d does not fit into a Go %s", i, into.Type())
			}
			into.SetUint(uint64(i))
			return nil
		},
		encode: func(v reflect.Value) (any, error) {
			u := v.Uint()
			if u > math.MaxInt64 {
				return nil, fmt.Errorf("%d does not fit into an Int", u)
			}
			return int64(u), nil
		}}
}

func float() *codec {
	return &codec{typ: types.Float, direct: false,
		decode: func(v any, into reflect.Value) error {
			f, ok := v.(float64)
			if !ok {
				return mismatch(v, types.Float)
			}
			into.SetFloat(f)
			return nil
		},
		encode: func(v reflect.Value) (any, error) {
			f := v.Float()
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, fmt.Errorf("%v is no value of a Float", f)
			}
			return f, nil
		}}
}

func slice(t reflect.Type, inside []reflect.Type) (*codec, error) {
	elem, err := codecOf(t.Elem(), inside)
	if err != nil {
		return nil, err
	}
	typ := types.ListOf(elem.typ)
	return &codec{typ: typ,
		decode: func(v any, into reflect.Value) error {
			list, ok := v.([]any)
			if !ok {
				return mismatch(v, typ)
			}
			s := reflect.MakeSlice(t, len(list), len(list))
			for i, e := range list {
				if err := elem.decode(e, s.Index(i)); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
			into.Set(s)
			return nil
		},
		encode: func(v reflect.Value) (any, error) {
			out := make([]any, v.Len())
			for i := range out {
				e, err := elem.encode(v.Index(i))
				if err != nil {
					return nil, fmt.Errorf("[%d]: %w", i, err)
				}
				out[i] = e
			}
			return out, nil
		}}, nil
}

func mapping(t reflect.Type, inside []reflect.Type) (*codec, error) {
	if t.Key().Kind() != reflect.String {
		return nil, unsupported(t)
	}
	elem, err := codecOf(t.Elem(), inside)
	if err != nil {
		return nil, err
	}
	typ := types.MapOf(types.String, elem.typ)
	return &codec{typ: typ,
		decode: func(v any, into reflect.Value) error {
			entries, ok := v.(map[string]any)
			if !ok {
				return mismatch(v, typ)
			}
			m := reflect.MakeMapWithSize(t, len(entries))
			for k, e := range entries {
				item := reflect.New(t.Elem()).Elem()
				if err := elem.decode(e, item); err != nil {
					return fmt.Errorf("%s: %w", k, err)
				}
				m.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), item)
			}
			into.Set(m)
			return nil
		},
		encode: func(v reflect.Value) (any, error) {
			out := make(map[string]any, v.Len())
			for it := v.MapRange(); it.Next(); {
				e, err := elem.encode(it.Value())
				if err != nil {
					return nil, fmt.Errorf("%s: %w", it.Key(), err)
				}
				out[it.Key().String()] = e
			}
			return out, nil
		}}, nil
}

func optional(t reflect.Type, inside []reflect.Type) (*codec, error) {
	if t.Elem().Kind() == reflect.Pointer {
		return nil, unsupported(t)
	}
	elem, err := codecOf(t.Elem(), inside)
	if err != nil {
		return nil, err
	}
	return &codec{typ: types.OptionalOf(elem.typ),
		decode: func(v any, into reflect.Value) error {
			if v == nil {
				into.SetZero()
				return nil
			}
			p := reflect.New(t.Elem())
			if err := elem.decode(v, p.Elem()); err != nil {
				return err
			}
			into.Set(p)
			return nil
		},
		encode: func(v reflect.Value) (any, error) {
			if v.IsNil() {
				return nil, nil
			}
			return elem.encode(v.Elem())
		}}, nil
}

func structure(t reflect.Type, inside []reflect.Type) (*codec, error) {
	fields, err := structFields(t, inside)
	if err != nil {
		return nil, err
	}
	record := value.Map(fields, func(f field) types.Field { return types.Field{Name: f.name, Type: f.codec.typ} })
	typ := types.RecordOf(record...)
	return &codec{typ: typ,
		decode: func(v any, into reflect.Value) error {
			m, ok := v.(map[string]any)
			if !ok {
				return mismatch(v, typ)
			}
			for i := range fields {
				f := &fields[i]
				if err := f.codec.decode(m[f.name], into.Field(f.index)); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
			}
			return nil
		},
		encode: func(v reflect.Value) (any, error) {
			m := make(map[string]any, len(fields))
			for i := range fields {
				f := &fields[i]
				e, err := f.codec.encode(v.Field(f.index))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", f.name, err)
				}
				m[f.name] = e
			}
			return m, nil
		}}, nil
}

// structFields lists the exported fields of a struct, with every problem that
// they have.
func structFields(t reflect.Type, inside []reflect.Type) (fields []field, err error) {
	var problems []error
	seen := map[string]bool{}
	inside = append(inside[:len(inside):len(inside)], t)
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || !sf.IsExported() {
			continue
		}
		name = cmp.Or(name, lowerFirst(sf.Name))
		if seen[name] {
			problems = append(problems, fmt.Errorf("%s has two fields named %s", t, name))
		}
		seen[name] = true
		c, err := codecOf(sf.Type, inside)
		if err != nil {
			problems = append(problems, fmt.Errorf("field %s: %w", sf.Name, err))
			continue
		}
		fields = append(fields, field{name, i, c})
	}
	return fields, errors.Join(problems...)
}

// lowerFirst puts the first word of a Go name into small letters: UserID is
// userID, ID is id, URLPath is urlPath.
func lowerFirst(s string) string {
	rs := []rune(s)
	for i, r := range rs {
		if !unicode.IsUpper(r) || i > 0 && i+1 < len(rs) && !unicode.IsUpper(rs[i+1]) {
			break
		}
		rs[i] = unicode.ToLower(r)
	}
	return string(rs)
}
