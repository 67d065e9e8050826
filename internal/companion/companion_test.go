package companion_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What this package imports is initialised before it, in every start of bide
// and in every companion.
func TestImportsHardlyAnything(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports " "}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if !slices.Contains([]string{"syscall", "unsafe"}, path) {
			t.Errorf("it imports %s", path)
		}
	}
}
