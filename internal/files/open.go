package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// File is an open file whose reads end with a context, also those of a pipe
// that nobody writes.
type File struct {
	*os.File
	ctx  context.Context
	stop func() bool
}

// Open opens the file for reading. To open a pipe by its name takes until
// somebody writes to it, or until ctx ends.
func (n Name) Open(ctx context.Context) (*File, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	f, err := n.open(ctx)
	if err != nil {
		return nil, err
	}
	s := &File{File: f, ctx: ctx}
	s.stop = context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // not every file can have one, and those do not block
	return s, nil
}

func (n Name) open(ctx context.Context) (*os.File, error) {
	info, err := n.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 || ctx.Done() == nil {
		return n.openFile(os.O_RDONLY)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := n.openFile(os.O_RDONLY)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
	}
	// A writer, even one that leaves at once, ends the wait. It is refused for
	// as long as nobody waits yet.
	for {
		w, err := n.openFile(os.O_WRONLY | syscall.O_NONBLOCK)
		if err == nil {
			err = w.Close()
		}
		select {
		case o := <-done:
			if o.err == nil {
				err = errors.Join(err, o.f.Close())
			}
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Read ends with the context.
func (s *File) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	n, err := s.File.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if cause := context.Cause(s.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

// Close closes the file.
func (s *File) Close() error {
	s.stop()
	return s.File.Close()
}

var _ io.ReadCloser = (*File)(nil)
