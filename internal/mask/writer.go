package mask

import "io"

// Writer passes text on with the secrets replaced, also those that are split
// over several writes: it holds back the end of a write for as long as it may
// be the beginning of a secret. It is not safe for concurrent use. Flush must
// be called at the end.
type Writer struct {
	w    io.Writer
	m    *Masker
	rest string
	each func(passed int, hidden string) // see File; may be nil
}

// NewWriter makes a Writer in front of w.
func (m *Masker) NewWriter(w io.Writer) *Writer { return &Writer{w: w, m: m} }

// Write takes all of p, or returns the error of the writer behind.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.m.Active() {
		return w.w.Write(p)
	}
	s := w.rest + string(p)
	cut := len(s) - w.m.held(s)
	// A whole secret that reaches into what is held back is held as well.
	for from, to, ok := w.m.find(s, 0); ok && from < cut; from, to, ok = w.m.find(s, to) {
		if to > cut {
			cut = from
		}
	}
	out := s[:cut]
	w.rest = s[cut:]
	if out == "" {
		return len(p), nil
	}
	if err := w.pass(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush passes on what is held back.
func (w *Writer) Flush() error {
	if w.rest == "" {
		return nil
	}
	s := w.rest
	w.rest = ""
	return w.pass(s)
}

func (w *Writer) pass(s string) error {
	text := w.m.replace(s, Hidden, w.each)
	_, err := io.WriteString(w.w, text)
	return err
}
