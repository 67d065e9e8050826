package worktree

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSyncOnTwoDisks: the worktrees of a run may be on another file system than the
// repository, and are gone when the run ends.
func TestSyncOnTwoDisks(t *testing.T) {
	w := newWorld(t)
	const other = "/dev/shm"
	if _, err := os.Stat(other); err != nil || sameDevice(w.dir, other) {
		t.Skip("there is no second file system at " + other)
	}
	root, err := os.MkdirTemp(other, "bide-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	run, err := w.repo.NewRun(t.Context(), RunOptions{ID: "r1", Root: filepath.Join(root, "state", "worktrees", "r1")})
	if err != nil {
		t.Fatal(err)
	}
	w.write(run.Dir, "new", "x")
	w.commitAll(run.Dir, "new")
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.exists(run.root) {
		t.Fatal("the run's directory is not empty")
	}
	if err := w.repo.Sync(t.Context()); err != nil {
		t.Errorf("after the run is removed: %v", err)
	}
}

// A power cut while the run's worktree is removed does not leave its name and a part of its
// files, which a next life would take for deleted by a step, and merge that: no file goes
// before the new name is on the disk.
func TestNoFileGoesBeforeTheName(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "made.txt", "made\n")
	w.commitAll(run.Dir, "made")
	going, safe := run.Dir+goingSuffix, false
	real := run.repo.disks.sync
	run.repo.disks.sync = func(dir string) error {
		if w.exists(going) && !w.exists(run.Dir) {
			safe = true
			for _, name := range []string{"a.txt", "made.txt"} {
				if !w.exists(filepath.Join(going, name)) {
					t.Errorf("%s is gone before the name of its worktree is", name)
				}
			}
		}
		return real(dir)
	}
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !safe || w.exists(going) {
		t.Errorf("synced under the new name: %v; it is left: %v", safe, w.exists(going))
	}
}

// TestNoReasonGoesBeforeTheRun: the note that the run removed its own worktree is there until
// it is on the disk that there is no run: a run that a power cut brings back would tell that
// somebody else had removed it.
func TestNoReasonGoesBeforeTheRun(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	start, removed := filepath.Join(w.dir, ".git", privateRef(run.ID, "start")), filepath.Join(w.dir, ".git", privateRef(run.ID, "removed"))
	safe := false
	real := run.repo.disks.sync
	run.repo.disks.sync = func(dir string) error {
		safe = safe || !w.exists(start) && w.exists(removed)
		return real(dir)
	}
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !safe || w.exists(removed) {
		t.Errorf("synced without the run: %v; the note is left: %v", safe, w.exists(removed))
	}
}
