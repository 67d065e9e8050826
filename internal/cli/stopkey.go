//go:build unix

package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stops handles the stop key: it stops bide together with its commands, which also continue
// together. The commands have groups or sessions of their own, so only bide can stop them.
type stops struct {
	mu    sync.Mutex
	hold  func(stop func()) // stops the commands while stop runs; nil: there are none yet
	clear func() func()     // removes what the terminal shows, and returns a function that restores it; nil: nothing to remove
}

// watch handles the signal of the key until done. The signal comes if no command has the
// terminal.
func (s *stops) watch(done <-chan struct{}) {
	if signal.Ignored(syscall.SIGTSTP) {
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTSTP)
	go func() {
		defer signal.Stop(asked)
		for {
			select {
			case <-asked:
				s.suspend(s.signalled)
			case <-done:
				return
			}
		}
	}()
}

// begin sets what suspend uses from now on.
func (s *stops) begin(hold func(stop func()), clear func() func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold, s.clear = hold, clear
}

// suspend stops the commands while stop runs.
func (s *stops) suspend(stop func()) {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold == nil {
		hold = func(stop func()) { stop() }
	}
	hold(stop)
}

// signalled handles the key if no command has the terminal.
func (s *stops) signalled() {
	s.mu.Lock()
	clear := s.clear
	s.mu.Unlock()
	if clear != nil {
		defer clear()()
	}
	stopSelf(os.Getpid())
}
