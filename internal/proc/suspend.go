//go:build unix

package proc

import (
	"sync"
	"syscall"
	"time"
)

// pause is the time for which the commands were stopped.
type pause struct {
	one    sync.Mutex   // held by whoever stops them
	starts sync.RWMutex // held for reading while a command is started, and by whoever stops them
	mu     sync.Mutex
	total  time.Duration
	since  time.Time // zero: they run
}

// Suspend stops all commands that run, calls stop, and has them continue when it
// returns. The time between does not count for Cmd.Timeout. A command that is to start
// meanwhile waits. While they are stopped it does nothing.
func (s *Supervisor) Suspend(stop func()) {
	p := &s.pause
	if !p.one.TryLock() {
		return
	}
	defer p.one.Unlock()
	p.starts.Lock()
	defer p.starts.Unlock()
	p.mu.Lock()
	p.since = time.Now()
	p.mu.Unlock()
	s.KillAll(syscall.SIGSTOP)
	stop()
	s.KillAll(syscall.SIGCONT)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += time.Since(p.since)
	p.since = time.Time{}
}

// Suspended is for how long the commands have been stopped by Suspend, until now.
func (s *Supervisor) Suspended() time.Duration {
	p := &s.pause
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return p.total
	}
	return p.total + time.Since(p.since)
}
