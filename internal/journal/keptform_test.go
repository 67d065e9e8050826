package journal

import (
	"reflect"
	"testing"
	"time"
)

// filled sets everything that v has, so that nothing of it is zero.
func filled(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(-*n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	case reflect.String:
		v.SetString("é\xff\x00" + time.Duration(*n).String())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			filled(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			filled(key, n)
			filled(value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), n)
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(*n, *n).UTC()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				filled(v.Field(i), n)
			}
		}
	}
}

// TestKeptForm: what is kept is read as it was, and nothing that is cut short or changed is a
// reason to panic.
func TestKeptForm(t *testing.T) {
	type all struct {
		Bool   bool
		Small  int8
		Large  uint64
		Half   float32
		Deep   map[string][]*Counts
		Times  [2]time.Time
		Bytes  []byte
		hidden int
	}
	for _, v := range []any{&all{hidden: 0}, &kept[[2]stamp, Summary]{}, &kept[end, Summary]{}, &kept[end, openLetters]{}} {
		for _, empty := range []bool{true, false} {
			want := reflect.ValueOf(v).Elem()
			if n := int64(100); !empty {
				filled(want, &n)
			}
			b, err := appendKept(nil, want)
			if err != nil {
				t.Fatal(err)
			}
			got := reflect.New(want.Type())
			r := keptReader{b: b}
			if r.value(got.Elem()); r.bad || len(r.b) > 0 || !reflect.DeepEqual(got.Interface(), v) {
				t.Errorf("%+v is read as %+v; bad: %v, %d bytes are left", v, got, r.bad, len(r.b))
			}
			for i := range b {
				short := keptReader{b: b[:i:i]}
				if short.value(reflect.New(want.Type()).Elem()); !short.bad {
					t.Errorf("%d of %d bytes of %T are not bad", i, len(b), v)
				}
				other := append([]byte(nil), b...)
				other[i] ^= 0xff
				changed := keptReader{b: other}
				changed.value(reflect.New(want.Type()).Elem())
			}
		}
	}
	if _, err := appendKept(nil, reflect.ValueOf(struct{ Any any }{1})); err == nil {
		t.Error("a value of any type is kept, which nobody could read")
	}
}
