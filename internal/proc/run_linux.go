package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const maxRSSUnit = 1024 // ru_maxrss is in KiB

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig)) // a real-time signal
}

// poller is what a worker keeps from command to command: an epoll, which the
// runtime's own poller watches, so that a command that is waited for holds no
// thread, and an eventfd in it by which other goroutines end a wait.
type poller struct {
	epoll *os.File // nil: none yet
	fd    int      // its descriptor, which File.Fd would make a blocking one
	conn  syscall.RawConn
	look  func(fd uintptr) bool // takes what has happened, and says whether anything has
	until time.Time             // when a wait ends at the latest; zero: never
	bell  int
	rung  chan struct{} // has an element when the context of a command has rung

	// What the last look took.
	events [pollBell + 1]unix.EpollEvent
	n      int
	err    error
}

func (p *poller) open() error {
	if p.epoll != nil {
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // what is not, the runtime does not watch
		return errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	epoll := os.NewFile(uintptr(fd), "epoll")
	conn, err := epoll.SyscallConn()
	if err != nil {
		return errors.Join(err, epoll.Close())
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return errors.Join(os.NewSyscallError("eventfd", err), epoll.Close())
	}
	if err := add(fd, bell, pollBell); err != nil {
		return errors.Join(err, epoll.Close(), unix.Close(bell))
	}
	p.epoll, p.fd, p.conn, p.bell, p.rung = epoll, fd, conn, bell, make(chan struct{}, 1)
	p.look = func(fd uintptr) bool {
		for {
			p.n, p.err = unix.EpollWait(int(fd), p.events[:], 0)
			if p.err != unix.EINTR {
				return p.n != 0
			}
		}
	}
	return nil
}

// add has an epoll tell of a descriptor, by its place.
func add(epoll, fd, place int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(place)}))
}

// wait gives what has happened, once something has, and nothing when next has come
// (zero: never).
func (p *poller) wait(next time.Time) ([]unix.EpollEvent, error) {
	if next != p.until {
		if err := p.epoll.SetReadDeadline(next); err != nil {
			return nil, err
		}
		p.until = next
	}
	err := p.conn.Read(p.look)
	if errors.Is(err, os.ErrDeadlineExceeded) { // which it is from then on
		p.look(uintptr(p.fd))
		err = nil
	}
	return p.events[:max(p.n, 0)], errors.Join(os.NewSyscallError("epoll_wait", p.err), err)
}

// ring ends the wait. It cannot fail: the descriptor is ours and open, and a
// counter that is full has ended the wait already.
func (p *poller) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(p.bell, one[:])
}

// silence takes back earlier rings, of the command before as well, if there are
// any.
func (p *poller) silence() {
	var count [8]byte
	_, _ = unix.Read(p.bell, count[:])
}

func (p *poller) close() error {
	if p.epoll == nil {
		return nil
	}
	err := errors.Join(p.epoll.Close(), os.NewSyscallError("close", unix.Close(p.bell)))
	*p = poller{}
	return err
}

// The places of a command's descriptors in the epoll.
const (
	pollOut  = stdout
	pollErr  = stderr
	pollPid  = 2
	pollBell = 3
)

// watch is the state of the one loop that serves a command: its two outputs,
// its end, its timeout and its cancellation, all in the caller's goroutine. A
// goroutine for each output, and a thread that waits for the end, cost more:
// compare BenchmarkRunTrue with BenchmarkOSExec.
type watch struct {
	*run
	pid int
	fds [3]watched
	buf *[bufSize]byte // nil until there is output

	timeout time.Time     // when the command has had its time; zero: never
	kill    time.Time     // when SIGKILL is due; zero: the group was not told to end
	killed  bool          // SIGKILL was sent
	exited  bool          // the leader has ended, and keeps its id until it is reaped
	linger  time.Time     // how long an output may be held open after that; zero: not set
	reaped  bool          // the leader's id is free if nobody of its group is left
	empty   bool          // nobody of the group is left
	pause   time.Duration // between two looks at the group
	swept   bool          // what left the group has been looked for
	giveUp  time.Time     // how long we wait for the outputs after that
	gaveUp  bool
}

// watched is a descriptor that a command's loop has open.
type watched struct {
	fd int  // negative: it is closed
	in bool // the epoll tells of it
}

// havePidfd: Linux 5.3 and later, unless a sandbox forbids it.
var havePidfd = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
})

// native runs the command with one poll for everything.
func (r *run) native() error {
	if !havePidfd() {
		return r.portable()
	}
	w := watch{run: r}
	if err := w.start(); err != nil {
		return err
	}
	if d := r.cmd.Timeout; d > 0 {
		w.timeout = r.res.Start.Add(d)
	}
	if r.ctx.Done() != nil {
		stop := context.AfterFunc(r.ctx, func() {
			r.w.ring()
			r.w.rung <- struct{}{}
		})
		defer func() {
			if !stop() {
				<-r.w.rung // it has rung, and will not ring in the next command
			}
		}()
	}
	r.s.note(w.serve())
	return nil
}

// start opens the descriptors and starts the command.
func (w *watch) start() (err error) {
	for i := range w.fds {
		w.fds[i].fd = -1
	}
	if err := w.w.open(); err != nil {
		return err
	}

	files := [3]uintptr{w.s.devNull.Fd()}
	var childs [3]int // descriptors to close here once the command has them
	n := 0
	defer func() {
		for _, fd := range childs[:n] {
			err = errors.Join(err, unix.Close(fd))
		}
		if err != nil {
			w.shut(pollOut)
			w.shut(pollErr)
		}
	}()
	for i := range 2 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return os.NewSyscallError("pipe2", err)
		}
		w.fds[i].fd = p[0]
		files[1+i] = uintptr(p[1])
		childs[n] = p[1]
		n++
	}
	switch {
	case w.cmd.Stdin != nil:
		files[0] = w.cmd.Stdin.Fd()
	case w.cmd.Input != nil:
		fd, err := memory(w.cmd.Input)
		if err != nil {
			return err
		}
		files[0] = uintptr(fd)
		childs[n] = fd
		n++
	}
	pidfd := -1
	w.pid, err = w.run.start(files[:], &syscall.SysProcAttr{Setsid: w.s.session, Setpgid: !w.s.session, PidFD: &pidfd})
	w.fds[pollPid].fd = pidfd
	return err
}

// memory gives a file without a name that holds text. Unlike a pipe it takes
// any length without anyone to feed it.
func memory(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	for at := 0; at < len(text); {
		n, err := unix.Pwrite(fd, text[at:], int64(at))
		if err != nil && err != unix.EINTR {
			return -1, errors.Join(os.NewSyscallError("write", err), unix.Close(fd))
		}
		at += max(n, 0)
	}
	return fd, nil
}

// shut closes a descriptor. The epoll forgets it first: a process that is being
// forked may hold it open until its own exec.
func (w *watch) shut(i int) {
	d := &w.fds[i]
	if d.fd < 0 {
		return
	}
	w.s.note(w.tell(i, false))
	if err := unix.Close(d.fd); err != nil {
		w.s.note(os.NewSyscallError("close", err))
	}
	d.fd = -1
}

// tell has the epoll tell of an open descriptor from now on, or no more.
func (w *watch) tell(i int, in bool) error {
	d := &w.fds[i]
	if d.fd < 0 || d.in == in {
		return nil
	}
	d.in = in
	if in {
		return add(w.w.fd, d.fd, i)
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.w.fd, unix.EPOLL_CTL_DEL, d.fd, nil))
}
