package action

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/diag"
)

// This file is about how the commands of a pipe ended. A shell reports of a pipe only how its
// last command ended, so that a list whose source failed would pass for a short one.

// tellingPipe is a text to put before a shell text. At its end, bash then writes to a file how
// each command of its last pipe ended. The meaning of the text stays the same; with pipefail,
// its conditions would change.
func tellingPipe(file string) string {
	if file == "" {
		return ""
	}
	told := `echo "${PIPESTATUS[*]}" > ` + diag.ShellQuote(file)
	return `if [ -n "${BASH_VERSION-}" ]; then trap ` + diag.ShellQuote(told) + ` EXIT; fi; `
}

// failedInPipe is the error of the last pipe of a shell text of which another command than the
// last failed, by what the shell wrote to a file (see Call.Pipe), which it removes. That the
// reader had enough (SIGPIPE) is no failure, nor is what grep reports of a text without a match.
// unsure says that there may be a pipe and that the shell does not say.
func failedInPipe(file, text, stderr string) (unsure bool, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Piped(text), nil
	}
	_ = os.Remove(file) // a leftover goes with the run's next life
	for _, status := range strings.Fields(string(b)) {
		code, _ := strconv.Atoi(status) // as bash writes it
		if code == 0 || code == 141 || code == 1 && stderr == "" {
			continue
		}
		return false, &pipeError{&ExitError{Code: code, Stderr: stderr, Kind: classify.Command(text, code, "", stderr)}}
	}
	return false, nil
}

// pipeError is the failure of a command in a pipe whose last command succeeded.
type pipeError struct{ *ExitError }

func (e *pipeError) Unwrap() error { return e.ExitError }

func (e *pipeError) Error() string {
	text := fmt.Sprintf("a command in the pipe ended with %s, so that the list may not be whole", e.Ending())
	if line := lastLine(e.Stderr); line != "" {
		text += ": " + line
	}
	return text
}

// Piped says whether there may be a pipe in a text for a shell.
func Piped(text string) bool { return strings.Contains(strings.ReplaceAll(text, "||", ""), "|") }
