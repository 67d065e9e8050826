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
	tty          *os.File // ours
	in, out, err bool     // which of our streams are on it
	opened       bool     // tty is ours to close
	presses      atomic.Int32
	press        func(n int32) // called when the key for an interrupt was pressed
}

// openConsole gives the terminal; nil where none of the streams is one, or
// where bide runs in the background and must not touch it.
func (a *app) openConsole() *console {
	c := &console{in: isTerminal(a.in), out: isTerminal(a.out), err: isTerminal(a.err)}
	switch {
	case c.in:
		c.tty, _ = a.in.(*os.File)
	case c.out || c.err:
		f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil
		}
		c.tty, c.opened = f, true
	default:
		return nil
	}
	foreground, err := unix.IoctlGetInt(int(c.tty.Fd()), unix.TIOCGPGRP)
	if err != nil || foreground != unix.Getpgrp() {
		c.close()
		return nil
	}
	return c
}

func (c *console) close() {
	if c.opened {
		_ = c.tty.Close() // it was only read
	}
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
	state, err := term.MakeRaw(int(c.tty.Fd()))
	if err != nil {
		signal.Stop(sizes)
		return nil, nil, errors.Join(err, master.Close(), slave.Close())
	}
	wakeRead, wake, err := os.Pipe()
	if err != nil {
		signal.Stop(sizes)
		return nil, nil, errors.Join(err, term.Restore(int(c.tty.Fd()), state), master.Close(), slave.Close())
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
		c.forward(master, wakeRead)
	}()
	return t, func() {
		signal.Stop(sizes)
		close(sizes)
		_ = wake.Close()
		<-ended
		<-ended
		_ = wakeRead.Close()
		_ = term.Restore(int(c.tty.Fd()), state)
		_ = master.Close()
		_ = slave.Close() // closed already, where the command was started
	}, nil
}

// forward passes on what is typed, until wake is closed at its other end.
func (c *console) forward(master, wake *os.File) {
	buf := make([]byte, 4096)
	for readable(c.tty, wake) {
		n, err := unix.Read(int(c.tty.Fd()), buf)
		if err != nil && err != unix.EINTR || n == 0 {
			return
		}
		typed := buf[:max(n, 0)]
		for range c.interrupts(master, typed) {
			c.press(c.presses.Add(1))
		}
		if _, err := master.Write(typed); err != nil {
			return
		}
	}
}

// interrupts counts the keys that the terminal turns into an interrupt. A
// program such as an editor may have taken them from it.
func (c *console) interrupts(master *os.File, typed []byte) int {
	raw, err := master.SyscallConn()
	if err != nil {
		return 0
	}
	var t *unix.Termios
	if cerr := raw.Control(func(fd uintptr) { t, err = unix.IoctlGetTermios(int(fd), ioctlGetTermios) }); cerr != nil || err != nil || t.Lflag&unix.ISIG == 0 {
		return 0
	}
	return bytes.Count(typed, t.Cc[unix.VINTR:unix.VINTR+1]) + bytes.Count(typed, t.Cc[unix.VQUIT:unix.VQUIT+1])
}

// readable waits until there is something to read, and reports false when the
// other end of wake is closed before.
func readable(f, wake *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || fds[1].Revents != 0:
			return false
		}
		return fds[0].Revents != 0
	}
}

// interruptGrace is how long a command has after an interrupt from the
// keyboard before it is asked to end again, by its group.
const interruptGrace = 10 * time.Second
