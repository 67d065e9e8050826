package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
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

// brief is how long a command is waited for by a thread of its own. That is the
// quickest way, and what is waited for longer need not be quick: then no thread is
// held.
const brief = 20 * time.Millisecond

// poller is what a worker keeps from command to command: an eventfd by which
// other goroutines end a wait, and for long commands an epoll that the runtime's
// own poller watches.
type poller struct {
	bell int           // 0: none yet
	rung chan struct{} // has an element when the context of a command has rung

	epoll *os.File // nil: none yet
	fd    int      // its descriptor, which File.Fd would make a blocking one
	conn  syscall.RawConn
	until time.Time // when a long wait ends at the latest; zero: never
}

func (p *poller) open() error {
	if p.bell != 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	p.bell, p.rung = fd, make(chan struct{}, 1)
	return nil
}

// await returns once something has happened to one of the descriptors, or next has
// come (zero: never). It holds no thread.
func (p *poller) await(fds []unix.PollFd, next time.Time) (err error) {
	if p.epoll == nil {
		if err := p.openEpoll(); err != nil {
			return err
		}
	}
	if next != p.until {
		if err := p.epoll.SetReadDeadline(next); err != nil {
			return err
		}
		p.until = next
	}
	for _, d := range fds {
		if d.Fd < 0 {
			continue
		}
		if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, int(d.Fd), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: d.Fd}); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
		defer func() {
			err = errors.Join(err, os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, int(d.Fd), nil)))
		}()
	}
	err = p.conn.Read(func(fd uintptr) bool {
		var events [1]unix.EpollEvent
		n, err := unix.EpollWait(int(fd), events[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return err
}

func (p *poller) openEpoll() error {
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
	p.epoll, p.fd, p.conn, p.until = epoll, fd, conn, time.Time{}
	return nil
}

// ring ends the poll. It cannot fail: the descriptor is ours and open, and a
// counter that is full has ended the poll already.
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
	var err error
	if p.bell != 0 {
		err = os.NewSyscallError("close", unix.Close(p.bell))
	}
	if p.epoll != nil {
		err = errors.Join(err, p.epoll.Close())
	}
	*p = poller{}
	return err
}

// The places of a run's descriptors in its poll.
const (
	pollOut  = stdout
	pollErr  = stderr
	pollPid  = 2
	pollBell = 3
)

// watch is the state of the one loop that serves a command: its two outputs,
// its end, its timeout and its cancellation, all in the caller's goroutine. A
// goroutine for each output, woken through the runtime's own poller, costs more
// for a short command: compare BenchmarkRunTrue with BenchmarkOSExec.
type watch struct {
	*run
	pid int
	fds [4]unix.PollFd // a negative descriptor is left out
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

// pidfd is whether the system has them: 1, or -1; 0 before that is known.
var pidfd atomic.Int32

// havePidfd: Linux 5.3 and later, unless a sandbox forbids it. A want of descriptors says
// nothing about that, and is not kept in mind.
func havePidfd() bool {
	if known := pidfd.Load(); known != 0 {
		return known > 0
	}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	switch err {
	case nil:
		pidfd.Store(1)
		return unix.Close(fd) == nil
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
	default:
		pidfd.Store(-1)
	}
	return false
}

// native runs the command with one poll for everything. A map over /bin/true, two
// at a time, takes 7 % more processor time and 8 % more time with portable instead
// (medians of 7 pairs); the tests of this package run under both.
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
		w.fds[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	if err := w.w.open(); err != nil {
		return err
	}
	w.fds[pollBell].Fd = int32(w.w.bell)

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
		w.fds[i].Fd = int32(p[0])
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
	w.fds[pollPid].Fd = int32(pidfd)
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

// shut closes a descriptor of the poll.
func (w *watch) shut(i int) {
	if fd := w.fds[i].Fd; fd >= 0 {
		if err := unix.Close(int(fd)); err != nil {
			w.s.note(os.NewSyscallError("close", err))
		}
		w.fds[i].Fd = -1
	}
}
