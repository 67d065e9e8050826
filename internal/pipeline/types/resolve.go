package types

import (
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/value"
)

// Resolver turns types as written into types. Lookup finds the types that
// were declared before; it may be nil.
type Resolver struct {
	File     *syntax.File
	Lookup   func(name string) *Type
	Declared func() []string         // their names, for suggestions; may be nil
	Used     func(*syntax.NamedType) // is called for each use of a declared type; may be nil
	Problems *diag.List
}

var simple = map[string]*Type{"String": String, "Int": Int, "Float": Float, "Boolean": Boolean}

// generics holds the generic types and how many arguments each takes.
var generics = map[string]int{"List": 1, "Seq": 1, "Candidates": 1, "Optional": 1, "Result": 1, "Map": 2}

// Resolve gives the type that e means. Where it means none, the problem is
// added to the list and the result is Invalid.
func (r *Resolver) Resolve(e syntax.TypeExpr) *Type {
	t := r.resolve(e)
	if t.TooLarge() {
		r.errorf(e, "E015", "This type has more than %d parts", MaxSize)
		return Invalid
	}
	return t
}

func (r *Resolver) errorf(n syntax.Node, code, format string, args ...any) *diag.Problem {
	pos, end := r.File.Span(n.Extent())
	return r.Problems.Errorf(pos, code, format, args...).To(end)
}

func (r *Resolver) resolve(e syntax.TypeExpr) *Type {
	switch e := e.(type) {
	case *syntax.NamedType:
		return r.named(e)
	case *syntax.GenericType:
		return r.generic(e)
	case *syntax.RecordType:
		return RecordOf(value.Map(e.Fields, func(f syntax.TypeField) Field { return Field{f.Name.Name, r.Resolve(f.Type)} })...)
	case *syntax.UnionType:
		return UnionOf(value.Map(e.Members, r.Resolve)...)
	case *syntax.MergeType:
		return r.merge(e)
	case *syntax.BadType:
		return Invalid // reported by the parser
	}
	panic(&syntax.Unhandled{Reader: "the checker of types", Node: e})
}

func (r *Resolver) named(e *syntax.NamedType) *Type {
	// A declared type may have the name of a built-in one.
	if r.Lookup != nil {
		if t := r.Lookup(e.Name); t != nil {
			if r.Used != nil {
				r.Used(e)
			}
			return t
		}
	}
	if t := simple[e.Name]; t != nil {
		return t
	}
	p := r.errorf(e, "E003", "Undefined type: %s", e.Name)
	if n, ok := generics[e.Name]; ok {
		p.Suggest("it takes %s, as in %s", diag.Count(n, "argument"), generic(e.Name, n))
		return Invalid
	}
	names := []string{"String", "Int", "Float", "Boolean", "List", "Seq", "Map", "Optional"}
	if r.Declared != nil {
		names = append(names, r.Declared()...)
	}
	if common := commonTypes[strings.ToLower(e.Name)]; common != "" {
		p.Suggest("did you mean %q?", common)
		return Invalid
	}
	p.Suggestion = diag.DidYouMean(e.Name, names)
	return Invalid
}

// commonTypes are the names that other languages have for ours.
var commonTypes = map[string]string{
	"str": "String", "text": "String", "integer": "Int", "long": "Int", "int64": "Int", "number": "Float",
	"double": "Float", "decimal": "Float", "bool": "Boolean", "array": "List", "option": "Optional", "maybe": "Optional",
	"dict": "Map", "object": "Map",
}

func generic(name string, n int) string {
	if n == 2 {
		return name + "<String, Int>"
	}
	return name + "<String>"
}

func (r *Resolver) generic(e *syntax.GenericType) *Type {
	args := value.Map(e.Args, r.Resolve)
	n, known := generics[e.Name.Name]
	if !known || n != len(args) {
		p := r.errorf(e, "E003", "Undefined type: %s<...>", e.Name.Name)
		switch {
		case known:
			p.Suggest("%s takes %s, as in %s", e.Name.Name, diag.Count(n, "argument"), generic(e.Name.Name, n))
		case commonTypes[strings.ToLower(e.Name.Name)] != "":
			p.Suggest("did you mean %q?", commonTypes[strings.ToLower(e.Name.Name)])
		default:
			p.Suggestion = diag.DidYouMean(e.Name.Name, []string{"List", "Seq", "Map", "Optional", "Result", "Candidates"})
		}
		return Invalid
	}
	switch e.Name.Name {
	case "List":
		return ListOf(args[0])
	case "Optional":
		return OptionalOf(args[0])
	case "Result":
		return ResultOf(args[0])
	case "Map":
		return MapOf(args[0], args[1])
	}
	return SeqOf(args[0])
}

func (r *Resolver) merge(e *syntax.MergeType) *Type {
	x, y := r.Resolve(e.X), r.Resolve(e.Y)
	switch {
	case x.Kind == InvalidKind || y.Kind == InvalidKind:
		return Invalid
	case Mergeable(x) && Mergeable(y):
		return Merge(x, y)
	}
	r.errorf(e, "E012", "Cannot merge types: %s + %s", x, y).Suggest("only records, and lists of records, can be merged")
	return Invalid
}

// Parse reads one type as a manifest writes it, "List<{id: Int}>". An open
// record is written with "..." after its fields: "{id: Int, ...}".
func Parse(text string) (*Type, error) {
	body, open := strings.CutSuffix(strings.TrimSpace(text), "...}")
	if open {
		body = strings.TrimRight(body, " \t\r\n,") + "}"
	}
	f, problems := syntax.Parse("", []byte("type T = "+body+"\nin x: T\nout x"))
	decl, ok := only(f)
	if !ok || problems.HasErrors() {
		return nil, fmt.Errorf("%q is not a type%s; write one as in %s", text, first(problems), `"String", "List<Int>", "{id: Int, tags: List<String>}" or "Int | String"`)
	}
	var found diag.List
	r := Resolver{File: f, Problems: &found}
	t := r.Resolve(decl.Type)
	if len(found) > 0 {
		p := found[0]
		if p.Suggestion != "" {
			return nil, fmt.Errorf("%s; %s", p.Message, p.Suggestion)
		}
		return nil, fmt.Errorf("%s", p.Message)
	}
	if open {
		if t.Kind != RecordKind {
			return nil, fmt.Errorf("%q is not a type; \"...\" may stand only at the end of a record", text)
		}
		return OpenRecordOf(t.Fields...), nil
	}
	return t, nil
}

// only gives the type declared by a source, if there is nothing in it but what
// Parse put there: the type, an input and an output.
func only(f *syntax.File) (*syntax.TypeDecl, bool) {
	if len(f.Decls) != 3 {
		return nil, false
	}
	d, ok := f.Decls[0].(*syntax.TypeDecl)
	return d, ok && d.Type != nil
}

func first(l diag.List) string {
	if len(l) == 0 {
		return ""
	}
	return ": " + l[0].Message
}
