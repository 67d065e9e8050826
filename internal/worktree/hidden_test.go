package worktree

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestHiddenFromGit: what a step sets so that git does not see changes hides no work, its
// own and that of the next item in the same worktree, and leads git nowhere else.
func TestHiddenFromGit(t *testing.T) {
	for name, hide := range map[string]func(w *world, dir string){
		"skip-worktree":    func(w *world, dir string) { w.gitIn(dir, "update-index", "--skip-worktree", "a.txt") },
		"assume-unchanged": func(w *world, dir string) { w.gitIn(dir, "update-index", "--assume-unchanged", "a.txt") },
		"both": func(w *world, dir string) {
			w.gitIn(dir, "update-index", "--index-version", "4")
			w.gitIn(dir, "update-index", "--skip-worktree", "a.txt")
			w.gitIn(dir, "update-index", "--assume-unchanged", "a.txt")
		},
		"split index": func(w *world, dir string) {
			w.gitIn(dir, "update-index", "--skip-worktree", "a.txt")
			w.gitIn(dir, "update-index", "--split-index")
		},
		"ignored": func(w *world, dir string) {
			w.write(dir, "../all", "*\n")
			w.gitIn(dir, "config", "--worktree", "core.excludesFile", filepath.Join(dir, "..", "all"))
		},
		"another worktree": func(w *world, dir string) {
			w.gitIn(dir, "config", "--worktree", "core.worktree", filepath.Join(w.dir, "sub"))
		},
	} {
		for _, of := range []string{"items", "run"} {
			t.Run(of+" "+name, func(t *testing.T) {
				w := newWorld(t)
				w.git("config", "extensions.worktreeConfig", "true")
				run := w.run()
				if of == "run" {
					hide(w, run.Dir)
					w.write(run.Dir, "a.txt", "changed\n")
					w.write(run.Dir, "new", "new\n")
					left, err := run.CommitLeft(t.Context(), "left")
					if err != nil || len(left) > 0 {
						t.Fatal(left, err)
					}
					equal(t, "a.txt", w.git("show", run.Branch+":a.txt"), "changed")
					equal(t, "new", w.git("show", run.Branch+":new"), "new")
					return
				}
				a := w.agent(run, "one", 1)
				hide(w, a.Dir)
				w.write(a.Dir, "a.txt", "changed\n")
				w.write(a.Dir, "new", "new\n")
				w.merge(run, a, MergeOptions{Left: "left"})
				w.remove(a)
				equal(t, "a.txt", w.git("show", run.Branch+":a.txt"), "changed")
				equal(t, "new", w.git("show", run.Branch+":new"), "new")

				b := w.agent(run, "two", 1)
				hide(w, b.Dir)
				w.remove(b)
				c := w.agent(run, "three", 1)
				w.write(c.Dir, "sub/b.txt", "third\n")
				w.write(c.Dir, "a.txt", "one\nthird\n")
				if err := os.Remove(filepath.Join(c.Dir, ".gitignore")); err != nil {
					t.Fatal(err)
				}
				if st, err := w.repo.State(t.Context(), c.Dir); err != nil || len(st.dirty) != 3 {
					t.Errorf("uncommitted of the next item: %q %v", st.dirty, err)
				}
				k, err := c.Keep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "a.txt of the next item", w.git("show", k.Branch+":a.txt"), "one\nthird")
			})
		}
	}
}

// TestHiddenBySetup: what the setup has hidden is nobody's work, for all items.
func TestHiddenBySetup(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	setup := func(dir string) error {
		w.write(dir, "a.txt", "local\n")
		w.gitIn(dir, "update-index", "--skip-worktree", "a.txt")
		return nil
	}
	if err := run.PrepareOwn(t.Context(), func(context.Context) error { return setup(run.Dir) }); err != nil {
		t.Fatal(err)
	}
	run.Prepare(func(_ context.Context, dir string) error { return setup(dir) })
	for i, item := range []string{"one", "two", "three"} {
		a := w.agent(run, item, 1)
		equal(t, "a.txt of item "+item, w.read(a.Dir, "a.txt"), "local\n")
		if i == 1 {
			w.gitIn(a.Dir, "update-index", "--no-skip-worktree", "a.txt")
			w.gitIn(a.Dir, "checkout", "-q", "a.txt")
		}
		w.write(a.Dir, item, "x\n")
		w.merge(run, a, MergeOptions{Left: "left"})
		w.remove(a)
	}
	if left, err := run.CommitLeft(t.Context(), "left"); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	equal(t, "changed", w.git("diff", "--name-only", "main", run.Branch), "one\nthree\ntwo")
}

// TestBitsOfAnIndex: the bits are found in each format of the index, and only there.
func TestBitsOfAnIndex(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" "+version, func(t *testing.T) {
				w := newWorld(t)
				dir := t.TempDir()
				w.gitIn(dir, "init", "-q", "--object-format="+format)
				for _, name := range []string{"a", "ab", "abc/x", "long/0123456789012345678901234567890123456789", "é"} {
					w.write(dir, name, name)
				}
				w.commitAll(dir, "start")
				w.write(dir, "meant", "")
				w.gitIn(dir, "add", "-N", "meant") // a bit that hides nothing
				w.gitIn(dir, "update-index", "--index-version", version)
				hides := func() bool {
					index, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
					if err != nil {
						t.Fatal(err)
					}
					return mayHide(index)
				}
				for _, bit := range []string{"skip-worktree", "assume-unchanged"} {
					for _, file := range []string{"a", "é"} {
						equal(t, "before", hides(), false)
						w.gitIn(dir, "update-index", "--"+bit, file)
						equal(t, bit, hides(), true)
						w.gitIn(dir, "update-index", "--no-"+bit, file)
					}
				}
			})
		}
	}
}
