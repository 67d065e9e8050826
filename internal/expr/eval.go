package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/value"
)

type node interface {
	eval(r Resolver) (any, error)
}

type literal struct{ v any }

func (n literal) eval(Resolver) (any, error) { return n.v, nil }

// ref is a path. word is its source where it may stand for itself.
type ref struct {
	path Path
	word string
}

func (n *ref) eval(r Resolver) (any, error) {
	v, _ := n.lookup(r)
	return checked(v)
}

// checked is a value, or the error that is in the place of one that cannot be read.
func checked(v any) (any, error) {
	if err, lost := v.(error); lost {
		return nil, err
	}
	return v, nil
}

func (n *ref) lookup(r Resolver) (any, bool) {
	if v, ok := r.Lookup(n.path); ok {
		return v, true
	}
	last := len(n.path) - 1
	if last < 1 || n.path[last].IsIndex || n.path[last].All {
		return nil, false
	}
	switch n.path[last].Name {
	case "exists":
		_, ok := r.Lookup(n.path[:last])
		return ok, true
	case "length":
		if v, ok := r.Lookup(n.path[:last]); ok {
			if err, lost := v.(error); lost {
				return err, true
			}
			return length(v), true
		}
	}
	return nil, false
}

// wordOr evaluates n, which stands for its own text where it is a bare word
// that names nothing.
func wordOr(n node, r Resolver) (any, error) {
	if x, ok := n.(*ref); ok && x.word != "" {
		if v, found := x.lookup(r); found {
			return checked(v)
		}
		return x.word, nil
	}
	return n.eval(r)
}

// interp is a text with values in it.
type interp struct{ parts []node }

func (n interp) eval(r Resolver) (any, error) {
	var b strings.Builder
	for _, p := range n.parts {
		v, err := p.eval(r)
		if err != nil {
			return nil, err
		}
		b.WriteString(value.Text(v))
	}
	return b.String(), nil
}

type list struct{ elems []node }

func (n list) eval(r Resolver) (any, error) {
	out := make([]any, len(n.elems))
	for i, e := range n.elems {
		v, err := wordOr(e, r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

type not struct{ x node }

func (n not) eval(r Resolver) (any, error) {
	v, err := n.x.eval(r)
	return !value.Truthy(v), err
}

// logic is a chain of && or ||; its value is a boolean.
type logic struct {
	or   bool
	args []node
}

func (n logic) eval(r Resolver) (any, error) {
	for _, a := range n.args {
		v, err := a.eval(r)
		if err != nil {
			return nil, err
		}
		if value.Truthy(v) == n.or {
			return n.or, nil
		}
	}
	return !n.or, nil
}

// orDefault is ${x:-d} and default(x, d): d where x is missing, null or "".
type orDefault struct{ x, d node }

func (n orDefault) eval(r Resolver) (any, error) {
	v, err := n.x.eval(r)
	if err != nil || v != nil && v != "" {
		return v, err
	}
	return wordOr(n.d, r)
}

type comparison struct {
	op   string
	a, b node
}

func (n comparison) eval(r Resolver) (any, error) {
	a, err := n.a.eval(r)
	if err != nil {
		return nil, err
	}
	b, err := n.right(a, r)
	if err != nil {
		return nil, err
	}
	switch n.op {
	case "==":
		return value.Equal(a, b), nil
	case "!=":
		return !value.Equal(a, b), nil
	}
	c, ok := value.Compare(a, b)
	switch n.op {
	case "<":
		return ok && c < 0, nil
	case "<=":
		return ok && c <= 0, nil
	case ">":
		return ok && c > 0, nil
	}
	return ok && c >= 0, nil
}

func (n comparison) right(a any, r Resolver) (any, error) {
	if _, isText := a.(string); isText && (n.op == "==" || n.op == "!=") {
		return wordOr(n.b, r)
	}
	return n.b.eval(r)
}

// test is a function of values whose last argument may be a bare word.
type test struct {
	fn   func(args []any) any
	args []node
	word bool
}

func (n test) eval(r Resolver) (any, error) {
	var buf [2]any
	args := buf[:0]
	for i, a := range n.args {
		get := node.eval
		if n.word && i == 1 {
			get = wordOr
		}
		v, err := get(a, r)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return n.fn(args), nil
}

// exists tells a missing name from null.
type exists struct{ x *ref }

func (n exists) eval(r Resolver) (any, error) {
	_, ok := n.x.lookup(r)
	return ok, nil
}

// match is =~. The regular expression is compiled once where it is a literal,
// else when its text changes.
type match struct {
	x, pattern node
	last       atomic.Pointer[regexp.Regexp]
}

func (n *match) eval(r Resolver) (any, error) {
	v, err := n.x.eval(r)
	if err != nil {
		return nil, err
	}
	p, err := wordOr(n.pattern, r)
	if err != nil {
		return nil, err
	}
	s, ok := scalarText(v)
	if !ok || p == nil {
		return false, nil
	}
	text := value.Text(p)
	re := n.last.Load()
	if re == nil || re.String() != text {
		if re, err = regexp.Compile(text); err != nil {
			return nil, fmt.Errorf("%q is no regular expression: %w", text, err)
		}
		n.last.Store(re)
	}
	return re.MatchString(s), nil
}

// scalarText is the text that a text function sees; null, arrays and objects
// have none.
func scalarText(v any) (string, bool) {
	if v == nil || !value.IsScalar(v) {
		return "", false
	}
	return value.Text(v), true
}

// contains: an element of a list, a key of an object, a part of a text.
func contains(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return false
	case []any:
		return slices.ContainsFunc(a, func(e any) bool { return value.Equal(e, b) })
	case map[string]any:
		key, ok := b.(string)
		_, has := a[key]
		return ok && has
	}
	if b == nil {
		return false
	}
	return strings.Contains(value.Text(a), value.Text(b))
}

// textTest makes a two-argument test of two texts.
func textTest(f func(s, part string) bool) func([]any) any {
	return func(args []any) any {
		s, ok := scalarText(args[0])
		part, ok2 := scalarText(args[1])
		return ok && ok2 && f(s, part)
	}
}

// length counts characters, elements or keys; null has none.
func length(v any) int64 {
	switch v := v.(type) {
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return int64(len([]rune(value.Text(v))))
}

func textFunc(f func(string) string) func([]any) any {
	return func(args []any) any {
		if s, ok := args[0].(string); ok {
			return f(s)
		}
		return args[0]
	}
}

func kindTest(kind string) func([]any) any {
	return func(args []any) any { return value.Kind(args[0]) == kind }
}

// function is what a name before a parenthesis means.
type function struct {
	min, max int
	word     bool // the second argument may be a word without quotes
	fn       func(args []any) any
}

// functions are those of plain values; matches, exists and default see more
// than values and are made by the parser.
var functions = map[string]function{
	"contains":    {2, 2, true, func(a []any) any { return contains(a[0], a[1]) }},
	"starts_with": {2, 2, true, textTest(strings.HasPrefix)},
	"ends_with":   {2, 2, true, textTest(strings.HasSuffix)},
	"matches":     {2, 2, true, nil},
	"exists":      {1, 1, false, nil},
	"default":     {2, 2, false, nil},
	"length":      {1, 2, false, lengthFunc},
	"len":         {1, 2, false, lengthFunc},
	"lower":       {1, 1, false, textFunc(strings.ToLower)},
	"upper":       {1, 1, false, textFunc(strings.ToUpper)},
	"trim":        {1, 1, false, textFunc(strings.TrimSpace)},
	"is_null":     {1, 1, false, func(a []any) any { return a[0] == nil }},
	"is_not_null": {1, 1, false, func(a []any) any { return a[0] != nil }},
	"is_number":   {1, 1, false, kindTest("number")},
	"is_string":   {1, 1, false, kindTest("string")},
	"is_bool":     {1, 1, false, kindTest("boolean")},
	"is_array":    {1, 1, false, kindTest("array")},
	"is_object":   {1, 1, false, kindTest("object")},
}

// lengthFunc with a second argument compares, as Prodigy's length(f, n) did.
func lengthFunc(a []any) any {
	if len(a) == 2 {
		return value.Equal(length(a[0]), a[1])
	}
	return length(a[0])
}
