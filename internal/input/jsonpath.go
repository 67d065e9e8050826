package input

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/ohler55/ojg/jp"
)

// Path evaluates a JSONPath (RFC 9535) and gives the values that it finds.
func Path(path string, v any) (found []any, err error) {
	x, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	return evaluate(x, path, v)
}

// CheckPath reports what is wrong with a JSONPath.
func CheckPath(path string) error {
	_, err := parsePath(path)
	return err
}

func parsePath(path string) (x jp.Expr, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q is no JSONPath: %v", path, p)
		}
	}()
	p := strings.TrimSpace(path)
	if !strings.HasPrefix(p, "$") {
		return nil, fmt.Errorf("%q is no JSONPath: it does not begin with $", path)
	}
	x, err = jp.ParseString(p)
	if err != nil {
		return nil, fmt.Errorf("%q is no JSONPath: %w", path, err)
	}
	return x, nil
}

func evaluate(x jp.Expr, path string, v any) (found []any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("JSONPath %s: %v", path, p)
		}
	}()
	if strings.Contains(path, "?") {
		v = floats(v)
	}
	return x.Get(v), nil
}

// floats gives a value in which a path's filters can compare all numbers.
func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
	case []any:
		for i, e := range v {
			if c := floats(e); c != nil || e == nil {
				v[i] = c
			}
		}
	case map[string]any:
		for k, e := range v {
			v[k] = floats(e)
		}
	}
	return v
}

// streamed is a JSONPath taken apart so that a document can be read without
// holding it: the names that lead to an array, and the path from each of its
// elements.
type streamed struct {
	names []string
	rest  string  // "" or a path from an element: "$.name", or "$[?…]" with each
	each  bool    // rest is applied to a list of one, because it filters
	expr  jp.Expr // of rest
}

var (
	nameStep  = regexp.MustCompile(`^(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^'\\]*)'\]|\["([^"\\]*)"\])`)
	everyStep = regexp.MustCompile(`^(\[\s*\*\s*\]|\.\*)`)
)

// stream takes a path apart; ok is false where the document has to be held.
func stream(path string) (s streamed, ok bool) {
	rest := strings.TrimSpace(path)
	if rest == "" {
		rest = "$"
	}
	rest = strings.TrimPrefix(rest, "$")
	for {
		m := nameStep.FindStringSubmatch(rest)
		if m == nil {
			break
		}
		s.names = append(s.names, m[1]+m[2]+m[3])
		rest = rest[len(m[0]):]
	}
	switch m := everyStep.FindString(rest); {
	case rest == "":
		return s, true
	case m == ".*":
		return s, false // the members of an object, too
	case m != "":
		rest = rest[len(m):]
		if rest == "" {
			return s, true
		}
		s.rest = "$" + rest
	case strings.HasPrefix(rest, "[?"):
		s.rest, s.each = "$"+rest, true
	default:
		return s, false
	}
	x, err := parsePath(s.rest)
	if err != nil {
		return s, false
	}
	s.expr = x
	return s, true
}
