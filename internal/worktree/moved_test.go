package worktree

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMovedRepository: a repository was moved while a run was down, and a link leads to its
// new place. The run continues as if it had not, and leaves nothing.
func TestMovedRepository(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "a.txt", "by one\n")
	w.commitAll(a.Dir, "one")
	w.gitIn(a.Dir, "config", "extensions.worktreeConfig", "true")
	w.gitIn(a.Dir, "config", "--worktree", "core.worktree", t.TempDir())
	w.must(a.Leave())
	moved := filepath.Join(filepath.Dir(w.dir), "moved")
	w.must(os.Rename(w.dir, moved))
	w.must(os.Symlink("moved", w.dir))

	next, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	again, err := next.Continue(t.Context(), "one", 2)
	if err != nil || again == nil {
		t.Fatal(again, err)
	}
	w.write(again.Dir, "new", "new\n")
	if _, k, err := again.Finish(t.Context(), MergeOptions{Left: "left"}); err != nil || k.Branch != "" {
		t.Fatal(k, err)
	}
	w.remove(again)
	if _, err := next.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if k, err := next.Remove(t.Context()); err != nil || k.Branch != "" {
		t.Fatal(k, err)
	}
	equal(t, "a.txt", w.read(moved, "a.txt"), "by one\n")
	equal(t, "new", w.read(moved, "new"), "new\n")
	if names, err := filepath.Glob(filepath.Join(moved, ".git", "worktrees", "*")); err != nil || len(names) > 0 {
		t.Errorf("worktrees are left: %q, %v", names, err)
	}
}
