package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
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
	then := time.Now().Add(-time.Hour) // it is not of this life, which would remove it
	if err := errors.Join(os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, then, then)); err != nil {
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
