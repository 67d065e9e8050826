package lsp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Typed gives the functions for [Options] that know types and modules: the
// types of variables, the signatures of functions, the fields of records. env
// gives what the pipeline of a file can call, nil if nobody knows.
func Typed(env func(*syntax.File) *check.Env) (func(*syntax.File, int32) (string, syntax.Span, bool), func(*syntax.File, syntax.Place) []Item) {
	t := typed{env}
	return t.hover, t.complete
}

type typed struct{ env func(*syntax.File) *check.Env }

// hover explains a variable or a function.
func (t typed) hover(f *syntax.File, at int32) (string, syntax.Span, bool) {
	what, ok := findTarget(f, at)
	if !ok {
		return "", syntax.Span{}, false
	}
	env := t.env(f)
	if env == nil {
		return "", syntax.Span{}, false
	}
	if what.call {
		if full, ok := env.Find(f, what.name, at); ok {
			sig, doc, _ := env.Signature(full)
			return strings.TrimSpace(fmt.Sprintf("```\n%s%s\n```\n%s", full, sig, doc)), what.span, true
		}
		return "", syntax.Span{}, false
	}
	v := variable(f, env, what.name, what.before)
	if v == nil {
		return "", syntax.Span{}, false
	}
	text := "```\n" + v.Name + ": " + v.Type.String() + "\n"
	if d := declaration(f, v); d != nil && d.Extent() != what.within {
		text += f.Text(d.Extent()) + "\n"
	}
	return text + "```", what.span, true
}

// variable is the last one of a name that is declared before an offset, nil if
// there is none or its type is not known.
func variable(f *syntax.File, env *check.Env, name string, before int32) *check.Var {
	for _, v := range slices.Backward(check.Variables(f, env)) {
		if v.Name == name && v.Span.Start < before {
			if v.Type.Kind == types.InvalidKind {
				return nil
			}
			return v
		}
	}
	return nil
}

func declaration(f *syntax.File, v *check.Var) syntax.Decl {
	for _, d := range f.Decls {
		if s := d.Extent(); s.Start <= v.Span.Start && v.Span.End <= s.End {
			return d
		}
	}
	return nil
}

// target is the variable or the function at a place.
type target struct {
	name   string
	call   bool // it is a function
	span   syntax.Span
	before int32       // what a variable means was declared before
	within syntax.Span // the declaration around it
}

func findTarget(f *syntax.File, at int32) (target, bool) {
	for _, d := range f.Decls {
		if !contains(d.Extent(), at) {
			continue
		}
		var name syntax.Ident
		switch d := d.(type) {
		case *syntax.AssignDecl:
			name = d.Name
		case *syntax.InDecl:
			name = d.Name
		}
		if name.Name != "" && contains(name.Span, at) {
			return target{name.Name, false, name.Span, name.End, d.Extent()}, true
		}
		if what, ok := targetIn(d, at); ok {
			return what, true
		}
	}
	return target{}, false
}

// targetIn looks inside a declaration. Names that a lambda or a case binds are
// no targets: what they are depends on the call around them.
func targetIn(d syntax.Decl, at int32) (what target, ok bool) {
	var bound []string
	syntax.Inspect(d, func(n syntax.Node) bool {
		if !contains(n.Extent(), at) {
			return false
		}
		switch n := n.(type) {
		case *syntax.LambdaExpr:
			for _, p := range n.Params {
				bound = append(bound, p.Name.Name)
			}
		case *syntax.MatchExpr:
			bound = append(bound, bindings(n, at)...)
		case *syntax.Option:
			if contains(n.Name.Span, at) {
				what, ok = target{}, false
			}
		case *syntax.CallExpr:
			if contains(n.Func.Span, at) {
				what, ok = target{n.Func.String(), true, n.Func.Span, 0, d.Extent()}, true
			}
		case *syntax.Name:
			what, ok = target{n.Name, false, n.Span, d.Extent().Start, d.Extent()}, !slices.Contains(bound, n.Name)
		}
		return true
	})
	return what, ok
}

// complete gives functions, variables with their types, fields and namespaces.
func (t typed) complete(f *syntax.File, place syntax.Place) []Item {
	switch place.Kind {
	case syntax.PlaceExpr, syntax.PlaceField, syntax.PlaceNamespace:
	default:
		return nil
	}
	env := t.env(f)
	if env == nil {
		return nil
	}
	switch place.Kind {
	case syntax.PlaceField:
		return t.fields(f, env, place.Prefix.Start)
	case syntax.PlaceNamespace:
		return namespaces(env, "")
	}
	items := functions(f, env, place.Prefix.Start)
	seen := map[string]bool{}
	for _, v := range slices.Backward(check.Variables(f, env)) {
		if v.Span.Start < place.Prefix.Start && v.Type.Kind != types.InvalidKind && !seen[v.Name] {
			seen[v.Name] = true
			items = append(items, Item{Label: v.Name, Kind: VariableItem, Detail: v.Type.String()})
		}
	}
	return items
}

// functions lists what can be called, by the shortest name that means it.
func functions(f *syntax.File, env *check.Env, at int32) []Item {
	var items []Item
	for _, full := range env.Functions() {
		label := full[strings.LastIndexByte(full, '.')+1:]
		if found, ok := env.Find(f, label, at); !ok || found != full {
			label = full
		}
		sig, doc, _ := env.Signature(full)
		items = append(items, Item{Label: label, Kind: FunctionItem, Detail: sig.String(), Documentation: doc})
	}
	return items
}

// fields lists what can stand after the dot before an offset: the fields of a
// variable, or what a namespace has.
func (t typed) fields(f *syntax.File, env *check.Env, at int32) []Item {
	path := pathBefore(string(f.Src), at)
	if len(path) == 0 {
		return nil
	}
	v := variable(f, env, path[0], at)
	if v == nil {
		return namespaces(env, strings.Join(path, ".")+".")
	}
	typ := record(v.Type)
	for _, name := range path[1:] {
		if typ == nil {
			return nil
		}
		typ = record(typ.Field(name))
	}
	if typ == nil {
		return nil
	}
	var items []Item
	for _, field := range typ.Fields {
		items = append(items, Item{Label: field.Name, Kind: FieldItem, Detail: field.Type.String()})
	}
	return items
}

// record is the record whose fields a value of a type has, nil if it has none.
func record(t *types.Type) *types.Type {
	if t != nil && t.IsSequence() {
		t = t.Elem
	}
	if t == nil || t.Kind != types.RecordKind {
		return nil
	}
	return t
}

// pathBefore reads "a.b." backwards from an offset.
func pathBefore(src string, at int32) []string {
	start := int(min(at, int32(len(src))))
	end := start
	for start > 0 && (isWord(src[start-1]) || src[start-1] == '.') {
		start--
	}
	text, ok := strings.CutSuffix(src[start:end], ".")
	if !ok || text == "" {
		return nil
	}
	return strings.Split(text, ".")
}

func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// namespaces lists the next parts of the full names that begin with a prefix,
// and after it what stands in that namespace itself.
func namespaces(env *check.Env, prefix string) []Item {
	items := map[string]Item{}
	for _, full := range env.Functions() {
		rest, ok := strings.CutPrefix(full, prefix)
		if !ok {
			continue
		}
		part, _, more := strings.Cut(rest, ".")
		switch {
		case more && prefix == "":
			ns := full[:strings.LastIndexByte(full, '.')]
			items[ns] = Item{Label: ns, Kind: NamespaceItem}
		case more:
			items[part] = Item{Label: part, Kind: NamespaceItem}
		case prefix != "":
			sig, doc, _ := env.Signature(full)
			items[part] = Item{Label: part, Kind: FunctionItem, Detail: sig.String(), Documentation: doc}
		}
	}
	return slices.Collect(maps.Values(items))
}
