package engine_test

import (
	"strings"
	"testing"
)

// Work that a step stashes and does not take back is in no merge, and the run says so.
// Entries that are taken back, and the user's own entries, do not count.
func TestWorkInTheStashIsTold(t *testing.T) {
	t.Parallel()
	for do, stashed := range map[string]bool{
		"git add -A; git stash -q":                                                true,
		"git add -A; git stash push -q -m kept":                                   true,
		"git add -A; git stash -q; git stash apply -q":                            false,
		"git add -A; git stash -q; git stash pop -q":                              false,
		"cd @DIR@; echo mine > first.txt; git stash -q":                           false,
		"git add -A; git commit -qm one; echo more > g; git add -A; git stash -q": true,
	} {
		b := newBench(t)
		b.git()
		b.opt.Yes = true
		if err := sh(b.dir, "echo before > first.txt; git checkout -q --detach; git stash -q; git checkout -q main"); err != nil {
			t.Fatal(err)
		}
		b.output("touch -d '1 hour ago' .git/logs/refs/stash; sed -i 's/> [0-9]* /> 1000000000 /' .git/logs/refs/stash")
		r := b.run(`
mode: mapreduce
isolation: worktree
map:
  input: [1]
  agent_template:
    - shell: set -e; echo ${item} > f-${item}; ` + b.fill(do) + `
`)
		told := r.noted("git's stash")
		if status := r.sum.ExitStatus(); told != stashed || (status == 3) != stashed || !stashed && status != 0 {
			t.Errorf("%s: told %v, exit status %d", do, told, status)
		}
		if n := strings.Count(b.output("git stash list"), "\n") + 1; do != "git add -A; git stash -q; git stash pop -q" && n != 2 {
			t.Errorf("%s: the stash has %d entries", do, n)
		}
	}
}
