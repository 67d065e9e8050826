package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoTemporal: Temporal's SDK is in a program of its own.
func TestNoTemporal(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, "go.temporal.io/") || strings.HasPrefix(name, "google.golang.org/grpc") {
			t.Errorf("bide has %s", name)
		}
	}
}
