package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// source says which secret a text is of, and in which form.
type source struct{ secret, form string }

// pattern is a text that is masked.
type pattern struct {
	text string
	read reader
	from source
}

type patternKey struct {
	text string
	read reader
}

func (p *pattern) key() patternKey { return patternKey{p.text, p.read} }

// reader says how a pattern may be written.
type reader uint8

const (
	exactly   reader = iota
	wrapped          // line ends may be between its characters
	inPercent        // any byte may stand as %XX, and a blank as +
	inJSON           // any character may stand as \uXXXX or by its short escape
)

// maxWrap is how many bytes one byte of a pattern takes at most: as \u0041.
const maxWrap = 6

// match gives the length in s of the pattern that is at its beginning; 0
// for none. more reports that s ends within what may be the pattern.
func (p *pattern) match(s string) (n int, more bool) {
	switch p.read {
	case wrapped:
		return matchWrapped(p.text, s)
	case inPercent:
		return matchUnits(p.text, s, percentUnit)
	case inJSON:
		return matchUnits(p.text, s, jsonUnit)
	}
	if strings.HasPrefix(s, p.text) {
		return len(p.text), false
	}
	return 0, len(s) < len(p.text) && strings.HasPrefix(p.text, s)
}

func matchWrapped(text, s string) (n int, more bool) {
	j, ends := 0, 0
	for k := 0; k < len(text); {
		switch {
		case j == len(s):
			return 0, true
		case s[j] == text[k]:
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

// matchUnits matches a text unit by unit. unit gives how many bytes of the text
// and of s go together, 0 for none; more reports that s ends within a unit.
func matchUnits(text, s string, unit func(text, s string) (taken, n int, more bool)) (n int, more bool) {
	for text != "" {
		if s[n:] == "" {
			return 0, true
		}
		taken, length, more := unit(text, s[n:])
		if taken == 0 {
			return 0, more
		}
		text, n = text[taken:], n+length
	}
	return n, false
}

// percentUnit: RFC 3986 lets every byte be written %XX, in either case, and
// forms write a blank as +.
func percentUnit(text, s string) (taken, n int, more bool) {
	c := text[0]
	if s[0] == '%' {
		hex := "%" + "0123456789ABCDEF"[c>>4:c>>4+1] + "0123456789ABCDEF"[c&15:c&15+1]
		if len(s) >= 3 && strings.EqualFold(s[:3], hex) {
			return 1, 3, false
		}
		if len(s) < 3 && strings.EqualFold(s, hex[:len(s)]) {
			return 0, 0, true
		}
	}
	if s[0] == c || c == ' ' && s[0] == '+' {
		return 1, 1, false
	}
	return 0, 0, false
}

// jsonUnit: RFC 8259 lets every character be written \uXXXX, beyond the first
// 65,536 as two of them, and some by a letter.
func jsonUnit(text, s string) (taken, n int, more bool) {
	r, size := utf8.DecodeRuneInString(text)
	if s[0] == '\\' {
		for _, escape := range jsonEscapes(r) {
			if len(s) >= len(escape) && strings.EqualFold(s[:len(escape)], escape) {
				return size, len(escape), false
			}
			if len(s) < len(escape) && strings.EqualFold(s, escape[:len(s)]) {
				more = true
			}
		}
		return 0, 0, more
	}
	if r == utf8.RuneError && size == 1 { // a byte that is no text stands for itself
		if s[0] == text[0] {
			return 1, 1, false
		}
		if strings.HasPrefix(s, "\uFFFD") {
			return 1, len("\uFFFD"), false
		}
		return 0, 0, false
	}
	if strings.HasPrefix(s, text[:size]) {
		return size, size, false
	}
	return 0, 0, len(s) < size && strings.HasPrefix(text[:size], s)
}

func jsonEscapes(r rune) []string {
	list := make([]string, 0, 2)
	if i := strings.IndexRune("\"\\/\b\f\n\r\t", r); i >= 0 && r < utf8.RuneSelf {
		list = append(list, `\`+`"\/bfnrt`[i:i+1])
	}
	if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
		return append(list, fmt.Sprintf(`\u%04x\u%04x`, hi, lo))
	}
	return append(list, fmt.Sprintf(`\u%04x`, r))
}

// form is a text as which a value may appear.
type form struct {
	name, text string
	read       reader
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

// The forms that a text may have in many spellings, which Seal cannot name.
const (
	anyPercent = "percent"
	anyJSON    = "escaped"
)

func encodings(prefix, v string) []form {
	out := []form{{prefix + "plain", v, exactly}, {prefix + "query", url.QueryEscape(v), exactly}, {prefix + "path", url.PathEscape(v), exactly}}
	if b, err := json.Marshal(v); err == nil {
		out = append(out, form{prefix + "json", string(b[1 : len(b)-1]), exactly})
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err == nil {
		text := strings.TrimSuffix(plain.String(), "\n")
		out = append(out, form{prefix + "json without html", text[1 : len(text)-1], exactly})
	}
	out = append(out, form{prefix + anyPercent, v, inPercent}, form{prefix + anyJSON, v, inJSON})
	out = append(out, aligned(prefix+"base64", base64.StdEncoding, v)...)
	return append(out, aligned(prefix+"base64url", base64.URLEncoding, v)...)
}

// aligned gives the characters of the base64 text that depend on v alone, for
// each of the three positions that v can have in a longer text.
func aligned(name string, e *base64.Encoding, v string) []form {
	var out []form
	for before := range 3 {
		s := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", before) + v))
		from := []int{0, 2, 3}[before] // characters that hold bits of what is before
		to := len(s)
		if (before+len(v))%3 != 0 {
			to-- // the last character also holds bits of what is after
		}
		if to-from >= MinLength {
			out = append(out, form{fmt.Sprint(name, " ", before), s[from:to], wrapped})
		}
	}
	return out
}
