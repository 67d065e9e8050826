package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// outputs are our streams for the command's output: the first error stops the command, as a
// broken pipe would have.
type outputs struct {
	out, err io.Writer
	failed   atomic.Pointer[error]
	stop     context.CancelCauseFunc
}

func newOutputs(out, err io.Writer, sig *interrupts, stop context.CancelCauseFunc) *outputs {
	o := &outputs{stop: stop}
	o.out, o.err = &outputWriter{o: o, w: out, sig: sig}, &outputWriter{o: o, w: err, sig: sig}
	return o
}

// errStuck is the error of a write that no reader accepted in the time left after an
// interrupt.
var errStuck = errors.New("nobody reads the output")

// outputWriter writes from a goroutine, so that a reader who has stopped reading cannot delay
// an interrupt. An abandoned write ends with its reader, or with the program.
type outputWriter struct {
	o   *outputs
	w   io.Writer
	sig *interrupts

	mu    sync.Mutex // one write at a time
	stuck bool       // a write was abandoned; further ones would come out of order
}

func (w *outputWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck {
		return 0, errStuck
	}
	var n int
	var err error
	written := make(chan struct{})
	data := bytes.Clone(p) // after an abandoned write, p belongs to the caller again
	go func() {
		defer close(written)
		n, err = w.w.Write(data)
	}()
	if !w.taken(written) {
		w.stuck = true
		return 0, errStuck
	}
	if err != nil && w.o.failed.CompareAndSwap(nil, &err) {
		w.o.stop(signalError{syscall.SIGPIPE})
	}
	return n, err
}

// taken waits for a write: without a bound at first, a moment longer after the first signal,
// and no longer after the second.
func (w *outputWriter) taken(written <-chan struct{}) bool {
	select {
	case <-written:
		return true
	case <-w.sig.soft.Done():
	}
	select {
	case <-written:
		return true
	case <-w.sig.hard.Done():
	case <-time.After(stuckPatience):
	}
	return false
}
