// Package leaks ends the tests of a package with a look at what is still running.
package leaks

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of a package, for its TestMain, and fails if goroutines that the
// tests began outlive them.
func Main(m *testing.M) {
	before := runtime.NumGoroutine()
	status := m.Run()
	if left := After(before); left != "" && status == 0 {
		fmt.Fprintf(os.Stderr, "goroutines outlive the tests:\n%s\n", left)
		status = 1
	}
	os.Exit(status)
}

// After waits a little for goroutines that are ending, and returns the stacks of what
// runs if that is more than before.
func After(before int) string {
	for wait := time.Millisecond; ; wait *= 2 {
		if runtime.NumGoroutine() <= before {
			return ""
		}
		if wait > 500*time.Millisecond {
			break
		}
		time.Sleep(wait)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for _, s := range strings.Split(string(stacks), "\n\n") {
		// The second is the runtime's own for signals, which fuzzing asks for.
		if !strings.Contains(s, "internal/leaks.") && !strings.Contains(s, "os/signal.loop") {
			left = append(left, s)
		}
	}
	return strings.Join(left, "\n\n")
}
