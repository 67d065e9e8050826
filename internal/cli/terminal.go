package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"
)

// standardOutput remembers whether a write failed: output that nobody saw is no success.
type standardOutput struct {
	w      io.Writer
	failed atomic.Pointer[error]
}

func (c *standardOutput) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// status reports what could not be written, and returns the exit status for that. It is no
// error if the reader has closed the pipe, as in `bide runs | head`.
func (c *standardOutput) status(a *app, status int) int {
	err := c.failed.Load()
	if err == nil || status != 0 || errors.Is(*err, syscall.EPIPE) {
		return status
	}
	a.tell("standard output could not be written: %s", *err)
	return 1
}

// fileOf is the file behind a stream, if there is one.
func fileOf(w any) (*os.File, bool) {
	if c, ok := w.(*standardOutput); ok {
		w = c.w
	}
	f, ok := w.(*os.File)
	return f, ok
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(w any) bool {
	f, ok := fileOf(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalSize is how many columns and rows a terminal has; 0 if w is no terminal.
func terminalSize(w any) (width, height int) {
	if f, ok := fileOf(w); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil {
			return width, height
		}
	}
	return 0, 0
}

// ask asks a yes-or-no question if there is a person to answer. No answer means no.
func (s *streams) ask() func(string) bool {
	if !isTerminal(s.in) || !isTerminal(s.err) {
		return nil
	}
	return func(question string) bool {
		s.question(question + " [y/N]")
		line, err := bufio.NewReader(s.in).ReadString('\n')
		if err != nil {
			fmt.Fprintln(s.err)
			return false
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true
		}
		return false
	}
}

// question writes a question to standard error, no wider than the terminal.
func (s *streams) question(text string) {
	fmt.Fprint(s.err, message(text, s.columns(s.err))+" ")
}

// print and printf write to standard output.
func (s *streams) print(text string) error {
	_, err := io.WriteString(s.out, text)
	return err
}

func (s *streams) printf(format string, args ...any) error {
	_, err := io.WriteString(s.out, shortRuns(fmt.Sprintf(format, args...)))
	return err
}

// answer writes the result of a command: as JSON if the user asked for that, else with text.
func answer[T any](s *streams, found T, text func(T) error) error {
	if s.json {
		return printJSON(s.out, found)
	}
	return text(found)
}

// printJSON writes one JSON value and a line end, with < and > as they are.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printJSONLine is like printJSON, on one line.
func printJSONLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// streamJSONLine is like printJSONLine, for an object that ends with a long text. It keeps
// only a piece of the text in memory.
func streamJSONLine(w io.Writer, object any, key string, text io.Reader) error {
	var b bytes.Buffer
	if err := printJSONLine(&b, object); err != nil {
		return err
	}
	b.Truncate(b.Len() - len("}\n"))
	fmt.Fprintf(&b, ",%q:\"", key)
	piece := make([]byte, 0, 64<<10)
	for {
		n, err := io.ReadFull(text, piece[len(piece):cap(piece)])
		piece = piece[:len(piece)+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		cut := len(piece)
		if !last { // do not cut a character
			for i := 1; i < utf8.UTFMax && i < len(piece); i++ {
				if at := len(piece) - i; utf8.RuneStart(piece[at]) {
					if !utf8.FullRune(piece[at:]) {
						cut = at
					}
					break
				}
			}
		}
		from := b.Len()
		if err := printJSONLine(&b, string(piece[:cut])); err != nil {
			return err
		}
		said := b.Bytes()
		copy(said[from:], said[from+1:len(said)-len("\"\n")]) // without the quotes
		b.Truncate(len(said) - len("\"\"\n"))
		piece = piece[:copy(piece, piece[cut:])]
		if last {
			b.WriteString("\"}\n")
		}
		if _, err := w.Write(b.Bytes()); err != nil || last {
			return err
		}
		b.Reset()
	}
}
