package workflow_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestUnfilled checks files whose required parameters have no value: a check
// says nothing about what depends on them, and still finds all else.
func TestUnfilled(t *testing.T) {
	const src = `parameters:
  required: [level, {name: span, type: string}, {name: sub, type: string}]
workflows:
  build: {source: "steps/${sub}.yml", timeout: "${span}"}
commands:
  - shell: make ${level}
    timeout: ${span}
    retry: {attempts: "${level}", backoff: "${level}"}
`
	if _, l := workflow.Parse("flow.yml", []byte(src), workflow.Options{ReadFile: others.read, Unfilled: true}); len(l) != 0 {
		t.Errorf("unfilled parameters are no problem of the file: %v", l)
	}
	_, l := workflow.Parse("flow.yml", []byte(src), workflow.Options{ReadFile: others.read})
	missing := 0
	for _, p := range l {
		if p.Code == "missing-parameter" {
			missing++
		}
	}
	if missing != 3 {
		t.Errorf("a run needs all three values: %v", l)
	}
	_, l = workflow.Parse("flow.yml", []byte(src+"    capture_format: xlm\n  - shell: [a]\n"), workflow.Options{ReadFile: others.read, Unfilled: true})
	if n, _ := l.Count(); n != 2 {
		t.Errorf("other errors are still found: %v", l)
	}
}
