package cli

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// posed is a scope of a run in which the file's variables have values, and every name that
// means something to bide has one too.
type posed map[string]string

func (p posed) Lookup(name string) (template.Value, bool) {
	if v, ok := p[name]; ok {
		return template.Value{V: v, Origin: template.Data}, true
	}
	for _, n := range ours {
		if name == n || strings.HasPrefix(name, n+".") {
			return template.Value{V: "bide's " + name, Origin: template.Data}, true
		}
	}
	return template.Value{}, false
}

func (p posed) Env(string) (template.Value, bool) { return template.Value{}, false }

// TestTheTextOfAStepDoesWhatItDoesOnGitHub runs texts with the shell that GitHub gives them
// to, and what migrate makes of them as bide does.
func TestTheTextOfAStepDoesWhatItDoesOnGitHub(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here, which GitHub's steps are for")
	}
	env := map[string]string{"MSG": `it"s $(echo hi) 'x`, "P": "plain", "BLANKS": "a  b"}
	pairs := []string{"PATH=" + os.Getenv("PATH"), "HOME=/root"}
	for name, v := range env {
		pairs = append(pairs, name+"="+v)
	}
	for _, shell := range []string{"", "bash", "sh"} {
		for _, text := range []string{
			"echo '${item} $item ${P} $P ${a.b} $i'", `echo "$MSG" "${MSG}" $P "$BLANKS" $BLANKS`, "echo '${MSG}' \"'$P'\"", "echo ${item:-none} ${last-none} ${P:-none} \"${nope:-$P}\"",
			"false; echo on", "false | true; echo on", "false && true\necho on", "echo a\nfalse\necho b", "false || true\necho on", "exit 3",
			"item=1; echo $item ${item} '$item'", "for index in 1 2; do echo $index ${index}; done", "git=${git:-no}; echo $git", "test=$test; echo \"<$test>\" '<$test>'",
			"cat <<'EOF'\n${item} $P ${P} $MSG '$BLANKS'\nEOF", "cat <<EOF\n${P} $MSG \\$P \\${P}\nEOF", "awk 'BEGIN { last = 2; print $last }' </dev/null; echo 1 2 | awk '{ i = 2; print $i $NF }'",
			"echo \"a\\tb\"", "set -x; echo it", "cd /\npwd", "f() { echo \"$1\"; }; f \"$MSG\"", "sh -c 'echo $P ${P} '\\''${item}'\\'", "echo it\\'s \"'\" '\"'", "cat", "read x || echo nothing",
			"# only ${item}\necho x # '$P", "echo ${#MSG} ${MSG#it} ${MSG%%x}", "x=$(cat <<EOF\n$P\nEOF\n)\necho \"$x\"", "echo a | { cat; }\nfalse | cat\necho b",
		} {
			program := map[string][]string{"": {bash, "-e", "-c"}, "bash": {bash, "-eo", "pipefail", "-c"}, "sh": {"sh", "-e", "-c"}}[shell]
			same(t, shell, text, env, pairs, program)
		}
	}
	for _, text := range []string{"[[ $P == pl* ]] && echo match", "a=(1 2); echo ${a[1]} ${a[@]} '${a[0]}'", "v=abc; echo ${v//b/X} ${v:1:1} ${P//a/${last}}", "echo -e 'x\\ty'", "cat <<< \"$MSG\"", "diff <(echo \"$P\") <(echo '$P') || echo differ",
		"echo {a,b}$P", "source /dev/null; echo ${P^^}", "shopt -s nullglob; echo /nope*", "i=1; (( i++ )); echo $i", "printf '%q\\n' \"$MSG\"", "trap 'echo bye $P' EXIT", "echo '[[' $'a\\tb'", "x='a'\"'\"; [[ $x == \"a'\" ]] && echo \"$x\""} {
		same(t, "", text, env, pairs, []string{bash, "-e", "-c"})
		same(t, "bash -euo pipefail {0}", text, env, pairs, []string{bash, "-euo", "pipefail", "-c"})
		same(t, "bash", text, env, pairs, []string{bash, "-eo", "pipefail", "-c"})
	}
	if python, err := exec.LookPath("python"); err == nil {
		same(t, "python", "import os\nprint('$P ${P} ${item} $i', \"it's\", os.environ['MSG'])", env, pairs, []string{python, "-c"})
	}
}

func same(t *testing.T, shell, text string, env map[string]string, pairs, program []string) {
	t.Helper()
	step := map[string]any{"run": text}
	if shell != "" {
		step["shell"] = shell
	}
	src, err := yaml.Marshal(map[string]any{"on": "push", "jobs": map[string]any{"a": map[string]any{"env": env, "steps": []any{step}}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := githubJob("ci.yml", src, "")
	if err != nil {
		t.Errorf("%s %q: %v", shell, text, err)
		return
	}
	f, problems := workflow.Parse("ci.yml", m.text, workflow.Options{})
	if f == nil || problems.HasErrors() {
		t.Errorf("%s %q: %v in\n%s", shell, text, problems, m.text)
		return
	}
	c, err := f.Steps[0].Action.(*workflow.Shell).Text.Shell(posed(env))
	if err != nil {
		t.Errorf("%s %q: %v in\n%s", shell, text, err, m.text)
		return
	}
	run := func(extra []string, argv ...string) (string, int) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(append([]string{}, pairs...), extra...)
		out, err := cmd.Output()
		exit := (*exec.ExitError)(nil)
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(out), 0
	}
	want, wantStatus := run(nil, append(append([]string{}, program...), text)...)
	got, status := run(c.Env, "sh", "-c", c.Line())
	if got != want || status != wantStatus {
		t.Errorf("shell %q, text %q:\n%q, status %d; on GitHub %q, status %d; written as\n%s", shell, text, got, status, want, wantStatus, m.text)
	}
}
