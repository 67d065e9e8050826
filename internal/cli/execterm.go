package cli

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bide-dev/bide/internal/proc"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// console is the terminal that bide itself runs on, for a command that is to
// find everything as if it had been started without bide: a terminal of its
// own stands between, so that its output can be watched and copied.
type console struct {
	tty          *os.File    // ours
	in, out, err bool        // which of our streams are on it
	opened       bool        // tty is ours to close
	piped        bool        // our standard output is read by another
	found        *term.State // the mode of tty as it was found, while it is raw
	presses      atomic.Int32
	press        func(n int32) // called when the key for an interrupt was pressed
	stops        *stops        // what the stop key does
}

// openConsole gives the terminal; nil where none of the streams is one, or
// where bide runs in the background and must not touch it.
func (s *streams) openConsole() *console {
	c := &console{in: isTerminal(s.in), out: isTerminal(s.out), err: isTerminal(s.err)}
	c.piped = !c.out
	switch {
	case c.in:
		c.tty, _ = s.in.(*os.File)
	case c.out || c.err:
		f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil
		}
		c.tty, c.opened = f, true
	default:
		return nil
	}
	if !c.foreground() {
		c.close()
		return nil
	}
	return c
}

// foreground reports whether what is typed on the terminal is for bide.
func (c *console) foreground() bool {
	group, err := unix.IoctlGetInt(int(c.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (c *console) close() {
	if c.opened {
		_ = c.tty.Close() // it was only read
	}
}

// raw hands the keys of our terminal to the command, as they are typed; cooked
// takes that back. Only who is in the foreground may change the terminal's mode,
// and who is not would be stopped.
func (c *console) raw() (err error) {
	if c.found == nil && c.foreground() {
		c.found, err = term.MakeRaw(int(c.tty.Fd()))
		if err == nil && c.piped {
			err = c.keepLines()
		}
	}
	return err
}

// keepLines leaves the ends of lines to our terminal. On it may be who reads the
// command's output, which does not come through the command's terminal.
func (c *console) keepLines() error {
	mode, err := unix.IoctlGetTermios(int(c.tty.Fd()), ioctlGetTermios)
	if err != nil {
		return err
	}
	mode.Oflag |= unix.OPOST
	return unix.IoctlSetTermios(int(c.tty.Fd()), ioctlSetTermios, mode)
}

func (c *console) cooked() {
	if c.found != nil && c.foreground() {
		_ = term.Restore(int(c.tty.Fd()), c.found)
	}
	c.found = nil
}

// attach makes the terminal of one attempt. What is typed goes to it until
// detach is called.
func (c *console) attach() (t *proc.Terminal, detach func(), err error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	t = &proc.Terminal{Master: master, Slave: slave, In: c.in, Out: c.out, Err: c.err}
	if !c.out && !c.err {
		t.Screen = c.tty
	}
	resize := func() { _ = pty.InheritSize(c.tty, master) } // a size that is not known stays 0
	resize()
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, syscall.SIGWINCH)
	if err := c.raw(); err != nil {
		signal.Stop(sizes)
		return nil, nil, errors.Join(err, master.Close(), slave.Close())
	}
	wakeRead, wake, err := os.Pipe()
	if err != nil {
		signal.Stop(sizes)
		c.cooked()
		return nil, nil, errors.Join(err, master.Close(), slave.Close())
	}
	ended := make(chan struct{}, 2)
	go func() {
		defer func() { ended <- struct{}{} }()
		for range sizes {
			resize()
		}
	}()
	go func() {
		defer func() { ended <- struct{}{} }()
		c.forward(t, wakeRead)
	}()
	return t, func() {
		signal.Stop(sizes)
		close(sizes)
		_ = wake.Close()
		<-ended
		<-ended
		_ = wakeRead.Close()
		c.cooked()
		_ = master.Close()
		_ = slave.Close() // closed already, where the command was started
	}, nil
}

// forward passes on what is typed, until wake is closed at its other end.
func (c *console) forward(t *proc.Terminal, wake *os.File) {
	buf := make([]byte, 4096)
	for {
		if !c.foreground() { // we were stopped, and continue without the terminal
			c.found = nil // whoever has it has set it anew
			if !readable(nil, wake, foregroundEvery) {
				return
			}
			continue
		}
		if c.raw() != nil || !readable(c.tty, wake, -1) {
			return
		}
		if !c.foreground() {
			continue // what is typed is another's
		}
		n, err := unix.Read(int(c.tty.Fd()), buf)
		if err != nil && err != unix.EINTR || n == 0 {
			return
		}
		typed := buf[:max(n, 0)]
		mode := modeOf(t.Master)
		for range pressed(mode, typed, unix.VINTR) + pressed(mode, typed, unix.VQUIT) {
			c.press(c.presses.Add(1))
		}
		group := 0
		if pressed(mode, typed, unix.VSUSP) > 0 {
			group = stoppable(t) // before it gets the keys, after which it may have ended
		}
		if _, err := t.Master.Write(typed); err != nil {
			return
		}
		if group > 0 {
			c.suspend(group)
		}
	}
}

// modeOf is the mode of a command's terminal, nil where there is none any more.
func modeOf(master *os.File) (t *unix.Termios) {
	raw, err := master.SyscallConn()
	if err != nil {
		return nil
	}
	if cerr := raw.Control(func(fd uintptr) { t, err = unix.IoctlGetTermios(int(fd), ioctlGetTermios) }); cerr != nil || err != nil {
		return nil
	}
	return t
}

// pressed counts a key that the terminal turns into a signal. A program such as an
// editor may have taken it from it.
func pressed(mode *unix.Termios, typed []byte, key int) int {
	if mode == nil || mode.Lflag&unix.ISIG == 0 {
		return 0
	}
	return bytes.Count(typed, mode.Cc[key:key+1])
}

// readable waits until there is something to read of f, which may be nil, or for
// some milliseconds unless they are negative, and reports false when the other end
// of wake is closed before, or f.
func readable(f, wake *os.File, ms int) bool {
	fds := []unix.PollFd{{Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	if f != nil {
		fds = append(fds, unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLIN})
	}
	for {
		n, err := unix.Poll(fds, ms)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || fds[0].Revents != 0:
			return false
		}
		return n > 0 || ms >= 0
	}
}

// foregroundEvery is how often, in milliseconds, is looked for the terminal while
// it is another's.
const foregroundEvery = 100

// interruptGrace is how long a command has after an interrupt from the
// keyboard before it is asked to end again, by its group.
const interruptGrace = 10 * time.Second

// stoppable is the group that the stop key is to stop, or 0. The command leads a session
// of its own, where the system lets no key stop a process: nobody there could continue with
// it. One that has jobs of its own does with the key what it wants, and so does one that
// ignores it.
func stoppable(t *proc.Terminal) (group int) {
	group = foregroundOf(t.Master)
	if leader, err := unix.Getsid(group); group <= 1 || err != nil || leader != group || ignoresStop(group) {
		return 0
	}
	return group
}

// suspend does what the stop key asks for.
func (c *console) suspend(group int) {
	c.stops.suspend(func() {
		c.cooked()
		stopSelf(0)
		_ = c.raw() // tried again before the next key
	})
	_ = syscall.Kill(-group, syscall.SIGWINCH) // what it drew may be gone; it may be gone itself
}

// foregroundOf is the group that reads a terminal, or 0.
func foregroundOf(master *os.File) (group int) {
	raw, err := master.SyscallConn()
	if err != nil {
		return 0
	}
	if cerr := raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }); cerr != nil || err != nil {
		return 0
	}
	return group
}
