//go:build unix && !linux

package cli

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	ioctlGetTermios = unix.TIOCGETA
	ioctlSetTermios = unix.TIOCSETA
)

// ignoresStop reports whether a process ignores the stop key; it is not told here.
func ignoresStop(int) bool { return false }

// sendStop stops a process or group that bide is or belongs to, and calls wait, which
// returns when it continues. A signal that was once asked for stops a Go program no
// more, so bide itself gets one that was not.
func sendStop(who int, wait func()) {
	if who == 0 {
		_ = syscall.Kill(0, syscall.SIGTSTP) // we are there: it cannot fail
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTTOU)
	wait()
}
