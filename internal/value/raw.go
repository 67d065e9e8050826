package value

import (
	"strconv"
	"unicode/utf8"
)

// Raw are the texts in a value that are no UTF-8, by their places in it in the form of RFC
// 6901. JSON, which can have no such text, has U+FFFD in place of each wrong byte. As JSON,
// it has them in Base64. Texts of other bytes that JSON has at a multiple of their length
// may be there as well, see Take.
type Raw map[string][]byte

// Add adds what is no UTF-8 in a value, whose place is path.
func (r *Raw) Add(path string, v any) {
	switch v := v.(type) {
	case string:
		r.add(path, v)
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

// add adds a text if it is no UTF-8.
func (r *Raw) add(path, text string) {
	if !utf8.ValidString(text) {
		Put((*map[string][]byte)(r), path, []byte(text))
	}
}

// Take is the text of a place as JSON has it beside r, where r has what JSON cannot: "" for a
// long text of which JSON would make at least twice as much, as it writes six bytes for most
// control characters.
func (r *Raw) Take(path, text string) string {
	if len(text) >= longText && IsBinary(text) {
		Put((*map[string][]byte)(r), path, []byte(text))
		return ""
	}
	r.add(path, text)
	return text
}

// longText is from how many bytes on it matters how many JSON makes of a text.
const longText = 512

// IsBinary reports whether at least a fifth of a text are control characters, each of which
// JSON writes as six bytes and a person cannot read.
func IsBinary(text string) bool {
	n := 0
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			n++
		}
	}
	return n > 0 && n >= len(text)/5
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
