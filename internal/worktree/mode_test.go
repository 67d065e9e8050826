package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestModesOfTheUsersFiles: the final merge leaves of the permissions of files what
// `git merge` leaves.
func TestModesOfTheUsersFiles(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "other", "o\n")
	w.write(w.dir, "tool", "t\n")
	w.commitAll(w.dir, "more")
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "a.txt", "by the run\n")
	w.must(os.Chmod(filepath.Join(a.Dir, "tool"), 0o755))
	w.commitAll(a.Dir, "work")
	w.merge(run, a, MergeOptions{})
	w.remove(a)
	plain := filepath.Join(filepath.Dir(w.dir), "plain")
	w.must(exec.Command("cp", "-a", w.dir, plain).Run())
	for _, dir := range []string{w.dir, plain} {
		for _, name := range []string{"a.txt", "other", "tool"} {
			w.must(os.Chmod(filepath.Join(dir, name), 0o600))
		}
	}
	w.gitIn(plain, "merge", "-q", "--no-ff", "-m", "merge", run.Branch)
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.txt", "other", "tool", "sub/b.txt"} {
		got, err := os.Stat(filepath.Join(w.dir, name))
		w.must(err)
		want, err := os.Stat(filepath.Join(plain, name))
		w.must(err)
		equal(t, name, got.Mode(), want.Mode())
		equal(t, name, w.read(w.dir, name), w.read(plain, name))
	}
	if info, err := os.Stat(filepath.Join(w.dir, "other")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}
