package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestKeyedWorkers: workers with a key run nothing of a run that was started without
// one, and say why; of one that was started with it they run all. A worker that was
// given another store runs nothing of it. Only in the long form; TestCrypt and
// TestAllowedStores are the short one.
func TestKeyedWorkers(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	s := newSite(t, `
name: keyed
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; test "$BIDE_ITEM" != i3
reduce:
  - shell: echo over >> result
`, 20)
	plain := s.env
	keyed := append(plain[:len(plain):len(plain)], KeyFile+"="+keyFile(t, strings.Repeat("0a", 32)))
	s.env = keyed
	s.worker(2, "--store", "dir:"+filepath.Join(s.root, "store"))
	s.env = plain
	refused, out := s.follow("run", "--on", "temporal", "flow.yml")
	if status := s.status(refused); status == 0 || !out.has(errSealed.Error()) {
		t.Errorf("exit status %d: %s", status, out)
	}
	if s.lines("ran")+s.lines("result") > 0 {
		t.Error("something of a run without a key has run")
	}
	s.env = keyed
	cmd, out := s.follow("run", "--on", "temporal", "flow.yml")
	if status := s.status(cmd); status != 3 || s.lines("ran") != 20 || s.lines("result") != 1 {
		t.Errorf("exit status %d, %d attempts: %s", status, s.lines("ran"), out)
	}
	s.must("dlq", "list", "last")
	if sum := s.summary(); sum.Status != event.CompletedWithFailures || sum.Items.Succeeded != 19 {
		t.Errorf("%+v", sum)
	}
	elsewhere, out := s.follow("run", "--on", "temporal", "--store", "dir:"+filepath.Join(s.root, "another"), "flow.yml")
	s.wait("the follower's word", func() bool { return out.has("and not for one in dir:" + filepath.Join(s.root, "another")) })
	s.end(elsewhere)
	if s.lines("ran") != 20 {
		t.Error("something of a run in another store has run")
	}
}
