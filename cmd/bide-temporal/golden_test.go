package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	history "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// keep has the tests against a real server keep the histories that they make, as
// those that TestGolden replays: go test -run 'Crashes|Interrupt|Leaving|StoreAwayStop|ControlOfARun' -args -keep-histories.
// Where TestGolden fails otherwise, runs in progress could not continue: the number of the
// protocol has to change with the workflow.
var keep = flag.Bool("keep-histories", false, "keep the histories of the tests against a real server")

const goldens = "testdata/histories"

// keepHistory writes the history of a site's run.
func (s *site) keepHistory(name string) {
	if !*keep {
		return
	}
	s.t.Helper()
	opt, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		s.t.Fatal(err)
	}
	opt.HostPort, opt.Logger = s.address, silent()
	c, err := client.Dial(opt)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	var all history.History
	for it := c.GetWorkflowHistory(context.Background(), WorkflowID(s.only()), "", false, 1); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		all.Events = append(all.Events, e)
	}
	text, err := proto.Marshal(&all)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(goldens, name+".pb.gz"))
	if err != nil {
		s.t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		s.t.Fatal(err)
	}
}

func silent() log.Logger {
	return log.NewStructuredLogger(slog.New(slog.DiscardHandler))
}

// recordedType is the workflow's name in the histories: they were made by protocol 2,
// whose workflow decided alike about runs that nothing had begun.
const recordedType = "bide.run.v2"

// TestGolden: the workflow decides as it did when these histories were made.
func TestGolden(t *testing.T) {
	withoutServer(t)
	names, err := filepath.Glob(filepath.Join(goldens, "*.pb.gz"))
	if err != nil || len(names) < 5 {
		t.Fatalf("%d histories, %v", len(names), err)
	}
	for _, name := range names {
		r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: payloads()})
		if err != nil {
			t.Fatal(err)
		}
		r.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: recordedType})
		if err := r.ReplayWorkflowHistory(silent(), historyOf(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func historyOf(t *testing.T, name string) *history.History {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	h := &history.History{}
	if err := proto.Unmarshal(text, h); err != nil {
		t.Fatal(err)
	}
	return h
}
