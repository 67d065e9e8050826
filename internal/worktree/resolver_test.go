package worktree

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWorkOfAResolver: what a resolver does beside the merge in its worktree, which is
// removed, is merged, or kept and told.
func TestWorkOfAResolver(t *testing.T) {
	settle := func(w *world, dir string) {
		w.write(dir, "a.txt", "both\n")
		w.gitIn(dir, "add", "a.txt")
		w.gitIn(dir, "commit", "-q", "--no-edit")
	}
	for name, c := range map[string]struct {
		do     func(w *world, dir string) // after the conflict is resolved
		left   string                     // MergeOptions.Left
		main   string                     // a file that the branch has then, "PATH CONTENT"
		aside  string                     // a path below what is kept, with content "2\n"
		failed string
	}{
		"a commit in a submodule": {left: "left", aside: "lib/l", do: func(w *world, dir string) {
			w.fetchModule(dir)
			w.write(filepath.Join(dir, "lib"), "l", "2\n")
			w.commitAll(filepath.Join(dir, "lib"), "two")
			w.commitAll(dir, "bump")
		}},
		"a commit in a submodule, not named": {left: "left", aside: "lib/l", do: func(w *world, dir string) {
			w.fetchModule(dir)
			w.write(filepath.Join(dir, "lib"), "l", "2\n")
			w.commitAll(filepath.Join(dir, "lib"), "two")
		}},
		"a repository": {left: "left", aside: "own/l", do: func(w *world, dir string) {
			w.git("init", "-q", filepath.Join(dir, "own"))
			w.write(filepath.Join(dir, "own"), "l", "2\n")
		}},
		"a file":             {left: "left", main: "sub/b.txt after\n", do: func(w *world, dir string) { w.write(dir, "sub/b.txt", "after\n") }},
		"a new file":         {left: "left", main: "new after\n", do: func(w *world, dir string) { w.write(dir, "new", "after\n") }},
		"a file, not merged": {failed: "sub/b.txt", do: func(w *world, dir string) { w.write(dir, "sub/b.txt", "after\n") }},
		"nothing":            {do: func(*world, string) {}},
		"a submodule that is only fetched": {left: "left", do: func(w *world, dir string) {
			w.fetchModule(dir)
		}},
	} {
		for _, queued := range []bool{false, true} {
			if queued && name != "a commit in a submodule" && name != "a file" {
				continue
			}
			t.Run(map[bool]string{false: "", true: "queued "}[queued]+name, func(t *testing.T) {
				w := newWorld(t)
				withModule(w)
				run := w.run()
				one, two := w.agent(run, "one", 1), w.agent(run, "two", 1)
				for _, a := range []*Agent{one, two} {
					w.write(a.Dir, "a.txt", "by "+a.Item+"\n")
					w.commitAll(a.Dir, a.Item)
				}
				w.merge(run, one, MergeOptions{})
				o := MergeOptions{Left: c.left, Resolve: func(ctx context.Context, i ConflictInfo) error {
					settle(w, i.Dir)
					c.do(w, i.Dir)
					return nil
				}}
				var aside []string
				var err error
				if queued {
					var tip, at string
					if tip, err = run.Tip(t.Context()); err != nil {
						t.Fatal(err)
					}
					if at, err = w.repo.headID(t.Context(), two.Dir); err != nil {
						t.Fatal(err)
					}
					var m Merged
					if m, err = run.MergeUpon(t.Context(), tip, at, two.Branch, o); err == nil {
						aside, err = m.Aside, run.Land(t.Context(), tip, m.Commit)
					}
				} else {
					var res MergeResult
					res, err = run.Merge(t.Context(), two, o)
					aside = res.Aside
				}
				if c.failed != "" {
					if err == nil || !strings.Contains(err.Error(), c.failed) {
						t.Fatalf("the error is %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "a.txt", w.git("show", run.Branch+":a.txt"), "both")
				if path, text, ok := strings.Cut(c.main, " "); ok {
					equal(t, path, w.git("show", run.Branch+":"+path)+"\n", text)
				}
				if c.aside == "" {
					if len(aside) > 0 || run.SetAside() != "" {
						t.Errorf("kept: %q", aside)
					}
					return
				}
				top, path, _ := strings.Cut(c.aside, "/")
				i := slices.IndexFunc(aside, func(dir string) bool { return filepath.Base(dir) == top })
				if len(aside) != 1 || i < 0 || !strings.HasPrefix(aside[i], run.SetAside()) {
					t.Fatalf("kept: %q", aside)
				}
				equal(t, path, w.read(aside[i], path), "2\n")
				if top == "lib" { // what the branch names can be fetched from there
					w.gitIn(aside[i], "rev-parse", "--verify", w.git("rev-parse", run.Branch+":lib")+"^{commit}")
				}
			})
		}
	}
}
