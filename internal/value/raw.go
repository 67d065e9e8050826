package value

import (
	"strconv"
	"unicode/utf8"
)

// Raw are the texts in a value that are no UTF-8, by their places in it in the form of RFC
// 6901. JSON, which can have no such text, has U+FFFD in place of each wrong byte. As JSON,
// it has them in Base64.
type Raw map[string][]byte

// Add adds what is no UTF-8 in a value, whose place is path.
func (r *Raw) Add(path string, v any) {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			Put((*map[string][]byte)(r), path, []byte(v))
		}
	case map[string]any:
		for k, x := range v {
			r.Add(path+"/"+Key(k), x)
		}
	case []any:
		for i, x := range v {
			r.Add(path+"/"+strconv.Itoa(i), x)
		}
	}
}

// Text is the text of a place, where JSON has text.
func (r Raw) Text(path, text string) string {
	if raw, is := r[path]; is {
		return string(raw)
	}
	return text
}

// Put puts the texts back into a value, whose place is path, and may change v.
func (r Raw) Put(path string, v any) any {
	if len(r) == 0 {
		return v
	}
	switch v := v.(type) {
	case string:
		return r.Text(path, v)
	case map[string]any:
		for k, x := range v {
			v[k] = r.Put(path+"/"+Key(k), x)
		}
	case []any:
		for i, x := range v {
			v[i] = r.Put(path+"/"+strconv.Itoa(i), x)
		}
	}
	return v
}
