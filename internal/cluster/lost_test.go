package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

const twiceFailing = `
name: lost
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; test "$BIDE_ATTEMPT" = 3
  retry_config: {attempts: 3, backoff: fixed, initial_delay: 1ms}
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`

// TestDatabaseIsLost: the server's database is lost when all items have ended and none
// of their logs was accepted. The next life takes the logs in the order in which they
// were written, and runs nothing again.
func TestDatabaseIsLost(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	const n = 20
	s.write("items.jsonl", itemsText(n))
	run := s.submit(s.options(twiceFailing))
	o := s.begin(run)
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true})
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	s.lose = true
	s.lanes(run, c)
	s.lose = false
	if logs, err := os.ReadDir(filepath.Join(s.store.Run(run).Path(), "lanes")); err != nil || len(logs) < 12 {
		t.Fatalf("%d logs are too few to tell, %v", len(logs), err)
	}
	if status := s.driveFrom(run, s.begin(run)); status != event.Succeeded {
		t.Errorf("%s", status)
	}
	ran, err := os.ReadFile(filepath.Join(s.dir, "ran"))
	if err != nil || strings.Count(string(ran), "\n") != 3*n {
		t.Errorf("%d attempts of %d: %v", strings.Count(string(ran), "\n"), 3*n, err)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != "20 of 20\n" {
		t.Errorf("%q, %v", text, err)
	}
	r, err := s.home.Read(run)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if sum, err := r.Summary(context.Background()); err != nil || sum.Items.Succeeded != n {
		t.Errorf("%+v, %v", sum, err)
	}
}
