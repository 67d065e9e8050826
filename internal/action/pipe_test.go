package action_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestFailedInPipe: a command that fails in a pipe is judged as one that fails alone, its
// message is as short, and nothing is left of what bash wrote.
func TestFailedInPipe(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("left out: there is no bash")
	}
	bin := t.TempDir()
	if err := os.Symlink(bash, filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	w := world(t)
	class := func(err error) string {
		classed, _ := errors.AsType[interface {
			error
			Class() string
		}](err)
		if classed == nil {
			return ""
		}
		return classed.Class()
	}
	const refused = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo >&2; echo 'curl: (7) Failed to connect' >&2; exit 7"
	for text, want := range map[string]struct {
		says  string
		exit  int
		class string
	}{
		"(echo one; " + refused + ") | cat": {"a command in the pipe ended with exit status 7, so that the list may not be whole: curl: (7) Failed to connect", 7, "network"},
		"echo one | (cat; " + refused + ")": {"exit status 7: curl: (7) Failed to connect", 7, "network"},
		"seq 1 100000 | head -1":            {},
		"echo one | grep two | cat":         {},
	} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		tmpl, err := template.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		res, err := w.Run(t.Context(), &workflow.Shell{Text: tmpl}, &action.Call{Scope: vars.New(nil), Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, Pipe: pipe})
		switch code, exited := failure.ExitCode(err); {
		case want.says == "" && err == nil && !res.Unsure:
		case err == nil || err.Error() != want.says || !exited || code != want.exit || class(err) != want.class:
			t.Errorf("%.20s…: %.200v, %d, %q, unsure %v", text, err, code, class(err), res.Unsure)
		}
		if _, err := os.Lstat(pipe); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.20s…: what bash wrote is left: %v", text, err)
		}
	}
}
