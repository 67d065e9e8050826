package worktree

import (
	"strings"
	"testing"
)

// TestSettings: whatever a repository is set to, the work of an agent comes to the user's
// branch as it was written, also what was left uncommitted and is new.
func TestSettings(t *testing.T) {
	for name, settings := range map[string][][]string{
		"sparse":           {{"sparse-checkout", "set", "sub"}},
		"sparse, no cone":  {{"sparse-checkout", "set", "--no-cone", "/*", "!/new"}},
		"sparse index":     {{"sparse-checkout", "set", "--sparse-index", "sub"}},
		"safecrlf":         {{"config", "core.safecrlf", "true"}, {"config", "core.autocrlf", "input"}},
		"untracked":        {{"config", "status.showUntrackedFiles", "no"}},
		"colour":           {{"config", "color.ui", "always"}, {"config", "log.showSignature", "true"}, {"config", "format.pretty", "fuller"}},
		"fast-forward":     {{"config", "merge.ff", "only"}, {"config", "merge.renames", "false"}, {"config", "diff.noprefix", "true"}, {"config", "diff.renames", "copies"}},
		"index":            {{"config", "core.splitIndex", "true"}, {"config", "core.untrackedCache", "true"}, {"config", "feature.manyFiles", "true"}},
		"worktree config":  {{"config", "extensions.worktreeConfig", "true"}, {"config", "core.logAllRefUpdates", "false"}},
		"skipped":          {{"update-index", "--skip-worktree", "sub/b.txt"}},
		"a signed commit":  {{"config", "commit.gpgSign", "true"}, {"config", "gpg.program", "false"}},
		"checked for ends": {{"config", "core.whitespace", "cr-at-eol,blank-at-eof"}, {"config", "apply.whitespace", "error-all"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, args := range settings {
				w.git(args...)
			}
			w.repo = w.open(w.dir)
			run := w.run()
			a := w.agent(run, "one", 1)
			wrote := map[string]string{"new/deep/x": "x\n", "top": "top  \n\n\n", "sub/é b": "b\n", "ends": "one\ntwo\n"}
			if name == "safecrlf" {
				w.write(a.Dir, "mixed", "one\r\ntwo\n")
			}
			for path, text := range wrote {
				w.write(a.Dir, path, text)
			}
			if _, kept, err := a.Finish(t.Context(), MergeOptions{Left: "left"}); err != nil || kept.Branch != "" {
				t.Fatal(kept, err)
			}
			if err := run.Follow(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.write(run.Dir, "own/file", "own\n")
			wrote["own/file"] = "own\n"
			if _, err := run.CommitLeft(t.Context(), "own"); err != nil {
				t.Fatal(err)
			}
			if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
				t.Fatal(err)
			}
			for path, text := range wrote {
				if got := w.git("cat-file", "blob", "main:"+path); got != strings.TrimRight(text, "\n") {
					t.Errorf("main has %q in %s, want %q", got, path, text)
				}
			}
			if name == "safecrlf" && w.git("cat-file", "blob", "main:mixed") != "one\ntwo" {
				t.Error("the file of mixed ends is not on main")
			}
			if got := w.git("status", "--porcelain"); got != "" {
				t.Errorf("the checkout has %q", got)
			}
			if k, err := run.Remove(t.Context()); err != nil || k.Branch != "" {
				t.Error(k, err)
			}
		})
	}
}
