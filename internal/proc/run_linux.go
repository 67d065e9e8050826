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

// poller is what a worker keeps from command to command: an eventfd by which
// other goroutines end its poll.
type poller struct {
	bell int           // 0: none yet
	rung chan struct{} // has an element when the context of a command has rung
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
	if p.bell == 0 {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(p.bell))
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
