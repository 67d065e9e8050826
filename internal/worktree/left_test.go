package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Work of items that is left in branches is merged also where the run itself has ended
// and left nothing else: what can be, and what meets a conflict stays as it is.
func TestFinalMergeItem(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	kept := map[string]string{}
	for _, item := range []string{"one", "two", "both"} {
		a := w.agent(run, item, 1)
		file := item + ".txt"
		if item == "both" {
			file = "one.txt"
		}
		w.write(a.Dir, file, "by "+item+"\n")
		kept[item] = w.remove(a).Branch
	}
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "branches", len(w.branches()), 4)

	left, err := w.open(w.dir).FindRun(t.Context(), RunOptions{ID: "r1"})
	if err != nil || !left.Gone || left.Target != "main" {
		t.Fatalf("%+v %v", left, err)
	}
	for _, item := range []string{"one", "two"} {
		if res, err := left.FinalMergeItem(t.Context(), kept[item], MergeOptions{Message: "item " + item}); err != nil || res.Commits != 1 {
			t.Fatalf("%s: %+v %v", item, res, err)
		}
	}
	_, err = left.FinalMergeItem(t.Context(), kept["both"], MergeOptions{})
	var conflict *Conflict
	if !errors.As(err, &conflict) || conflict.Branch != kept["both"] {
		t.Fatal(err)
	}
	equal(t, "merged", w.git("log", "--merges", "--format=%s"), "item two\nitem one")
	equal(t, "status", w.git("status", "--porcelain"), "")
	equal(t, "worktrees", len(w.git("worktree", "list", "--porcelain")) > 0 && !w.exists(filepath.Join(left.repo.common, scratchDir)), true)
	if _, err := left.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", w.branches(), []string{kept["both"], "main"})

	again, err := w.open(w.dir).FindRun(t.Context(), RunOptions{ID: "r1"})
	if err != nil || again.Target != "main" {
		t.Fatalf("the run is forgotten before its last branch is gone: %+v %v", again, err)
	}
	res, err := again.FinalMergeItem(t.Context(), kept["both"], MergeOptions{Resolve: func(_ context.Context, c ConflictInfo) error {
		w.write(c.Dir, "one.txt", "by all\n")
		w.gitIn(c.Dir, "add", "one.txt")
		return nil
	}})
	if err != nil || !res.Resolved {
		t.Fatalf("%+v %v", res, err)
	}
	if _, err := again.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "refs", w.git("for-each-ref", "--format=%(refname)"), "refs/heads/main")
}

// What a commit cannot hold stays: a merge in the middle of a conflict, and another
// repository.
func TestCommitLeft(t *testing.T) {
	w := newWorld(t)
	w.git("checkout", "-q", "-b", "other")
	w.write(w.dir, "a.txt", "other\n")
	w.commitAll(w.dir, "other")
	w.git("checkout", "-q", "main")
	run := w.run()
	w.write(run.Dir, "new.txt", "new")
	w.gitIn(run.Dir, "init", "-q", "inner")
	w.write(run.Dir, "inner/file", "inner")
	if err := run.PrepareOwn(t.Context(), func(context.Context) error { w.write(run.Dir, ".env", "secret"); return nil }); err != nil {
		t.Fatal(err)
	}
	w.write(run.Dir, "later.txt", "later")
	left, err := run.CommitLeft(t.Context(), "left")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "left", left, []string(nil))
	equal(t, "committed", w.gitIn(run.Dir, "show", "--format=%s", "--name-only"), "left\n\nlater.txt")

	if err := os.RemoveAll(filepath.Join(run.Dir, "inner")); err != nil {
		t.Fatal(err)
	}
	a := w.agent(run, "one", 1)
	w.gitIn(a.Dir, "init", "-q", "inner2")
	w.write(a.Dir, "inner2/file", "inner")
	w.commitAll(filepath.Join(a.Dir, "inner2"), "inner")
	w.write(a.Dir, "a.txt", "changed\n")
	res := w.merge(run, a, MergeOptions{Left: "of one"})
	equal(t, "uncommitted", res.Uncommitted, []string{"inner2/"})
	equal(t, "files", res.Files, []string{"a.txt"})
	w.remove(a)

	b := w.agent(run, "two", 1)
	w.write(b.Dir, "a.txt", "mine\n")
	w.commitAll(b.Dir, "mine")
	w.leaveConflict(b.Dir, "other")
	_, err = run.Merge(t.Context(), b, MergeOptions{Left: "of two"})
	var unresolved *UnresolvedError
	if !errors.As(err, &unresolved) || len(unresolved.Files) == 0 {
		t.Fatalf("a merge with conflicts is committed: %v", err)
	}
}

// A run is looked for in another clone of its repository: its worktree stays.
func TestFindRunInAnotherClone(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "new.txt", "new\n")
	clone := filepath.Join(t.TempDir(), "clone")
	w.git("clone", "-q", w.dir, clone)
	if _, err := w.open(clone).FindRun(t.Context(), RunOptions{ID: run.ID, Root: run.root, Began: time.Now()}); !errors.As(err, new(*NoBranchError)) {
		t.Fatal(err)
	}
	equal(t, "new.txt", w.read(run.Dir, "new.txt"), "new\n")
	equal(t, "the run's worktree", w.gitIn(run.Dir, "status", "--porcelain"), "?? new.txt")
}
