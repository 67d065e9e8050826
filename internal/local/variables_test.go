package local

import (
	"os"
	"path/filepath"
	"testing"
)

// What was in the way of the directory for the variables of commands is in nobody's way
// once it has gone: a want of descriptors passes.
func TestVariableFilesAfterAFailure(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proc")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var files variableFiles
	if name, err := files.next(dir); err == nil {
		t.Fatalf("%s below a file", name)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	name, err := files.next(dir)
	if err != nil || name != filepath.Join(dir, "1") {
		t.Fatal(name, err)
	}
}
