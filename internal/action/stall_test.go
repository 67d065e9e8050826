package action_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// A command is not silent while it is stopped.
func TestStallWhileSuspended(t *testing.T) {
	w := world(t)
	text, err := template.Parse("sleep 0.1")
	if err != nil {
		t.Fatal(err)
	}
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.Proc.Suspend(func() { close(begun); <-over })
	}()
	<-begun
	run := func() error { // started after the others were stopped
		_, err := w.Run(t.Context(), &workflow.Shell{Text: text}, &action.Call{Scope: vars.New(nil), Env: os.Environ(), Stall: time.Millisecond})
		return err
	}
	if err := run(); err != nil {
		t.Error(err)
	}
	close(over)
	<-ended
	if silent := new(action.TimeoutError); !errors.As(run(), &silent) || !silent.Silent {
		t.Error("it may be silent")
	}
}
