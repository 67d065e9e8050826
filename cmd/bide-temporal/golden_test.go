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

	"github.com/bide-dev/bide/internal/cluster"
	history "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// keep has the tests against a real server keep the histories that they make, as
// those that TestGolden replays: go test -run 'Crashes|Interrupt|Leaving|StoreAwayStop|ControlOfARun|ServerHandOver' -args -keep-histories.
// Where TestGolden fails otherwise, runs in progress could not continue: the number of the
// protocol has to change with the workflow.
var keep = flag.Bool("keep-histories", false, "keep the histories of the tests against a real server")

const goldens = "testdata/histories"

// keepHistory writes the history of a site's run, and that of its first lane.
func (s *site) keepHistory(name string) {
	if !*keep {
		return
	}
	s.t.Helper()
	c := s.client()
	defer c.Close()
	for name, id := range map[string]string{name: WorkflowID(s.only()), name + "-lane": laneID(cluster.Lease{Run: s.only(), Log: cluster.LaneLog(1, 1)})} {
		text, err := proto.Marshal(&history.History{Events: s.eventsOf(c, id, "")})
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
}

// client is one of the site's server.
func (s *site) client() client.Client {
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
	return c
}

// eventsOf are those of an execution of a workflow; of the last one where none is named.
func (s *site) eventsOf(c client.Client, id, execution string) (list []*history.HistoryEvent) {
	s.t.Helper()
	for it := c.GetWorkflowHistory(context.Background(), id, execution, false, 1); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func silent() log.Logger {
	return log.NewStructuredLogger(slog.New(slog.DiscardHandler))
}

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
		r.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: workflowType})
		r.RegisterWorkflowWithOptions(Lane, workflow.RegisterOptions{Name: laneType})
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
