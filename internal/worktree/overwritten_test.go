package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFinalMergeLeavesTheUsersFiles: what no commit has is never overwritten or removed,
// whether git sees it or not, and wherever it stands in the way.
func TestFinalMergeLeavesTheUsersFiles(t *testing.T) {
	for _, c := range []struct {
		name, mine string // what is the user's, and is named
		prepare    func(w *world)
		work       func(w *world, dir string)
	}{
		{"an untracked directory where the run has a file", "u/deep/x", func(w *world) { w.write(w.dir, "u/deep/x", "mine") }, func(w *world, dir string) { w.write(dir, "u", "by the run\n") }},
		{"an untracked directory where the run has a link", "u/x", func(w *world) { w.write(w.dir, "u/x", "mine") }, func(w *world, dir string) { w.must(os.Symlink("a.txt", filepath.Join(dir, "u"))) }},
		{"an untracked file in a directory that the run replaced by a file", "sub/x", func(w *world) { w.write(w.dir, "sub/x", "mine") }, func(w *world, dir string) {
			w.must(os.RemoveAll(filepath.Join(dir, "sub")))
			w.write(dir, "sub", "by the run\n")
		}},
		{"an untracked file where the run has a directory", "u", func(w *world) { w.write(w.dir, "u", "mine") }, func(w *world, dir string) { w.write(dir, "u/x/y", "by the run\n") }},
		{"a link where the run has a directory", "u", func(w *world) { w.must(os.Symlink(w.t.TempDir(), filepath.Join(w.dir, "u"))) }, func(w *world, dir string) { w.write(dir, "u/x/y", "by the run\n") }},
		{"an ignored file", "my.log", func(w *world) { w.write(w.dir, "my.log", "mine") }, func(w *world, dir string) {
			w.write(dir, "my.log", "by the run\n")
			w.gitIn(dir, "add", "-f", "my.log")
		}},
		{"an ignored file in the place of a directory", "d/my.log", func(w *world) { w.write(w.dir, "d/my.log", "mine") }, func(w *world, dir string) { w.write(dir, "d", "by the run\n") }},
		{"an ignored file that is empty", "my.log", func(w *world) { w.write(w.dir, "my.log", "") }, func(w *world, dir string) {
			w.write(dir, "my.log", "by the run\n")
			w.gitIn(dir, "add", "-f", "my.log")
		}},
		{"skip-worktree", "a.txt", func(w *world) {
			w.git("update-index", "--skip-worktree", "a.txt")
			w.write(w.dir, "a.txt", "mine")
		}, func(w *world, dir string) { w.write(dir, "a.txt", "by the run\n") }},
		{"assume-unchanged", "a.txt", func(w *world) {
			w.git("update-index", "--assume-unchanged", "a.txt")
			w.write(w.dir, "a.txt", "mine")
		}, func(w *world, dir string) { w.write(dir, "a.txt", "by the run\n") }},
		{"assume-unchanged, and the run removed it", "a.txt", func(w *world) {
			w.git("update-index", "--assume-unchanged", "a.txt")
			w.write(w.dir, "a.txt", "mine")
		}, func(w *world, dir string) { w.must(os.Remove(filepath.Join(dir, "a.txt"))) }},
		{"a repository", "u", func(w *world) {
			w.write(w.dir, "u/mine.txt", "mine")
			w.gitIn(filepath.Join(w.dir, "u"), "init", "-q")
			w.write(w.dir, ".git/info/exclude", "u/\n")
		}, func(w *world, dir string) { w.write(dir, "u", "by the run\n") }},
		{"a repository where the run has a file below", "u", func(w *world) {
			w.write(w.dir, "u/mine.txt", "mine")
			w.gitIn(filepath.Join(w.dir, "u"), "init", "-q")
		}, func(w *world, dir string) { w.write(dir, "u/x", "by the run\n") }},
		{"a repository with commits in a directory", "p/u", func(w *world) {
			w.write(w.dir, "p/u/mine.txt", "mine")
			w.gitIn(filepath.Join(w.dir, "p/u"), "init", "-q")
			w.commitAll(filepath.Join(w.dir, "p/u"), "mine")
		}, func(w *world, dir string) {
			w.write(dir, "p/u/q/x", "by the run\n")
			w.write(dir, "p/y", "by the run\n")
		}},
		{"a worktree", "u", func(w *world) {
			w.git("worktree", "add", "-q", "--detach", "u")
		}, func(w *world, dir string) { w.write(dir, "u/x", "by the run\n") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			a := w.agent(run, "one", 1)
			c.work(w, a.Dir)
			w.commitAll(a.Dir, "work")
			w.merge(run, a, MergeOptions{})
			w.remove(a)
			c.prepare(w)
			before := contents(t, w.dir)
			head := w.git("rev-parse", "HEAD")
			_, err := run.FinalMerge(t.Context(), MergeOptions{})
			if no := (*CannotMerge)(nil); !errors.As(err, &no) || !strings.Contains(err.Error(), ": "+c.mine) {
				t.Fatal(err)
			}
			equal(t, "the checkout", contents(t, w.dir), before)
			equal(t, "HEAD", w.git("rev-parse", "HEAD"), head)

			w.must(os.Rename(filepath.Join(w.dir, c.mine), filepath.Join(t.TempDir(), "away")))
			w.git("update-index", "--no-skip-worktree", "a.txt")
			w.git("update-index", "--no-assume-unchanged", "a.txt")
			w.git("checkout", "-q", "HEAD", "--", "a.txt")
			if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
				t.Fatal(err)
			}
			equal(t, "uncommitted after the merge", strings.ReplaceAll(w.git("status", "--porcelain"), "?? d/\n", ""), "")
		})
	}
}

// TestFinalMergePutsBackWhatIsItsOwn: a merge that was cut short finds a file that the user
// has changed since. It takes back what it wrote, and leaves that file.
func TestFinalMergePutsBackWhatIsItsOwn(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "a.txt", "by the run\n")
	w.write(a.Dir, "sub/b.txt", "by the run\n")
	w.commitAll(a.Dir, "work")
	w.merge(run, a, MergeOptions{})
	w.remove(a)
	tip := w.git("rev-parse", run.Branch)
	tree := w.git("rev-parse", tip+"^{tree}")
	merge := w.git("commit-tree", tree, "-p", "HEAD", "-p", tip, "-m", "merge")
	w.git("update-ref", privateRef("r1", "final"), merge)
	w.git("restore", "--source="+merge, "--staged", "--worktree", "sub/b.txt") // so far it came
	w.write(w.dir, "a.txt", "mine\n")
	_, err := run.FinalMerge(t.Context(), MergeOptions{})
	if no := (*CannotMerge)(nil); !errors.As(err, &no) || !strings.Contains(err.Error(), "a.txt") {
		t.Fatal(err)
	}
	equal(t, "a.txt", w.read(w.dir, "a.txt"), "mine\n")
	equal(t, "sub/b.txt", w.read(w.dir, "sub/b.txt"), "b\n")
	equal(t, "status", w.git("status", "--porcelain"), " M a.txt")
}

// TestFollowKeepsWhatIsIgnored: a merge of an agent brings a file where a step left one that
// git ignores.
func TestFollowKeepsWhatIsIgnored(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "x.log", "of a step\n")
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "x.log", "by the agent\n")
	w.gitIn(a.Dir, "add", "-f", "x.log")
	w.commitAll(a.Dir, "work")
	w.merge(run, a, MergeOptions{})
	equal(t, "x.log", w.read(run.Dir, "x.log"), "by the agent\n")
	if len(run.Lost) != 1 || w.read("", run.Lost[0]) != "of a step\n" {
		t.Errorf("moved aside: %q", run.Lost)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// contents gives all that is in a directory, but for the git directory at its top, with its
// content.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == filepath.Join(dir, ".git"):
			return filepath.SkipDir
		case d.Type() == os.ModeSymlink:
			to, err := os.Readlink(path)
			all[path] = "→ " + to
			return err
		case d.IsDir():
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
