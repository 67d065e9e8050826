package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// A bound on cost that cannot trip is told.
func TestAnAgentWhoseUseIsNotCounted(t *testing.T) {
	for output, want := range map[string]bool{"text": true, "stream-json": false} {
		name := filepath.Join(t.TempDir(), "flow.yml")
		text := "max_cost: 5\nagents: {codex: {command: [codex, exec], output: " + output + "}}\ncommands:\n- codex: do it\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, problems := workflow.Load(name, workflow.Options{})
		told := false
		for _, p := range problems {
			told = told || strings.Contains(p.Message, "is not counted") && p.Line == 1
		}
		if told != want {
			t.Errorf("output %s: told %v, want %v: %v", output, told, want, problems)
		}
	}
}
