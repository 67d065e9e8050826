package workflow_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestLabelOfAMigratedStep: a step is called by the first line that says what it does.
func TestLabelOfAMigratedStep(t *testing.T) {
	for src, want := range map[string]string{
		"commands:\n  - shell: |\n      bash -e -c '\n      echo building\n      echo more'\n": "echo building",
		"commands:\n  - shell: |\n      set -e\n\n      echo building\n":                       "echo building",
		"commands:\n  - shell: set -e\n":                                                       "set -e",
		"commands:\n  - shell: |\n      echo a\n      set -e\n":                                "echo a",
		"commands:\n  - {name: build, shell: \"set -e\\necho\"}\n":                             "build",
	} {
		f, problems := workflow.Parse("f.yml", []byte(src), workflow.Options{})
		if f == nil || problems.HasErrors() {
			t.Fatal(problems)
		}
		if got := f.Steps[0].Label(); got != want {
			t.Errorf("%q is called %q, not %q", src, got, want)
		}
	}
}
