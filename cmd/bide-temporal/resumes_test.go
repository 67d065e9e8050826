package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestResumesAtOnce: several people resume a run at the same moment. One of them begins the
// next life of the run, and all of them follow it to its end.
func TestResumesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
name: resumes
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 1
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; test -e go || sleep 60
`, 3)
	s.worker(1)
	s.must("run", "--on", "temporal", "--detach", "flow.yml")
	s.wait("the first item", func() bool { return s.lines("ran") > 0 })
	s.must("stop", s.only(), "--now")
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		cmd := s.bide("resume", s.only())
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	if sum := s.summary(); sum.Status != event.Succeeded || s.lines("ran") != 4 {
		t.Errorf("%+v, %d attempts", sum, s.lines("ran"))
	}
}
