package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// interrupts turns signals into contexts. The first signal ends soft: nothing new starts, and
// running steps may end. The second ends hard: everything is stopped.
type interrupts struct {
	soft, hard context.Context
	first      atomic.Int32         // the number of the first signal
	raise      func(syscall.Signal) // acts as if this signal had come
	ready      func()               // returns once signals are handled
	stop       func()
	stops      stops
}

var errSignal = errors.New("interrupted")

// signalError is errSignal with the signal, with which the process then ends itself.
type signalError struct{ signal syscall.Signal }

func (signalError) Error() string            { return errSignal.Error() }
func (signalError) Unwrap() error            { return errSignal }
func (e signalError) Signal() syscall.Signal { return e.signal }

// watchSignals begins to watch for signals, in the background: for each signal, the runtime
// changes the mask of a thread, and the start of a run must not wait for that. watchSignals
// calls tell at the first signal.
func watchSignals(parent context.Context, tell func(os.Signal)) *interrupts {
	i := &interrupts{}
	var cancelSoft, cancelHard context.CancelCauseFunc
	i.soft, cancelSoft = context.WithCancelCause(parent)
	i.hard, cancelHard = context.WithCancelCause(parent)
	ch := make(chan os.Signal, 4)
	i.raise = func(s syscall.Signal) {
		select {
		case ch <- s:
		default: // as with real signals, four waiting ones are enough
		}
	}
	pipe := make(chan os.Signal, 1)
	done, ready, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	i.ready = func() { <-ready }
	go func() {
		signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
		if !signal.Ignored(syscall.SIGHUP) { // nohup has the run outlive its terminal
			signal.Notify(ch, syscall.SIGHUP)
		}
		// With Notify, a broken pipe is an error of the write and does not end the process:
		// the run continues when nobody reads its output any more. Ignoring the signal would
		// do the same, but children would inherit that.
		signal.Notify(pipe, syscall.SIGPIPE)
		i.stops.watch(done)
		close(ready)
	}()
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case s := <-ch:
				num, _ := s.(syscall.Signal)
				if n == 0 {
					i.first.Store(int32(num))
					cancelSoft(signalError{num})
					tell(s)
					continue
				}
				cancelHard(signalError{num})
			case <-done:
				return
			}
		}
	}()
	i.stop = func() {
		go func() { // the process nearly always ends before
			i.ready()
			signal.Stop(ch)
			signal.Stop(pipe)
		}()
		close(done)
		<-ended
		cancelSoft(nil)
		cancelHard(nil)
	}
	return i
}

// stuckPatience is how long, after an interrupt, readers may take to read the rest of the
// output.
const stuckPatience = 700 * time.Millisecond

// patience returns a context for waiting for readers of the output: without a bound at first,
// and for a short time after an interrupt.
func (i *interrupts) patience() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(i.soft, func() {
		t := time.AfterFunc(stuckPatience, cancel)
		context.AfterFunc(ctx, func() { t.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// status is the exit status of a run that a signal ended.
func (i *interrupts) status() int {
	if n := i.first.Load(); n > 0 {
		return 128 + int(n)
	}
	return 130
}

// signalStatus is the exit status of a run that a signal ended; the signal is the cause of the
// context.
func signalStatus(soft context.Context) int {
	if s := (signalError{}); errors.As(context.Cause(soft), &s) {
		return 128 + int(s.signal)
	}
	return 130
}
