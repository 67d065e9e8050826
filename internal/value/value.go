// Package value holds the JSON-shaped values that items, captures, inputs and
// results are made of, and the few things every part of bide does with them.
//
// A value is one of
//
//	nil, bool, int64, float64, json.Number, string, []any, map[string]any
//
// Numbers keep the way they were written: an integer that fits is an int64, a
// number that a float64 prints back unchanged is a float64, anything else
// (10.0, 1e400, 20-digit integers) stays a json.Number.
package value

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Parse reads exactly one JSON value.
func Parse(data []byte) (any, error) {
	if v, ok := fast(string(data)); ok {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more text after the JSON value, at byte %d", d.InputOffset())
	}
	return Normal(v), nil
}

// Normal turns what encoding/json with UseNumber or a YAML decoder gives into
// a value of this package. It changes maps and slices in place.
func Normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		return FromNumber(string(v))
	case []any:
		for i := range v {
			v[i] = Normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = Normal(v[k])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[fmt.Sprint(k)] = Normal(e)
		}
		return m
	case int:
		return int64(v)
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v)
		}
		return json.Number(strconv.FormatUint(v, 10))
	}
	return v
}

// FromNumber gives the value of a number's text, keeping the text where no
// int64 or float64 prints back as it.
func FromNumber(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(i, 10) == s {
		return i
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && formatFloat(f) == s && strings.ContainsAny(s, ".e") {
		return f
	}
	return json.Number(s)
}

func formatFloat(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return ""
	}
	b, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	return string(b)
}

// Text is how a value reads inside a text: strings as they are, numbers as
// written, null as nothing, arrays of scalars joined with ", ", anything else
// as compact JSON.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if s := formatFloat(v); s != "" {
			return s
		}
		return fmt.Sprint(v)
	case json.Number:
		return string(v)
	case []any:
		if !slices.ContainsFunc(v, func(e any) bool { return !IsScalar(e) }) {
			return strings.Join(Map(v, Text), ", ")
		}
	}
	return JSON(v)
}

// IsScalar reports whether v is neither an array nor an object.
func IsScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// JSON is the compact JSON of a value, object keys sorted, without escaping
// <, > and &. Infinities and NaN, which JSON lacks, become null.
func JSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			return "null"
		}
		return strconv.Quote(fmt.Sprint(v))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Kind names the JSON type of v: null, boolean, number, string, array, object.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64, float64, json.Number, int:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// Number gives the exact number that v is, or that the text v spells
// completely; ok is false for anything else.
func Number(v any) (r *big.Rat, ok bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case int:
		return new(big.Rat).SetInt64(int64(v)), true
	case float64:
		r := new(big.Rat)
		if r.SetFloat64(v) == nil {
			return nil, false
		}
		// The decimal text is what a person wrote, not the binary fraction.
		return ratFromText(formatFloat(v))
	case json.Number:
		return ratFromText(string(v))
	case string:
		return ratFromText(strings.TrimSpace(v))
	}
	return nil, false
}

// ratFromText reads a decimal. Exponents beyond ±400 are refused, so that a
// hostile number cannot make a gigabyte of digits.
func ratFromText(s string) (*big.Rat, bool) {
	if s == "" || len(s) > 400 || strings.ContainsAny(s, "/_xXpPbBoO") {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > 400 || e < -400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// Float is Number as a float64, for sums and averages.
func Float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	r, ok := Number(v)
	if !ok {
		return 0, false
	}
	f, _ := r.Float64()
	return f, true
}

// Truthy is the sense of a value as a condition: nil, false, 0, "", "false"
// and "0" and empty arrays and objects are false.
func Truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != "" && v != "0" && !strings.EqualFold(v, "false")
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	if r, ok := Number(v); ok {
		return r.Sign() != 0
	}
	return true
}

// Equal compares with the sense people mean: numbers by value however they
// are written, a string that spells a number or a boolean equal to it, arrays
// and objects element by element.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			return x == y
		}
	case nil:
		return b == nil
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, Equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	case string:
		if y, ok := b.(string); ok {
			return x == y
		}
	case json.Number:
		if y, ok := b.(json.Number); ok && x == y {
			return true // also where it is too large to be compared
		}
	}
	if b == nil {
		return false
	}
	if x, ok := asBool(a); ok {
		if y, ok := asBool(b); ok {
			return x == y
		}
		return false
	}
	if x, ok := Number(a); ok {
		y, ok := Number(b)
		return ok && x.Cmp(y) == 0
	}
	return false
}

func asBool(v any) (value, ok bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case string:
		switch strings.ToLower(v) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return false, false
}

// Compare orders two values: -1, 0, +1. Numbers and texts that spell numbers
// by value when both sides do, strings by code point, false before true. ok is
// false where the two have no order (arrays, objects, null, mixed kinds).
func Compare(a, b any) (c int, ok bool) {
	if x, is := a.(int64); is {
		if y, is := b.(int64); is {
			return cmp.Compare(x, y), true
		}
	}
	_, as := a.(string)
	_, bs := b.(string)
	if !(as && bs) {
		if x, ok := Number(a); ok {
			if y, ok := Number(b); ok {
				return x.Cmp(y), true
			}
			return 0, false
		}
	}
	if as && bs {
		return strings.Compare(a.(string), b.(string)), true
	}
	x, aok := a.(bool)
	y, bok := b.(bool)
	if aok && bok {
		switch {
		case x == y:
			return 0, true
		case y:
			return -1, true
		}
		return 1, true
	}
	return 0, false
}

// Map gives what f makes of each element of a list.
func Map[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// Filter gives the elements of a list that are to be kept.
func Filter[T any](list []T, keep func(T) bool) []T {
	var out []T
	for _, v := range list {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// Put puts a value under a key of a map, which is made where it is nil.
func Put[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = v
}
