package action_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
	run := func(shell string, stall time.Duration, out io.Writer) error {
		text, err := template.Parse(shell)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Run(t.Context(), &workflow.Shell{Text: text}, &action.Call{Scope: vars.New(nil), Env: os.Environ(), Stall: stall, Stdout: out})
		return err
	}
	const stall = time.Second
	for tries := 1; ; tries++ { // the machine may stand still for as long
		begin := filepath.Join(t.TempDir(), "go")
		said := make(chan struct{}, 10)
		ended := make(chan error, 1)
		go func() {
			ended <- run("echo ready; until [ -e "+begin+" ]; do sleep 0.01; done", stall, writerFunc(func(p []byte) (int, error) { said <- struct{}{}; return len(p), nil }))
		}()
		<-said
		w.Proc.Suspend(func() {
			time.Sleep(stall + 200*time.Millisecond) // which has to pass
			if err := os.WriteFile(begin, nil, 0o600); err != nil {
				t.Error(err)
			}
		})
		err := <-ended
		if err == nil {
			break
		}
		if tries == 5 {
			t.Fatal(err)
		}
	}
	if silent := new(action.TimeoutError); !errors.As(run("sleep 0.1", time.Millisecond, nil), &silent) || !silent.Silent {
		t.Error("it may be silent")
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
