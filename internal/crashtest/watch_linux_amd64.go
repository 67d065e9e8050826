package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported is nil where effects can be watched.
func Supported() error { return nil }

// The forms of struct seccomp_notif and seccomp_notif_resp.
type (
	notice struct {
		id    uint64
		pid   uint32
		flags uint32
		nr    int32
		arch  uint32
		ip    uint64
		args  [6]uint64
	}
	answer struct {
		id    uint64
		val   int64
		errno int32
		flags uint32
	}
)

// Watch is a program whose effects are watched.
type Watch struct {
	cmd      *exec.Cmd
	listener int
	decide   func(Effect) Verdict
	done     chan struct{}

	mu   sync.Mutex
	pids map[int]bool // whose effects were seen
}

// Start starts cmd, the test binary itself or another program, with decide asked about
// each effect of it and its children, one after another. cmd.ExtraFiles must be nil. The
// main function of the test binary calls [Launch].
func Start(cmd *exec.Cmd, decide func(Effect) Verdict) (*Watch, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "listener")
	defer unix.Close(pair[0])
	cmd.ExtraFiles = []*os.File{theirs}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], socketVar+"="+cmd.Path)
	cmd.Path = self
	err = cmd.Start()
	err = errors.Join(err, theirs.Close())
	if err != nil {
		return nil, err
	}
	w := &Watch{cmd: cmd, decide: decide, done: make(chan struct{}), pids: map[int]bool{}}
	if w.listener, err = receive(pair[0]); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("the listener of %s did not come: %w", cmd.Path, err)
	}
	go w.serve()
	return w, nil
}

func receive(socket int) (fd int, err error) {
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), space, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(messages) == 0 {
		return 0, errors.Join(err, errors.New("the program ended before"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

// Wait waits until the program and all its children have ended, and gives the program's
// end as [exec.Cmd.Wait] does.
func (w *Watch) Wait() error {
	err := w.cmd.Wait()
	<-w.done
	return err
}

// serve answers until no process with the filter is left.
func (w *Watch) serve() {
	defer close(w.done)
	defer unix.Close(w.listener)
	for {
		fds := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 || fds[0].Revents&unix.POLLIN == 0 {
			return // a hang-up: nobody is left
		}
		var q notice
		if err := ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); err != nil {
			continue // whoever asked has ended
		}
		if w.handle(&q) {
			w.end()
			return
		}
	}
}

// handle answers one call; true ends everyone.
func (w *Watch) handle(q *notice) (end bool) {
	a := answer{id: q.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if e, ok := w.effect(q); ok {
		w.mu.Lock()
		w.pids[e.PID] = true
		w.mu.Unlock()
		v := w.decide(e)
		switch v.End {
		case Everyone:
			return true
		case Main:
			_ = w.cmd.Process.Kill()
		case This:
			_ = unix.Kill(e.PID, unix.SIGKILL)
			return false
		}
		if v.Errno != 0 {
			a.flags, a.errno = 0, -int32(v.Errno)
		}
	}
	_ = ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) // whoever asked may have ended
	return false
}

// end kills all: nobody is answered any more, so no effect is made meanwhile.
func (w *Watch) end() {
	for {
		left := w.living()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// living lists the processes that have this filter: those whose effects were seen, and
// their children.
func (w *Watch) living() (out []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids[w.cmd.Process.Pid] = true
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		if w.pids[parent] && parent != os.Getpid() {
			w.pids[pid] = true
		}
		if w.pids[pid] {
			out = append(out, pid)
		}
	}
	return out
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// effect reads what a call is about to do; false for one on what is no file.
func (w *Watch) effect(q *notice) (e Effect, ok bool) {
	p := process{tid: int(q.pid), dir: "/proc/" + strconv.Itoa(int(q.pid))}
	e.PID, e.Program = p.leader(), p.name()
	a := q.args
	fd := func(i int) string { return p.file(int(int32(a[i]))) }
	at := func(i int) string { return p.at(int(int32(a[i])), p.text(a[i+1])) }
	here := func(i int) string { return p.at(unix.AT_FDCWD, p.text(a[i])) }
	switch q.nr {
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		e.Kind, e.Path = Write, fd(0)
		e.Offset = p.position(int(int32(a[0])), e.Path)
	case unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2:
		e.Kind, e.Path, e.Offset = Write, fd(0), int64(a[3])
	case unix.SYS_FTRUNCATE:
		e.Kind, e.Path, e.Offset = Truncate, fd(0), int64(a[1])
	case unix.SYS_TRUNCATE:
		e.Kind, e.Path, e.Offset = Truncate, here(0), int64(a[1])
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		e.Kind, e.Path = Sync, fd(0)
	case unix.SYS_SYNCFS, unix.SYS_SYNC:
		e.Kind = SyncAll
	case unix.SYS_OPEN:
		e.Kind, e.Path, e.Flags, e.Mode = Create, here(0), int(a[1]), uint32(a[2])
	case unix.SYS_CREAT:
		e.Kind, e.Path, e.Flags, e.Mode = Create, here(0), unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY, uint32(a[1])
	case unix.SYS_OPENAT:
		e.Kind, e.Path, e.Flags, e.Mode = Create, at(0), int(a[2]), uint32(a[3])
	case unix.SYS_OPENAT2:
		how := p.read(a[2], 16)
		if len(how) < 16 {
			return e, false
		}
		e.Kind, e.Path = Create, at(0)
		e.Flags, e.Mode = int(*(*uint64)(unsafe.Pointer(&how[0]))), uint32(*(*uint64)(unsafe.Pointer(&how[8])))
		if e.Flags&(unix.O_CREAT|unix.O_TRUNC) == 0 {
			return e, false
		}
	case unix.SYS_RENAME:
		e.Kind, e.Path, e.To = Rename, here(0), here(1)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		e.Kind, e.Path, e.To = Rename, at(0), at(2)
		if q.nr == unix.SYS_RENAMEAT2 {
			e.Flags = int(a[4])
		}
	case unix.SYS_LINK:
		e.Kind, e.Path, e.To = Link, here(0), here(1)
	case unix.SYS_LINKAT:
		e.Kind, e.Path, e.To = Link, at(0), at(2)
	case unix.SYS_SYMLINK:
		e.Kind, e.Path, e.To = Symlink, p.text(a[0]), here(1)
	case unix.SYS_SYMLINKAT:
		e.Kind, e.Path, e.To = Symlink, p.text(a[0]), at(1)
	case unix.SYS_UNLINK:
		e.Kind, e.Path = Remove, here(0)
	case unix.SYS_RMDIR:
		e.Kind, e.Path = Rmdir, here(0)
	case unix.SYS_UNLINKAT:
		e.Kind, e.Path = Remove, at(0)
		if a[2]&unix.AT_REMOVEDIR != 0 {
			e.Kind = Rmdir
		}
	case unix.SYS_MKDIR:
		e.Kind, e.Path, e.Mode = Mkdir, here(0), uint32(a[1])
	case unix.SYS_MKDIRAT:
		e.Kind, e.Path, e.Mode = Mkdir, at(0), uint32(a[2])
	case unix.SYS_CHMOD:
		e.Kind, e.Path, e.Mode = Chmod, here(0), uint32(a[1])
	case unix.SYS_FCHMOD:
		e.Kind, e.Path, e.Mode = Chmod, fd(0), uint32(a[1])
	case unix.SYS_FCHMODAT:
		e.Kind, e.Path, e.Mode = Chmod, at(0), uint32(a[2])
	case unix.SYS_EXECVE:
		e.Kind, e.Path = Exec, here(0)
	case unix.SYS_EXECVEAT:
		e.Kind, e.Path = Exec, at(0)
	}
	if e.Kind != SyncAll && (e.Kind == 0 || e.Kind != Symlink && !filepath.IsAbs(e.Path) || strings.HasSuffix(e.Path, " (deleted)")) {
		return e, false
	}
	if e.Kind == Write {
		if strings.HasPrefix(e.Path, "/dev/") || strings.HasPrefix(e.Path, "/proc/") {
			return e, false
		}
		switch q.nr {
		case unix.SYS_WRITE, unix.SYS_PWRITE64:
			e.Data = p.read(a[1], int(a[2]))
		default:
			e.Data = p.gather(a[1], int(a[2]))
		}
	}
	return e, true
}

// process is who makes a call.
type process struct {
	tid int
	dir string
}

func (p process) name() string {
	b, _ := os.ReadFile(p.dir + "/comm")
	return strings.TrimSpace(string(b))
}

// leader is the process that a thread is of.
func (p process) leader() int {
	b, _ := os.ReadFile(p.dir + "/status")
	_, rest, _ := bytes.Cut(b, []byte("\nTgid:\t"))
	id, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(id))
	if err != nil {
		return p.tid
	}
	return n
}

func (p process) file(fd int) string {
	path, _ := os.Readlink(p.dir + "/fd/" + strconv.Itoa(fd))
	return path
}

func (p process) at(fd int, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	dir := ""
	if fd == unix.AT_FDCWD {
		dir, _ = os.Readlink(p.dir + "/cwd")
	} else {
		dir = p.file(fd)
	}
	return filepath.Join(dir, path)
}

// position is where a write to a descriptor goes.
func (p process) position(fd int, path string) int64 {
	b, _ := os.ReadFile(p.dir + "/fdinfo/" + strconv.Itoa(fd))
	var pos, flags int64
	for line := range strings.Lines(string(b)) {
		name, val, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "pos":
			pos, _ = strconv.ParseInt(strings.TrimSpace(val), 10, 64)
		case "flags":
			flags, _ = strconv.ParseInt(strings.TrimSpace(val), 8, 64)
		}
	}
	if flags&unix.O_APPEND != 0 {
		if info, err := os.Stat(path); err == nil {
			return info.Size()
		}
	}
	return pos
}

// read gives n bytes of the process's memory, fewer where they are not all its own.
func (p process) read(addr uint64, n int) []byte {
	if n <= 0 {
		return nil
	}
	b := make([]byte, n)
	got, err := unix.ProcessVMReadv(p.tid, []unix.Iovec{{Base: &b[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(addr), Len: n}}, 0)
	if err != nil {
		return nil
	}
	return b[:got]
}

// text reads a string that ends with a zero byte. It is read up to the next page each
// time, as the page behind it may be nobody's.
func (p process) text(addr uint64) string {
	const page = 4096
	var out []byte
	for len(out) < 2*page {
		b := p.read(addr, page-int(addr%page))
		text, _, end := bytes.Cut(b, []byte{0})
		out = append(out, text...)
		if end || len(b) == 0 {
			break
		}
		addr += uint64(len(b))
	}
	return string(out)
}

// gather reads what an array of n struct iovec holds.
func (p process) gather(addr uint64, n int) (out []byte) {
	b := p.read(addr, n*16)
	for ; len(b) >= 16; b = b[16:] {
		out = append(out, p.read(*(*uint64)(unsafe.Pointer(&b[0])), int(*(*uint64)(unsafe.Pointer(&b[8]))))...)
	}
	return out
}
