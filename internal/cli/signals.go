package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts turns signals into contexts. The first ends soft: nothing new is
// started, and what runs may end. The second ends hard: everything is stopped.
type interrupts struct {
	soft, hard context.Context
	first      atomic.Int32 // the number of the first signal
	stop       func()
}

var errSignal = errors.New("interrupted")

// watchSignals begins to watch. tell is called at the first signal.
func watchSignals(parent context.Context, tell func(os.Signal)) *interrupts {
	i := &interrupts{}
	var cancelSoft, cancelHard context.CancelCauseFunc
	i.soft, cancelSoft = context.WithCancelCause(parent)
	i.hard, cancelHard = context.WithCancelCause(parent)
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Asked for, a broken pipe is an error of the write and not the end of the
	// process: the run goes on when nobody reads its output any more. Ignoring
	// the signal would do the same, but children inherit that.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case s := <-ch:
				if n == 0 {
					if num, ok := s.(syscall.Signal); ok {
						i.first.Store(int32(num))
					}
					cancelSoft(errSignal)
					tell(s)
					continue
				}
				cancelHard(errSignal)
			case <-done:
				return
			}
		}
	}()
	i.stop = func() {
		signal.Stop(ch)
		signal.Stop(pipe)
		close(done)
		<-ended
		cancelSoft(nil)
		cancelHard(nil)
	}
	return i
}

// status is the exit status of a run that a signal ended.
func (i *interrupts) status() int {
	if n := i.first.Load(); n > 0 {
		return 128 + int(n)
	}
	return 130
}
