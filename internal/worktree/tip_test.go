package worktree

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestBranchThatSomebodyMoved: what is merged is in the run's branch, whatever becomes of
// the branch meanwhile, while the run lives and between two lives.
func TestBranchThatSomebodyMoved(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, run *Run)
		fast string // refused, with these words
	}{
		{"deleted", func(w *world, run *Run) { w.git("update-ref", "-d", "refs/heads/"+run.Branch) }, ""},
		{"moved back", func(w *world, run *Run) { w.git("update-ref", "refs/heads/"+run.Branch, "main") }, ""},
		{"packed and deleted", func(w *world, run *Run) {
			w.git("pack-refs", "--all")
			w.git("update-ref", "-d", "refs/heads/"+run.Branch)
			w.git("gc", "--quiet", "--prune=now")
		}, ""},
		{"moved on", func(w *world, run *Run) {
			w.git("update-ref", "refs/heads/"+run.Branch, w.git("commit-tree", run.Branch+"^{tree}", "-p", run.Branch, "-m", "on"))
		}, ""},
		{"moved elsewhere", func(w *world, run *Run) {
			w.git("update-ref", "refs/heads/"+run.Branch, w.git("commit-tree", "main^{tree}", "-p", "main", "-m", "elsewhere"))
		}, "does not have what was merged into it"},
	} {
		for _, dies := range []bool{false, true} {
			t.Run(c.name+map[bool]string{false: ", in one life", true: ", between two lives"}[dies], func(t *testing.T) {
				w := newWorld(t)
				run := w.run()
				one := w.agent(run, "one", 1)
				w.write(one.Dir, "one.txt", "1\n")
				w.commitAll(one.Dir, "one")
				two := w.agent(run, "two", 1)
				w.write(two.Dir, "two.txt", "2\n")
				w.commitAll(two.Dir, "two")
				if _, _, err := run.mergeOne(t.Context(), one, MergeOptions{}); err != nil {
					t.Fatal(err)
				}
				w.remove(one)
				c.do(w, run)
				if dies {
					w.git("worktree", "remove", "--force", "--force", run.Dir)
					for _, s := range run.pool.held {
						w.must(s.lock.Unlock())
					}
					again, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
					if c.fast != "" {
						if err == nil || !strings.Contains(err.Error(), c.fast) {
							t.Fatal(err)
						}
						return
					}
					w.must(err)
					run = again
					two, err = run.Continue(t.Context(), "two", 1)
					w.must(err)
				}
				_, err := run.Merge(t.Context(), two, MergeOptions{})
				if c.fast != "" {
					if err == nil || !strings.Contains(err.Error(), c.fast) {
						t.Fatal(err)
					}
					return
				}
				w.must(err)
				if told := run.PutBack() != ""; told != (c.name != "moved on") {
					t.Errorf("told of the branch: %v", told)
				}
				if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
					t.Fatal(err)
				}
				equal(t, "main", w.git("show", "main:one.txt")+w.git("show", "main:two.txt"), "12")
			})
		}
	}
}

// TestLifeBehindAMergedOne: where a run was merged whole and its branch is gone, the next life
// begins upon what the user has, and not upon the last merge of an item.
func TestLifeBehindAMergedOne(t *testing.T) {
	for name, cleaned := range map[string]bool{"removed": false, "cleaned": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			one := w.agent(run, "one", 1)
			w.write(one.Dir, "one.txt", "1\n")
			w.commitAll(one.Dir, "one")
			if _, _, err := run.mergeOne(t.Context(), one, MergeOptions{}); err != nil {
				t.Fatal(err)
			}
			w.remove(one)
			w.git("branch", "bide-item/r1/two/1", w.git("commit-tree", "main^{tree}", "-p", "main", "-m", "of an item that failed"))
			w.must(run.Follow(t.Context()))
			w.write(run.Dir, "sum.txt", "1 of 2\n")
			w.commitAll(run.Dir, "reduce")
			_, err := run.FinalMerge(t.Context(), MergeOptions{})
			w.must(err)
			repo := w.open(w.dir)
			if cleaned {
				all, err := repo.List(t.Context(), "r1")
				w.must(err)
				for _, i := range all {
					if i.Item == "" {
						w.must(repo.clean(t.Context(), i))
					}
				}
			} else if _, err := run.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, "branches", w.branches(), []string{"bide-item/r1/two/1", "main"})
			if _, err := repo.OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root}); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			again, err := repo.NewRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
			w.must(err)
			equal(t, "what it begins upon", w.git("rev-parse", again.Branch), w.git("rev-parse", "main"))
		})
	}
}

// TestStepWritesHistoryAnew: what a step of the run itself makes of the branch is its own to
// say, also of what was merged.
func TestStepWritesHistoryAnew(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	w.gitIn(run.Dir, "reset", "-q", "--soft", "main")
	w.gitIn(run.Dir, "commit", "-q", "-m", "all in one")
	w.must(run.Mark(t.Context(), "reduce[0]"))
	run = w.relive(run)
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "subjects", w.git("log", "--topo-order", "--no-merges", "--format=%s", "main"), "all in one\nstart")
	equal(t, "a.txt", w.read(w.dir, "a.txt"), "by the run\n")
}

// TestBranchThatAPersonMoved: when the run goes on no more, what a person has made of its
// branch is merged, and what it lacks is told.
func TestBranchThatAPersonMoved(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	two := w.agent(run, "two", 1)
	w.write(two.Dir, "bad.txt", "bad\n")
	w.commitAll(two.Dir, "bad")
	w.merge(run, two, MergeOptions{})
	w.remove(two)
	last := w.git("rev-parse", "bide/r1")
	w.gitIn(run.Dir, "reset", "-q", "--hard", "HEAD~1")
	found, err := w.repo.FindRun(t.Context(), RunOptions{ID: "r1"})
	w.must(err)
	if _, err := found.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "a.txt", w.read(w.dir, "a.txt"), "by the run\n")
	if w.exists(w.dir + "/bad.txt") {
		t.Error("what a person has taken out of the branch is merged")
	}
	equal(t, "told of", found.Lacks, last)
}
