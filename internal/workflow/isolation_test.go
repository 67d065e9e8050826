package workflow_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

func mapOf(t *testing.T, step string) (*workflow.File, string) {
	t.Helper()
	src := "mode: mapreduce\nmap:\n  input: [a, b]\n  agent_template:\n    - " + step + "\n"
	f, problems := workflow.Parse("m.yml", []byte(src), workflow.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(step, err)
	}
	var all strings.Builder
	for _, p := range problems {
		all.WriteString(p.Code + " ")
	}
	return f, all.String()
}

func TestMapsThatWriteWithGitAreIsolated(t *testing.T) {
	for text, want := range map[string]bool{
		"git add . && git commit -m x":                               true,
		"echo ${item} > f-${item}; git -C sub -c a.b=c commit -am x": true,
		"if true; then git checkout -b x; fi":                        true,
		"(cd x && /usr/bin/git stash)":                               true,
		"env A=b git reset --hard":                                   true,
		"sh -c 'git tag v1'":                                         true,
		"for f in *; do git rm $f; done":                             true,
		"sh -c \"git tag v${item}\"":                                 true,
		"/bin/bash -ec \"cd $DIR && git commit -m x\"":               true,
		"timeout 5 sh -c 'git commit -m x'":                          true,
		"ls | xargs -n1 sh -c 'git add \"$1\"' _":                    true,
		"find . -name '*.go' -exec git add {} +":                     true,
		"find . -exec sh -c 'git add \"$1\"' _ {} \\;":               true,
		"eval \"git commit -m $X\"":                                  true,
		"sh <<EOF\ngit commit -m ${item}\nEOF":                       true,
		"sh -c \"git log $X\"; eval \"git show $X\"":                 false,
		"find . -name git -o -name add":                              false,
		"find git add commit":                                        false,
		"echo sh -c 'git commit'":                                    false,
		"echo $(git merge x)":                                        true,
		"'git' \"commit\" -m x":                                      true,
		"git stash":                                                  true,
		"git branch -D ${item}":                                      true,
		"git --git-dir x --work-tree y worktree add z":               true,
		"git log --oneline":                                          false,
		"git status; git diff; git show HEAD; git ls-files":          false,
		"echo git commit":                                            false,
		"echo 'git commit' > notes-${item}":                          false,
		"grep -c git add.txt":                                        false,
		"git branch --list 'x*'":                                     false,
		"git tag":                                                    false,
		"git stash list":                                             false,
		"git fetch && git rev-parse HEAD":                            false,
		"cat <<EOF\ngit commit\nEOF":                                 false,
		"git-lfs ls-files ${item}":                                   false,
		"# git commit\ntrue":                                         false,
		"./git.sh commit":                                            false,
		"git $VERB":                                                  false,
		"curl https://example.org/git commit":                        false,
		"echo \"it's git time\" && gitk add":                         false,
		"docker run --rm alpine/git commit":                          false,
		"git config user.name x":                                     false,
		"git cat-file -p HEAD:${item.path}":                          false,
	} {
		f, _ := mapOf(t, "shell: "+quoted(text))
		if got := workflow.NeedsIsolation(f); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	f, _ := mapOf(t, "foreach: [1]\n      do: [{shell: git commit -m x}]")
	if !workflow.NeedsIsolation(f) {
		t.Error("inside a foreach")
	}
}

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

func TestItemsThatWriteTheSameFile(t *testing.T) {
	for step, want := range map[string]bool{
		"shell: sh -c \"echo a > out${item}.txt\"":            false,
		"shell: sh -c \"echo ${item} > out.txt\"":             true,
		"shell: echo ${item} > out.txt":                       true,
		"shell: 'echo ${item} &> \"all.log\"'":                true,
		"shell: echo ${item} >> out.txt":                      false,
		"shell: echo ${item} > out-${item}.txt":               false,
		"shell: 'echo ${item} > /dev/null 2> /dev/stderr'":    false,
		"shell: cd ${item} && make > out.txt":                 false,
		"shell: 'echo x > $OUT'":                              false,
		"shell: git commit -m x > out.txt":                    false, // each has a worktree
		"{shell: echo x > out.txt, working_dir: 'd/${item}'}": false,
		"{write_file: {path: report.md, content: x}}":         true,
		"{write_file: {path: '${item}.md', content: x}}":      false,
		"{shell: echo x, output_file: result.txt}":            true,
	} {
		if _, codes := mapOf(t, step); strings.Contains(codes, "same-file") != want {
			t.Errorf("%s: %s", step, codes)
		}
	}
}
