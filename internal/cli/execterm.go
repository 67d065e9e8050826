package cli

import (
	"bytes"
	"encoding/binary"
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

// console is the terminal that bide itself runs on. The command should find everything as if
// it had been started without bide. Its output must also be watched and copied, so it gets a
// terminal of its own in between.
type console struct {
	tty          *os.File    // ours
	in, out, err bool        // which of our streams are connected to it
	opened       bool        // we opened tty and must close it
	piped        bool        // another program reads our standard output
	found        *term.State // the mode of tty before we set it to raw
	presses      atomic.Int32
	press        func(n int32) // called when the user presses the interrupt key
	stops        *stops        // what the stop key does
	apart        bool          // standard output has a terminal of its own, without the echo
	shown        unix.Termios  // the mode of that terminal when it was last read
}

// openConsole opens the terminal; nil if none of the streams is one, or if bide runs in the
// background and must not touch it.
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

// foreground reports whether bide gets what the user types.
func (c *console) foreground() bool {
	group, err := unix.IoctlGetInt(int(c.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (c *console) close() {
	if c.opened {
		_ = c.tty.Close() // it was only read
	}
}

// raw passes the keys of our terminal to the command as they are typed; cooked undoes that.
// Only a process in the foreground may change the terminal's mode; the system would stop any
// other.
func (c *console) raw() (err error) {
	if c.found == nil && c.foreground() {
		c.found, err = term.MakeRaw(int(c.tty.Fd()))
		if err == nil && c.piped {
			err = c.keepLines()
		}
	}
	return err
}

// keepLines makes our terminal convert line ends again. A program that reads the command's
// output may be writing to it directly, and not through the command's terminal.
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

// terminal creates the terminal of one attempt.
func (c *console) terminal() (t *proc.Terminal, close func() error, err error) {
	t = &proc.Terminal{In: c.in, Out: c.out, Err: c.err}
	close = func() (err error) {
		for _, f := range t.Files() {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	if t.Master, t.Slave, err = pty.Open(); err != nil {
		return nil, nil, err
	}
	if c.apart && c.out {
		shown := &proc.Pair{}
		if shown.Master, shown.Slave, err = pty.Open(); err != nil {
			return nil, nil, errors.Join(err, close())
		}
		t.Shown, t.Out = shown, false
		if mode := modeOf(shown.Master); mode != nil {
			c.shown = *mode
		}
	}
	if !t.Out && !t.Err {
		t.Screen = c.tty
	}
	return t, close, nil
}

// attach creates the terminal of one attempt. It gets what the user types until detach is
// called. detach then types on our terminal again what nobody has read, for the next reader.
func (c *console) attach() (t *proc.Terminal, detach func(), err error) {
	t, closeAll, err := c.terminal()
	if err != nil {
		return nil, nil, err
	}
	name := t.Slave.Name()
	resize := func() { // an unknown size stays 0
		_ = pty.InheritSize(c.tty, t.Master)
		if t.Shown != nil {
			_ = pty.InheritSize(c.tty, t.Shown.Master)
		}
	}
	resize()
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, syscall.SIGWINCH)
	if err := c.raw(); err != nil {
		signal.Stop(sizes)
		return nil, nil, errors.Join(err, closeAll())
	}
	wakeRead, wake, err := os.Pipe()
	if err != nil {
		signal.Stop(sizes)
		c.cooked()
		return nil, nil, errors.Join(err, closeAll())
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
		c.typeAgain(unread(name))
		c.cooked()
		_ = closeAll() // most were closed when the command was started
	}, nil
}

// unread takes from a terminal what was typed and not read. Some systems forget it when the
// last process closes the terminal; then unread returns nothing.
func unread(name string) []byte {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	buf := make([]byte, 4096) // as much as a terminal keeps
	n := 0
	cerr := raw.Control(func(fd uintptr) {
		mode, merr := unix.IoctlGetTermios(int(fd), ioctlGetTermios)
		if err = merr; err != nil {
			return
		}
		eof, lines := mode.Cc[unix.VEOF], mode.Lflag&unix.ICANON != 0
		mode.Lflag &^= unix.ICANON // also read a line that has no end yet
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 0, 0
		if err = unix.IoctlSetTermios(int(fd), ioctlSetTermios, mode); err != nil {
			return
		}
		if n, err = unix.Read(int(fd), buf); lines {
			endsTyped(buf[:max(n, 0)], eof)
		}
	})
	if cerr != nil || err != nil {
		return nil
	}
	return buf[:max(n, 0)]
}

// endsTyped replaces each 0 in what was typed with the end-of-input key: a terminal in line
// mode stores the key as 0.
func endsTyped(typed []byte, eof byte) {
	for i, b := range typed {
		if b == 0 {
			typed[i] = eof
		}
	}
}

// typeAgain makes our terminal give what was typed to its next reader. Some systems forbid
// that, and then it is lost.
func (c *console) typeAgain(typed []byte) {
	if !c.foreground() {
		return // another process has the terminal
	}
	for _, b := range typed {
		key := binary.NativeEndian.Uint32([]byte{b, 0, 0, 0}) // the system reads one byte
		if unix.IoctlSetPointerInt(int(c.tty.Fd()), unix.TIOCSTI, int(key)) != nil {
			return
		}
	}
}

// forward passes on what is typed, until the other end of wake is closed.
func (c *console) forward(t *proc.Terminal, wake *os.File) {
	buf := make([]byte, 4096)
	for {
		if !c.foreground() { // we were stopped, and continue in the background
			c.found = nil // the process that has the terminal has set its mode
			if !readable(nil, wake, foregroundEvery) {
				return
			}
			continue
		}
		if c.raw() != nil || !readable(c.tty, wake, -1) {
			return
		}
		if !c.foreground() {
			continue // the keys belong to another process
		}
		n, err := unix.Read(int(c.tty.Fd()), buf)
		if err != nil && err != unix.EINTR || n == 0 {
			return
		}
		typed := buf[:max(n, 0)]
		mode := c.modeFor(t)
		if mode != nil && mode.Lflag&unix.ICANON != 0 {
			endsTyped(typed, mode.Cc[unix.VEOF]) // typed while our terminal was in line mode
		}
		for range pressed(mode, typed, unix.VINTR) + pressed(mode, typed, unix.VQUIT) {
			c.press(c.presses.Add(1))
		}
		group := 0
		if pressed(mode, typed, unix.VSUSP) > 0 {
			group = stoppable(t) // found before it gets the keys: it may end after them
		}
		if _, err := t.Master.Write(typed); err != nil {
			return
		}
		if group > 0 {
			c.suspend(group)
		}
	}
}

// modeFor is the mode of the terminal that gets the keys. A command may set the mode of its
// standard output, which can be another terminal, and mean this one.
func (c *console) modeFor(t *proc.Terminal) *unix.Termios {
	mode := modeOf(t.Master)
	if t.Shown == nil || mode == nil {
		return mode
	}
	shown := modeOf(t.Shown.Master)
	if shown == nil || c.shown == *shown {
		return mode
	}
	c.shown = *shown
	mode.Iflag, mode.Lflag, mode.Cc = shown.Iflag, shown.Lflag, shown.Cc
	setMode(t.Master, mode)
	return mode
}

// setMode sets the mode of a command's terminal, if it still exists.
func setMode(master *os.File, mode *unix.Termios) {
	if raw, err := master.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetTermios(int(fd), ioctlSetTermios, mode) })
	}
}

// modeOf is the mode of a command's terminal, nil if it no longer exists.
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

// pressed counts how often a key was typed that the terminal turns into a signal. It is 0 if a
// program such as an editor has taken the key from the terminal.
func pressed(mode *unix.Termios, typed []byte, key int) int {
	if mode == nil || mode.Lflag&unix.ISIG == 0 {
		return 0
	}
	return bytes.Count(typed, mode.Cc[key:key+1])
}

// readable waits until f, which may be nil, has something to read, or for ms milliseconds
// unless ms is negative. It returns false when the other end of wake, or of f, is closed
// first.
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

// foregroundEvery is how often, in milliseconds, forward checks whether bide has the terminal
// again.
const foregroundEvery = 100

// interruptGrace is how long a command may take after an interrupt from the keyboard before
// its group is asked to end again.
const interruptGrace = 10 * time.Second

// stoppable is the group that the stop key must stop, or 0. The command leads a session of its
// own, in which the system lets no key stop a process: nobody there could continue it. A
// command that has jobs of its own handles the key itself, and so does one that ignores it.
func stoppable(t *proc.Terminal) (group int) {
	group = foregroundOf(t.Master)
	if leader, err := unix.Getsid(group); group <= 1 || err != nil || leader != group || ignoresStop(group) {
		return 0
	}
	return group
}

// suspend stops bide and its commands when the user presses the stop key.
func (c *console) suspend(group int) {
	c.stops.suspend(func() {
		c.cooked()
		stopSelf(0)
		_ = c.raw() // tried again before the next key
	})
	_ = syscall.Kill(-group, syscall.SIGWINCH) // makes it redraw, as its screen may be gone; it may have ended
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
