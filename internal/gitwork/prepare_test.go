package gitwork

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestCopiedByPattern: worktree.copy takes files and directories by patterns, of which the
// name of the run's directory is none.
func TestCopiedByPattern(t *testing.T) {
	t.Parallel()
	from, to := filepath.Join(t.TempDir(), "site [old]*"), t.TempDir()
	for _, name := range []string{".env", "config/a.local", "config/b.txt", "kept/deep/x"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&Work{}).prepareIn(t.Context(), &workflow.Worktree{Copy: []string{".env", "config/*.local", "kept"}}, from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{".env": true, "config/a.local": true, "config/b.txt": false, "kept/deep/x": true} {
		text, err := os.ReadFile(filepath.Join(to, name))
		if (err == nil && string(text) == name) != want {
			t.Errorf("%s: %q, %v; want it copied: %v", name, text, err, want)
		}
	}
}
