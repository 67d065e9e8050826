package reference_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples holds every exported function of the packages that other programs
// import to an example of its own.
func TestExamples(t *testing.T) {
	for _, dir := range public {
		if strings.HasPrefix(dir, "contrib/") { // modules of their own
			continue
		}
		functions, examples := map[string]bool{}, map[string]bool{}
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !f.Name.IsExported() {
					continue
				}
				if !strings.HasSuffix(name, "_test.go") {
					functions[f.Name.Name] = true
				} else if of, ok := strings.CutPrefix(f.Name.Name, "Example"); ok {
					of, _, _ = strings.Cut(of, "_")
					examples[of] = true
				}
			}
		}
		if len(functions) == 0 {
			t.Errorf("%s has no function", dir)
		}
		for name := range functions {
			if !examples[name] {
				t.Errorf("%s.%s has no example", dir, name)
			}
		}
	}
}
