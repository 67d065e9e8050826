package value

import (
	"strconv"
	"strings"
)

// Kept is a text that is elsewhere, as an output in its log, and is read when
// somebody asks for it. Whatever gives values to a text or a condition gives the text.
type Kept interface {
	Text() (string, error)
}

// HasKept reports whether a value is a [Kept] or has one in it, or an error in the place
// of one that could not be read.
func HasKept(v any) bool {
	switch v := v.(type) {
	case Kept, error:
		return true
	case map[string]any:
		for _, x := range v {
			if HasKept(x) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if HasKept(x) {
				return true
			}
		}
	}
	return false
}

// Read is v with the texts of all [Kept] in it; v itself stays as it is.
func Read(v any) (any, error) {
	return ReplaceKept(v, "", func(_ string, k Kept) (any, error) { return k.Text() })
}

// ReplaceKept is v with what f gives for each [Kept] in it; v itself stays as it is. f is
// told where that is, in the form of RFC 6901, path before it.
func ReplaceKept(v any, path string, f func(path string, k Kept) (any, error)) (any, error) {
	if !HasKept(v) {
		return v, nil
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			r, err := ReplaceKept(x, path+"/"+pointer.Replace(k), f)
			if err != nil {
				return nil, err
			}
			out[k] = r
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			r, err := ReplaceKept(x, path+"/"+strconv.Itoa(i), f)
			if err != nil {
				return nil, err
			}
			out[i] = r
		}
		return out, nil
	}
	if lost, is := v.(error); is {
		return nil, lost
	}
	return f(path, v.(Kept))
}

// pointer makes one part of a path of any key, as in RFC 6901.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// Key is a key as it is in the path that ReplaceKept tells.
func Key(k string) string { return pointer.Replace(k) }

// PutKept is the opposite of ReplaceKept with a nil for each: it puts them back by the
// paths where they were, and may change v.
func PutKept(v any, path string, at map[string]Kept) any {
	switch v := v.(type) {
	case nil:
		if k := at[path]; k != nil {
			return k
		}
	case map[string]any:
		for k, x := range v {
			v[k] = PutKept(x, path+"/"+Key(k), at)
		}
	case []any:
		for i, x := range v {
			v[i] = PutKept(x, path+"/"+strconv.Itoa(i), at)
		}
	}
	return v
}
