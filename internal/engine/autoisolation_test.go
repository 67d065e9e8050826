package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The shell-only items of a map commit, several at a time: each in a worktree of
// its own, and the user stays on the branch.
func TestItemsThatCommitAreIsolated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
mode: mapreduce
map:
  input: seq 1 8
  max_parallel: 4
  agent_template:
    - shell: git checkout -q -b item-${item} && echo ${item} > f-${item} && git add . && git commit -qm "item ${item}" && ls > "$EV/seen-${item}"
`)
	r.status("succeeded")
	if r.sum.Items.Succeeded != 8 {
		t.Fatal(r.story())
	}
	for i := range 8 {
		name := string(rune('1' + i))
		if _, err := os.Stat(filepath.Join(b.dir, "f-"+name)); err != nil {
			t.Error(err)
		}
		seen, err := os.ReadFile(filepath.Join(b.ev, "seen-"+name))
		if err != nil || strings.Count(string(seen), "f-") != 1 {
			t.Errorf("item %s saw %q (%v)", name, seen, err)
		}
	}
	if err := sh(b.dir, `test "$(git symbolic-ref --short HEAD)" = main && test -z "$(git status --porcelain)" && test "$(git worktree list | wc -l)" = 1`); err != nil {
		t.Error(err)
	}
}

// Asked to, the items work in one tree, and the run says what that means.
func TestIsolationNoneSaysWhatItGivesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run(`
mode: mapreduce
map:
  input: [1, 2]
  max_parallel: 1
  agent_template:
    - shell: git commit -q --allow-empty -m "item ${item}"
`)
	r.status("succeeded")
	if !r.noted("isolation: none") {
		t.Fatal(r.story())
	}
}
