package expr

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/value"
)

// maxPath bounds the length of a path, so that no source text can make a walk
// recurse deeply.
const maxPath = 256

// Elem is one step of a Path: a name, an index, or all elements.
type Elem struct {
	Name    string
	Index   int  // where IsIndex; negative counts from the end
	IsIndex bool // [0], [-1]
	All     bool // [*]
}

// Path leads from a name in scope to a value: item.files[0].name.
type Path []Elem

// ParsePath reads a path that is the whole of src: names joined with dots,
// [0] and [-1] for elements, [*] (or .*) for all of them, ["any key"] or
// ['any key'] for a key that is no name. The error is a *SyntaxError.
func ParsePath(src string) (Path, error) {
	p, end, err := scanPath(src, 0)
	if err != nil {
		return nil, err
	}
	if end != len(src) {
		return nil, &SyntaxError{Offset: end, Message: "this does not belong to a path: " + quoteAt(src, end)}
	}
	return p, nil
}

// String is the canonical spelling, which ParsePath reads back.
func (p Path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch {
		case e.All:
			b.WriteString("[*]")
		case e.IsIndex:
			b.WriteString("[" + strconv.Itoa(e.Index) + "]")
		case isName(e.Name, i > 0):
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(e.Name)
		default:
			b.WriteString(`["` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(e.Name) + `"]`)
		}
	}
	return b.String()
}

// isName reports whether s needs no quotes in a path; after a dot a name may
// begin with a digit.
func isName(s string, afterDot bool) bool {
	end := scanName(s, 0, afterDot)
	return s != "" && end == len(s)
}

// scanName gives the end of the name at i, or i where there is none. A hyphen
// is part of a name where a name continues after it.
func scanName(s string, i int, afterDot bool) int {
	start := i
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '_' || unicode.IsLetter(r):
		case unicode.IsDigit(r) || unicode.IsMark(r):
			if i == start && !afterDot {
				return start
			}
		case r == '-':
			next, _ := utf8.DecodeRuneInString(s[i+1:])
			if i == start || !(next == '_' || next == '-' || unicode.IsLetter(next) || unicode.IsDigit(next)) {
				return i
			}
		default:
			return i
		}
		i += n
	}
	return i
}

// scanPath reads the longest path that begins at i and gives its end.
func scanPath(s string, i int) (Path, int, error) {
	var p Path
	if end := scanName(s, i, false); end > i {
		p, i = append(p, Elem{Name: s[i:end]}), end
	} else if i >= len(s) || s[i] != '[' {
		return nil, i, &SyntaxError{Offset: i, Message: "a name is expected here, not " + quoteAt(s, i)}
	}
	for i < len(s) {
		e, end, err := scanElem(s, i)
		if err != nil {
			return nil, end, err
		}
		if end == i {
			break
		}
		if len(p) == maxPath {
			return nil, i, &SyntaxError{Offset: i, Message: "the path has more than " + strconv.Itoa(maxPath) + " steps"}
		}
		p, i = append(p, e), end
	}
	return p, i, nil
}

// scanElem reads .name, .*, [n], [*] or ["key"]; end is i where none begins.
func scanElem(s string, i int) (e Elem, end int, err error) {
	switch s[i] {
	case '[':
		return scanBracket(s, i)
	case '.':
		rest := s[i+1:]
		switch {
		case strings.HasPrefix(rest, "["):
			return scanBracket(s, i+1)
		case strings.HasPrefix(rest, "*"):
			return Elem{All: true}, i + 2, nil
		}
		if end := scanName(s, i+1, true); end > i+1 {
			return Elem{Name: s[i+1 : end]}, end, nil
		}
		return e, i + 1, &SyntaxError{Offset: i + 1, Message: "a name is expected after the dot, not " + quoteAt(s, i+1)}
	}
	return e, i, nil
}

func scanBracket(s string, i int) (Elem, int, error) {
	j := i + 1
	if j < len(s) && (s[j] == '"' || s[j] == '\'') {
		key, end, ok := scanString(s, j)
		if !ok {
			return Elem{}, j, &SyntaxError{Offset: j, Message: "the quote is not closed"}
		}
		if end >= len(s) || s[end] != ']' {
			return Elem{}, end, &SyntaxError{Offset: end, Message: "] is expected after the key, not " + quoteAt(s, end)}
		}
		return Elem{Name: key}, end + 1, nil
	}
	n := strings.IndexByte(s[j:], ']')
	if n < 0 {
		return Elem{}, i, &SyntaxError{Offset: i, Message: "the [ is not closed"}
	}
	text := strings.TrimSpace(s[j : j+n])
	if text == "*" {
		return Elem{All: true}, j + n + 1, nil
	}
	if index, err := strconv.Atoi(text); err == nil {
		return Elem{Index: index, IsIndex: true}, j + n + 1, nil
	}
	return Elem{}, j, &SyntaxError{Offset: j, Message: "an index is a number or *, not " + strconv.Quote(text),
		Suggestion: `for a key write ["` + text + `"]`}
}

// scanString reads the quoted string at i. A backslash protects the quote and
// itself; any other backslash stays, as regular expressions want it; in double
// quotes \n, \r and \t are the characters they name.
func scanString(s string, i int) (text string, end int, ok bool) {
	quote := s[i]
	var b strings.Builder
	for i++; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), i + 1, true
		case c == '\\' && i+1 < len(s):
			i++
			switch e := s[i]; {
			case e == quote || e == '\\':
				b.WriteByte(e)
			case quote == '"' && e == 'n':
				b.WriteByte('\n')
			case quote == '"' && e == 'r':
				b.WriteByte('\r')
			case quote == '"' && e == 't':
				b.WriteByte('\t')
			default:
				b.WriteByte('\\')
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", i, false
}

// Walk follows p from v; ok is false where a step leads nowhere. [*] gives the
// list of what the rest of the path finds in each element (of an object: by
// sorted key), leaving out those where it finds nothing. A string that holds a
// JSON object or array is walked into as if it were that.
func Walk(v any, p Path) (any, bool) {
	for i, e := range p {
		switch s := v.(type) {
		case string:
			v = parseJSONText(s)
		case value.Kept:
			text, err := s.Text()
			if err != nil {
				return err, true // whoever asks for the value reports it
			}
			v = parseJSONText(text)
		}
		if e.All {
			return walkAll(v, p[i+1:])
		}
		switch c := v.(type) {
		case map[string]any:
			field, ok := c[e.Name]
			if !ok || e.IsIndex {
				return nil, false
			}
			v = field
		case []any:
			index := e.Index
			if !e.IsIndex {
				n, err := strconv.Atoi(e.Name)
				if err != nil {
					return nil, false
				}
				index = n
			}
			if index < 0 {
				index += len(c)
			}
			if index < 0 || index >= len(c) {
				return nil, false
			}
			v = c[index]
		default:
			return nil, false
		}
	}
	return v, true
}

func walkAll(v any, rest Path) (any, bool) {
	var elems []any
	switch c := v.(type) {
	case []any:
		elems = c
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(c)) {
			elems = append(elems, c[k])
		}
	default:
		return nil, false
	}
	nested := slices.ContainsFunc(rest, func(e Elem) bool { return e.All })
	out := make([]any, 0, len(elems))
	for _, elem := range elems {
		found, ok := Walk(elem, rest)
		if !ok {
			continue
		}
		if list, isList := found.([]any); isList && nested {
			out = append(out, list...)
			continue
		}
		out = append(out, found)
	}
	return out, true
}

// parseJSONText gives the object or array that s spells, or nil.
func parseJSONText(s string) any {
	t := strings.TrimSpace(s)
	if t == "" || t[0] != '{' && t[0] != '[' {
		return nil
	}
	v, err := value.Parse([]byte(t))
	if err != nil {
		return nil
	}
	return v
}
