package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// spoolLimit is how much of the standard input is kept in memory.
const spoolLimit = 1 << 20

// replay gives the same standard input to each attempt of a command. It reads only as much as
// the attempts ask for, and keeps what it read, in a file above spoolLimit. It reads a regular
// file again from its first position.
type replay struct {
	src   io.Reader
	dir   string // for the file
	start int64  // of a regular file; -1: not a regular file

	mu   sync.Mutex
	more *sync.Cond // signals more input, its end, or an attempt that wants more
	mem  []byte
	file *os.File
	size int64 // of what was read
	want bool
	err  error // io.EOF at the end
	open bool  // the reader is running
}

func newReplay(src io.Reader, dir string) *replay {
	r := &replay{src: src, dir: dir, start: -1}
	r.more = sync.NewCond(&r.mu)
	if f, ok := src.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				r.start = at
			}
		}
	}
	return r
}

// attempt returns what one attempt reads. Call done when the attempt has ended.
func (r *replay) attempt() (in *os.File, done func() error, err error) {
	if f, ok := r.src.(*os.File); ok && r.start >= 0 {
		_, err := f.Seek(r.start, io.SeekStart)
		return f, func() error { return nil }, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		r.feed(out, stop)
	}()
	return in, func() error {
		close(stop)
		err := in.Close()
		_ = out.Close() // closed already at the end of the input
		r.mu.Lock()
		r.more.Broadcast()
		r.mu.Unlock()
		<-ended
		return err
	}, nil
}

// feed writes the input from its beginning. It is no error if the command does not read all of
// it.
func (r *replay) feed(out *os.File, stop <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for at := int64(0); ; {
		n := r.read(buf, at, stop)
		if n == 0 {
			_ = out.Close() // the command must see the end
			return
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return
		}
		at += int64(n)
	}
}

// read reads the input at a position; it returns 0 at the end of the input, or when stop is
// closed.
func (r *replay) read(buf []byte, at int64, stop <-chan struct{}) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at >= r.size && r.err == nil {
		select {
		case <-stop:
			return 0
		default:
		}
		if r.want = true; !r.open {
			r.open = true
			go r.pump()
		}
		r.more.Broadcast()
		r.more.Wait()
	}
	if at >= r.size {
		return 0
	}
	if at < int64(len(r.mem)) {
		return copy(buf, r.mem[at:])
	}
	n, err := r.file.ReadAt(buf[:min(int64(len(buf)), r.size-at)], at-int64(len(r.mem)))
	if err != nil && n == 0 {
		r.err = err
	}
	return n
}

// pump reads the source when an attempt wants more. A read that blocks cannot be cancelled; it
// ends with the input, or with the program.
func (r *replay) pump() {
	buf := make([]byte, 32<<10)
	for {
		r.mu.Lock()
		for !r.want {
			r.more.Wait()
		}
		r.want = false
		r.mu.Unlock()
		n, err := r.src.Read(buf)
		r.mu.Lock()
		if errors.Is(err, syscall.EBADF) {
			err = io.EOF // the source returned nothing
		}
		if kerr := r.keep(buf[:n]); kerr != nil {
			err = kerr
		}
		r.err = err
		r.more.Broadcast()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (r *replay) keep(p []byte) error {
	if r.file == nil && len(r.mem)+len(p) <= spoolLimit {
		r.mem = append(r.mem, p...)
		r.size += int64(len(p))
		return nil
	}
	if r.file == nil {
		f, err := os.CreateTemp(r.dir, "stdin")
		if err != nil {
			return err
		}
		r.file = f
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return err
}

// failed says why the input could not be read to its end; nil if it could, or if nobody asked
// for all of it.
func (r *replay) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

func (r *replay) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
