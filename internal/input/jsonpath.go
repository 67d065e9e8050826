package input

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/ohler55/ojg/jp"

	"github.com/bide-dev/bide/internal/pattern"
)

// Path evaluates a JSONPath (RFC 9535) and gives the values that it finds.
// It ends with ctx.
func Path(ctx context.Context, path string, v any) (found []any, err error) {
	x, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	err = evaluate(ctx, x, path, v, func(e any) error { found = append(found, e); return nil })
	return found, err
}

// CheckPath tells what is wrong with a JSONPath; nil: it is one.
func CheckPath(path string) error {
	_, err := parsePath(path)
	return err
}

func parsePath(path string) (x jp.Expr, err error) {
	// As the text comes from outside, a panic of the parser is an error.
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

// selects reports whether a path asks for several values. What it finds is then
// the list of items, also where that is one value, and this an array.
func selects(x jp.Expr) bool {
	return slices.ContainsFunc(x, func(f jp.Frag) bool {
		switch f.(type) {
		case jp.Wildcard, jp.Union, jp.Slice, *jp.Filter:
			return true
		}
		return false
	})
}

// evaluate gives what a path finds, one after another, until yield fails: what
// nobody asks for is neither looked for nor held.
func evaluate(ctx context.Context, x jp.Expr, path string, v any, yield func(any) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("JSONPath %s: %v", path, p)
		}
	}()
	last := len(x) - 1
	for last >= 0 {
		if _, ok := x[last].(*jp.Filter); ok {
			break
		}
		last--
	}
	if last < 0 {
		return get(ctx, x, v, yield)
	}
	// Filters compare numbers of Go's own types only. They look at a copy; what
	// they find is taken from the original, in which numbers are as written.
	c := copies{}
	return get(ctx, x[:last+1], c.of(v), func(e any) error {
		e = c.original(e)
		if last+1 == len(x) {
			return yield(e)
		}
		return get(ctx, x[last+1:], e, yield)
	})
}

// get evaluates a path segment by segment. In one go, the library loses what
// is behind an empty array, its filters do not survive a null, and the
// order of what it finds in objects is another one each time.
func get(ctx context.Context, x jp.Expr, v any, yield func(any) error) error {
	for len(x) > 0 {
		switch x[0].(type) {
		case jp.Root, jp.At, jp.Bracket:
			x = x[1:]
			continue
		}
		break
	}
	if len(x) == 0 {
		return yield(v)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if v == nil { // null has nothing in it
		return nil
	}
	rest := func(e any) error { return get(ctx, x[1:], e, yield) }
	switch x[0].(type) {
	case jp.Descent:
		if len(x) == 1 {
			return nil // not a path that the parser lets through
		}
		return descend(v, rest)
	case jp.Wildcard:
		return children(v, rest)
	}
	for _, e := range (jp.Expr{jp.Root('$'), x[0]}).Get(v) {
		if err := rest(e); err != nil {
			return err
		}
	}
	return nil
}

// descend visits an array or object and all that are in it, those above first.
func descend(v any, visit func(any) error) error {
	switch v.(type) {
	case []any, map[string]any:
	default:
		return nil
	}
	if err := visit(v); err != nil {
		return err
	}
	return children(v, func(e any) error { return descend(e, visit) })
}

// children visits the elements of an array, or the values of an object in the
// order of their names.
func children(v any, visit func(any) error) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := visit(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := visit(v[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// copies finds the original of what a filter has found in a copy: of arrays and
// objects by their address, of numbers by their value, each one once.
type copies map[any][]any

// of gives a copy of a value, with its numbers as float64.
func (c copies) of(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v
		}
		c[f] = append(c[f], v)
		return f
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = c.of(e)
		}
		c.note(out, v)
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = c.of(e)
		}
		c.note(out, v)
		return out
	}
	return v
}

func (c copies) note(copied, v any) {
	if p := address(copied); p != nil {
		c[p] = []any{v}
	}
}

func (c copies) original(e any) any {
	key := address(e)
	if f, ok := e.(float64); ok {
		key = f
	}
	list := c[key]
	if key == nil || len(list) == 0 {
		return e
	}
	if len(list) > 1 {
		c[key] = list[1:]
	}
	return list[0]
}

// address is what tells an array or object from all others; nil for other
// values, and for an empty array, which is like any other.
func address(v any) any {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			return &v[0]
		}
	case map[string]any:
		return reflect.ValueOf(v).Pointer()
	}
	return nil
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
	nameStep  = pattern.Lazy(`^(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^'\\]*)'\]|\["([^"\\]*)"\])`)
	everyStep = pattern.Lazy(`^(\[\s*\*\s*\]|\.\*)`)
)

// stream takes a path apart; ok is false where the document has to be held.
func stream(path string) (s streamed, ok bool) {
	rest := cmp.Or(strings.TrimSpace(path), "$")
	rest = strings.TrimPrefix(rest, "$")
	for {
		m := nameStep().FindStringSubmatch(rest)
		if m == nil {
			break
		}
		s.names = append(s.names, m[1]+m[2]+m[3])
		rest = rest[len(m[0]):]
	}
	switch m := everyStep().FindString(rest); {
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
