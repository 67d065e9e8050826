package reference_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// scene declares what the pieces of code in the pages take for granted.
const scene = `
type (
	User struct{ Ready bool }
	Page string
	Job  struct{ Done bool }
)
var (
	ctx             context.Context
	g               *guard.Guard
	second          *hedge.Hedge
	r               *retry.Retrier
	breaker         *circuit.Breaker
	slots           *limit.Limit
	url             string
	page            Page
	err             error
	errBusy, errGone error
	observe         retry.Observer
	changed         func(circuit.Change)
	failed          func(error) bool
	fetch           func(context.Context, string) (Page, error)
	fetchUser       func(context.Context) (User, error)
	save            func(context.Context) error
	cached          func(context.Context, error) (User, error)
	poll            func(context.Context) (Job, error)
	handler         http.Handler
)
`

// TestSnippets type-checks the Go code of the pages about the library. What is a
// piece of a program may leave a variable unused, and nothing else.
func TestSnippets(t *testing.T) {
	packages := exports(t)
	imports := "import (\n"
	for _, p := range []string{"context", "log/slog", "net/http", "time"} {
		imports += fmt.Sprintf("%q\n", p)
	}
	for _, p := range []string{"backoff", "circuit", "guard", "guard/guardhttp", "hedge", "limit", "retry"} {
		imports += fmt.Sprintf("%q\n", "github.com/bide-dev/bide/"+p)
	}
	imports += ")\n"
	for _, name := range []string{"../../docs/library.md", "../../README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pieces := 0
		for at, rest := 1, string(text); ; {
			before, code, found := strings.Cut(rest, "\n```go\n")
			if !found {
				break
			}
			code, rest, _ = strings.Cut(code, "\n```\n")
			at += strings.Count(before, "\n") + 2
			place := fmt.Sprintf("//line %s:%d\n", path.Base(name), at)
			source := place + code
			if !strings.HasPrefix(code, "package ") {
				source = "package page\n" + imports + scene + "func _() {\n" + place + code + "\n}\n"
			}
			check(t, packages, source)
			at += strings.Count(code, "\n") + 2
			pieces++
		}
		if pieces == 0 {
			t.Errorf("%s has no Go code", name)
		}
	}
}

// goCommand is a command of go that compiles as the checks of make ci do, so that go takes
// what is compiled for these.
func goCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	return cmd
}

// exports knows where the compiler has put what the packages export.
func exports(t *testing.T) types.Importer {
	t.Helper()
	list := goCommand("list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./guard/guardhttp", "log", "log/slog")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if importPath, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			files[importPath] = file
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(importPath string) (io.ReadCloser, error) {
		if files[importPath] == "" {
			return nil, errors.New("the pages are not to import it")
		}
		return os.Open(files[importPath])
	})
}

func check(t *testing.T, packages types.Importer, source string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "page.go", source, parser.ParseComments)
	if err != nil {
		t.Error(err)
		return
	}
	config := types.Config{Importer: packages, Error: func(err error) {
		if problem, ok := err.(types.Error); !ok || !problem.Soft {
			t.Error(err)
		}
	}}
	config.Check("page", set, []*ast.File{file}, nil) // what it returns, Error was told
}
