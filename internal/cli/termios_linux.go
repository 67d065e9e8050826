package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ioctlGetTermios = unix.TCGETS
	ioctlSetTermios = unix.TCSETS
)

// ignoresStop reports whether a process ignores the stop key.
func ignoresStop(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	return err == nil && mask&(1<<(syscall.SIGTSTP-1)) != 0
}

// sendStop stops a process or group that bide is or belongs to, and calls wait, which
// returns when it continues. A signal that was once asked for stops a Go program no
// more, so the system is asked to do what it does by default.
func sendStop(who int, wait func()) {
	var byDefault, ours [32]byte // no system has a larger struct sigaction
	set := func(to, was *[32]byte) {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
	}
	set(&byDefault, &ours)
	_ = syscall.Kill(who, syscall.SIGTSTP) // we are there: it cannot fail
	wait()
	set(&ours, nil)
}
