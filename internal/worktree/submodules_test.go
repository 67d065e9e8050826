package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withModule is a world whose repository has the submodule lib, of a bare repository beside
// it, and a run of it. It gives that repository.
func withModule(w *world) (upstream string) {
	w.t.Helper()
	upstream = filepath.Join(filepath.Dir(w.dir), "lib.git")
	work := filepath.Join(filepath.Dir(w.dir), "lib")
	w.git("init", "-q", "--bare", "-b", "main", upstream)
	w.git("init", "-q", "-b", "main", work)
	w.write(work, "l", "1\n")
	w.commitAll(work, "one")
	w.gitIn(work, "push", "-q", upstream, "main")
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", upstream, "lib")
	w.commitAll(w.dir, "a submodule")
	return upstream
}

// fetchModule is what `setup: git submodule update --init` does.
func (w *world) fetchModule(dir string) {
	w.t.Helper()
	w.gitIn(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
}

// TestWorkInASubmodule: what a step did in a submodule and nobody else has is told, and kept
// as a repository of its own; what it pushed is not.
func TestWorkInASubmodule(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(w *world, dir string)
		clone bool // to its place, by the step
		holds string
		kept  bool
	}{
		"a commit": {do: func(w *world, dir string) { w.write(dir, "l", "2\n"); w.commitAll(dir, "two") }, kept: true, holds: "2\n"},
		"a commit, pushed": {do: func(w *world, dir string) {
			w.write(dir, "l", "2\n")
			w.commitAll(dir, "two")
			w.gitIn(dir, "push", "-q", "origin", "HEAD:main")
		}},
		"a file": {do: func(w *world, dir string) { w.write(dir, "l", "2\n") }, kept: true, holds: "2\n"},
		"on a branch": {do: func(w *world, dir string) {
			w.gitIn(dir, "checkout", "-q", "-b", "b")
			w.write(dir, "l", "2\n")
			w.commitAll(dir, "two")
			w.gitIn(dir, "checkout", "-q", "main")
		}, kept: true, holds: "1\n"},
		"stashed": {do: func(w *world, dir string) { w.write(dir, "l", "2\n"); w.gitIn(dir, "stash", "-q") }, kept: true, holds: "1\n"},
		"named, and left": {do: func(w *world, dir string) {
			w.write(dir, "l", "2\n")
			w.commitAll(dir, "two")
			w.commitAll(filepath.Dir(dir), "bump")
			w.gitIn(dir, "checkout", "-q", "-f", "origin/main")
		}, kept: true, holds: "1\n"},
		"nothing":           {do: func(w *world, dir string) {}},
		"a clone":           {clone: true, do: func(w *world, dir string) {}},
		"a commit, a clone": {clone: true, do: func(w *world, dir string) { w.write(dir, "l", "2\n"); w.commitAll(dir, "two") }, kept: true, holds: "2\n"},
	} {
		for _, of := range []string{"item", "item that failed", "run"} {
			if of != "item" && name != "a commit" && name != "a file" {
				continue
			}
			t.Run(of+" "+name, func(t *testing.T) {
				w := newWorld(t)
				upstream := withModule(w)
				run := w.run()
				dir := run.Dir
				var a *Agent
				if of != "run" {
					a = w.agent(run, "one", 1)
					dir = a.Dir
				}
				if c.clone {
					w.git("clone", "-q", upstream, filepath.Join(dir, "lib"))
				} else {
					w.fetchModule(dir)
				}
				c.do(w, filepath.Join(dir, "lib"))
				var left []string
				var kept Kept
				var err error
				switch of {
				case "item":
					res := w.merge(run, a, MergeOptions{Left: "what was left"})
					left, kept = res.Uncommitted, w.remove(a)
				case "run":
					left, err = run.CommitLeft(t.Context(), "what was left")
				default:
					if _, err = a.Keep(t.Context()); err == nil {
						kept, err = a.Release(t.Context())
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				end, err := run.Remove(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if of == "run" {
					kept = end
				}
				if of != "item that failed" && slices.Contains(left, "lib/") != c.kept {
					t.Errorf("told as uncommitted: %q", left)
				}
				if !c.kept {
					if len(kept.Submodules) > 0 || run.SetAside() != "" {
						t.Errorf("kept: %q", kept.Submodules)
					}
					return
				}
				if len(kept.Submodules) != 1 || !strings.HasPrefix(kept.Submodules[0], run.SetAside()) {
					t.Fatalf("kept: %+v", kept)
				}
				aside := kept.Submodules[0]
				equal(t, "l", w.read(aside, "l"), c.holds)
				equal(t, "where it is", w.gitIn(aside, "rev-parse", "--show-toplevel"), aside)
				w.gitIn(aside, "fsck", "--no-dangling")
				if named, err := w.repo.commit(t.Context(), w.dir, run.Branch); err == nil && named != "" {
					w.gitIn(aside, "rev-parse", "--verify", w.git("rev-parse", run.Branch+":lib")+"^{commit}")
				}
			})
		}
	}
}

// TestSubmoduleInASubmodule: the inner one is kept with the outer.
func TestSubmoduleInASubmodule(t *testing.T) {
	w := newWorld(t)
	upstream := withModule(w)
	inner := filepath.Join(filepath.Dir(w.dir), "inner")
	w.git("init", "-q", "-b", "main", inner)
	w.write(inner, "i", "1\n")
	w.commitAll(inner, "one")
	outer := filepath.Join(w.dir, "lib")
	w.gitIn(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "in/side")
	w.commitAll(outer, "an inner one")
	w.gitIn(outer, "push", "-q", upstream, "HEAD:main")
	w.commitAll(w.dir, "bump")
	run := w.run()
	a := w.agent(run, "one", 1)
	w.gitIn(a.Dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	at := filepath.Join(a.Dir, "lib", "in", "side")
	w.write(at, "i", "2\n")
	w.commitAll(at, "two")
	res := w.merge(run, a, MergeOptions{Left: "what was left"})
	equal(t, "uncommitted", res.Uncommitted, []string{"lib/"})
	kept := w.remove(a)
	if len(kept.Submodules) != 1 {
		t.Fatalf("%+v", kept)
	}
	at = filepath.Join(kept.Submodules[0], "in", "side")
	equal(t, "the commit", w.gitIn(at, "log", "-1", "--format=%s"), "two")
	equal(t, "where it is", w.gitIn(at, "rev-parse", "--show-toplevel"), at)
	equal(t, "what is uncommitted there", w.gitIn(at, "status", "--porcelain"), "")
}

// TestMergedSubmodule: the submodule of the run's worktree stays at its commit where an item
// has merged another one. That is nobody's work, nor what the next items start from.
func TestMergedSubmodule(t *testing.T) {
	w := newWorld(t)
	withModule(w)
	run := w.run()
	setup := func(dir string) { w.fetchModule(dir) }
	if err := run.PrepareOwn(t.Context(), func(context.Context) error { setup(run.Dir); return nil }); err != nil {
		t.Fatal(err)
	}
	run.Prepare(func(_ context.Context, dir string) error { setup(dir); return nil })
	a := w.agent(run, "one", 1)
	lib := filepath.Join(a.Dir, "lib")
	w.write(lib, "l", "2\n")
	w.commitAll(lib, "two")
	w.gitIn(lib, "push", "-q", "origin", "HEAD:main")
	w.commitAll(a.Dir, "bump")
	to := w.gitIn(lib, "rev-parse", "HEAD")
	res := w.merge(run, a, MergeOptions{Left: "what was left"})
	equal(t, "uncommitted", len(res.Uncommitted), 0)
	equal(t, "kept", len(w.remove(a).Submodules), 0)
	equal(t, "on the branch", w.git("rev-parse", run.Branch+":lib"), to)

	left, err := run.CommitLeft(t.Context(), "what was left")
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	equal(t, "on the branch after the last commit", w.git("rev-parse", run.Branch+":lib"), to)

	// The next ones start with it, whoever had the worktree before.
	for n, make := range []func() (*Agent, error){
		func() (*Agent, error) { return run.NewAgentNow(t.Context(), "two", 1) },
		func() (*Agent, error) { return run.NewAgent(t.Context(), "three", 1) },
		func() (*Agent, error) { return run.NewAgentNow(t.Context(), "four", 1) },
	} {
		b, err := make()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "uncommitted in it", w.gitIn(b.Dir, "status", "--porcelain"), "")
		want := to
		if n == 1 {
			want = w.git("rev-parse", run.Base+":lib")
		}
		equal(t, "the submodule is at", w.gitIn(filepath.Join(b.Dir, "lib"), "rev-parse", "HEAD"), want)
		w.write(b.Dir, b.Item, "x")
		w.merge(run, b, MergeOptions{Left: "what was left"})
		w.remove(b)
		equal(t, "on the branch", w.git("rev-parse", run.Branch+":lib"), to)
	}
	run.pool.mu.Lock()
	free := len(run.pool.free)
	run.pool.mu.Unlock()
	equal(t, "worktrees that the next item takes", free, 1)

	// A step of the run brings it to another commit: that is work.
	lib = filepath.Join(run.Dir, "lib")
	w.gitIn(lib, "fetch", "-q")
	w.write(lib, "l", "3\n")
	w.commitAll(lib, "three")
	w.gitIn(lib, "push", "-q", "origin", "HEAD:refs/heads/side")
	if left, err = run.CommitLeft(t.Context(), "what was left"); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	equal(t, "on the branch after a step's commit", w.git("rev-parse", run.Branch+":lib"), w.gitIn(lib, "rev-parse", "HEAD"))
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(run.Dir); err == nil {
		t.Error("the worktree is left")
	}
}
