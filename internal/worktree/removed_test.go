package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRemovedByAStep: a step removes the worktree in which it works, by force, after it has
// committed. A branch has the commits, the item fails, and nobody else's work is touched.
func TestRemovedByAStep(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *world, dir string)
		after  func(w *world, run *Run) // of the removal
		want   map[string]string        // "BRANCH:PATH"
	}{
		"a commit": {want: map[string]string{"0/1:a.txt": "by one"}},
		"what it went away from": {before: func(w *world, dir string) {
			w.gitIn(dir, "checkout", "-q", "--detach", "HEAD^")
			w.write(dir, "new", "new\n")
			w.commitAll(dir, "beside")
		}, want: map[string]string{"0/1:new": "new", "0/1.head:a.txt": "by one"}},
		"its directory alone": {after: func(*world, *Run) {}, want: map[string]string{"0/1:a.txt": "by one"}},
		"another worktree has its name in git": {after: func(w *world, run *Run) {
			other := filepath.Join(filepath.Dir(w.dir), "other", "1")
			w.git("worktree", "add", "-q", "-b", "theirs", other)
			w.write(other, "theirs", "theirs\n")
			w.commitAll(other, "theirs")
			w.gitIn(other, "checkout", "-q", "--detach")
		}, want: map[string]string{"0/1:a.txt": "by one"}},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(map[bool]string{false: "", true: "failed, "}[fails]+name, func(t *testing.T) {
				w := newWorld(t)
				run := w.run()
				a := w.agent(run, "0", 1)
				w.write(a.Dir, "a.txt", "by one\n")
				w.commitAll(a.Dir, "one")
				if c.before != nil {
					c.before(w, a.Dir)
				}
				if name == "its directory alone" {
					w.must(os.RemoveAll(a.Dir))
				} else {
					w.git("worktree", "remove", "-f", "-f", a.Dir)
				}
				if c.after != nil {
					c.after(w, run)
				}
				// Meanwhile the next item begins, and is in the middle of its work.
				b := w.agent(run, "1", 1)
				w.write(b.Dir, "b.txt", "by two\n")
				w.commitAll(b.Dir, "two")
				w.write(b.Dir, "b2.txt", "by two\n")

				var k Kept
				var err error
				if fails {
					k, err = a.Keep(t.Context())
				} else if _, k, err = a.Finish(t.Context(), MergeOptions{Left: "left"}); !errors.As(err, new(*GoneError)) {
					t.Fatal(err)
				} else {
					err = nil
				}
				if err != nil || k.Branch != itemBranch("r1", "0", 1) {
					t.Fatalf("kept %+v, %v", k, err)
				}
				w.remove(a)
				for name, want := range c.want {
					equal(t, name, w.git("show", itemBranches+"r1/"+name), want)
				}
				equal(t, "what is merged", w.git("log", "--format=%s", "main.."+run.Branch), "")

				if _, k, err = b.Finish(t.Context(), MergeOptions{Left: "left"}); err != nil || k.Branch != "" {
					t.Fatal(k, err)
				}
				w.remove(b)
				equal(t, "b.txt", w.git("show", run.Branch+":b.txt"), "by two")
				equal(t, "b2.txt", w.git("show", run.Branch+":b2.txt"), "by two")
				if _, err := run.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
				if names, _ := filepath.Glob(filepath.Join(w.dir, ".git", "logs", "refs", "bide", "*", poolDir, "*")); len(names) > 0 {
					t.Errorf("logs are left: %q", names)
				}
				if strings.HasPrefix(name, "another") {
					equal(t, "the other worktree", w.read(filepath.Join(filepath.Dir(w.dir), "other", "1"), "theirs"), "theirs\n")
					equal(t, "its commit", w.gitIn(filepath.Join(filepath.Dir(w.dir), "other", "1"), "log", "-1", "--format=%s"), "theirs")
				}
			})
		}
	}
}

// TestRemovedBetweenItems: a step removes a worktree that waits for an item.
func TestRemovedBetweenItems(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "0", 1)
	dir := a.Dir
	w.remove(a)
	w.git("worktree", "remove", "-f", "-f", dir)
	b := w.agent(run, "1", 1)
	w.write(b.Dir, "b.txt", "by two\n")
	if _, k, err := b.Finish(t.Context(), MergeOptions{Left: "left"}); err != nil || k.Branch != "" {
		t.Fatal(k, err)
	}
	w.remove(b)
	equal(t, "b.txt", w.git("show", run.Branch+":b.txt"), "by two")
}

// TestLogThatIsALink: git reads and writes the log of HEAD where it is kept, after a resume too.
func TestLogThatIsALink(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "0", 1)
	w.write(a.Dir, "a.txt", "by one\n")
	w.commitAll(a.Dir, "one")
	if got := w.gitIn(a.Dir, "reflog", "--format=%gs"); !strings.HasPrefix(got, "commit: one") {
		t.Errorf("the log says %q", got)
	}
	w.gitIn(a.Dir, "reflog", "expire", "--expire=now", "--all")
	w.gitIn(a.Dir, "gc", "-q", "--prune=now")
	w.must(a.Leave())
	next, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	again, err := next.Continue(t.Context(), "0", 2)
	if err != nil || again == nil {
		t.Fatal(again, err)
	}
	w.write(again.Dir, "more", "more\n")
	w.commitAll(again.Dir, "more")
	w.git("worktree", "remove", "-f", "-f", again.Dir)
	k, err := again.Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "more", w.git("show", k.Branch+":more"), "more")
	equal(t, "a.txt", w.git("show", k.Branch+":a.txt"), "by one")
}

// TestCollectedWhileAnAgentWorks: a person or a step runs git gc, which deletes what nothing
// names. What an agent left by a checkout is named by the log of its HEAD alone.
func TestCollectedWhileAnAgentWorks(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	stamp := run.repo.StashStamp()
	a := w.agent(run, "0", 1)
	w.write(a.Dir, "left.txt", "left\n")
	w.commitAll(a.Dir, "left")
	w.gitIn(a.Dir, "checkout", "-q", "HEAD~1")
	w.git("gc", "-q", "--prune=now")
	k, err := a.Keep(t.Context())
	if err != nil || k.Branch == "" {
		t.Fatalf("kept %+v, %v", k, err)
	}
	equal(t, "left.txt", w.git("show", k.Branch+":left.txt"), "left")
	w.remove(a)
	w.must(run.Drain(t.Context()))
	if run.repo.StashStamp() != stamp {
		t.Error("that looks like a use of the stash")
	}
	if said := w.git("for-each-ref", privateRef("r1", poolDir)); said != "" {
		t.Errorf("names are left: %s", said)
	}
	if said := w.git("reflog", "expire", "--all"); said != "" {
		t.Errorf("git says %q", said)
	}
}

// TestBranchThatWasDeletedAfterTheEnd: the branch comes back with what the end of the run
// committed.
func TestBranchThatWasDeletedAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	w.write(run.Dir, "left.txt", "left\n")
	if _, err := run.CommitLeft(t.Context(), "left"); err != nil {
		t.Fatal(err)
	}
	w.must(run.repo.Sync(t.Context()))
	w.git("worktree", "remove", "--force", run.Dir)
	w.git("branch", "-D", run.Branch)
	next, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "left.txt", w.git("show", next.Branch+":left.txt"), "left")
	equal(t, "a.txt", w.git("show", next.Branch+":a.txt"), "by the run")
}
