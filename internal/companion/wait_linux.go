//go:build amd64 || arm64 || riscv64 || loong64

package companion

import (
	"syscall"
	"unsafe"
)

func init() {
	if !isCompanion() {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP} {
		ignore(sig)
	}
	await(Socket)
}

// isCompanion reads the second word of our command line. The variable os.Args is
// not there yet.
func isCompanion() bool {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	var room [4096]byte
	n, err := syscall.Read(fd, room[:])
	if cerr := syscall.Close(fd); err != nil || cerr != nil {
		return false
	}
	line := room[:max(n, 0)]
	for i, c := range line {
		if c == 0 {
			return len(line) > i+len(Arg)+1 && string(line[i+1:i+1+len(Arg)]) == Arg && line[i+1+len(Arg)] == 0
		}
	}
	return false
}

// ignore has the system ignore a signal. The package os/signal, which would do
// the same, comes with half of the standard library.
func ignore(sig syscall.Signal) {
	const sigIgn = 1
	action := struct {
		handler, flags, restorer uintptr
		mask                     [2]uint64
	}{handler: sigIgn}
	// It cannot fail: the signals exist, and may be ignored.
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// await returns when the other end of the socket is closed; also when the
// descriptor is none, which the one who reads it afterwards will tell. What is
// in the socket is left there.
func await(fd int32) {
	ask := struct {
		fd              int32
		events, revents int16
	}{fd: fd} // the end is told without being asked for
	for {
		// ppoll with neither a time nor a signal mask.
		_, _, err := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, 0, 0, 0, 0)
		if err != syscall.EINTR {
			return
		}
	}
}
