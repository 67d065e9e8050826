package pattern_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoneIsEager: no package that the program has compiles an expression of its own when
// the program starts.
func TestNoneIsEager(t *testing.T) {
	for _, dir := range []string{"../../internal", "../../pipeline", "../../cmd/bide"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasSuffix(path, "internal/reference") || strings.HasSuffix(path, "web/browser")): // not of the program
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if d, is := decl.(*ast.GenDecl); is {
					ast.Inspect(d, func(n ast.Node) bool {
						if call, is := n.(*ast.CallExpr); is {
							if f, is := call.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "MustCompile" {
								t.Errorf("%s: compiled at each start; write pattern.Lazy", set.Position(call.Pos()))
							}
						}
						_, body := n.(*ast.FuncLit) // runs later
						return !body
					})
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
