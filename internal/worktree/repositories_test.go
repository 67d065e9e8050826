package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Steps make repositories of their own in a worktree: no commit has their files, so that
// they are told as uncommitted, and kept when the worktree goes.
func TestRepositoriesInAWorktree(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(w *world, dir string)
		commit bool // by the step, which names the repository
	}{
		"without a commit": {make: func(w *world, dir string) {}},
		"with a commit":    {make: func(w *world, dir string) { w.commitAll(dir, "inner") }},
		"named by a commit": {make: func(w *world, dir string) {
			w.commitAll(dir, "inner")
			w.commitAll(filepath.Dir(dir), "names it")
		}, commit: true},
	} {
		for _, of := range []string{"item", "run"} {
			called := "inner repo"
			if c.commit {
				called = "inner.part" // is no submodule on its way
			}
			t.Run(of+" "+name, func(t *testing.T) {
				w := newWorld(t)
				run := w.run()
				dir := run.Dir
				var a *Agent
				if of == "item" {
					a = w.agent(run, "one", 1)
					dir = a.Dir
				}
				inner := filepath.Join(dir, called)
				if err := os.Mkdir(inner, 0o755); err != nil {
					t.Fatal(err)
				}
				w.gitIn(inner, "init", "--quiet")
				w.write(inner, "f.txt", "f\n")
				c.make(w, inner)
				w.write(dir, "own.txt", "own\n")
				var left []string
				var kept Kept
				if of == "item" {
					res := w.merge(run, a, MergeOptions{Left: "what was left"})
					left, kept = res.Uncommitted, w.remove(a)
				} else {
					var err error
					if left, err = run.CommitLeft(t.Context(), "what was left"); err != nil {
						t.Fatal(err)
					}
				}
				end, err := run.Remove(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if of == "run" {
					kept = end
				}
				if !slices.Equal(left, []string{called + "/"}) {
					t.Errorf("uncommitted: %q", left)
				}
				if len(kept.Repositories) != 1 || !strings.HasPrefix(kept.Repositories[0], run.SetAside()) {
					t.Fatalf("kept: %q", kept.Repositories)
				}
				if got := w.read(kept.Repositories[0], "f.txt"); got != "f\n" {
					t.Errorf("f.txt is %q", got)
				}
				if got := w.git("show", run.Branch+":own.txt"); got != "own" {
					t.Errorf("own.txt is %q on the branch", got)
				}
			})
		}
	}
}

// A repository that git ignores goes with all that is ignored, and a submodule is no work
// that is lost.
func TestRepositoriesThatAreNoWork(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, ".gitignore", "build/\n")
	w.commitAll(w.dir, "ignore")
	run := w.run()
	a := w.agent(run, "one", 1)
	inner := filepath.Join(a.Dir, "build", "dep")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	w.gitIn(inner, "init", "--quiet")
	w.write(inner, "f.txt", "f\n")
	w.gitIn(a.Dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", w.dir, "mod")
	w.gitIn(a.Dir, "commit", "--quiet", "-m", "a submodule")
	res := w.merge(run, a, MergeOptions{Left: "what was left"})
	equal(t, "uncommitted", len(res.Uncommitted), 0)
	kept := w.remove(a)
	if len(kept.Repositories) != 0 || run.SetAside() != "" {
		t.Errorf("kept: %q", kept.Repositories)
	}
	if !slices.Contains(kept.Ignored, "build/") {
		t.Errorf("ignored: %q", kept.Ignored)
	}
}
