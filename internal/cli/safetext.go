package cli

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
)

// safeText passes on what programs have written to a terminal that is not theirs: colours
// stay, and every other control sequence is shown as an escape. It could otherwise set
// the title or the clipboard, or clear what was read before.
type safeText struct {
	w        io.Writer
	rest     []byte // may be the beginning of a sequence
	coloured bool
}

var (
	colouring  = pattern.Lazy(`^\x1b\[[0-9;:]{0,40}m`)
	colourHalf = pattern.Lazy(`^\x1b(\[[0-9;:]{0,40})?$`)
)

func (s *safeText) Write(p []byte) (int, error) {
	_, err := s.w.Write(s.pass(append(s.rest, p...), false))
	return len(p), err
}

// Close passes on what was held back, and ends a colour.
func (s *safeText) Close() error {
	out := s.pass(s.rest, true)
	if s.coloured {
		out = append(out, "\x1b[0m"...)
	}
	_, err := s.w.Write(out)
	return err
}

// pass gives the text to write, and keeps what may continue, unless this is the end.
func (s *safeText) pass(text []byte, end bool) (out []byte) {
	s.rest = nil
	for len(text) > 0 {
		n := bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || diag.Visible(string(r)) != string(r) })
		if n < 0 {
			return append(out, text...)
		}
		out = append(out, text[:n]...)
		text = text[n:]
		if colour := colouring().Find(text); colour != nil {
			s.coloured = true
			out, text = append(out, colour...), text[len(colour):]
			continue
		}
		if !end && (colourHalf().Match(text) || !utf8.FullRune(text) || string(text) == "\r") {
			s.rest = bytes.Clone(text)
			return out
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n', r == '\t':
			out = append(out, text[0])
		case r == '\r':
			if len(text) == 1 || text[1] != '\n' { // a line that is written over
				out = append(out, '\n')
			}
		case r == utf8.RuneError && size == 1:
			out = append(out, diag.Escaped(rune(text[0]))...)
		default:
			out = append(out, diag.Visible(string(r))...)
		}
		text = text[size:]
	}
	return out
}
