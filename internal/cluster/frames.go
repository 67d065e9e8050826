package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
)

// A log is frames. A frame is the length and the CRC-32C of a text, four bytes each, the
// least significant first, and then the text. A text of a log is the JSON of events that
// were recorded together. An entry of the order is one frame with the entry's JSON.

const (
	frameHead = 8
	// maxFrame limits the size of a frame. The largest frame is an event with its data.
	maxFrame = 64 << 20
	// syncEvery is how long a record may stay in the memory of the machine that wrote it,
	// if logs are files.
	syncEvery = 50 * time.Millisecond
	// flushAt is how much is gathered before it is written, if no item ends.
	flushAt = 64 << 10
)

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func appendFrame(b, text []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(text, castagnoli()))
	return append(b, text...)
}

// frameOf gives the text of the first frame of b, and the frame's size. The text is nil if
// b does not begin with a whole frame.
func frameOf(b []byte) (text []byte, size int) {
	if len(b) < frameHead {
		return nil, 0
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > maxFrame || n > len(b)-frameHead {
		return nil, 0
	}
	text = b[frameHead : frameHead+n]
	if crc32.Checksum(text, castagnoli()) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0
	}
	return text, frameHead + n
}

// Prefix is the part of a log that counts.
type Prefix struct {
	Log    string `json:"log"`
	Length int64  `json:"length"`
	Digest string `json:"digest"` // SHA-256, in hexadecimal
}

// writer appends to a log. It is safe for concurrent use.
type writer struct {
	name string

	mu     sync.Mutex
	f      Log
	buf    []byte
	size   int64
	digest hash.Hash
	dirty  bool         // written and not synced
	used   engine.Usage // by the agents of what was recorded
	err    error

	every time.Duration // between two syncs
	stop  chan struct{}
	done  chan struct{}
}

// newWriter makes a log, which must not exist. It begins with an empty record, which is on
// the disk: if the disk is full, the log is not begun.
func newWriter(r Shared, name string) (*writer, error) {
	f, err := BeginLog(r.o, r.log(name))
	if err != nil {
		return nil, storeError{err}
	}
	w := &writer{name: name, f: f, every: r.every(syncEvery, partEvery), digest: sha256.New(), stop: make(chan struct{}), done: make(chan struct{}), buf: appendFrame(nil, []byte("[]"))}
	if err := w.sync(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	go w.syncs()
	return w, nil
}

// storeError is an error of writing to the store.
type storeError struct{ error }

// Error names the directory, and not the file, because the file has a different name each
// time.
func (e storeError) Error() string {
	text := e.error.Error()
	if p := (*fs.PathError)(nil); errors.As(e.error, &p) {
		text = filepath.Dir(p.Path) + ": " + p.Err.Error()
	}
	return "the store cannot be written: " + text
}

func (e storeError) Unwrap() error { return e.error }

// StoreFails reports whether an error says that the store cannot be written.
func StoreFails(err error) bool { return errors.As(err, new(storeError)) }

// record appends events as one record. It is written at the latest when the item of the
// events ends.
func (w *writer) record(facts []event.Event) error {
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = appendFrame(w.buf, text)
	w.used = plus(w.used, usageOf(facts))
	if len(w.buf) >= flushAt || ends(facts[len(facts)-1]) {
		w.flush()
	}
	return w.err
}

// fail makes the writer record nothing more.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

// ends reports whether an event is the end of an attempt at an item, or of a step
// outside of one.
func ends(e event.Event) bool {
	switch e.Type {
	case event.ItemFinished, event.ItemRetry, event.ItemHandlerDue:
		return true
	}
	return e.Index == 0
}

// flush writes what is gathered. The caller holds the lock.
func (w *writer) flush() {
	if w.err != nil || len(w.buf) == 0 {
		return
	}
	n, err := w.f.Write(w.buf)
	w.digest.Write(w.buf[:n])
	w.size += int64(n)
	w.buf, w.dirty = w.buf[:0], true
	if err != nil {
		w.err = storeError{err}
	}
}

// sync writes everything to the disk.
func (w *writer) sync() error {
	w.mu.Lock()
	w.flush()
	dirty, err := w.dirty, w.err
	w.dirty = false
	w.mu.Unlock()
	if err == nil && dirty {
		if err = w.f.Sync(); err != nil {
			err = storeError{err}
		}
	}
	return err
}

func (w *writer) syncs() {
	defer close(w.done)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		if err := w.sync(); err != nil {
			w.fail(err)
			return
		}
	}
}

// close syncs, and gives the prefix that is to be accepted.
func (w *writer) close() (Prefix, error) {
	close(w.stop)
	<-w.done
	err := errors.Join(w.sync(), w.f.Close())
	return Prefix{w.name, w.size, hex.EncodeToString(w.digest.Sum(nil))}, err
}

// readLog reads the whole frames of a log from an offset on, up to length, or as far as
// they go if length is negative. It gives the offset after the last one. A log that does
// not exist has none.
func (r Shared) readLog(name string, from, length int64, each func(text []byte, end int64) error) (end int64, err error) {
	f, err := r.tail(name, from)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	defer f.Close()
	var in io.Reader = f
	if length >= 0 {
		in = io.LimitReader(f, max(length-from, 0))
	}
	buf := make([]byte, 0, 256<<10)
	for end = from; ; {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, rerr := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		rest := buf
		for {
			text, size := frameOf(rest)
			if size == 0 {
				break
			}
			rest, end = rest[size:], end+int64(size)
			if err := each(text, end); err != nil {
				return end, err
			}
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
		if errors.Is(rerr, io.EOF) {
			return end, nil
		}
		if rerr != nil {
			return end, rerr
		}
		if len(buf) >= frameHead && binary.LittleEndian.Uint32(buf) > maxFrame {
			return end, nil // no frame begins here
		}
	}
}

// prefixOf gives the valid prefix of a log, for a log whose worker is gone.
func (r Shared) prefixOf(name string) (Prefix, error) {
	end, err := r.readLog(name, 0, -1, func([]byte, int64) error { return nil })
	if err != nil {
		return Prefix{}, err
	}
	digest, err := r.digestOf(name, end)
	return Prefix{name, end, digest}, err
}

func (r Shared) digestOf(name string, length int64) (string, error) {
	h := sha256.New()
	if length > 0 {
		f, err := r.tail(name, 0)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := io.CopyN(h, f, length); err != nil {
			return "", fmt.Errorf("%s is shorter than what was accepted of it: %w", r.log(name), err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// eventsOf gives the events in a frame of a log.
func eventsOf(text []byte) (facts []event.Event, err error) {
	err = json.Unmarshal(text, &facts)
	return facts, err
}
