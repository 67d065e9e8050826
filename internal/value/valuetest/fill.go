// Package valuetest makes values for tests of what is written down.
package valuetest

import (
	"encoding/json"
	"reflect"
	"time"

	"pgregory.net/rapid"
)

// Texts are texts with all that JSON, HTML and UTF-8 make something of.
func Texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		part := rapid.OneOf(rapid.SampledFrom([]string{"", "plain text of some length", "\"", "\\", "<b>&", "\n\t\r\b\f\x00\x1f\x7f", "\u2028\u2029", "é", "😀", "\xff", "\xe2\x80", "\ufffd"}), rapid.String())
		text := ""
		for _, p := range rapid.SliceOfN(part, 0, 5).Draw(t, "parts") {
			text += p
		}
		return text
	})
}

// Values are values as package value has them.
func Values(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), Texts().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.Int().AsAny(),
		rapid.Just[any](json.Number("10.0")), rapid.Just[any](map[string]any(nil)), rapid.Just[any]([]any(nil)), rapid.Just[any](json.RawMessage(`{"a": "<"}`)),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves, rapid.SliceOfN(Values(depth-1), 0, 4).AsAny(), rapid.MapOfN(Texts(), Values(depth-1), 0, 4).AsAny())...)
}

// Fill sets what v points to, with all that is exported in it: some of it to zero.
func Fill(t *rapid.T, v any) { fill(t, reflect.ValueOf(v).Elem()) }

func fill(t *rapid.T, v reflect.Value) {
	if !v.CanSet() || rapid.IntRange(0, 3).Draw(t, "zero") == 0 {
		return
	}
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		zone := time.FixedZone("", 60*rapid.IntRange(-1500, 1500).Draw(t, "zone"))
		*at = time.Unix(rapid.Int64Range(-1<<36, 1<<38).Draw(t, "time"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		return
	case *map[string]any:
		*at = rapid.MapOfN(Texts(), Values(2), 0, 4).Draw(t, "map")
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.String:
		v.SetString(Texts().Draw(t, "text"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "length"), 3))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range rapid.SliceOfN(Texts(), 0, 3).Draw(t, "keys") {
			x := reflect.New(v.Type().Elem()).Elem()
			fill(t, x)
			v.SetMapIndex(reflect.ValueOf(key), x)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("nothing is known of %s", v.Type())
	}
}
