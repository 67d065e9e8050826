package cli_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme runs everything that the README and the pages of docs show. A
// ```yaml or ```cst block that begins with "# file: NAME" is a file; in a ```console block, a line that
// begins with "$ " is a command, and what follows is what it prints. Ids and
// spans of time are not compared.
func TestReadme(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			if raceEnabled && strings.HasSuffix(page, "/simulate.md") {
				t.Skip("make bounds runs it, without the race detector")
			}
			runPage(t, page)
		})
	}
}

func runPage(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ran := 0
	for _, b := range fenced(string(text)) {
		switch b.lang {
		case "yaml", "cst":
			head, _, _ := strings.Cut(b.body, "\n")
			if name, ok := strings.CutPrefix(head, "# file: "); ok {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(b.body), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		case "console":
			for _, c := range commands(b.body) {
				ran++
				got := shell(t, dir, c.command)
				if unlike(got) != unlike(c.output) {
					t.Errorf("$ %s\nprints\n%s\nthe page says\n%s", c.command, got, c.output)
				}
			}
		}
	}
	if ran < 2 {
		t.Errorf("only %d commands of the page were run", ran)
	}
	pictures(t, string(text), dir)
}

// pictures holds those that a page makes and shows to what its commands have made,
// or writes them.
func pictures(t *testing.T, text, dir string) {
	for _, m := range regexp.MustCompile(`--svg (\S+\.svg)`).FindAllStringSubmatch(text, -1) {
		kept := "../../docs/pictures/" + m[1]
		if !strings.Contains(text, "](pictures/"+m[1]+")") {
			continue
		}
		made, err := os.ReadFile(filepath.Join(dir, m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if flag.Lookup("make-docs").Value.String() == "true" {
			if err := os.WriteFile(kept, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(kept); err != nil || !bytes.Equal(have, made) {
			t.Errorf("docs/pictures/%s is not what the page's command makes (%v): run make docs", m[1], err)
		}
	}
}

type block struct{ lang, body string }

func fenced(text string) (out []block) {
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		out = append(out, block{m[1], m[2]})
	}
	return out
}

type shown struct{ command, output string }

func commands(body string) (out []shown) {
	for line := range strings.Lines(body) {
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, shown{command: strings.TrimSpace(c)})
		} else if len(out) > 0 {
			out[len(out)-1].output += line
		}
	}
	return out
}

func shell(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BIDE_HOME="+filepath.Join(dir, ".bide"), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}

var changing = regexp.MustCompile(`\b01[0-9A-HJKMNP-TV-Z]{24}\b|\b(?:list|retry|resume|show|logs|run) [0-9A-HJKMNP-TV-Z]{6}\b|\b\d+(\.\d+)?(ms|s|m)\b`)

func unlike(s string) string { return changing.ReplaceAllString(s, "…") }

// TestQuickstart runs the first thing that a newcomer runs.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("../../examples/quickstart.yml")
	if err != nil {
		t.Fatal(err)
	}
	got := shell(t, t.TempDir(), "bide run "+file+" 2>progress; cat progress")
	for _, want := range []string{
		"fetched on attempt 3\n", "yesterday 42\n", "rolling back after exit status 3\n",
		"report - fetched on attempt 3; prices - yesterday 42\n",
		"attempt 2 follows in 200ms", "attempt 3 follows in 400ms", "degraded", "succeeded in",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the quickstart does not print %q:\n%s", want, got)
		}
	}
}
