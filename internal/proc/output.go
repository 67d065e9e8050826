package proc

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"unicode/utf8"
)

// Output is what a command wrote to one stream: all of it up to Cmd.Limit,
// else its head and its tail.
type Output struct {
	// Head is the beginning of the stream, all of it unless Truncated.
	Head []byte
	// Tail is the end of the stream if Truncated, else nil.
	Tail []byte
	// Size is the length of the whole stream in bytes.
	Size int64
	// Truncated: Head and Tail are not the whole stream.
	Truncated bool
	// SHA256 is the digest of the whole stream in hex if it is larger than
	// SpillThreshold, else "". See [Output.Digest].
	SHA256 string
	// File is the name of the file with the whole stream, or "".
	File string
	// Err is what went wrong with the file or the live writer. The captured
	// output is right all the same.
	Err error
	// FileErr is what went wrong with the file: it has not all of the stream.
	FileErr error
}

// Omitted is the number of bytes of the stream that are in neither Head nor
// Tail.
func (o Output) Omitted() int64 {
	return o.Size - int64(len(o.Head)) - int64(len(o.Tail))
}

// Bytes is the captured value. Where the stream was longer than the limit, a
// line "… N bytes left out …" is between its head and its tail; a
// character cut in two by the limit counts as left out.
func (o Output) Bytes() []byte {
	if !o.Truncated {
		return o.Head
	}
	head, tail := wholeRunesHead(o.Head), wholeRunesTail(o.Tail)
	mark := fmt.Sprintf("… %d bytes left out …\n", o.Size-int64(len(head))-int64(len(tail)))
	b := make([]byte, 0, len(head)+len(tail)+len(mark)+1)
	b = append(b, head...)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		b = append(b, '\n')
	}
	b = append(b, mark...)
	return append(b, tail...)
}

// String is Bytes as a string.
func (o Output) String() string { return string(o.Bytes()) }

// TailString is the end of the stream, at most n bytes, beginning with a whole
// character.
func (o Output) TailString(n int) string {
	b := o.Head
	if o.Truncated {
		b = o.Tail
	}
	n = min(max(n, 0), len(b))
	if n == len(b) && !o.Truncated {
		return string(b)
	}
	return string(wholeRunesTail(b[len(b)-n:]))
}

// Excerpt is what is captured of a stream of size bytes, read out of the file that has
// it.
func Excerpt(r io.ReaderAt, size, limit int64) (Output, error) {
	o := Output{Size: size, Truncated: size > limit}
	head := size
	if o.Truncated {
		head = limit / 2
		o.Tail = make([]byte, limit-head)
		if _, err := r.ReadAt(o.Tail, size-int64(len(o.Tail))); err != nil && err != io.EOF {
			return o, err
		}
	}
	o.Head = make([]byte, head)
	_, err := r.ReadAt(o.Head, 0)
	if err == io.EOF {
		err = nil
	}
	return o, err
}

// Digest is the SHA-256 of the whole stream in hex.
func (o Output) Digest() string {
	if o.SHA256 != "" {
		return o.SHA256
	}
	sum := sha256.Sum256(o.Head)
	return hex.EncodeToString(sum[:])
}

// wholeRunesHead cuts an incomplete character off the end of b.
func wholeRunesHead(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		c := b[len(b)-i]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// wholeRunesTail cuts the rest of a character off the beginning of b.
func wholeRunesTail(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	if len(b) < utf8.UTFMax {
		return b[len(b):]
	}
	return b // no text at all
}

// capture gathers one stream in bounded memory. Up to limit bytes they are all
// in buf, which grows as needed; after that the second half of buf is a ring
// that holds the stream's end.
type capture struct {
	name  string
	want  int // Cmd.Limit
	limit int // at least want and twice SpillThreshold
	spill func(stream string) (File, error)

	mu      sync.Mutex // showing comes from another goroutine than writing
	buf     []byte
	ring    int // place in buf of the oldest byte of the ring
	size    int64
	sum     hash.Hash
	shown   bool // what there is has to be in the file, however little it is
	ended   bool
	opened  bool // spill was called
	file    File
	path    string
	fileErr error
	err     error
}

func (c *capture) init(name string, cmd *Cmd) {
	c.name, c.want, c.spill = name, max(0, cmd.Limit), cmd.Spill
	if cmd.Limit == 0 {
		c.want = DefaultLimit
	}
	c.limit = max(c.want, 2*SpillThreshold)
}

// write takes the next bytes of the stream. It keeps no reference to p.
func (c *capture) write(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += int64(len(p))
	if c.size > SpillThreshold && c.sum == nil {
		c.sum = sha256.New()
		c.sum.Write(c.buf) // all that came before is in it
	}
	if c.sum != nil {
		c.sum.Write(p)
	}
	if c.sum != nil || c.shown {
		c.toFile(p)
	}
	c.keep(p)
}

// show puts what there is, and all that comes, into the file.
func (c *capture) show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown = !c.ended; c.shown && c.size > 0 {
		c.toFile(nil)
	}
}

// keep stores p in buf.
func (c *capture) keep(p []byte) {
	half := c.limit / 2
	if room := c.limit - len(c.buf); room > 0 {
		n := min(room, len(p))
		c.buf = append(c.buf, p[:n]...)
		p = p[n:]
		c.ring = half
	}
	if tail := c.limit - half; len(p) > tail {
		p = p[len(p)-tail:] // the rest would be overwritten
		c.ring = half
	}
	for len(p) > 0 {
		n := copy(c.buf[c.ring:c.limit], p)
		p = p[n:]
		if c.ring += n; c.ring == c.limit {
			c.ring = half
		}
	}
}

// toFile writes p, before it what came before the file was there. p is not in
// buf yet.
func (c *capture) toFile(p []byte) {
	if !c.opened && c.spill != nil {
		f, err := c.spill(c.name)
		c.opened = err == nil || c.sum != nil // a file that is only shown is tried again
		if err != nil {
			c.fileErr = fmt.Errorf("no file for the output on %s: %w", c.name, err)
			return
		}
		c.file, c.path = f, f.Name()
		c.toFile(c.buf)
	}
	if c.file == nil || len(p) == 0 {
		return
	}
	if _, err := c.file.Write(p); err != nil {
		c.fileErr = fmt.Errorf("the output on %s is not complete in its file: %w", c.name, err)
		c.closeFile()
	}
}

func (c *capture) closeFile() {
	if c.file == nil {
		return
	}
	if err := c.file.Close(); err != nil && c.fileErr == nil {
		c.fileErr = fmt.Errorf("the file of the output on %s: %w", c.name, err)
	}
	c.file = nil
}

// dropSmall removes the file of a stream that was short in the end: it was
// there for those who follow, and what went wrong with it costs nobody
// anything.
func (c *capture) dropSmall() {
	if c.sum != nil {
		return
	}
	if c.fileErr = nil; c.path != "" {
		if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.fileErr = fmt.Errorf("the file of the output on %s stays behind: %w", c.name, err)
		}
		c.path = ""
	}
}

// fail notes the first thing that went wrong.
func (c *capture) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// finish closes the file and gives the stream as it was captured.
func (c *capture) finish() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.closeFile()
	c.dropSmall()
	o := Output{Size: c.size, File: c.path, Err: cmp.Or(c.fileErr, c.err), FileErr: c.fileErr}
	if c.sum != nil {
		o.SHA256 = hex.EncodeToString(c.sum.Sum(nil))
	}
	if c.size <= int64(c.want) {
		o.Head = c.buf
		return o
	}
	o.Truncated = true
	tail := c.buf
	if half := c.limit / 2; c.size > int64(c.limit) {
		tail = slices.Concat(c.buf[c.ring:], c.buf[half:c.ring])
	}
	o.Head = c.buf[: c.want/2 : c.want/2]
	o.Tail = tail[len(tail)-(c.want-c.want/2):]
	return o
}
