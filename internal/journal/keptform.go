package journal

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
)

// The form in which an answer is kept: the values of its exported fields, in order. The
// program that reads it is the one that wrote it, so that no names and no types are in it.
// An empty list or map is read as nil.

// appendKept writes a value behind b.
func appendKept(b []byte, v reflect.Value) ([]byte, error) {
	var err error
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1), nil
		}
		return append(b, 0), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return binary.AppendUvarint(b, math.Float64bits(v.Float())), nil
	case reflect.String:
		return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...), nil
	case reflect.Slice, reflect.Array:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := 0; i < v.Len() && err == nil; i++ {
			b, err = appendKept(b, v.Index(i))
		}
		return b, err
	case reflect.Map:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for at := v.MapRange(); at.Next() && err == nil; {
			if b, err = appendKept(b, at.Key()); err == nil {
				b, err = appendKept(b, at.Value())
			}
		}
		return b, err
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0), nil
		}
		return appendKept(append(b, 1), v.Elem())
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			text, err := at.MarshalBinary()
			return append(binary.AppendUvarint(b, uint64(len(text))), text...), err
		}
		for i := 0; i < v.NumField() && err == nil; i++ {
			if v.Type().Field(i).IsExported() {
				b, err = appendKept(b, v.Field(i))
			}
		}
		return b, err
	}
	return b, fmt.Errorf("a %s cannot be kept", v.Type())
}

// keptReader reads what appendKept wrote. What it gives does not count once it is bad.
type keptReader struct {
	b   []byte
	bad bool
}

func (r *keptReader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// length is how many parts follow, none of which is empty.
func (r *keptReader) length() int {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

func (r *keptReader) bytes() []byte {
	n := r.length()
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// value reads a value into v, which is empty.
func (r *keptReader) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.number() != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, size := binary.Varint(r.b)
		if r.bad = r.bad || size <= 0; !r.bad {
			r.b = r.b[size:]
			v.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.number())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(math.Float64frombits(r.number()))
	case reflect.String:
		v.SetString(string(r.bytes()))
	case reflect.Slice, reflect.Array:
		n := r.length()
		if v.Kind() == reflect.Slice && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := 0; i < min(n, v.Len()) && !r.bad; i++ {
			r.value(v.Index(i))
		}
	case reflect.Map:
		n := r.length()
		if n > 0 {
			v.Set(reflect.MakeMapWithSize(v.Type(), n))
		}
		for range n {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			r.value(key)
			if r.value(value); r.bad {
				return
			}
			v.SetMapIndex(key, value)
		}
	case reflect.Pointer:
		if r.number() != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.value(v.Elem())
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			r.bad = at.UnmarshalBinary(r.bytes()) != nil || r.bad
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				r.value(v.Field(i))
			}
		}
	default:
		r.bad = true
	}
}
