package worktree

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A git is killed and leaves a lock, in the life that continues: what bide and the steps of
// its runs alone can have made is out of the way of the merge that meets it.
func TestLocksOfAKilledGit(t *testing.T) {
	for name, place := range map[string]func(w *world, run *Run, a *Agent) string{
		"tree":       func(w *world, run *Run, a *Agent) string { return filepath.Join(w.dir, ".git/refs/bide/r1/tree.lock") },
		"run branch": func(w *world, run *Run, a *Agent) string { return filepath.Join(w.dir, ".git/refs/heads/bide/r1.lock") },
		"run index": func(w *world, run *Run, a *Agent) string {
			return w.gitIn(run.Dir, "rev-parse", "--absolute-git-dir") + "/index.lock"
		},
		"run HEAD": func(w *world, run *Run, a *Agent) string {
			return w.gitIn(run.Dir, "rev-parse", "--absolute-git-dir") + "/HEAD.lock"
		},
		"agent index": func(w *world, run *Run, a *Agent) string {
			return w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir") + "/index.lock"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			a := w.agent(run, "one", 1)
			w.write(a.Dir, "new.txt", "new\n")
			run.repo.opened = time.Now().Add(-time.Hour)
			lock := place(w, run, a)
			leaveLock(t, lock)
			if _, err := run.Merge(t.Context(), a, MergeOptions{Left: "what was left"}); err != nil {
				t.Fatal(err)
			}
			equal(t, "new.txt", w.read(run.Dir, "new.txt"), "new\n")
			equal(t, "on the branch", w.git("show", "bide/r1:new.txt"), "new")
			equal(t, "the lock is there", w.exists(lock), false)
		})
	}
}

// A git is killed and leaves the lock of a name of the run, beside a branch that stays: the
// lock does not stay with it.
func TestLocksAtTheEnd(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "new.txt", "new\n")
	if k := w.remove(a); k.Branch == "" {
		t.Fatalf("kept: %+v", k)
	}
	run.repo.opened = time.Now().Add(-time.Hour)
	lock := filepath.Join(w.dir, ".git/refs/bide/r1/pool/2/HEAD.lock")
	leaveLock(t, lock)
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "the lock is there", w.exists(lock), false)
	equal(t, "the branch is there", w.git("for-each-ref", "--format=%(refname:short)", "refs/heads/bide-item") != "", true)
}

// A git was killed while it deleted the last names of a run, with all processes, and the next life
// comes an hour later: when the run began says that the lock is not the user's.
func TestLocksOfARunThatIsGone(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	o := RunOptions{ID: run.ID, Root: run.root, Began: time.Now().Add(-2 * time.Hour)}
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(w.dir, ".git/packed-refs.lock")
	for what, began := range map[string]time.Time{"after the lock": time.Now(), "before it": o.Began} {
		leaveLock(t, lock)
		hour := time.Now().Add(-time.Hour)
		if err := os.Chtimes(lock, hour, hour); err != nil {
			t.Fatal(err)
		}
		o.Began = began
		if _, err := w.repo.FindRun(t.Context(), o); !errors.As(err, new(*NoBranchError)) {
			t.Fatalf("began %s: %v", what, err)
		}
		equal(t, "began "+what+": the lock is there", w.exists(lock), what != "before it")
	}
	equal(t, "the directory of the run is there", w.exists(o.Root), false)
}

// A lock that somebody may hold is left alone: the user's own, one that was there before,
// and one beside which a git lives that began before it.
func TestLocksOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		lock  string
		began time.Duration
		git   bool
	}{
		"packed refs":      {"packed-refs.lock", time.Hour, false},
		"another branch":   {"refs/heads/other.lock", time.Hour, false},
		"before this run":  {"refs/bide/r1/tree.lock", time.Second, false},
		"a git that lives": {"refs/bide/r1/tree.lock", time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			run.repo.opened = time.Now().Add(-c.began)
			if c.git {
				cmd := exec.Command("git", "cat-file", "--batch")
				cmd.Dir = w.dir
				in, err := cmd.StdinPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = in.Close(); _ = cmd.Wait() }()
			}
			lock := filepath.Join(w.dir, ".git", c.lock)
			leaveLock(t, lock)
			if c.git { // which began before
				now := time.Now()
				if err := os.Chtimes(lock, now, now); err != nil {
					t.Fatal(err)
				}
			}
			ref := strings.TrimSuffix(c.lock, ".lock")
			var err error
			if ref == "packed-refs" {
				_, err = run.repo.git(t.Context(), w.dir, "pack-refs", "--all")
			} else {
				_, err = run.repo.git(t.Context(), w.dir, "update-ref", ref, "HEAD")
			}
			if err == nil || !strings.Contains(err.Error(), "File exists") {
				t.Error(err)
			}
			equal(t, "the lock is there", w.exists(lock), true)
		})
	}
}

// leaveLock makes a lock file as it is some seconds after its git was killed.
func leaveLock(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-2 * time.Second)
	if err := os.Chtimes(name, then, then); err != nil {
		t.Fatal(err)
	}
}
