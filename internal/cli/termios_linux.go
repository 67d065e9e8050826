package cli

import (
	"fmt"
	"os"
	"runtime"
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

// stopSelf stops a process or group, which bide is or belongs to, and returns when it
// continues, or at once where nobody could continue with us: then the system stops nobody. A
// signal that was once asked for stops a Go program no more, so the system is asked to do what
// it does by default.
//
// The system has any thread of ours heed the signal, and that one may take its time on a
// machine that has much to do. So the thread that we are on gets a signal of its own, which
// means nothing, and heeds with it what is pending for all of us before it runs on.
func stopSelf(who int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault, ours [32]byte // no system has a larger struct sigaction
	set := func(to, was *[32]byte) {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
	}
	set(&byDefault, &ours)
	_ = syscall.Kill(who, syscall.SIGTSTP) // we are there: it cannot fail
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG)
	set(&ours, nil)
}
