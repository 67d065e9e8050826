package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependencies: Temporal's SDK is in a program of its own, and what takes long
// to set up at every start is not in bide.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name := range strings.Lines(string(out)) {
		if slices.ContainsFunc([]string{"go.temporal.io/", "google.golang.org/", "github.com/mattn/go-runewidth", "github.com/charmbracelet/"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
			t.Errorf("bide has %s", name)
		}
	}
}
