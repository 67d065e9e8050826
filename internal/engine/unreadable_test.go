package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If git cannot read the state of a repository, here because a filter fails, no worktree
// can be made. Items that need a worktree must not work in the user's checkout instead.
func TestUnreadableRepositoryIsNoReasonToWorkInTheCheckout(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "worktree"} {
		b := newBench(t)
		b.git()
		b.opt.Yes, b.opt.Isolation = true, mode
		b.write(".gitattributes", "*.bad filter=bad\n")
		b.write("x.bad", "x\n")
		if err := sh(b.dir, "git add -A; git commit -qm bad; git config filter.bad.clean false; git config filter.bad.required true; touch -d @1 x.bad"); err != nil {
			t.Fatal(err)
		}
		r, err := b.try(t.Context(), `
mode: mapreduce
map:
  input: [1, 2]
  agent_template:
    - shell: touch "$EV/ran"; echo ${item} > f-${item}; git add f-${item}; git commit -qm "item ${item}"
`)
		message := ""
		if err != nil {
			message = err.Error()
		} else if r.sum.Status == "failed" {
			message = r.sum.Message
		}
		if !strings.Contains(message, "filter 'bad' failed") {
			t.Errorf("isolation %q: %q", mode, message)
		}
		if _, err := os.Stat(filepath.Join(b.ev, "ran")); err == nil {
			t.Errorf("isolation %q: items ran", mode)
		}
	}
}
