package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
)

// TestClusterStatusShowsVersions: each worker has its version beside it, and each run the
// one on which it stays; without versions nothing is said of them.
func TestClusterStatusShowsVersions(t *testing.T) {
	now := time.Date(2026, 11, 1, 2, 0, 0, 0, time.Local)
	s := cluster.State{Address: "localhost:7233", Namespace: "night", Protocol: 4, Current: "night:b2", Slots: 12,
		Workers: []cluster.SeenWorker{
			{Name: "a, process 1", Slots: 4, Heard: now.Add(-time.Second), Version: "night:b1"},
			{Name: "b, process 2", Slots: 4, Heard: now.Add(-time.Second), Version: "night:b2"},
			{Name: "c, process 3", Slots: 4, Heard: now.Add(-time.Second)}},
		Runs: []cluster.SeenRun{
			{Run: "01M8CN8TRZ7V9RBZ0ZBVN2ZHBW", Since: now, Leases: 2, Version: "night:b1"},
			{Run: "01M8CN8TRZ7V9RBZ0ZBVN2ZHBX", Since: now, Trouble: "no worker has version night:b0, on which the run stays: …", Version: "night:b0"},
			{Run: "01M8CN8TRZ7V9RBZ0ZBVN2ZHBY", Since: now, Leases: 1}}}
	var out bytes.Buffer
	o := &clusterStatusOptions{&app{streams: streams{out: &out}}}
	if err := o.print(s, now); err != nil {
		t.Fatal(err)
	}
	want := `Temporal at localhost:7233, namespace night, protocol 4
3 workers, 12 slots
  a, process 1, version night:b1: 4 slots, heard of 1s ago
  b, process 2, version night:b2, which is current: 4 slots, heard of 1s ago
  c, process 3: 4 slots, heard of 1s ago
nothing waits for a slot
3 runs in progress
  N2ZHBW: since 2026-11-01 02:00:00, 2 open leases, stays on version night:b1
  N2ZHBX: since 2026-11-01 02:00:00, held up: no worker has version night:b0, on which the run stays: …
  N2ZHBY: since 2026-11-01 02:00:00, 1 open lease
`
	if out.String() != want {
		t.Errorf("%s\nnot\n%s", out.String(), want)
	}
}
