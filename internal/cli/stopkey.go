//go:build unix

package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stops does what the stop key asks for: bide and its commands are stopped, and go
// on together. The commands have groups or sessions of their own, so that nobody
// but bide can stop them.
type stops struct {
	mu    sync.Mutex
	hold  func(stop func()) // stops the commands while stop runs; nil: there are none yet
	clear func() func()     // takes from the terminal what is shown there, and gives it back; nil: nothing is
}

// watch begins to heed the signal of the key, which comes where no command has the
// terminal, until done.
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

// begin notes what is to be held from now on.
func (s *stops) begin(hold func(stop func()), clear func() func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold, s.clear = hold, clear
}

// suspend holds the commands while stop runs.
func (s *stops) suspend(stop func()) {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold == nil {
		hold = func(stop func()) { stop() }
	}
	hold(stop)
}

// signalled is for the key where no command has the terminal.
func (s *stops) signalled() {
	s.mu.Lock()
	clear := s.clear
	s.mu.Unlock()
	if clear != nil {
		defer clear()()
	}
	stopSelf(os.Getpid())
}
