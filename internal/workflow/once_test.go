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

// TestAKeyIsWrittenOnce: a key is in its row, which says where its value goes; no
// function of the readers is told a key by its name, or compares one with it.
func TestAKeyIsWrittenOnce(t *testing.T) {
	const (
		own = "a name of its own, which is no key"
		old = "an older form, whose members have no table"
		opt = "the name of an option, whose row is in package option"
	)
	exceptions := map[string]string{
		"actionless": own, "asAgent": own, "knownNames": own, // prompt: a key of others, and a variable
		"env":  "a map of variables, under whichever key it stands",
		"give": "the values of a call, which stand under with and parameters",

		"inputsOf": old, "extracted": old, "perProfile": old,
		"liftInto":      "metadata.retries, for the migration of the older form",
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
			told := func(lit ast.Expr, what string) {
				text, ok := lit.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return
				}
				key, err := strconv.Unquote(text.Value)
				if err != nil || !keys[key] {
					return
				}
				found[fn.Name.Name] = true
				if exceptions[fn.Name.Name] == "" {
					t.Errorf("%s: %s tells %s the key %q, which its row has", set.Position(lit.Pos()), fn.Name.Name, what, key)
				}
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr:
					if isKey(n.X) {
						told(n.Y, "a comparison")
					}
				case *ast.SwitchStmt:
					for _, c := range n.Body.List {
						for _, word := range c.(*ast.CaseClause).List {
							if isKey(n.Tag) {
								told(word, "a switch")
							}
						}
					}
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !readers[method.Sel.Name] {
					return true
				}
				for _, arg := range call.Args {
					told(arg, method.Sel.Name)
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

// isKey reports whether an expression is the text of a key: p.key.text.
func isKey(x ast.Expr) bool {
	text, ok := x.(*ast.SelectorExpr)
	if !ok || text.Sel.Name != "text" {
		return false
	}
	key, ok := text.X.(*ast.SelectorExpr)
	return ok && key.Sel.Name == "key"
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
