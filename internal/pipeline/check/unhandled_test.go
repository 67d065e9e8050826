package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// Every kind of node and of option is known to the checker: TestEveryNodeIsHandled
// of package syntax holds these sources to have all of them.
func TestEveryNodeIsChecked(t *testing.T) {
	files, err := filepath.Glob("../syntax/testdata/*.cst")
	if err != nil || len(files) == 0 {
		t.Fatal("no sources", err)
	}
	sources := []string{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(src))
		sources = append(sources, strings.Split(string(src), "\n\n")...)
	}
	for _, name := range syntax.OptionNames() {
		sources = append(sources, "policy name = retry: 1\nx = Trim(\"a\") with "+syntax.OptionExample(syntax.OptionByName(name))+"\nout x")
	}
	for _, src := range sources {
		if _, problems := run(newEnv(t), src); strings.Contains(problems.Error(), "E900") {
			t.Errorf("%s\n%v", src, problems)
		}
	}
}

// A node that nobody knows is an error, so that nothing runs without it.
func TestUnknownNodesAreErrors(t *testing.T) {
	type (
		decl    struct{ syntax.Decl }
		typ     struct{ syntax.TypeExpr }
		expr    struct{ syntax.Expr }
		pattern struct{ syntax.Pattern }
		value   struct{ syntax.OptionValue }
	)
	const src = "in x: Int\ny = match x { _ -> Trim(\"a\") with retry: 1 }\nout y"
	for name, spoil := range map[string]func(f *syntax.File){
		"declaration": func(f *syntax.File) { f.Decls[1] = decl{f.Decls[1]} },
		"type":        func(f *syntax.File) { in := f.Decls[0].(*syntax.InDecl); in.Type = typ{in.Type} },
		"expression":  func(f *syntax.File) { a := f.Decls[1].(*syntax.AssignDecl); a.Value = expr{a.Value} },
		"pattern": func(f *syntax.File) {
			c := &f.Decls[1].(*syntax.AssignDecl).Value.(*syntax.MatchExpr).Cases[0]
			c.Pattern = pattern{c.Pattern}
		},
		"option": func(f *syntax.File) {
			o := f.Decls[1].(*syntax.AssignDecl).Value.(*syntax.MatchExpr).Cases[0].Value.(*syntax.CallExpr).With.Options[0]
			o.Value = value{o.Value}
		},
		"kind of option": func(f *syntax.File) {
			f.Decls[1].(*syntax.AssignDecl).Value.(*syntax.MatchExpr).Cases[0].Value.(*syntax.CallExpr).With.Options[0].Kind = syntax.OptDelay
		},
	} {
		f, problems := syntax.Parse("test.cst", []byte(src))
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		spoil(f)
		p, problems := check.Check(f, newEnv(t))
		if p != nil || !strings.Contains(problems.Error(), "E900") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
