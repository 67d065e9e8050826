package syntax

import (
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	gotoken "go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nodeTypes lists the types of nodes, as the package declares them: those with
// one of the methods that mark a node.
func nodeTypes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		f, err := goparser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !slices.Contains([]string{"declNode", "typeNode", "exprNode", "patternNode", "optionValue"}, fn.Name.Name) {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok && star.X.(*ast.Ident).IsExported() {
				names = append(names, star.X.(*ast.Ident).Name)
			}
		}
	}
	if len(names) < 45 {
		t.Fatalf("only %d types of nodes were found: %q", len(names), names)
	}
	return names
}

// every has what testdata lacks; wrong has every Bad node.
const (
	every = "x = F(a) with { window: count(3), join: buffer(5s), checkpoint: 1s, batch: 2, lazy: false, priority: -1, throttle: 1/min, rules: [{on: [network], retry: 2, jitter: full}, {on: exit_code(75)}] }\n" +
		"y = match x { is Int -> 1, _ -> -2.5, }\nz = G(y when true) with cache: 1h, cache_backend: \"disk\"\nout r = not z"
	wrong = "in a: )\nb = match a { 3 -> 1 }\nc = F(a) with timeout: x\nd = )\n) )\nout b"
)

// Every kind of node comes out of the parser, and goes through the walk and the
// formatter, which know it.
func TestEveryNodeIsHandled(t *testing.T) {
	seen := map[string]bool{}
	note := func(n Node) bool {
		seen[strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax.")] = true
		return true
	}
	for _, src := range append(seedSources(t), every) {
		f, _ := Parse("x.cst", []byte(src))
		InspectFile(f, note)
		if f.Faulty() {
			continue
		}
		again, problems := Parse("x.cst", Format(f))
		if problems.HasErrors() || dump(again) != dump(f) {
			t.Errorf("%q became %q: %v", src, Format(f), problems)
		}
	}
	f, _ := Parse("x.cst", []byte(wrong))
	InspectFile(f, note)
	for _, name := range nodeTypes(t) {
		if !seen[name] {
			t.Errorf("no source has a %s", name)
		}
	}
}

// What nobody knows is loud: neither left out nor passed over.
func TestUnknownNodesAreLoud(t *testing.T) {
	type (
		decl    struct{ Decl }
		typ     struct{ TypeExpr }
		expr    struct{ Expr }
		pattern struct{ Pattern }
		value   struct{ OptionValue }
	)
	lit := &IntLit{Value: 1}
	assign := func(e Expr) Decl { return &AssignDecl{Name: Ident{Name: "x"}, Value: e} }
	for name, d := range map[string]Decl{
		"declaration": decl{&BadDecl{}},
		"type":        &TypeDecl{Name: Ident{Name: "T"}, Type: typ{&BadType{}}},
		"expression":  assign(expr{&BadExpr{}}),
		"inside":      assign(&UnaryExpr{Op: Neg, X: expr{&BadExpr{}}}),
		"pattern":     assign(&MatchExpr{X: lit, Cases: []MatchCase{{pattern{&BadPattern{}}, lit}}}),
		"option": assign(&CallExpr{Func: QName{Parts: []Ident{{Name: "F"}}},
			With: &WithClause{Options: []*Option{{Kind: OptRetry, Name: Ident{Name: "retry"}, Value: value{&BadValue{}}}}}}),
	} {
		f := &File{Src: []byte(" "), Decls: []Decl{d}, lines: []int32{0}}
		var unhandled *Unhandled
		if err := attempt(func() { Format(f) }); !errors.As(err, &unhandled) || unhandled.Reader != "the formatter" {
			t.Errorf("%s: the formatter says %v", name, err)
		}
		if name == "pattern" || name == "option" {
			continue // the walk sees patterns and values, and has nothing to do inside them
		}
		if err := attempt(func() { InspectFile(f, func(Node) bool { return true }) }); !errors.As(err, &unhandled) {
			t.Errorf("%s: the walk says %v", name, err)
		}
	}
}

func attempt(do func()) (err error) {
	defer Recover(&err)
	do()
	return nil
}
