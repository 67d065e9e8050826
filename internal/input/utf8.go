package input

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// utf8Reader reads a text and ends at the first byte of it that is no UTF-8:
// JSON has no other bytes, and an item whose text was changed would name a file
// that does not exist.
type utf8Reader struct {
	r     io.Reader
	buf   []byte
	ready []byte // of buf, to be given away
	rest  []byte // the beginning of a character, of which the rest has not come
	lines int    // line ends before the end of ready
	col   int    // bytes since the last of them
	err   error  // after ready
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	for len(u.ready) == 0 && u.err == nil {
		u.fill()
	}
	if len(u.ready) == 0 {
		return 0, u.err
	}
	n := copy(p, u.ready)
	u.ready = u.ready[n:]
	return n, nil
}

// fill reads on, and looks at what came.
func (u *utf8Reader) fill() {
	if u.buf == nil {
		u.buf = make([]byte, 64<<10)
	}
	held := copy(u.buf, u.rest)
	n, err := u.r.Read(u.buf[held:])
	text := u.buf[:held+n]
	good := valid(text)
	if bad := text[good:]; len(bad) > 0 && (err == io.EOF || utf8.FullRune(bad)) {
		u.count(text[:good])
		err = fmt.Errorf("line %d, byte %d: 0x%02x is no UTF-8; write the text in UTF-8, for example with iconv", u.lines+1, u.col+1, bad[0])
	} else {
		u.count(text[:good])
	}
	u.ready, u.rest, u.err = text[:good], bytes.Clone(text[good:]), err
}

func (u *utf8Reader) count(text []byte) {
	u.lines += bytes.Count(text, []byte("\n"))
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		u.col = -i - 1
	}
	u.col += len(text)
}

// valid is how many of the bytes at the beginning are whole characters.
func valid(p []byte) (n int) {
	if utf8.Valid(p) {
		return len(p)
	}
	for n < len(p) {
		r, size := utf8.DecodeRune(p[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return n
}
