package reference

import (
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestGivenVariables: what the reference says is set for a command is what a check of a
// file takes as set.
func TestGivenVariables(t *testing.T) {
	var told []string
	for _, row := range Variables {
		if name := row.Name; row.Group == "Set for what bide runs" {
			told = append(told, strings.TrimSpace(name))
		}
	}
	given := slices.Clone(workflow.Given)
	slices.Sort(given)
	slices.Sort(told)
	if !slices.Equal(given, told) || len(told) == 0 {
		t.Errorf("a check knows %q; the reference has %q", given, told)
	}
}
