package worktree

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSnapshotIsWhole: the two names of a snapshot move together or not at all. A resume
// that found the head of one and the base of another would take work for the snapshot's.
func TestSnapshotIsWhole(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	head := privateRef(run.ID, "head")
	before := w.gitIn(w.dir, "rev-parse", head)
	w.write(run.Dir, "more.txt", "more\n")
	w.commitAll(run.Dir, "more")
	lock := filepath.Join(run.repo.common, filepath.FromSlash(privateRef(run.ID, "base"))+".lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run.Freeze(t.Context()); err == nil {
		t.Fatal("a snapshot is taken whose base could not be noted")
	}
	if got := w.gitIn(w.dir, "rev-parse", head); got != before {
		t.Errorf("its head is noted: %s, was %s", got, before)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.gitIn(w.dir, "rev-parse", head); got == before {
		t.Error("the next snapshot has the head of the first")
	}
}
