package retry_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// There is one driver. Outside of tests a Machine is used by the driver, and where nothing
// is driven: internal/policy decides about items as a pure machine of its own,
// internal/bound works out what a policy allows at most, and internal/simulate shows what
// a policy would do without doing it.
func TestThereIsOneDriver(t *testing.T) {
	pure := []string{"internal/policy", "internal/bound", "internal/simulate"}
	uses := regexp.MustCompile(`\bdriver\.(NewMachine|ResumeMachine|Machine)\b`)
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); strings.HasPrefix(name, ".") && name != ".." || name == "node_modules" || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if !bytes.Contains(text, []byte("Machine")) { // most files
			return nil
		}
		for i, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			dir := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
			if uses.MatchString(code) && !slices.Contains(pure, dir) {
				t.Errorf("%s:%d drives a driver.Machine; call driver.Drive instead: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d files, %v", seen, err)
	}
}
