package action

import (
	"fmt"
	"os"
	"strings"

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
		switch {
		case status == "0" || status == "141" || status == "1" && stderr == "":
			continue
		}
		end := ""
		if stderr != "" {
			end = ": " + stderr
		}
		return false, fmt.Errorf("a command in the pipe ended with exit status %s, so that the list may not be whole%s", status, end)
	}
	return false, nil
}

// Piped says whether there may be a pipe in a text for a shell.
func Piped(text string) bool { return strings.Contains(strings.ReplaceAll(text, "||", ""), "|") }
