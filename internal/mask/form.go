package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// source says which secret a text is of, and in which form.
type source struct{ secret, form string }

// pattern is a text that is masked.
type pattern struct {
	text  string
	wraps bool // line ends may stand between its characters
	from  source
}

// maxWrap is how many bytes one character of a wrapped pattern takes at most:
// itself and an escaped CR LF behind it.
const maxWrap = 5

// match gives the length in s of the pattern that stands at its beginning; 0
// for none. more reports that s ends within what may be the pattern.
func (p *pattern) match(s string) (n int, more bool) {
	if !p.wraps {
		if strings.HasPrefix(s, p.text) {
			return len(p.text), false
		}
		return 0, len(s) < len(p.text) && strings.HasPrefix(p.text, s)
	}
	j, ends := 0, 0
	for k := 0; k < len(p.text); {
		switch {
		case j == len(s):
			return 0, true
		case s[j] == p.text[k]:
			j, k, ends = j+1, k+1, 0
		case k == 0 || ends == 2:
			return 0, false
		case s[j] == '\n' || s[j] == '\r':
			j, ends = j+1, ends+1
		case s[j] == '\\' && j+1 == len(s):
			return 0, true
		case s[j] == '\\' && (s[j+1] == 'n' || s[j+1] == 'r'): // as in a JSON text
			j, ends = j+2, ends+1
		default:
			return 0, false
		}
	}
	return j, false
}

// form is a text as which a value may appear.
type form struct {
	name, text string
	wraps      bool
}

// forms lists the texts as which a value may appear. A form has the same name
// whatever the value is.
func forms(v string) []form {
	out := encodings("", v)
	if t := strings.TrimRight(v, "\r\n"); t != v && len(t) >= MinLength {
		out = append(out, encodings("trimmed ", t)...)
	}
	if strings.Contains(v, "\n") {
		n := 0
		for line := range strings.Lines(v) {
			n++
			if line = strings.TrimSpace(line); len(line) >= MinLength {
				out = append(out, encodings(fmt.Sprintf("line %d ", n), line)...)
			}
		}
	}
	return out
}

func encodings(prefix, v string) []form {
	out := []form{{prefix + "plain", v, false}, {prefix + "query", url.QueryEscape(v), false}, {prefix + "path", url.PathEscape(v), false}}
	if b, err := json.Marshal(v); err == nil {
		out = append(out, form{prefix + "json", string(b[1 : len(b)-1]), false})
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err == nil {
		text := strings.TrimSuffix(plain.String(), "\n")
		out = append(out, form{prefix + "json without html", text[1 : len(text)-1], false})
	}
	out = append(out, aligned(prefix+"base64", base64.StdEncoding, v)...)
	return append(out, aligned(prefix+"base64url", base64.URLEncoding, v)...)
}

// aligned gives the characters of the base64 text that depend on v alone, for
// each of the three positions that v can have in a longer text.
func aligned(name string, e *base64.Encoding, v string) []form {
	var out []form
	for before := range 3 {
		s := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", before) + v))
		from := []int{0, 2, 3}[before] // characters that hold bits of what stands before
		to := len(s)
		if (before+len(v))%3 != 0 {
			to-- // the last character also holds bits of what stands after
		}
		if to-from >= MinLength {
			out = append(out, form{fmt.Sprint(name, " ", before), s[from:to], true})
		}
	}
	return out
}
