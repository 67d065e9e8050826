package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestOnlyRegularFilesAreRead: what never ends, and what nobody writes, is an
// error at once.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe.yml"), filepath.Join(dir, "large.yml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/dev/zero": "is a device", pipe: "is no regular file", dir: "is no regular file", large: "a workflow file may have"} {
		main := filepath.Join(dir, "main.yml")
		if err := os.WriteFile(main, []byte("imports: ["+path+"]\ncommands: [{shell: a}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, load := range []string{main, path} {
			_, problems := workflow.Load(load, workflow.Options{})
			if !problems.HasErrors() || !strings.Contains(problems.Error(), want) {
				t.Errorf("%s: %v; want %q", load, problems, want)
			}
		}
	}
}
