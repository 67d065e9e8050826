package reference_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramOfThePage runs the program of docs/library.md that needs no network: it prints
// what the page says.
func TestProgramOfThePage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, piece := range strings.Split(string(text), "\n```go\n")[1:] {
		program, rest, _ := strings.Cut(piece, "\n```\n")
		_, want, printed := strings.Cut(rest, "\n```text\n")
		if want, _, _ = strings.Cut(want, "```"); !strings.HasPrefix(program, "package main") || strings.Contains(program, "net/http") {
			continue
		}
		if !printed {
			t.Fatal("the page does not say what the program prints")
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := goCommand("run", file).CombinedOutput()
		if err != nil || string(got) != want {
			t.Errorf("%v: it prints\n%s\nthe page says\n%s", err, got, want)
		}
		ran++
	}
	if ran != 1 {
		t.Errorf("%d programs were run", ran)
	}
}
