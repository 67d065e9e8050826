//go:build unix && !linux

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ioctlGetTermios = unix.TIOCGETA
	ioctlSetTermios = unix.TIOCSETA
)

// ignoresStop reports whether a process ignores the stop key; it is not told here.
func ignoresStop(int) bool { return false }

// stopSelf stops a process or group, which bide is or belongs to, and returns when it
// continues. A signal that was once asked for stops a Go program no more, so bide itself
// gets one that was not.
func stopSelf(who int) {
	goneOn := make(chan os.Signal, 1)
	signal.Notify(goneOn, syscall.SIGCONT)
	defer signal.Stop(goneOn)
	if who == 0 {
		_ = syscall.Kill(0, syscall.SIGTSTP) // we are there: it cannot fail
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTTOU)
	select {
	case <-goneOn:
	case <-time.After(stopTakes): // nobody could continue with us: the system has not stopped us
	}
}

// stopTakes is a time in which a process has stopped that has sent itself a signal
// to stop.
const stopTakes = 200 * time.Millisecond
