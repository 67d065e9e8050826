package reference_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var makeAPI = flag.Bool("make-api", false, "write api/go.txt anew")

// public are the packages that other programs import.
var public = []string{"backoff", "circuit", "circuit/driver", "contrib/grpc", "contrib/otel", "guard", "guard/guardhttp", "guard/guardtest", "hedge", "limit", "pipeline", "retry", "retry/driver"}

// TestAPI compares what the public packages export with api/go.txt, so that no
// change of it goes unseen. `make api` writes the file.
func TestAPI(t *testing.T) {
	const page = "../../api/go.txt"
	var got strings.Builder
	for _, dir := range public {
		decls, err := exported(filepath.Join("../..", dir))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "# %s\n\n%s\n\n", dir, strings.Join(decls, "\n"))
	}
	if *makeAPI {
		if err := os.WriteFile(page, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() == string(want) {
		return
	}
	before, after := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("no longer exported: %s", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("newly exported: %s", line)
		}
	}
	t.Error("the exported API is not that of api/go.txt: if that is meant, run make api")
}

// TestAPIFitsOnAScreen: what a caller meets of a package is seen at once. What only
// drivers need of circuit and of retry has packages of its own.
func TestAPIFitsOnAScreen(t *testing.T) {
	screens := map[string]int{"circuit/driver": 2, "retry/driver": 3}
	for _, dir := range public {
		decls, err := exported(filepath.Join("../..", dir))
		if err != nil {
			t.Fatal(err)
		}
		const screen = 85
		if lines, most := strings.Count(strings.Join(decls, "\n"), "\n")+1, screen*max(1, screens[dir]); lines > most {
			t.Errorf("%s exports %d lines, of which a screen shows %d", dir, lines, most)
		}
	}
}

// exported are the declarations that a package exports, without their comments and
// bodies, sorted.
func exported(dir string) (decls []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.FileExports(file)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && !ast.IsExported(receiver(d)) {
					continue
				}
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT || len(d.Specs) == 0 {
					continue
				}
			}
			var text bytes.Buffer
			if err := printer.Fprint(&text, set, d); err != nil {
				return nil, err
			}
			decls = append(decls, compact(text.String()))
		}
	}
	slices.Sort(decls)
	return decls, nil
}

// receiver is the name of the type that a method is of.
func receiver(d *ast.FuncDecl) (name string) {
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// compact drops empty lines and the alignment of columns.
func compact(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			indent := len(line) - len(strings.TrimLeft(line, "\t"))
			lines = append(lines, strings.Repeat("\t", indent)+strings.Join(words, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// TestEveryFunctionHasAnExample: what a package exports as a function can be seen in
// use on its page, in an example that is run and whose output is compared.
func TestEveryFunctionHasAnExample(t *testing.T) {
	found := 0
	for _, dir := range public {
		examples := map[string]bool{}
		for _, file := range parsed(t, dir, true) {
			for _, e := range doc.Examples(file) {
				name, _, _ := strings.Cut(e.Name, "_")
				examples[name] = examples[name] || e.Output != "" || e.EmptyOutput
			}
		}
		for _, file := range parsed(t, dir, false) {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !f.Name.IsExported() {
					continue
				}
				found++
				if run, is := examples[f.Name.Name]; !is {
					t.Errorf("%s.%s has no example", dir, f.Name.Name)
				} else if !run {
					t.Errorf("%s.%s has no example with an output: it is not run", dir, f.Name.Name)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d functions were looked at", found)
	}
}

// parsed are the files of a package, or those of its tests.
func parsed(t *testing.T, dir string, tests bool) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// TestNothingShadowsABuiltin: in what people read to learn how to call it, new is new.
func TestNothingShadowsABuiltin(t *testing.T) {
	for _, dir := range public {
		for _, file := range parsed(t, dir, false) {
			check := func(names ...*ast.Ident) {
				for _, name := range names {
					if types.Universe.Lookup(name.Name) != nil {
						t.Errorf("%s: %s is declared anew", dir, name.Name)
					}
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncType:
					for _, list := range []*ast.FieldList{n.TypeParams, n.Params, n.Results} {
						if list == nil {
							continue
						}
						for _, f := range list.List {
							check(f.Names...)
						}
					}
				case *ast.FuncDecl:
					if n.Recv == nil {
						check(n.Name)
					}
				case *ast.ValueSpec:
					check(n.Names...)
				case *ast.TypeSpec:
					check(n.Name)
				case *ast.AssignStmt:
					for _, e := range n.Lhs {
						if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
							check(id)
						}
					}
				}
				return true
			})
		}
	}
}

// docLink is a link to a declaration of the same package in a comment.
var docLink = regexp.MustCompile(`\[\*?([A-Z]\w*)(?:\.([A-Z]\w*))?\]`)

// TestDocLinksLeadSomewhere: what a comment of a public package links to is declared.
func TestDocLinksLeadSomewhere(t *testing.T) {
	for _, dir := range public {
		files := parsed(t, dir, false)
		declared := map[string]bool{}
		for _, file := range files {
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv != nil {
						declared[receiver(d)+"."+d.Name.Name] = true
					} else {
						declared[d.Name.Name] = true
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.TypeSpec:
							declared[s.Name.Name] = true
						case *ast.ValueSpec:
							for _, name := range s.Names {
								declared[name.Name] = true
							}
						}
					}
				}
			}
		}
		for _, file := range files {
			for _, group := range file.Comments {
				for _, link := range docLink.FindAllStringSubmatch(group.Text(), -1) {
					name := link[1]
					if link[2] != "" {
						name += "." + link[2]
					}
					if !declared[name] {
						t.Errorf("%s: a comment links to %s, which is not there", dir, name)
					}
				}
			}
		}
	}
}
