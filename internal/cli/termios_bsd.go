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

// ignoresStop would report whether a process ignores the stop key; these systems do not say.
func ignoresStop(int) bool { return false }

// stopSelf stops a process or group that bide is or belongs to, and returns when it continues.
// Once a Go program has asked for a signal, that signal no longer stops it, so bide sends
// itself another one, for which it never asked.
func stopSelf(who int) {
	goneOn := make(chan os.Signal, 1)
	signal.Notify(goneOn, syscall.SIGCONT)
	defer signal.Stop(goneOn)
	if who == 0 {
		_ = syscall.Kill(0, syscall.SIGTSTP) // our own group exists: it cannot fail
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTTOU)
	select {
	case <-goneOn:
	case <-time.After(stopTakes): // nobody could continue us, so the system has not stopped us
	}
}

// stopTakes is enough time for a stop signal that a process has sent to itself.
const stopTakes = 200 * time.Millisecond
