package classify_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/classify"
)

// A failure of an item is classified in the worker that ran it.
func BenchmarkCommand(b *testing.B) {
	for name, printed := range map[string]string{
		"nothing": "", "a line": "curl: (7) Failed to connect to x", "64 KiB": strings.Repeat("compiling internal/network/timeout.go and 503 others\n", 1240),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				classify.Command("./x", 1, "", printed)
			}
		})
	}
}
