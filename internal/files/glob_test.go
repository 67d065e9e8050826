package files_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/files"
)

// TestGlob compares patterns with what they are to find.
func TestGlob(t *testing.T) {
	dir := t.TempDir()
	made := []string{"a.go", "b.txt", ".x.go", "sub/c.go", "sub/.d/e.go", "sub/deep/f.go", "sub/deep/f.txt", ".git/g.go", "-n.go"}
	for _, f := range made {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "sub", "loop")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][]string{
		"*.go":         {"-n.go", "a.go"},
		".*.go":        {".x.go"},
		"**/*.go":      {"-n.go", "a.go", "sub/c.go", "sub/deep/f.go"},
		"./**/f.*":     {"sub/deep/f.go", "sub/deep/f.txt"},
		"sub/**":       {"sub/c.go", "sub/deep/f.go", "sub/deep/f.txt"},
		"**/**/c.go":   {"sub/c.go"},
		"sub/*/f.go":   {"sub/deep/f.go"},
		"sub/.d/*":     {"sub/.d/e.go"},
		"sub":          nil,
		"a.go/x":       nil,
		"none/*":       nil,
		"[ab].*":       {"a.go", "b.txt"},
		`\a.go`:        {"a.go"},
		"sub/deep/f.g": nil,
	} {
		var got []string
		err := files.Glob(dir, pattern, func(s string) error { got = append(got, s); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s finds %q, %v; want %q", pattern, got, err, want)
		}
		for _, f := range made { // what is found is what matches
			ok, err := files.Match(strings.TrimPrefix(pattern, "./"), f)
			if hidden := strings.Contains(f, "/.") || strings.HasPrefix(f, "."); err != nil || !hidden && strings.Contains(pattern, "/") && ok != slices.Contains(want, f) {
				t.Errorf("%s matches %s: %v, %v", pattern, f, ok, err)
			}
		}
	}
	var got []string
	if err := files.Glob("", dir+"/**/c.go", func(s string) error { got = append(got, s); return nil }); err != nil || !slices.Equal(got, []string{dir + "/sub/c.go"}) {
		t.Errorf("an absolute pattern finds %q, %v", got, err)
	}
	if err := files.Glob(dir, "a/[", nil); err == nil {
		t.Error("a bad pattern was not refused")
	}
}
