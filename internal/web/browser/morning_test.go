package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// night is a map of stand-ins for agents over files, each item in a worktree of its own:
// two edit their files and nobody merges that, one fails until it is mended.
const night = `name: night
agents:
  claude: {command: [sh, agent.sh, '${prompt}']}
auto_commit: false
map:
  input: [api, guide, broken]
  agent_template:
    - name: describe
      claude: Describe ${item}
error_policy: {on_item_failure: dlq, continue_on_failure: true}
`

// TestMorning: who comes back to a night sees on the first page what failed, why, and
// what was not merged; one button merges it, one runs again what failed.
func TestMorning(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("this needs git")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"night.yml":  night,
		"agent.sh":   "for name; do :; done; name=${name##* }\ntest \"$name\" != broken || test -e " + dir + "/mended || { echo 'I cannot do it' >&2; exit 1; }\necho \"about $name\" > \"$name.md\"\n",
		".gitignore": "mended\n.bide\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GIT_CONFIG_COUNT", "2")
	t.Setenv("GIT_CONFIG_KEY_0", "user.name")
	t.Setenv("GIT_CONFIG_VALUE_0", "t")
	t.Setenv("GIT_CONFIG_KEY_1", "user.email")
	t.Setenv("GIT_CONFIG_VALUE_1", "t@example.org")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "t") // of the merge, which the server starts
	git("config", "user.email", "t@example.org")
	git("add", ".")
	git("commit", "-qm", "start")
	bide := *shared.Bide
	bide.Dir = dir
	if out, err := bide.Run(context.Background(), "run", "-y", "-q", "night.yml"); err != nil {
		t.Fatal(err, out)
	}
	ctx := shared.tab(t)
	page := shared.origin + "/runs/" + shared.Last()
	for _, look := range []string{"light", "dark"} {
		do(t, ctx, theme(look), chromedp.Navigate(page))
		axe(t, ctx, "the morning in "+look)
	}
	// The list of runs says what waits, in the words of status, and each command has a button.
	status, err := bide.Run(context.Background(), "status")
	if err != nil {
		t.Fatal(err, status)
	}
	for _, look := range []string{"light", "dark"} {
		do(t, ctx, theme(look), chromedp.Navigate(shared.origin+"/"))
		until(t, ctx, `document.querySelector(".todos")`)
		axe(t, ctx, "what waits in "+look)
	}
	todo := eval[string](t, ctx, `Array.from(document.querySelectorAll(".todo")).find(e => e.querySelector('a[href$="`+shared.Last()+`"]')).innerText`)
	for _, want := range []string{"1 of 3 items failed", "1 × agent", "I cannot do it", "bide dlq retry " + shared.Last()[20:], "bide worktree merge " + shared.Last()[20:], "Dismiss"} {
		if !strings.Contains(todo, want) || want != "Dismiss" && !strings.Contains(status, want) {
			t.Errorf("the list of runs or status does not say %q:\n%s\n%s", want, todo, status)
		}
	}
	do(t, ctx, chromedp.Navigate(page))
	text := eval[string](t, ctx, `document.querySelector(".answer").innerText`)
	for _, want := range []string{"1 item", "I cannot do it", "Work of 2 items was left uncommitted", "Merge"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	eval[any](t, ctx, `document.querySelector('form[action$="/merge"] button').click(); null`)
	until(t, ctx, `document.querySelector(".notes")?.innerText.includes("what was left is merged") && !document.querySelector(".answer .left")`)
	if got := strings.Fields(git("ls-files", "*.md")); strings.Join(got, " ") != "api.md guide.md" {
		t.Errorf("main has %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eval[any](t, ctx, `window.confirm = () => true; document.querySelector(".causes form button").click(); null`)
	until(t, ctx, `!document.querySelector(".causes") && /3 of 3/.test(document.querySelector(".facts")?.innerText)`)
	until(t, ctx, `document.querySelector(".action:not(.bad) p")?.textContent === "1 of 1 item ran again and succeeded."`)
	axe(t, ctx, "what came of a retry")
	eval[any](t, ctx, `document.querySelector('form[action$="/close"] button').click(); null`)
	until(t, ctx, `document.querySelector(".facts") && !document.querySelector(".action")`)
}
