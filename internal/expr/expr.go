// Package expr is the one expression language of bide. It is what is in
// when, filter, if and sort_by, and it owns the paths (item.files[0].name)
// that templates use too.
//
// An expression is made of
//
//	paths       score  item.score  ${item.score}  test-step.exit_code  files[0].name  files[*].size  a["b c"]
//	literals    'text'  "text"  5  -1.5e3  true  false  null  [1, 'two']
//	comparison  ==  =  !=  <  <=  >  >=  =~  !~  in  not in  contains  starts_with  ends_with  matches  is null
//	logic       &&  ||  !  and  or  not  (words in lower or upper case)
//	grouping    ( … )  and  ${ … }, which may hold a whole expression
//	functions   contains(a, b) starts_with(a, b) ends_with(a, b) matches(a, re)
//	            length(a) length(a, n) exists(a) default(a, b) lower(a) upper(a) trim(a)
//	            is_null(a) is_not_null(a) is_number(a) is_string(a) is_bool(a) is_array(a) is_object(a)
//
// From loosest to tightest: or, and, not, comparison, !. Thus !a == b is
// (!a) == b and not a == b is not (a == b).
//
// The senses of the language:
//
//   - A name that does not exist is null; exists(name) and name.exists tell
//     the two apart. name.length is length(name) where no such field exists.
//   - Equality is value.Equal: 5 equals 5.0 and "5", "true" equals true.
//   - An order comparison of things that have no order (null, arrays, objects,
//     a number and a word) is false. Two strings compare by code point.
//   - A text in quotes may hold ${path}; it stands for the value's text.
//   - An unquoted word is its own text where no such name exists and a text is
//     plainly meant: the second argument of contains and its kin, the elements
//     of a list, and the right side of == and != when the left is a string.
//   - Regular expressions are RE2: linear in time, without look-around.
package expr

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/value"
)

const (
	maxSource = 64 << 10 // bytes of an expression
	maxDepth  = 100      // parentheses, nots and lists inside each other
)

// Resolver finds the values of names. Lookup gets a path with at least one
// element, without ${ }; ok is false where it leads nowhere.
type Resolver interface {
	Lookup(p Path) (v any, ok bool)
}

// ResolverFunc is a function as a Resolver.
type ResolverFunc func(p Path) (any, bool)

// Lookup calls f.
func (f ResolverFunc) Lookup(p Path) (any, bool) { return f(p) }

// Item resolves paths inside one work item, with or without a leading "item.".
// An item that is no object answers to item, and to item.item, which is how
// files that read lines have spelled it.
func Item(v any) Resolver {
	return ResolverFunc(func(p Path) (any, bool) {
		if found, ok := Walk(v, p); ok {
			return found, true
		}
		if p[0].Name != "item" {
			return nil, false
		}
		p = p[1:]
		if !isObject(v) && len(p) > 0 && p[0].Name == "item" {
			p = p[1:]
		}
		return Walk(v, p)
	})
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// SyntaxError is what is wrong with a source text, and where.
type SyntaxError struct {
	Offset     int    // of the fault, in bytes from the start of the source
	Message    string // what is wrong
	Suggestion string // what to do about it; may be empty
	At         string // file:line:col of the fault, where that is known
}

func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("at byte %d: %s", e.Offset, e.Message)
	if e.At != "" {
		s = e.At + ": " + e.Message
	}
	if e.Suggestion != "" {
		s += "; " + e.Suggestion
	}
	return s
}

// Expr is a parsed expression. It is immutable and safe for concurrent use.
type Expr struct {
	src  string
	root node
	refs []read
}

// read is a path that an expression reads; maybe: it has a default for where
// nothing sets it; asked: whether it is there is what the expression asks.
type read struct {
	path         Path
	maybe, asked bool
}

// Parse reads an expression. The error is a *SyntaxError. Sources over 64 KiB
// and nesting deeper than 100 are errors.
func Parse(src string) (*Expr, error) {
	if len(src) > maxSource {
		return nil, &SyntaxError{Offset: maxSource, Message: "the expression is longer than 64 KiB"}
	}
	if !utf8.ValidString(src) {
		return nil, &SyntaxError{Message: "the expression is not valid UTF-8"}
	}
	p := &parser{src: src}
	root, err := p.parseWhole()
	if err != nil {
		return nil, err
	}
	return &Expr{src: src, root: root, refs: p.refs}, nil
}

// Eval computes the value. The one possible error is a regular expression that
// comes from data and is none. A nil Resolver knows no names.
func (e *Expr) Eval(r Resolver) (any, error) {
	if r == nil {
		r = ResolverFunc(func(Path) (any, bool) { return nil, false })
	}
	return e.root.eval(r)
}

// EvalBool is Eval as a condition, in the sense of value.Truthy.
func (e *Expr) EvalBool(r Resolver) (bool, error) {
	v, err := e.Eval(r)
	return err == nil && value.Truthy(v), err
}

// Refs lists the paths that the expression reads, in the order of the text;
// words that may stand for themselves (see the package comment) are not listed.
func (e *Expr) Refs() []Path {
	return value.Map(e.refs, func(r read) Path { return r.path })
}

// Optional reports of each path of Refs whether the expression has a default for it.
func (e *Expr) Optional() []bool {
	return value.Map(e.refs, func(r read) bool { return r.maybe })
}

// Needs lists those paths of Refs that the expression takes to be there: they
// have no default, and are neither negated nor compared with null.
func (e *Expr) Needs() (list []Path) {
	for _, r := range e.refs {
		if !r.maybe && !r.asked && r.path[len(r.path)-1].Name != "exists" {
			list = append(list, r.path)
		}
	}
	return list
}

// Has reports whether a path leads somewhere, as an expression reads it: a
// .length of what is there does.
func Has(r Resolver, p Path) bool {
	_, ok := (&ref{path: p}).lookup(r)
	return ok
}

// String is the source.
func (e *Expr) String() string { return e.src }

// quoteAt shows what is at i of src, for a message.
func quoteAt(src string, i int) string {
	if i >= len(src) {
		return "the end"
	}
	rest := []rune(src[i:min(len(src), i+80)])
	if len(rest) > 16 {
		return strconv.Quote(string(rest[:16])) + "…"
	}
	return strconv.Quote(string(rest))
}
