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

// stopSelf stops a process or group that bide is or belongs to, and returns when it continues.
// If nobody could continue us, the system stops nobody, and it returns immediately. Once a Go
// program has asked for a signal, that signal no longer stops it, so stopSelf restores the
// system's default.
//
// The system lets any of our threads handle the signal, and on a busy machine that thread may
// be late. So the present thread gets a signal of its own, which means nothing: before it
// continues, it handles with it every signal that is pending for the process.
func stopSelf(who int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault, ours [32]byte // no system has a larger struct sigaction
	set := func(to, was *[32]byte) {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
	}
	set(&byDefault, &ours)
	_ = syscall.Kill(who, syscall.SIGTSTP) // our own group exists: it cannot fail
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG)
	set(&ours, nil)
}
