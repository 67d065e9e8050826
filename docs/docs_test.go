package docs_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/docs"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Who opens the repository sees at once what bide is, a picture of it, how to
// have it and the first two commands.
func TestFirstScreenOfTheReadme(t *testing.T) {
	lines := strings.Split(read(t, "README.md"), "\n")
	screen := strings.Join(lines[:24], "\n")
	for _, want := range []string{
		"bide takes flaky work", "](docs/pictures/map.svg)", "go install github.com/bide-dev/bide/cmd/bide@latest",
		"bide run ", "bide exec ", "docs/start-here.md",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("the first 24 lines of the README have no %q:\n%s", want, screen)
		}
	}
}

// code is what a page shows in a box, where brackets are the language's.
var code = regexp.MustCompile("(?s)\n```.*?\n```")

var target = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// The README leads to every page, and no page leads to what is not there.
func TestEveryPageIsLinkedAndEveryLinkLeadsSomewhere(t *testing.T) {
	linked := map[string]bool{}
	names := []string{"README.md", "ARCHITECTURE.md"}
	for _, p := range docs.Pages() {
		names = append(names, file(p))
	}
	for _, name := range names {
		for _, m := range target.FindAllStringSubmatch(code.ReplaceAllString(read(t, name), ""), -1) {
			if strings.Contains(m[1], "://") || strings.Contains(m[1], "…") {
				continue
			}
			to := path.Join(path.Dir(name), m[1])
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s leads to %s, which is not there", name, m[1])
			}
			linked[to] = linked[to] || name == "README.md"
		}
	}
	for _, p := range docs.Pages() {
		if !linked[file(p)] {
			t.Errorf("the README has no link to %s", file(p))
		}
	}
}

// TestPagesStandAlone: where there is only the program, a link leads to another page that the
// program has, or to the web.
func TestPagesStandAlone(t *testing.T) {
	pages := map[string]bool{}
	for _, p := range docs.Pages() {
		pages[file(p)] = true
	}
	n := 0
	for _, p := range docs.Pages() {
		for _, m := range target.FindAllStringSubmatch(code.ReplaceAllString(p.Alone(), ""), -1) {
			rest, web := strings.CutPrefix(m[1], "https://github.com/bide-dev/bide/blob/main/")
			if n++; web {
				if _, err := os.Stat(filepath.Join("..", rest)); err != nil {
					t.Errorf("%s leads to %s, which is not there", p.Topic, m[1])
				}
			} else if to := path.Join(path.Dir(file(p)), m[1]); !pages[to] && !strings.Contains(m[1], "://") && !strings.Contains(m[1], "…") {
				t.Errorf("%s leads to %s, which only a clone has", p.Topic, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d links were found", n)
	}
}

func file(p docs.Page) string {
	if p.Made {
		return "docs/reference/" + p.Topic + ".md"
	}
	return "docs/" + p.Topic + ".md"
}

// Every figure beside others is one of those in bench/README.md.
func TestFiguresOfTheReadmeAreMeasured(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "README.md"), "## Beside others\n")
	section, _, _ = strings.Cut(section, "\n## ")
	figure := regexp.MustCompile(`\d[\d,.]*\d|\d`)
	measured := map[string]bool{}
	for _, n := range figure.FindAllString(read(t, "bench/README.md"), -1) {
		measured[n] = true
	}
	looked := 0
	for line := range strings.Lines(section) {
		for i, cell := range docs.Cells(strings.TrimSpace(line)) {
			for _, n := range figure.FindAllString(cell, -1) {
				if looked++; !measured[n] {
					t.Errorf("%s, in column %d of a table of the README, is not in bench/README.md", n, i+1)
				}
			}
		}
	}
	if looked < 30 {
		t.Errorf("only %d figures were looked at", looked)
	}
}

// The cookbook has twenty tasks or more, each with a command that is run by
// TestReadme of internal/cli.
func TestCookbookHasTasks(t *testing.T) {
	tasks := strings.Split(read(t, "docs/cookbook.md"), "\n## ")[1:]
	if len(tasks) < 20 {
		t.Errorf("the cookbook has %d tasks", len(tasks))
	}
	for i, task := range tasks {
		title, _, _ := strings.Cut(task, "\n")
		if !strings.HasPrefix(title, strconv.Itoa(i+1)+". ") || !strings.Contains(task, "\n```console\n$ ") {
			t.Errorf("task %d, %q, has another number, or no command", i+1, title)
		}
	}
}

// What a heading of the page of troubles says is what the program says: each
// piece of it that does not change stands in a text of the sources.
func TestTroublesArePrinted(t *testing.T) {
	texts := sourceTexts(t)
	texts += strings.ReplaceAll(texts, "_", " ") // words of the record are shown with blanks
	changing := regexp.MustCompile(`…|"|\bN\b|\d+`)
	rows := 0
	for line := range strings.Lines(read(t, "docs/troubleshooting.md")) {
		cells := docs.Cells(strings.TrimSpace(line))
		if len(cells) != 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			rows++
			for _, piece := range changing.Split(m[1], -1) {
				if piece = strings.TrimSpace(piece); len(piece) > 3 && !strings.Contains(texts, piece) {
					t.Errorf("%s: nothing in the program says %q", m[0], piece)
				}
			}
		}
	}
	if rows < 15 {
		t.Errorf("only %d messages were looked at", rows)
	}
}

// sourceTexts are the texts of the program, one after the other.
func sourceTexts(t *testing.T) string {
	var b strings.Builder
	packages(t, func(_ string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				s, _ := strconv.Unquote(l.Value)
				b.WriteString(s + "\n")
			}
			return true
		})
	})
	return b.String()
}

// packages calls f with each file of the module that is no test, and the path of
// its package below the module.
func packages(t *testing.T, f func(pkg string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != ".." {
			_, module := os.Stat(filepath.Join(name, "go.mod"))
			if base := d.Name(); module == nil || base == "testdata" || strings.HasPrefix(base, ".") || base == "node_modules" || base == "examples" {
				return filepath.SkipDir
			}
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil {
			f(filepath.ToSlash(strings.TrimPrefix(filepath.Dir(name), "../")), parsed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The table of layers in ARCHITECTURE.md has every package, or the folder above
// it, and none that there is not; and a package imports nothing from a layer above
// its own.
func TestArchitectureHasEveryPackage(t *testing.T) {
	layer := map[string]int{}
	for line := range strings.Lines(read(t, "ARCHITECTURE.md")) {
		cells := docs.Cells(strings.TrimSpace(line))
		if len(cells) != 3 {
			continue
		}
		if n, err := strconv.Atoi(cells[0]); err == nil {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				layer[m[1]] = n
			}
		}
	}
	if len(layer) < 30 {
		t.Fatalf("only %d packages were found in ARCHITECTURE.md", len(layer))
	}
	home := func(pkg string) string {
		for p := pkg; p != "."; p = path.Dir(p) {
			if _, ok := layer[p]; ok {
				return p
			}
		}
		return ""
	}
	seen, told := map[string]bool{}, map[string]bool{}
	packages(t, func(pkg string, f *ast.File) {
		from := home(pkg)
		seen[from] = true
		if from == "" && !told[pkg] {
			told[pkg] = true
			t.Errorf("ARCHITECTURE.md has no layer for %s", pkg)
		}
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			to, ours := strings.CutPrefix(name, "github.com/bide-dev/bide/")
			if to = home(to); !ours || to == from || to == "" || from == "" {
				continue
			}
			if key := from + " " + to; layer[to] > layer[from] && !told[key] {
				told[key] = true
				t.Errorf("%s, in layer %d, imports %s in layer %d", pkg, layer[from], to, layer[to])
			}
		}
	})
	modules, err := fs.Glob(os.DirFS(".."), "*/go.mod")
	for _, pattern := range []string{"*/*/go.mod", "*/*/*/go.mod"} {
		more, bad := fs.Glob(os.DirFS(".."), pattern)
		modules, err = append(modules, more...), errors.Join(err, bad)
	}
	if err != nil || len(modules) < 5 {
		t.Errorf("modules: %q, %v", modules, err)
	}
	for _, m := range modules {
		if !strings.Contains(read(t, "ARCHITECTURE.md"), "`"+path.Dir(m)+"`") {
			t.Errorf("ARCHITECTURE.md has no word about the module %s", path.Dir(m))
		}
	}
	for p := range layer {
		if !seen[p] {
			t.Errorf("ARCHITECTURE.md has %s, which is not there", p)
		}
	}
}

func TestSectionsAreFoundByTheirHeadings(t *testing.T) {
	for words, want := range map[string]string{"masking": "Masking (concepts)", "dead-letter": "Dead letters (dlq) (concepts)", "dlq": "Dead letters (dlq) (concepts)", "Prodigy": "Prodigy (coming-from)", "neovim": "Neovim (editors)"} {
		if got := docs.Sections(words); !strings.Contains(got, "## "+want+"\n") {
			t.Errorf("%s: %q", words, got)
		}
	}
	// The names of other tools lead to the page for those who come from them.
	for _, tool := range strings.Split("argo,argo workflows,Airflow,dagster,prefect,snakemake,nextflow,make,xargs,taskfile,just,gitlab,jenkins,circleci,tekton,celery,sidekiq,step functions,tenacity,polly,resilience4j,temporal,dagu,prodigy,github actions,gnu parallel", ",") {
		if got, _, _ := strings.Cut(docs.Sections(tool), "\n"); !strings.HasPrefix(got, "## ") || !strings.HasSuffix(got, " (coming-from)") {
			t.Errorf("%s leads to %q", tool, got)
		}
	}
	for _, words := range []string{"", "-", "no such heading"} {
		if got := docs.Sections(words); got != "" {
			t.Errorf("%q gives %q", words, got)
		}
	}
}

// TestWordsOfAUserAreFound: a word that somebody tries finds the section that answers,
// among the first.
func TestWordsOfAUserAreFound(t *testing.T) {
	for words, want := range map[string]string{
		"conflict": "Conflict of two items", "merge": "Commits and merging", "worktree": "22. Prepare the worktrees of agents", "resume": "Failure, resume",
		"secrets": "11. Keep a secret out of every output", "rate limit": "And under a rate limit?", "agents": "A chain of agents", "cost": "Limits and cost",
		"cron": "Dagu", "json": "18. Read a run as JSON, with another program", "dead letter": "Dead letters (dlq)", "crash": "8. Continue after a crash",
	} {
		var got []string
		for _, g := range docs.Guides(words) {
			got = append(got, g.Section)
		}
		if !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q among them", words, got, want)
		}
	}
	for words, want := range map[string]string{"worst case": "bide explain", "guard": "The library"} {
		if got := docs.Guides(words); !slices.ContainsFunc(got, func(e docs.Explanation) bool { return e.Section == want }) {
			t.Errorf("%s: %v, want %q among them", words, got, want)
		}
	}
	for word, want := range map[string]string{"exit": "exit-status", "coming": "coming-from", "e": "", "": ""} {
		if p, _ := docs.Near(word); p.Topic != want {
			t.Errorf("%q is near the page %q; want %q", word, p.Topic, want)
		}
	}
	for _, words := range []string{"", "-", "quixotic"} {
		if got := docs.Guides(words); got != nil {
			t.Errorf("%q gives %v", words, got)
		}
	}
	if p, ok := docs.Find("exit status"); !ok || p.Topic != "exit-status" {
		t.Errorf("exit status: %v", p.Topic)
	}
}
