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

// outputs are our streams as the command writes on them: the first error stops
// the command, as a broken pipe would have stopped it.
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

// errStuck is of a write that nobody took before the interrupt ended its patience.
var errStuck = errors.New("nobody reads the output")

// outputWriter writes from a goroutine, so that a reader who reads no more
// cannot hold back an interrupt. A write that is given up ends with its reader,
// or with the program.
type outputWriter struct {
	o   *outputs
	w   io.Writer
	sig *interrupts

	mu    sync.Mutex // one write at a time
	stuck bool       // a write was given up; more would come out of order
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
	data := bytes.Clone(p) // p is the caller's again after a write that is given up
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

// taken waits for a write: as long as it takes, a moment longer after the first
// signal, and no longer after the second.
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
