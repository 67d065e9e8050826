package leaks_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/leaks"
)

func hangsOn(until chan struct{}) { <-until }

// A goroutine that stays is named by its stack; one that ends is none.
func TestAfter(t *testing.T) {
	before, until := runtime.NumGoroutine(), make(chan struct{})
	go hangsOn(until)
	if left := leaks.After(before); !strings.Contains(left, "hangsOn") {
		t.Errorf("what is left is %q", left)
	}
	close(until)
	if left := leaks.After(before); left != "" {
		t.Errorf("what has ended is left:\n%s", left)
	}
}
