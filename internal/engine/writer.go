package engine

import (
	"bufio"
	"io"
)

// countingWriter is a buffered writer that knows how much it took.
type countingWriter struct {
	*bufio.Writer
	n int64
}

func newCountingWriter(w io.Writer) *countingWriter {
	c := &countingWriter{}
	c.Writer = bufio.NewWriterSize(writerFunc(func(b []byte) (int, error) {
		n, err := w.Write(b)
		c.n += int64(n)
		return n, err
	}), 256<<10)
	return c
}
