package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// An item that only makes files that git ignores loses them at its end: it is degraded, and
// its files are named. Files from the setup, and caches of tools, do not count.
func TestOutputsThatGitIgnores(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write(".gitignore", ".bide\n*.out\nnode_modules\n.cache\n")
	if err := sh(b.dir, "git add -A; git commit -qm ignored"); err != nil {
		t.Fatal(err)
	}
	b.opt.Yes = true
	r := b.run(`
isolation: worktree
worktree: {setup: echo 1 > prepared.out}
mode: mapreduce
map:
  input: [out, both, text, cache, nothing]
  max_parallel: 1
  agent_template:
    - shell: |
        case ${item} in
        out) echo 1 > r.out;;
        both) echo 1 > both.out; echo 1 > both.txt;;
        text) echo 1 > text.txt;;
        cache) mkdir node_modules .cache; echo 1 > node_modules/x; echo '*' > .cache/.gitignore;;
        esac
reduce:
  - shell: echo 1 > own.out
`)
	r.status("succeeded")
	if r.sum.Items.Succeeded != 5 || r.sum.Items.Degraded != 1 {
		t.Errorf("%+v", r.sum.Items)
	}
	var told []string
	for _, e := range r.events {
		if e.Type == event.Note && e.Class == "" && strings.Contains(e.Message, "git ignores") {
			told = append(told, e.Message)
		}
	}
	for _, want := range []string{"item out left nothing in its worktree but 1 path that git ignores (r.out)", "item both left 1 path that git ignores (both.out)", "steps of the run left 1 path that git ignores in its worktree (own.out)"} {
		if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("it is not told that %s: %q", want, told)
		}
	}
	if len(told) != 3 {
		t.Errorf("told: %q", told)
	}
}
