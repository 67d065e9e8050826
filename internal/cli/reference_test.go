package cli

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/docs"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/reference"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var makeDocs = flag.Bool("make-docs", false, "write the pages of docs/reference")

const referenceDir = "../../docs/reference"

// The pages of the reference are what the tables of the program give. `make
// docs` writes them.
func TestEveryReferencePageIsMade(t *testing.T) {
	events, err := reference.Events("../event/event.go")
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := newApp()
	for name, want := range map[string]string{
		"keys": reference.Keys(), "options": reference.Options(), "events": events, "codes": reference.CodesPage(), "variables": reference.ScopePage(),
		"functions": reference.Functions(), "environment": reference.Environment(), "commands": commandsPage(a.root()), "exit-status": exitStatusReference(),
	} {
		file := filepath.Join(referenceDir, name+".md")
		if *makeDocs {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("docs/reference/%s.md is not what the tables give (%v): run make docs", name, err)
		}
	}
}

// commandsPage is the page of every command with its flags.
func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(reference.Made + "# Commands and flags\n\nThe same as `bide COMMAND --help` and the manual pages of `bide man`. `--help` and `--color` are flags of every command.\n")
	for _, g := range root.Groups() {
		b.WriteString("\n**" + strings.TrimSuffix(g.Title, ":") + "**\n\n")
		reference.Head(&b, "command", "what")
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && len(documented(c)) > 0 {
				reference.Row(&b, reference.Code(c.CommandPath()), c.Short)
			}
		}
	}
	for _, c := range documented(root) {
		b.WriteString("\n## " + c.CommandPath() + "\n\n" + c.Short + ".\n\n```help\n" + c.UseLine() + "\n")
		for _, text := range []string{c.Long, c.Example} {
			if text = strings.Trim(text, "\n"); text != "" {
				b.WriteString("\n" + text + "\n")
			}
		}
		b.WriteString("```\n")
		var rows strings.Builder
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := reference.Code("--" + f.Name)
			if f.Shorthand != "" {
				name += ", " + reference.Code("-"+f.Shorthand)
			}
			kind, usage := pflag.UnquoteUsage(f)
			standard := f.DefValue
			if standard == "[]" || standard == "false" {
				standard = ""
			}
			reference.Row(&rows, name, kind, standard, usage)
		})
		if rows.Len() > 0 {
			b.WriteByte('\n')
			reference.Head(&b, "flag", "value", "where missing", "what")
			b.WriteString(rows.String())
		}
	}
	return b.String()
}

func exitStatusReference() string {
	var b strings.Builder
	b.WriteString(reference.Made + "# Exit statuses\n\n")
	reference.Head(&b, "status", "what")
	for _, s := range exitStatuses {
		reference.Row(&b, s.Status, s.Doc)
	}
	b.WriteString("\n`bide exec` ends with the status of its command: 124 if that timed out, 126 if it cannot be run, 127 if it is not there, 128+n if signal n ended it.\n")
	return b.String()
}

// Whatever the tables have is explained by `bide docs WORD`.
func TestEveryTableHasAReference(t *testing.T) {
	words := docs.Words()
	has := func(kind, word string) {
		at, found := slices.BinarySearch(words, strings.TrimLeft(word, "-"))
		if found || kind == "variable" && at < len(words) && strings.HasPrefix(words[at], word+".") { // of git there are only members
			return
		}
		t.Errorf("the reference has no %s %s", kind, word)
	}
	for _, f := range workflow.Fields() {
		has("key", f.Key)
		if f.Doc == "" && f.Inert == "" || f.Example == "" || f.Kind == "" {
			t.Errorf("%s.%s lacks a sentence, an example or a kind: %+v", f.Object, f.Key, f)
		}
	}
	for _, r := range slices.Concat(option.Table(), option.BreakerTable()) {
		has("option", r.Name)
	}
	a, _, _ := newApp()
	for _, c := range documented(a.root()) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				has("flag", f.Name)
			}
		})
	}
	for _, e := range []event.Type{event.RunStarted, event.PhaseFinished, event.ItemRemoved, event.RunFinished} {
		has("event", string(e))
	}
	for _, name := range scopeVariables(t) {
		has("variable", name)
	}
	for _, name := range readVariables(t) {
		has("environment variable", name)
	}
	codes := map[string]bool{}
	for _, code := range usedCodes(t) {
		has("message code", code)
		codes[code] = true
	}
	for _, c := range reference.Codes {
		if !codes[c[0]] {
			t.Errorf("the message code %s is explained and nothing uses it", c[0])
		}
	}
}

// scopeVariables are the variables that the engine and its steps set by their
// names, with the members of those that are objects.
func scopeVariables(t *testing.T) []string {
	var out []string
	for _, f := range programFiles(t) {
		if f.dir != "engine" && f.dir != "step" {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || !strings.HasPrefix(calledName(call), "Set") {
				return true
			}
			name, ok := literal(call.Args[0])
			if !ok || strings.HasSuffix(name, ".") {
				return true
			}
			out = append(out, name)
			if members, ok := call.Args[1].(*ast.CompositeLit); ok {
				for _, e := range members.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						if key, ok := literal(pair.Key); ok {
							out = append(out, name+"."+key)
						}
					}
				}
			}
			return true
		})
	}
	if len(out) < 60 {
		t.Fatalf("only %d variables were found", len(out))
	}
	return out
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

type programFile struct {
	*ast.File
	dir string // the last name of its folder
}

// programFiles are the files of the program, without its tests.
func programFiles(t *testing.T) []programFile {
	t.Helper()
	var files []programFile
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "browser" || d.Name() == "reference" || d.Name() == "build"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files = append(files, programFile{f, filepath.Base(filepath.Dir(path))})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// readVariables are the environment variables in the texts of the program.
func readVariables(t *testing.T) []string {
	name := regexp.MustCompile(`^"?((?:BIDE|OTEL)_[A-Z0-9_]*[A-Z0-9]|COLUMNS|NO_COLOR|XDG_STATE_HOME|TRACEPARENT|TRACESTATE|BAGGAGE|TERM)[="]`)
	none := []string{"BIDE_V", "OTEL_EXPORTER_OTLP"} // beginnings of names
	var out []string
	for _, f := range programFiles(t) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if m := name.FindStringSubmatch(l.Value); m != nil && !slices.Contains(none, m[1]) {
					out = append(out, m[1])
				}
			}
			return true
		})
	}
	if len(out) < 15 {
		t.Fatalf("only %d variables were found", len(out))
	}
	return out
}

// usedCodes are the codes of the problems that the program makes: literals in
// the place of a parameter "code", and in the field Code or a constant Code….
func usedCodes(t *testing.T) []string {
	all := programFiles(t)
	place := map[string]int{}
	for _, f := range all {
		ast.Inspect(f.File, func(n ast.Node) bool { codeParameter(f.dir, n, place); return true })
	}
	code := regexp.MustCompile(`^(E\d{3}|[a-z]+(-[a-z]+)*)$`)
	found := map[string]bool{}
	add := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && code.MatchString(s) {
				found[s] = true
			}
		}
	}
	for _, f := range all {
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				for _, dir := range []string{f.dir, "diag"} {
					if i, ok := place[dir+"."+calledName(n)]; ok && i < len(n.Args) {
						add(n.Args[i])
						break
					}
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok && id.Name == "Code" {
					add(n.Value)
				}
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if strings.HasPrefix(id.Name, "Code") && i < len(n.Values) {
						add(n.Values[i])
					}
				}
			}
			return true
		})
	}
	if len(found) < 90 {
		t.Fatalf("only %d codes were found", len(found))
	}
	var out []string
	for c := range found {
		out = append(out, c)
	}
	return out
}

// codeParameter notes of a function that makes a problem which of its
// parameters is the code.
func codeParameter(dir string, n ast.Node, place map[string]int) {
	d, ok := n.(*ast.FuncDecl)
	if !ok || dir == "cli" || dir == "template" || dir == "expr" || dir == "action" { // other codes: of colours, of programs, of statuses
		return
	}
	i := 0
	for _, p := range d.Type.Params.List {
		for _, name := range p.Names {
			if name.Name == "code" {
				place[dir+"."+d.Name.Name] = i
			}
			i++
		}
	}
}

func calledName(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
