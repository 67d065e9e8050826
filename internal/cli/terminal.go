package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask puts a yes-or-no question, where a person is there to answer. No answer
// is no.
func (a *app) ask() func(string) bool {
	if !isTerminal(a.in) || !isTerminal(a.err) {
		return nil
	}
	return func(question string) bool {
		fmt.Fprintf(a.err, "%s [y/N] ", question)
		line, err := bufio.NewReader(a.in).ReadString('\n')
		if err != nil {
			fmt.Fprintln(a.err)
			return false
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true
		}
		return false
	}
}

// printJSON writes one JSON value and a line end.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
