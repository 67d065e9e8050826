package worktree

import (
	"os"
	"path/filepath"
	"slices"
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

// TestSettingsOfAStep: an item changes the configuration that all worktrees share. What the
// next item does, and the merge into the user's checkout, is as if it had not; and the change
// is told, once.
func TestSettingsOfAStep(t *testing.T) {
	outside := t.TempDir()
	all, attributes := filepath.Join(outside, "all"), filepath.Join(outside, "attributes")
	for name, text := range map[string]string{all: "*\n", attributes: "* filter=loud\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for key, settings := range map[string][][]string{
		"core.worktree":             {{"core.worktree", outside}},
		"core.bare":                 {{"core.bare", "true"}},
		"core.excludesfile":         {{"core.excludesFile", all}},
		"core.hookspath":            {{"core.hooksPath", outside}},
		"core.filemode":             {{"core.fileMode", "false"}},
		"core.symlinks":             {{"core.symlinks", "false"}},
		"core.autocrlf":             {{"core.autocrlf", "true"}},
		"core.attributesfile":       {{"filter.loud.clean", "tr a-z A-Z"}, {"core.attributesFile", attributes}},
		"status.showuntrackedfiles": {{"status.showUntrackedFiles", "no"}},
		"core.fsmonitor":            {{"core.fsmonitor", "true"}},
		"core.excludesfile include.path": {{"include.path", func() string {
			name := filepath.Join(outside, "included")
			if err := os.WriteFile(name, []byte("[core]\n\texcludesFile = "+all+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return name
		}()}},
		"": {{"branch.x.remote", "origin"}},
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			a := w.agent(run, "one", 1)
			for _, args := range settings {
				w.gitIn(a.Dir, append([]string{"config"}, args...)...)
			}
			w.write(a.Dir, "by-one", "one\n")
			w.must(func() error { _, _, err := a.Finish(t.Context(), MergeOptions{Left: "left"}); return err }())
			w.remove(a)
			changed, err := w.repo.SharedChanges(t.Context())
			w.must(err)
			changed = slices.DeleteFunc(changed, func(k string) bool { return k == "filter.loud.clean" })
			equal(t, "told", strings.Join(changed, " "), key)
			if again, err := w.repo.SharedChanges(t.Context()); err != nil || len(again) > 0 {
				t.Error("told again:", again, err)
			}

			b := w.agent(run, "two", 1)
			w.write(b.Dir, "a.txt", "by two\n")
			w.write(b.Dir, "new/x", "x\r\n")
			w.must(os.Chmod(filepath.Join(b.Dir, "sub/b.txt"), 0o755))
			w.must(os.Symlink("a.txt", filepath.Join(b.Dir, "link")))
			w.must(func() error { _, _, err := b.Finish(t.Context(), MergeOptions{Left: "left"}); return err }())
			w.remove(b)
			if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
				t.Fatal(err)
			}
			if k, err := run.Remove(t.Context()); err != nil || k.Branch != "" {
				t.Error(k, err)
			}
			for _, dir := range []string{"a.txt by two\n", "by-one one\n", "new/x x\r\n", "link by two\n"} {
				path, text, _ := strings.Cut(dir, " ")
				equal(t, path, w.read(w.dir, path), text)
			}
			if to, err := os.Readlink(filepath.Join(w.dir, "link")); to != "a.txt" {
				t.Error(to, err)
			}
			for _, args := range settings {
				w.git("config", "--file", filepath.Join(w.dir, ".git", "config"), "--unset", args[0])
			}
			equal(t, "the mode", w.git("ls-tree", "HEAD", "sub/b.txt")[:6], "100755")
			equal(t, "uncommitted", w.git("status", "--porcelain"), "")
		})
	}
	t.Cleanup(func() {
		if names, err := filepath.Glob(filepath.Join(outside, "*")); err != nil || len(names) != 3 {
			t.Errorf("%q, %v", names, err)
		}
	})
}
