package input_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/input"
)

// ends fails unless reading the items ends with the context's cause, soon
// after that has come.
func ends(t *testing.T, s input.Spec, begun func()) {
	t.Helper()
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Context = ctx
	done := make(chan error, 1)
	go func() {
		var last error
		for _, err := range s.Items() {
			last = err
		}
		done <- last
	}()
	begun()
	cancel(cause)
	select {
	case err := <-done:
		if !errors.Is(err, cause) {
			t.Errorf("%v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it goes on")
	}
}

func TestAnInterruptEndsThePipeThatNobodyWrites(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "items.jsonl")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	ends(t, input.Spec{File: name}, func() {})
	var w *os.File
	ends(t, input.Spec{File: name}, func() { // opened, and nothing written
		var err error
		if w, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
			t.Error(err)
		}
	})
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptEndsAPath(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("[0")
	for i := range 100_000 {
		fmt.Fprintf(&b, `,{"a":[%d,[1,2,[3,4]]]}`, i)
	}
	b.WriteString("]")
	name := filepath.Join(t.TempDir(), "items.json")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ends(t, input.Spec{File: name, JSONPath: "$..[*]..[*]..[*]"}, func() {})
}
