package workflow

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAKeyIsWrittenOnce: a key stands in its row, which says where its value goes; no
// function of the readers is told a key by its name.
func TestAKeyIsWrittenOnce(t *testing.T) {
	const (
		own = "a name of its own, which is no key"
		old = "an older form, whose members have no table"
		opt = "the name of an option, whose row is in package option"
	)
	exceptions := map[string]string{
		"actionless": own, "knownNames": own, // prompt: a key of others, and a variable
		"env":  "a map of variables, under whichever key it stands",
		"give": "the values of a call, which stand under with and parameters",

		"inputsOf": old, "extracted": old, "perProfile": old,
		"presentPolicy": opt, "liftBackoff": opt,
	}
	keys := map[string]bool{}
	for _, tab := range tables {
		for _, f := range tab.fields() {
			keys[f.key] = true
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	readers := map[string]bool{} // the names of the methods of those who read
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && slices.Contains([]string{"object", "decoder", "table", "node", "retrySpec"}, receiver(fn)) {
				readers[fn.Name.Name] = true
			}
		}
	}
	found := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !readers[method.Sel.Name] {
					return true
				}
				for _, arg := range call.Args {
					lit, ok := arg.(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						continue
					}
					key, err := strconv.Unquote(lit.Value)
					if err != nil || !keys[key] {
						continue
					}
					found[fn.Name.Name] = true
					if exceptions[fn.Name.Name] == "" {
						t.Errorf("%s: %s tells %s the key %q, which its row has", set.Position(lit.Pos()), fn.Name.Name, method.Sel.Name, key)
					}
				}
				return true
			})
		}
	}
	for name := range exceptions {
		if !found[name] {
			t.Errorf("%s is no exception any more", name)
		}
	}
	if len(keys) < 200 || len(readers) < 50 {
		t.Errorf("%d keys, %d readers", len(keys), len(readers))
	}
}

// receiver is the name of the type of a method.
func receiver(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	id, _ := of.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}
