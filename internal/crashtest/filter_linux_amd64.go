package crashtest

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The numbers of bytes in struct seccomp_data where its fields begin.
const (
	dataNumber = 0
	dataArgs   = 16
)

// reported are the system calls that always report; opening reports only where it makes
// or empties a file.
var reported = []uint32{
	unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2,
	unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_SYNC,
	unix.SYS_CREAT, unix.SYS_OPENAT2,
	unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_SYMLINK, unix.SYS_SYMLINKAT,
	unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_RMDIR, unix.SYS_MKDIR, unix.SYS_MKDIRAT,
	unix.SYS_CHMOD, unix.SYS_FCHMOD, unix.SYS_FCHMODAT,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
}

// refused are calls that copy between files within the kernel. Programs write where
// there are none, and what is written is seen.
var refused = []uint32{unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE, unix.SYS_SENDFILE, unix.SYS_IO_URING_SETUP, unix.SYS_FALLOCATE}

func program() []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(jump uint16, k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | jump | unix.BPF_K, K: k, Jf: skip}
	}
	give := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	out := []unix.SockFilter{load(dataNumber)}
	for _, n := range reported {
		out = append(out, unless(unix.BPF_JEQ, n, 1), give(unix.SECCOMP_RET_USER_NOTIF))
	}
	for _, n := range refused {
		out = append(out, unless(unix.BPF_JEQ, n, 1), give(unix.SECCOMP_RET_ERRNO|uint32(unix.EOPNOTSUPP)))
	}
	for n, arg := range map[uint32]uint32{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2} {
		out = append(out, unless(unix.BPF_JEQ, n, 4), load(dataArgs+8*arg),
			unless(unix.BPF_JSET, unix.O_CREAT|unix.O_TRUNC, 1), give(unix.SECCOMP_RET_USER_NOTIF), give(unix.SECCOMP_RET_ALLOW))
	}
	return append(out, give(unix.SECCOMP_RET_ALLOW))
}

// socketVar names the program that [Launch] becomes; the socket for the listener is
// descriptor 3.
const socketVar = "CRASHTEST_PROGRAM"

// Launch is the first thing that the main function of a test binary calls whose tests
// call [Start]: in a process that Start has made it installs the filter, becomes the
// program, and does not return.
func Launch() {
	path := os.Getenv(socketVar)
	if path == "" {
		return
	}
	fmt.Fprintln(os.Stderr, launch(path))
	os.Exit(127)
}

func launch(path string) error {
	runtime.LockOSThread()
	if err := os.Unsetenv(socketVar); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	code := program()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("install the filter: %w", errno)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return fmt.Errorf("send the listener: %w", err)
	}
	unix.CloseOnExec(3)
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
}
