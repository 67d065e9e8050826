package proc

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// teeLimit is how many bytes may wait for a slow writer before the command has
// to wait.
const teeLimit = 256 << 10

var errStalled = errors.New("it did not take the output in time and was given up")

// The streams of a command.
const (
	stdout = iota
	stderr
)

// tee passes output on to the live writers, in a goroutine of its own: the one
// that watches the command must never wait for a terminal.
type tee struct {
	writers [2]io.Writer
	done    chan struct{}

	mu     sync.Mutex
	more   *sync.Cond // there is something to write, or no more will come
	space  *sync.Cond // the queue has become shorter
	room   func()     // see onRoom; may be nil
	queue  []chunk
	bytes  int
	closed bool
	lifted bool
	errs   [2]error
}

type chunk struct {
	stream int
	data   []byte
}

func newTee(out, err io.Writer) *tee {
	t := &tee{writers: [2]io.Writer{out, err}, done: make(chan struct{})}
	t.more, t.space = sync.NewCond(&t.mu), sync.NewCond(&t.mu)
	go t.run()
	return t
}

// onRoom sets what is called when a full queue has room again.
func (t *tee) onRoom(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room = f
}

// put takes a copy of p for the stream's writer, if it has one.
func (t *tee) put(stream int, p []byte) {
	if t == nil || t.writers[stream] == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.errs[stream] != nil {
		return
	}
	t.queue = append(t.queue, chunk{stream, append([]byte(nil), p...)})
	t.bytes += len(p)
	t.more.Signal()
}

// full reports whether no more should be put for the time being.
func (t *tee) full() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes >= teeLimit && !t.lifted
}

// unbound takes the bound from the queue: the command has ended, and what it has
// left in its outputs is little.
func (t *tee) unbound() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lifted = true
	t.space.Broadcast()
}

// wait returns when the queue has room, or needs none.
func (t *tee) wait() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.bytes >= teeLimit && !t.lifted {
		t.space.Wait()
	}
}

func (t *tee) run() {
	defer close(t.done)
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		for len(t.queue) == 0 && !t.closed {
			t.more.Wait()
		}
		if len(t.queue) == 0 {
			return
		}
		c := t.queue[0]
		t.queue = t.queue[1:]
		if t.errs[c.stream] == nil {
			t.mu.Unlock()
			_, err := t.writers[c.stream].Write(c.data)
			t.mu.Lock()
			if t.errs[c.stream] == nil {
				t.errs[c.stream] = err
			}
		}
		wasFull := t.bytes >= teeLimit
		t.bytes -= len(c.data)
		if wasFull && t.bytes < teeLimit {
			t.space.Broadcast()
			if t.room != nil {
				t.room()
			}
		}
	}
}

// close waits until all is written, at most as long as given, and returns what
// went wrong with each stream. A writer that is still blocked then gets nothing
// more; the goroutine ends when its Write returns.
func (t *tee) close(patience time.Duration) [2]error {
	if t == nil {
		return [2]error{}
	}
	t.mu.Lock()
	t.closed = true
	t.more.Signal()
	t.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	stalled := false
	select {
	case <-t.done:
	case <-timer.C:
		stalled = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room = nil
	var errs [2]error
	for i, name := range [2]string{"stdout", "stderr"} {
		if stalled && t.writers[i] != nil && t.errs[i] == nil {
			t.errs[i] = errStalled
		}
		if t.errs[i] != nil {
			errs[i] = fmt.Errorf("the live writer of %s: %w", name, t.errs[i])
		}
	}
	return errs
}
