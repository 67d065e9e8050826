//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"go.temporal.io/sdk/testsuite"
)

// TestRecordTellsThatItLives: what a worker went down with is done by another after
// shortBeat, and not when the time of an activity is over. A store that takes its
// time is no worker that is gone.
func TestRecordTellsThatItLives(t *testing.T) {
	t.Parallel()
	if short().HeartbeatTimeout != shortBeat {
		t.Errorf("%+v", short())
	}
	root := t.TempDir()
	dir := filepath.Join(storeIn(t, root).Run("run").Path(), "order")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "00000001")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil { // which nobody writes
		t.Fatal(err)
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	beat := make(chan struct{}, 100)
	a := &activities{worker: &cluster.Worker{}, heartbeat: func(context.Context, []byte) error { beat <- struct{}{}; return nil }}
	env.RegisterActivity(a.record)
	ended := make(chan error, 1)
	go func() {
		_, err := env.ExecuteActivity(a.record, "run", "dir:"+root, cluster.Entry{Seq: 1})
		ended <- err
	}()
	select {
	case <-beat:
	case err := <-ended:
		t.Fatalf("it ended without: %v", err)
	}
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended // with an error: a pipe is no file
}
