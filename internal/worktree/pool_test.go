package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whatever an agent does to its worktree, the next one finds it as the first
// did, and nothing that could be work is gone.
func TestNextAgentFindsTheBase(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(w *world, a *Agent)
		branch  bool     // work is kept
		ignored []string // told
	}{
		"nothing":         {do: func(*world, *Agent) {}},
		"empty directory": {do: func(w *world, a *Agent) { w.mkdir(a.Dir, "empty/er") }, ignored: []string{"empty/"}},
		"ignored files": {do: func(w *world, a *Agent) {
			w.write(a.Dir, "x.log", "x")
			w.write(a.Dir, "sub/y.log", "y")
		}, ignored: []string{"sub/y.log", "x.log"}},
		"untracked file": {do: func(w *world, a *Agent) { w.write(a.Dir, "new.txt", "n") }, branch: true},
		"changed file":   {do: func(w *world, a *Agent) { w.write(a.Dir, "a.txt", "changed\n") }, branch: true},
		"staged file": {do: func(w *world, a *Agent) {
			w.write(a.Dir, "a.txt", "changed\n")
			w.gitIn(a.Dir, "add", "a.txt")
			w.write(a.Dir, "a.txt", "one\n")
		}, branch: true},
		"deleted file": {do: func(w *world, a *Agent) { w.gitIn(a.Dir, "rm", "-q", "a.txt") }, branch: true},
		"as many bytes, dated as before": {do: func(w *world, a *Agent) {
			path := filepath.Join(a.Dir, "a.txt")
			info, err := os.Stat(path)
			if err != nil {
				w.t.Fatal(err)
			}
			w.write(a.Dir, "a.txt", "two\n")
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				w.t.Fatal(err)
			}
		}, branch: true},
		"a file for a directory": {do: func(w *world, a *Agent) {
			w.gitIn(a.Dir, "rm", "-rq", "sub")
			w.write(a.Dir, "sub", "a file")
		}, branch: true},
		"detached elsewhere": {do: func(w *world, a *Agent) {
			w.gitIn(a.Dir, "commit", "-q", "--allow-empty", "-m", "empty")
		}, branch: true},
		"mode":   {do: func(w *world, a *Agent) { w.chmod(a.Dir, "a.txt", 0o755) }, branch: true},
		"commit": {do: func(w *world, a *Agent) { w.write(a.Dir, "c", "c"); w.commitAll(a.Dir, "c") }, branch: true},
		"another branch": {do: func(w *world, a *Agent) {
			w.gitIn(a.Dir, "checkout", "-q", "-b", "mine")
		}},
		"half a merge": {do: func(w *world, a *Agent) {
			w.gitIn(a.Dir, "checkout", "-q", "-b", "left")
			w.write(a.Dir, "a.txt", "left\n")
			w.commitAll(a.Dir, "left")
			w.gitIn(a.Dir, "checkout", "-q", "--detach", "main")
			w.write(a.Dir, "a.txt", "right\n")
			w.commitAll(a.Dir, "right")
			w.leaveConflict(a.Dir, "left")
		}, branch: true},
		"stale lock": {do: func(w *world, a *Agent) {
			w.write(w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir"), "index.lock", "")
			w.write(a.Dir, "a.txt", "changed\n")
		}, branch: true},
		"read-only directory": {do: func(w *world, a *Agent) {
			w.write(a.Dir, "ro/f.log", "x")
			w.chmod(a.Dir, "ro", 0o555)
			w.t.Cleanup(func() { _ = os.Chmod(filepath.Join(a.Dir, "ro"), 0o755) }) // gone, as a rule
		}, ignored: []string{"ro/"}},
	} {
		test := func(t *testing.T, known bool) {
			w := newWorld(t)
			run := w.run()
			if known {
				w.becomeKnown(run)
			}
			a := w.agent(run, "one", 1)
			c.do(w, a)
			if known { // as after an agent that took its time
				for run.stamps(run.pool.of(a)) == nil && t.Context().Err() == nil {
				}
			}
			k := w.remove(a)
			if (k.Branch != "") != c.branch {
				t.Errorf("kept: %+v", k)
			}
			if slices.Sort(k.Ignored); !slices.Equal(k.Ignored, c.ignored) && name != "read-only directory" {
				t.Errorf("ignored: %q, want %q", k.Ignored, c.ignored)
			}
			b := w.agent(run, "two", 1)
			equal(t, "status", w.gitIn(b.Dir, "status", "--porcelain", "--ignored"), "")
			equal(t, "head", w.gitIn(b.Dir, "rev-parse", "HEAD", "--abbrev-ref", "HEAD"), b.Base+"\nHEAD")
			equal(t, "files", w.files(b.Dir), []string{".gitignore", "a.txt", "sub", "sub/b.txt"})
			equal(t, "a.txt", w.read(b.Dir, "a.txt"), "one\n")
		}
		t.Run(name, func(t *testing.T) { test(t, false) })
		t.Run(name+", after nothing was changed", func(t *testing.T) { test(t, true) })
	}
}

// becomeKnown has agents change nothing until it is known without git that they did
// not.
func (w *world) becomeKnown(run *Run) {
	w.t.Helper()
	for i := range 10_000 {
		w.remove(w.agent(run, fmt.Sprint("before ", i), 1))
		if run.pool.free[0].clean != nil {
			return
		}
	}
	w.t.Fatal("no stamps are ever taken")
}

func (w *world) mkdir(dir, name string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) chmod(dir, name string, mode os.FileMode) {
	w.t.Helper()
	if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
		w.t.Fatal(err)
	}
}

// files gives all files and directories below dir but for .git.
func (w *world) files(dir string) (names []string) {
	w.t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." && name != ".git" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// Agents one after another share a worktree. An item that changes nothing costs two
// git processes at first and then none, one that commits five.
func TestPoolIsReused(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.remove(w.agent(run, "warm", 1))
	count := w.countGit()
	for i := range 5 {
		a := w.agent(run, fmt.Sprint("item ", i), 1)
		equal(t, "place", filepath.Base(a.Dir), "1")
		if _, k, err := finish(t, a); err != nil || k.Branch != "" {
			t.Fatal(k, err)
		}
	}
	if n := count(); n > 10 {
		t.Errorf("%d git processes for 5 items", n)
	}
	w.becomeKnown(run)
	count = w.countGit()
	for i := range 5 {
		if _, k, err := finish(t, w.agent(run, fmt.Sprint("known ", i), 1)); err != nil || k.Branch != "" {
			t.Fatal(k, err)
		}
	}
	equal(t, "git processes for 5 items that change nothing", count(), 0)
	first := w.agent(run, "commits first", 1)
	w.write(first.Dir, "first.txt", "c")
	w.commitAll(first.Dir, "first")
	if _, _, err := finish(t, first); err != nil {
		t.Fatal(err)
	}
	count = w.countGit()
	a := w.agent(run, "commits", 1)
	w.write(a.Dir, "c.txt", "c")
	w.commitAll(a.Dir, "c")
	res, k, err := finish(t, a)
	if err != nil || res.Commits != 1 || k.Branch != "" {
		t.Fatalf("%+v %+v %v", res, k, err)
	}
	equal(t, "work", []any{len(res.CommitIDs), res.Files}, []any{1, []string{"c.txt"}})
	if n := count(); n > 7 { // status, log, merge-tree, commit-tree, update-ref, checkout, clean
		t.Errorf("%d git processes for an item that commits", n)
	}
	if err := run.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 1)
	equal(t, "branches", w.branches(), []string{"bide/r1", "main"})
}

// finish ends an agent's attempt as the engine does.
func finish(t *testing.T, a *Agent) (MergeResult, Kept, error) {
	t.Helper()
	res, k, err := a.Finish(t.Context(), MergeOptions{})
	_, released := a.Release(t.Context())
	return res, k, errors.Join(err, released)
}

// countGit counts the git processes that are started from now on.
func (w *world) countGit() func() int {
	before := w.repo.started.Load()
	return func() int { return int(w.repo.started.Load() - before) }
}

// The next life of a run that was killed finds what its agents were at.
func TestKilledRun(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	idle := w.agent(run, "idle", 1)
	w.remove(idle)
	half := w.agent(run, "half", 1)
	w.write(half.Dir, "h.txt", "h")
	w.commitAll(half.Dir, "half")
	w.write(half.Dir, "rest.txt", "r")
	none := w.agent(run, "none", 1)
	again := w.relive(run)

	a, err := again.Continue(t.Context(), "half", 2)
	if err != nil || a == nil || a.Dir != half.Dir || a.Base != half.Base {
		t.Fatal(a, err)
	}
	equal(t, "as it was left", w.gitIn(a.Dir, "status", "--porcelain"), "?? rest.txt")
	w.commitAll(a.Dir, "rest")
	res, k, err := finish(t, a)
	if err != nil || res.Commits != 2 || k.Branch != "" {
		t.Fatalf("%+v %+v %v", res, k, err)
	}
	if other, err := again.Continue(t.Context(), "idle", 2); other != nil || err != nil {
		t.Error("went on with what was over", err)
	}
	if fresh := w.agent(again, "none", 2); len(fresh.Kept) > 0 || fresh.Dir == none.Dir && w.gitIn(fresh.Dir, "status", "--porcelain") != "" {
		t.Errorf("%+v", fresh)
	} else {
		w.remove(fresh)
	}
	if _, err := again.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if k, err := again.Remove(t.Context()); err != nil || k.Branch != "" {
		t.Fatal(k, err)
	}
	equal(t, "refs", w.git("for-each-ref", "--format=%(refname)"), "refs/heads/main")
	equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 0)
	equal(t, "work", w.read(w.dir, "h.txt")+w.read(w.dir, "rest.txt"), "hr")
}

// The run goes away while agents of a former life have left work.
func TestRunRemoveKeepsWorkOfAgents(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 3)
	w.write(a.Dir, "precious", "p")
	again := w.relive(run)
	if _, err := again.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "precious", w.git("show", "bide-item/r1/one/3:precious"), "p")
	equal(t, "branches", w.branches(), []string{"bide-item/r1/one/3", "main"})
}

func TestPrepare(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	made := 0
	run.Prepare(func(_ context.Context, dir string) error {
		made++
		w.write(dir, "cache/deps.log", "deps")
		return nil
	})
	for _, item := range []string{"one", "two"} {
		a := w.agent(run, item, 1)
		equal(t, item, w.read(a.Dir, "cache/deps.log"), "deps")
		w.write(a.Dir, "own.log", "x")
		if k := w.remove(a); !slices.Equal(k.Ignored, []string{"own.log"}) || k.Branch != "" {
			t.Errorf("%+v", k)
		}
	}
	equal(t, "prepared", made, 1)
}

// What the preparation left in a worktree stays in the lives that follow: for the agent that
// continues there, and for those that take the worktree after it. A worktree that no life
// has prepared to its end is not used.
func TestPrepareOutlivesTheProcess(t *testing.T) {
	for _, c := range []struct {
		name     string
		prepared bool // an earlier life prepared the worktree to its end
		made     int  // preparations of the last life
	}{{"prepared", true, 0}, {"cut short", false, 1}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			run, made := w.run(), 0
			prepare := func(run *Run) {
				run.Prepare(func(_ context.Context, dir string) error {
					made++
					w.write(dir, "cache/deps.log", "deps")
					return nil
				})
			}
			if c.prepared {
				prepare(run)
			}
			a := w.agent(run, "one", 1)
			w.write(a.Dir, "own.log", "x")
			w.write(a.Dir, "work", "w")
			again := w.relive(run)
			prepare(again)
			made = 0
			if c.prepared {
				b, err := again.Continue(t.Context(), "one", 1)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "continued", w.read(b.Dir, "cache/deps.log"), "deps")
			}
			for attempt := range 2 {
				b := w.agent(again, "one", attempt+2)
				equal(t, "deps", w.read(b.Dir, "cache/deps.log"), "deps")
				equal(t, "ignored", w.gitIn(b.Dir, "status", "--porcelain", "--ignored"), "!! cache/")
				w.write(b.Dir, "own.log", "x")
			}
			equal(t, "prepared", made, c.made)
		})
	}
}

// TestLeftAgentGoesOn: what an agent left is continued by the next life. A commit
// that it made after the mark of its last recorded step is taken back, and nothing of what that changed.
func TestLeftAgentGoesOn(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 1)
	work := func(name string) {
		w.write(a.Dir, name, name)
		w.commitAll(a.Dir, name)
	}
	work("first")
	if err := a.Mark(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	work("second")
	if err := a.Mark(t.Context(), "s2"); err != nil { // and its end is not recorded
		t.Fatal(err)
	}
	w.write(w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir"), "index.lock", "") // git was killed
	if err := a.Leave(); err != nil {
		t.Fatal(err)
	}
	again, err := w.repo.OpenRun(t.Context(), RunOptions{ID: run.ID, Root: filepath.Dir(filepath.Dir(a.Dir))})
	if err != nil {
		t.Fatal(err)
	}
	if a, err = again.Continue(t.Context(), "one", 1); err != nil || a == nil {
		t.Fatal(a, err)
	}
	w.write(a.Dir, "third", "")
	w.gitIn(a.Dir, "add", "third") // git continues
	w.gitIn(a.Dir, "rm", "-qf", "third")
	if err := a.Rewind(t.Context(), func(s string) bool { return s == "s3" }, false); err != nil {
		t.Fatal(err)
	}
	equal(t, "without a mark of the step", w.gitIn(a.Dir, "status", "--porcelain"), "")
	if err := a.Rewind(t.Context(), func(s string) bool { return s == "s1" }, false); err != nil {
		t.Fatal(err)
	}
	equal(t, "without the commit", w.gitIn(a.Dir, "log", "-1", "--format=%s"), "first")
	equal(t, "with its work", w.gitIn(a.Dir, "status", "--porcelain"), "A  second")
	w.remove(a)
	next := w.agent(again, "one", 2)
	if err := next.Rewind(t.Context(), func(s string) bool { return s == "s1" }, false); err != nil {
		t.Fatal(err)
	}
	equal(t, "a mark is of one attempt", w.gitIn(next.Dir, "status", "--porcelain"), "")
	w.remove(next)
}

// A place that git has on record, from an add that could not be taken back, and where
// nothing is, serves for the next worktree.
func TestPoolGrowsWhereNothingIs(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	first := w.agent(run, "one", 1)
	place := filepath.Join(filepath.Dir(first.Dir), "2")
	w.git("worktree", "add", "-q", "--detach", place)
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	second := w.agent(run, "two", 1)
	equal(t, "place", second.Dir, place)
	equal(t, "files", w.files(place), []string{".gitignore", "a.txt", "sub", "sub/b.txt"})
	w.remove(first)
	w.remove(second)
}

// TestTidyingUpIsRefused: a step that removes its own worktree with git does not get to it,
// so that what it has committed and what it has not are merged.
func TestTidyingUpIsRefused(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "made", "x\n")
	w.commitAll(a.Dir, "made")
	w.write(a.Dir, "left", "x\n")
	cmd := exec.Command("git", "worktree", "remove", "--force", a.Dir)
	cmd.Dir = a.Dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a run of bide works here, and removes it when it ends") {
		t.Errorf("%s %v", out, err)
	}
	w.git("worktree", "prune", "--expire=now")
	w.merge(run, a, MergeOptions{Left: "left"})
	w.remove(a)
	equal(t, "changed", w.git("diff", "--name-only", "main", run.Branch), "left\nmade")
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "worktrees", strings.Count(w.git("worktree", "list", "--porcelain"), "worktree "), 1)
}
