package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"sync"
	"time"
)

// If the objects of a store cannot grow, a log is parts: objects in the log's folder. The
// name of a part is the offset at which it begins. So a part follows another exactly if its
// name says so, and if two writers write at one offset, one gets fs.ErrExist. A log ends
// before the first offset at which no part begins: what follows a part that is lost or cut
// short is not read.

// partEvery is how often a part is made. What a worker has recorded since the last part is
// lost when it is killed, and each part is a call that a provider may charge for.
const partEvery = time.Second

func partName(log string, at int64) string { return path.Join(log, fmt.Sprintf("%014d", at)) }

// partLog writes a log of parts. Several goroutines may use it at once.
type partLog struct {
	o    Objects
	name string

	mu  sync.Mutex // protects buf
	buf []byte

	sending sync.Mutex // protects the fields that follow
	at      int64
	err     error // why nothing more is written: no part may follow a missing one
}

func (l *partLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	return len(b), nil
}

func (l *partLog) Sync() error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	part := l.buf
	l.buf = nil
	l.mu.Unlock()
	if l.err != nil || len(part) == 0 {
		return l.err
	}
	if l.err = l.o.Create(partName(l.name, l.at), writes(part)); l.err == nil {
		l.at += int64(len(part))
	}
	return l.err
}

func (l *partLog) Close() error { return l.Sync() }

// writes gives a function that writes a text.
func writes(text []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(text); return err }
}

// readParts reads a log of parts from an offset on.
func readParts(o Objects, log string, from int64) (io.ReadCloser, error) {
	names, err := o.List(log)
	if err != nil {
		return nil, err
	}
	r := &partReader{o: o, log: log, at: from}
	for _, name := range names {
		if at, err := strconv.ParseInt(name, 10, 64); err == nil && path.Base(partName(log, at)) == name {
			if len(r.parts) > 0 && at <= from { // the part before ends before from
				r.parts = r.parts[:0]
			}
			r.parts = append(r.parts, at)
		}
	}
	if len(r.parts) == 0 {
		return nil, &fs.PathError{Op: "read", Path: log, Err: fs.ErrNotExist}
	}
	return r, nil
}

// partReader reads parts one after another.
type partReader struct {
	o     Objects
	log   string
	parts []int64 // offsets of those that are not open yet
	at    int64
	f     io.ReadCloser
}

func (r *partReader) Read(b []byte) (int, error) {
	for {
		if r.f == nil {
			if len(r.parts) == 0 || r.parts[0] > r.at {
				return 0, io.EOF
			}
			f, err := r.o.Read(partName(r.log, r.parts[0]), r.at-r.parts[0])
			if err != nil {
				return 0, err
			}
			r.f, r.parts = f, r.parts[1:]
		}
		n, err := r.f.Read(b)
		r.at += int64(n)
		if errors.Is(err, io.EOF) {
			err = r.Close()
			if len(r.parts) > 0 && r.parts[0] != r.at {
				r.parts = nil
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (r *partReader) Close() error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f = nil
	return f.Close()
}
