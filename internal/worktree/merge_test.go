package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSetAsideIsPutBack(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "items.json", "[1]\n")
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "items.json", "[2]\n")
	w.write(a.Dir, "a.txt", "two\n")
	w.commitAll(a.Dir, "work")
	w.write(run.Dir, "a.txt", "three\n")
	w.gitIn(run.Dir, "commit", "-q", "-m", "other", "a.txt")
	if _, err := run.Merge(t.Context(), a, MergeOptions{}); err == nil {
		t.Fatal("no conflict")
	}
	equal(t, "items.json", w.read(run.Dir, "items.json"), "[1]\n")
	equal(t, "status", w.gitIn(run.Dir, "status", "--porcelain"), "?? items.json")

	// What the run changed itself is not overwritten.
	w.write(run.Dir, "items.json", "precious\n")
	if _, err := run.Merge(t.Context(), a, MergeOptions{}); err == nil {
		t.Fatal("merged over a changed file")
	}
	equal(t, "items.json", w.read(run.Dir, "items.json"), "precious\n")
}

func TestMergeNothing(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 1)
	if res := w.merge(run, a, MergeOptions{}); res.Commit != "" || res.Commits != 0 {
		t.Errorf("%+v", res)
	}
	w.write(a.Dir, "left.txt", "x")
	res := w.merge(run, a, MergeOptions{})
	equal(t, "uncommitted", res.Uncommitted, []string{"left.txt"})
	w.commitAll(a.Dir, "work")
	if res := w.merge(run, a, MergeOptions{Message: "by hand"}); res.Commit == "" || res.Resolved {
		t.Errorf("%+v", res)
	}
	equal(t, "message", w.gitIn(run.Dir, "log", "-1", "--format=%s"), "by hand")
	if res := w.merge(run, a, MergeOptions{}); res.Commit != "" {
		t.Errorf("merged twice: %+v", res)
	}
}

func conflicting(w *world) (*Run, *Agent) {
	run := w.run()
	a := w.agent(run, "one", 1)
	b := w.agent(run, "two", 1)
	w.write(a.Dir, "a.txt", "from one\n")
	w.commitAll(a.Dir, "one")
	w.write(b.Dir, "a.txt", "from two\n")
	w.commitAll(b.Dir, "two")
	w.merge(run, a, MergeOptions{})
	return run, b
}

func TestConflict(t *testing.T) {
	w := newWorld(t)
	run, b := conflicting(w)
	head := w.gitIn(run.Dir, "rev-parse", "HEAD")
	_, err := run.Merge(t.Context(), b, MergeOptions{})
	var conflict *Conflict
	if !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	equal(t, "files", conflict.Files, []string{"a.txt"})
	if ByHand(err) != "" || strings.Contains(err.Error(), "git merge") {
		t.Errorf("to merge it now by hand would give the run the same conflict: %v", err)
	}
	equal(t, "where to merge, which outlives the run", conflict.Dir, w.dir)
	equal(t, "HEAD", w.gitIn(run.Dir, "rev-parse", "HEAD"), head)
	equal(t, "status", w.gitIn(run.Dir, "status", "--porcelain"), "")
	k := w.remove(b)
	if k.Branch != b.Branch || k.Commits != 1 || !strings.Contains(k.String(), "git log -p HEAD.."+b.Branch) || strings.Contains(k.String(), "git merge") {
		t.Errorf("%+v", k)
	}
	equal(t, "kept work", w.git("show", b.Branch+":a.txt"), "from two")
}

func TestResolver(t *testing.T) {
	for _, c := range []struct {
		name    string
		resolve func(w *world, c ConflictInfo) error
		want    string // in the error; "" for success
	}{
		{"commits itself", func(w *world, c ConflictInfo) error {
			w.write(c.Dir, "a.txt", "both\n")
			w.commitAll(c.Dir, "resolved")
			return nil
		}, ""},
		{"leaves the commit to us", func(w *world, c ConflictInfo) error {
			w.write(c.Dir, "a.txt", "both\n")
			w.gitIn(c.Dir, "add", "a.txt")
			return nil
		}, ""},
		{"fails", func(*world, ConflictInfo) error { return errors.New("no idea") }, "no idea"},
		{"does nothing", func(*world, ConflictInfo) error { return nil }, "not marked as resolved"},
		{"leaves markers", func(w *world, c ConflictInfo) error {
			w.commitAll(c.Dir, "resolved?")
			return nil
		}, "conflict markers are left in a.txt"},
		{"gives the merge up", func(w *world, c ConflictInfo) error {
			w.gitIn(c.Dir, "merge", "--abort")
			return nil
		}, "did not commit the merge"},
		{"commits something else", func(w *world, c ConflictInfo) error {
			w.gitIn(c.Dir, "merge", "--abort")
			w.write(c.Dir, "a.txt", "both\n")
			w.commitAll(c.Dir, "no merge")
			return nil
		}, "did not commit the merge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			run, b := conflicting(w)
			head := w.gitIn(run.Dir, "rev-parse", "HEAD")
			var info ConflictInfo
			res, err := run.Merge(t.Context(), b, MergeOptions{Resolve: func(_ context.Context, i ConflictInfo) error {
				info = i
				return c.resolve(w, i)
			}})
			equal(t, "info", []any{info.Dir, info.Branch, info.Into, info.Files}, []any{filepath.Join(filepath.Dir(run.Dir), "merging"), b.Branch, run.Branch, []string{"a.txt"}})
			equal(t, "status", w.gitIn(run.Dir, "status", "--porcelain"), "")
			if c.want == "" {
				if err != nil || !res.Resolved || res.Commit == "" {
					t.Fatalf("%+v %v", res, err)
				}
				equal(t, "a.txt", w.read(run.Dir, "a.txt"), "both\n")
				equal(t, "kept", w.remove(b), Kept{})
				return
			}
			var conflict *Conflict
			if !errors.As(err, &conflict) || !strings.Contains(err.Error(), c.want) {
				t.Fatal(err)
			}
			equal(t, "HEAD", w.gitIn(run.Dir, "rev-parse", "HEAD"), head)
			if w.remove(b).Branch == "" {
				t.Error("the work is gone")
			}
		})
	}
}

func TestFailingHooks(t *testing.T) {
	w := newWorld(t)
	for _, hook := range []string{"pre-commit", "commit-msg", "post-checkout", "pre-merge-commit", "prepare-commit-msg", "post-commit", "post-merge", "reference-transaction"} {
		path := filepath.Join(w.dir, ".git", "hooks", hook)
		w.write(filepath.Dir(path), hook, "#!/bin/sh\nexit 1\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.git("config", "commit.gpgSign", "true")
	w.git("config", "user.signingKey", "nobody")
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "r.txt", "r")
	if _, err := w.repo.AutoCommit(t.Context(), a.Dir, CommitOptions{Message: "work"}); err != nil {
		t.Fatal(err)
	}
	w.merge(run, a, MergeOptions{})
	w.write(a.Dir, "more.txt", "m")
	if k := w.remove(a); k.Commits != 1 {
		t.Errorf("%+v", k)
	}
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRunTakesBackAHalfMerge(t *testing.T) {
	w := newWorld(t)
	run, b := conflicting(w)
	w.write(run.Dir, "note.txt", "uncommitted")
	w.leaveConflict(run.Dir, w.gitIn(b.Dir, "rev-parse", "HEAD"))
	again, err := w.repo.OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "status", w.gitIn(again.Dir, "status", "--porcelain"), "?? note.txt")
}

// Another process (here: another Repo) opens the run, and merges into it, while
// a conflict is being resolved.
func TestMergeWhileAConflictIsResolved(t *testing.T) {
	w := newWorld(t)
	run, b := conflicting(w)
	c := w.agent(run, "three", 1)
	w.write(c.Dir, "c.txt", "c")
	w.commitAll(c.Dir, "c")
	second := make(chan error, 1)
	_, err := run.Merge(t.Context(), b, MergeOptions{Resolve: func(_ context.Context, i ConflictInfo) error {
		other, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
		if err != nil {
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := other.Merge(short, c, MergeOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("merged in the middle of another merge: %v", err)
		}
		go func() {
			_, err := other.Merge(t.Context(), c, MergeOptions{})
			second <- err
		}()
		w.write(i.Dir, "a.txt", "both\n")
		w.gitIn(i.Dir, "add", "a.txt")
		return nil
	}})
	if err := errors.Join(err, <-second); err != nil {
		t.Fatal(err)
	}
	equal(t, "files", w.read(run.Dir, "a.txt")+w.read(run.Dir, "c.txt"), "both\nc")
}

// The worktree does not follow over a merge of somebody else; the work is merged all
// the same.
func TestFollowOverAForeignMerge(t *testing.T) {
	w := newWorld(t)
	run, b := conflicting(w)
	c := w.agent(run, "three", 1)
	w.write(c.Dir, "c.txt", "c")
	w.commitAll(c.Dir, "c")
	w.leaveConflict(run.Dir, w.gitIn(b.Dir, "rev-parse", "HEAD"))
	before := w.gitIn(run.Dir, "status", "--porcelain")
	if _, err := run.Merge(t.Context(), c, MergeOptions{}); err == nil || !strings.Contains(err.Error(), "in the middle of another merge") {
		t.Fatal(err)
	}
	equal(t, "left as it was", w.gitIn(run.Dir, "status", "--porcelain"), before)
	equal(t, "on the branch", w.git("show", "bide/r1:c.txt"), "c")
}

// A process that goes down while the worktree follows the branch leaves files of the
// old commit, of the snapshot, of the new one, half written ones and none: the next one
// brings all of them to the branch. What is of no commit is kept beside.
func TestOpenRunFollows(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "items.json", "[1]\n")
	w.write(run.Dir, "left.txt", "uncommitted\n")
	a := w.agent(run, "one", 1)
	for name, text := range map[string]string{"items.json": "[2]\n", "new.txt": "new\n", "half.txt": "half written\n", "a.txt": "changed\n", "strange.txt": "merged\n"} {
		w.write(a.Dir, name, text)
	}
	w.commitAll(a.Dir, "work")
	if _, _, err := a.Finish(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "before it follows", w.read(run.Dir, "items.json"), "[1]\n")
	w.write(run.Dir, "new.txt", "new\n")
	w.write(run.Dir, "half.txt", "half wr")
	w.write(run.Dir, "strange.txt", "whose?\n")
	again, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"items.json": "[2]\n", "new.txt": "new\n", "half.txt": "half written\n", "a.txt": "changed\n", "strange.txt": "merged\n", "left.txt": "uncommitted\n"} {
		equal(t, name, w.read(again.Dir, name), want)
	}
	equal(t, "status", w.gitIn(again.Dir, "status", "--porcelain"), "?? left.txt")
	equal(t, "branch", w.gitIn(again.Dir, "branch", "--show-current"), "bide/r1")
	if len(again.Lost) != 1 || w.read(filepath.Dir(again.Lost[0]), filepath.Base(again.Lost[0])) != "whose?\n" {
		t.Errorf("lost: %q", again.Lost)
	}
}

// A git that is killed behind the publication of a merge has made it, and one that is
// killed before it has not: the work is there once.
func TestKilledBehindAMerge(t *testing.T) {
	w := serialWorld(t)
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	// The git that moves the run's branch, or the user's, dies: "after" it did so.
	shim := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' bide: merge '*)\n  if [ -e %[1]s/after ]; then mv %[1]s/after2 %[1]s/after 2>/dev/null || rm %[1]s/after; %[2]s \"$@\"; kill -9 $$; fi\n  if [ -e %[1]s/before ]; then rm %[1]s/before; kill -9 $$; fi;;\nesac\nexec %[2]s \"$@\"\n", bin, real)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	run := w.run()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	dies := func(when string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, when), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "made.txt", "made\n")
	w.commitAll(a.Dir, "made")
	dies("before")
	if _, err := run.Merge(t.Context(), a, MergeOptions{}); err == nil {
		t.Error("a merge that was not made is no error")
	}
	dies("after")
	if res := w.merge(run, a, MergeOptions{}); res.Commits != 1 || res.Commit == "" {
		t.Errorf("%+v", res)
	}
	equal(t, "merged into the run", w.git("log", "--topo-order", "--no-merges", "--format=%s", run.Branch), "made\nstart")
	dies("after")  // of the note "final"
	dies("after2") // of HEAD
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "both died", w.exists(filepath.Join(bin, "after")), false)
	equal(t, "merged into main", w.git("log", "--topo-order", "--no-merges", "--format=%s", "main"), "made\nstart")
	equal(t, "in the checkout", w.read(w.dir, "made.txt"), "made\n")
}
