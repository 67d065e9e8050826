package engine_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// Whatever the shape of the repository, the branch has at the end what the items made:
// names that no line can hold, a link that becomes a directory and a directory that becomes
// a file, modes, renames by case only, commits of nothing.
func TestShapesOfRepositories(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ name, make string }{
		{"hooks that fail", "for h in pre-commit commit-msg post-checkout pre-merge-commit post-merge reference-transaction; do printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/$h; chmod +x .git/hooks/$h; done"},
		{"sha256", "rm -rf .git; git init -q -b main --object-format=sha256 . && git config user.name T && git config user.email t@x && git add -A && git commit -qm base"},
		{"sparse", "git sparse-checkout set --no-cone '/*' '!/d/sub'"},
		{"a sparse index", "git sparse-checkout set --cone --sparse-index e"},
		{"filters", "git config filter.r.clean 'tr a-z n-za-m'; git config filter.r.smudge 'tr a-z n-za-m'; git config filter.r.required true; printf '* filter=r\\n.gitattributes -filter\\n' >.gitattributes; git add --renormalize . && git add -A && git commit -qm filters"},
		{"settings", "git config status.showUntrackedFiles no; git config diff.noprefix true; git config color.ui always; git config core.splitIndex true; git config feature.manyFiles true; git config merge.renames false; git config core.commentChar b; git config core.ignorecase true"},
		{"a signature without a key", "git config commit.gpgsign true; git config gpg.program false"},
	} {
		if i%3 > 0 && chaos() == 0 {
			continue // BIDE_CHAOS=1 has all of them
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.opt.Yes = true
			if err := sh(b.dir, "mkdir -p d/sub e && echo s >d/sub/g && echo e >e/e && echo f >f5 && echo x >run && ln -s f5 link && git add -A && git commit -qm base && "+c.make); err != nil {
				t.Fatal(err)
			}
			b.write("../act", `case $1 in
1) printf new >"$(printf 'a\nb "q" \377')"; printf dash >-dash ;;
2) chmod +x run; rm link; mkdir link; printf in >link/in ;;
3) rm -rf d; printf file >d ;;
4) head -c 1048576 /dev/zero >zeros ;;
5) git -c core.hooksPath=/dev/null -c commit.gpgsign=false commit -q --allow-empty -m empty; git mv f5 F5 ;;
esac
`)
			r, err := b.try(t.Context(), `
name: shapes
mode: mapreduce
isolation: worktree
map:
  input: seq 1 5
  max_parallel: 2
  agent_template:
    - shell: sh @DIR@/../act ${item}
`)
			if err != nil {
				t.Fatal(err)
			}
			r.status(event.Succeeded)
			show := "git cat-file --filters"
			for what, want := range map[string]string{
				show + ` "main:$(printf 'a\nb "q" \377')"`:          "new",
				show + " main:-dash":                                "dash",
				show + " main:link/in":                              "in",
				show + " main:d":                                    "file",
				show + " main:zeros | wc -c":                        "1048576",
				"git ls-tree main run | cut -c1-6":                  "100755",
				"git ls-tree --name-only main | grep -ix f5":        "F5",
				"git log --format=%s main | grep -cx empty":         "1",
				"git status --porcelain --untracked-files=all":      "",
				"git for-each-ref refs/heads --format='%(refname)'": "refs/heads/main",
			} {
				if got := b.output(what); got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			if bad := b.problems(); len(bad) > 0 {
				t.Errorf("the proof: %+v", bad)
			}
		})
	}
}

// The end of a run reads no file of the commits before it: in a clone without these files
// whose remote cannot be reached, the work is merged.
func TestMergeInAPartialClone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	if err := sh(b.dir, `mkdir d && echo d >d/d && git add -A && git commit -qm d && git config uploadpack.allowFilter true && cp -R . ../from && rm -rf .git * &&
		git clone -q --filter=blob:none --no-checkout "file://$PWD/../from" . && git config user.name T && git config user.email t@x &&
		git sparse-checkout set --no-cone '/*' '!/d' && git checkout -q main && rm -rf ../from`); err != nil {
		t.Fatal(err)
	}
	r := b.run(`
name: partial
mode: mapreduce
isolation: worktree
map:
  input: seq 1 2
  agent_template:
    - shell: if [ ${item} = 1 ]; then git rm -q -r --sparse d; else echo 2 >two; fi
`)
	r.status(event.Succeeded)
	if got := strings.Fields(b.output("git ls-tree -r --name-only main")); strings.Join(got, " ") != "first.txt two" {
		t.Errorf("main has %q", got)
	}
}
