package cli

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
)

// safeText passes on what programs have written for another terminal. It keeps colours and
// shows every other control sequence as an escape: the sequence could set the title or the
// clipboard, or clear earlier output.
type safeText struct {
	w        io.Writer
	rest     []byte // possibly the beginning of a sequence
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

// Close writes what was held back, and ends a colour.
func (s *safeText) Close() error {
	out := s.pass(s.rest, true)
	if s.coloured {
		out = append(out, "\x1b[0m"...)
	}
	_, err := s.w.Write(out)
	return err
}

// pass returns the text to write. It holds back what may be an incomplete sequence, unless
// this is the end.
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
			if len(text) == 1 || text[1] != '\n' { // the line will be overwritten
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
