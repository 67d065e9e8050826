package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// An import without an end is refused, not read for ever.
func TestImportsHaveAnEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "flow.yml")
	if err := os.WriteFile(name, []byte("imports: [/dev/zero]\ncommands: [shell: 'true']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems := workflow.Load(name, workflow.Options{})
	text := ""
	for _, p := range problems {
		text += p.Message + "\n"
	}
	if !strings.Contains(text, "is a device") {
		t.Errorf("got %q", text)
	}
}
