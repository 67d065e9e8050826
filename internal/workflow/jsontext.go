package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/pattern"
)

func looksLikeJSON(text []byte) bool {
	t := bytes.TrimLeft(text, " \t\r\n\ufeff")
	return len(t) > 0 && (t[0] == '{' || t[0] == '[') && json.Valid(bytes.TrimPrefix(text, []byte("\ufeff")))
}

var jsonEscape = pattern.Lazy(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.`)

// jsonAsYAML changes the things of valid JSON that the YAML parser refuses:
// tabs between tokens, characters written as surrogate pairs, and slashes with
// a backslash. A JSON string holds no raw tab, so columns stay as they are.
func jsonAsYAML(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\t"), []byte(" "))
	return jsonEscape().ReplaceAllFunc(text, func(pair []byte) []byte {
		var s string
		switch {
		case string(pair) == `\/`:
			return []byte("/")
		case len(pair) == 2:
			return pair
		}
		if json.Unmarshal([]byte(`"`+string(pair)+`"`), &s) != nil {
			return pair
		}
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Appendf(nil, `\U%08X`, r)
	})
}
