//go:build unix

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// portable runs the command by the means of every Unix: a goroutine for each
// output, one for the input, one that waits for the end.
func (r *run) portable() error {
	p := portableRun{run: r}
	leader, err := p.start()
	if err != nil {
		return err
	}
	p.serve(leader)
	return nil
}

type portableRun struct {
	*run
	outs    [2]*os.File
	in      *os.File // our end of the command's input, if it has one from us
	readers sync.WaitGroup
	killed  bool
	state   *os.ProcessState // nil: the status is lost; valid when the leader has ended
}

func (p *portableRun) start() (leader *os.Process, err error) {
	var childs [4]*os.File // to be closed here once the command has them
	defer func() {
		all := childs[:]
		if err != nil {
			all = append(all, p.outs[0], p.outs[1], p.in)
		}
		for _, f := range all {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	files := [3]*os.File{p.s.devNull}
	t := p.cmd.Terminal
	for i := range 2 {
		if i == stdout && t != nil && t.Shown != nil {
			p.outs[i], childs[i] = t.Shown.Master, t.Shown.Slave
		} else if p.outs[i], childs[i], err = os.Pipe(); err != nil {
			return nil, err
		}
		files[1+i] = childs[i]
	}
	switch {
	case p.cmd.Stdin != nil:
		files[0] = p.cmd.Stdin
	case p.cmd.Input != nil:
		if childs[2], p.in, err = os.Pipe(); err != nil {
			return nil, err
		}
		files[0] = childs[2]
	}
	sys := &syscall.SysProcAttr{Setsid: p.s.session, Setpgid: !p.s.session}
	if t != nil {
		p.onTerminal(t, &files, sys)
		childs[3] = t.Slave
	}
	fds := []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}
	if t != nil && !t.In && !t.Out && !t.Err { // the terminal of a command is one of its files
		fds, sys.Ctty = append(fds, t.Slave.Fd()), len(fds)
	}
	pid, err := p.run.start(fds, sys)
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid)
}

// onTerminal puts the streams of the command on its terminal.
func (p *portableRun) onTerminal(t *Terminal, files *[3]*os.File, sys *syscall.SysProcAttr) {
	sys.Setsid, sys.Setpgid, sys.Setctty = true, false, true
	for i, on := range [3]bool{t.In, t.Out, t.Err} {
		if on {
			files[i], sys.Ctty = t.Slave, i
		}
	}
}

// readTerminal takes what the command writes on its terminal. The system says
// EIO when nobody has it open any more.
func (p *portableRun) readTerminal(t *Terminal) {
	defer p.readers.Done()
	buf := make([]byte, bufSize)
	var lines lineEnds
	for {
		n, err := t.Master.Read(buf)
		if n > 0 {
			switch {
			case t.Out:
				p.out.write(lines.unix(buf[:n]))
				p.tee.put(stdout, buf[:n])
			case t.Err:
				p.err.write(lines.unix(buf[:n]))
				p.tee.put(stderr, buf[:n])
			case t.Screen != nil:
				if _, err := t.Screen.Write(buf[:n]); err != nil {
					t.Screen = nil
				}
			}
			p.tee.wait()
		}
		if err != nil {
			return
		}
	}
}

// lineEnds takes from a text what a terminal has added to it: what is captured
// has the line ends that the command wrote.
type lineEnds struct {
	cr   bool // the text so far ends with a carriage return, which waits for what follows
	text []byte
}

func (l *lineEnds) unix(p []byte) []byte {
	l.text = l.text[:0]
	for _, c := range p {
		if l.cr && c != '\n' {
			l.text = append(l.text, '\r')
		}
		if l.cr = c == '\r'; !l.cr {
			l.text = append(l.text, c)
		}
	}
	return l.text
}

// serve continues until nothing is left of the command.
func (p *portableRun) serve(leader *os.Process) {
	defer p.s.unregister(p.w)
	for i := range p.outs {
		p.readers.Add(1)
		go p.read(i)
	}
	if t := p.cmd.Terminal; t != nil {
		p.readers.Add(1)
		go p.readTerminal(t)
	}
	fed := make(chan struct{})
	go p.feed(fed)
	ended := make(chan struct{})
	go p.wait(leader, ended)
	outputs := make(chan struct{})
	go func() { p.readers.Wait(); close(outputs) }()

	if p.watch(leader.Pid, ended) && p.state != nil {
		p.run.ended(p.state.Sys().(syscall.WaitStatus), p.state.SysUsage().(*syscall.Rusage))
	} else {
		p.res.ExitCode = -1
	}
	p.tee.unbound()
	if !p.forced {
		await(outputs, p.s.linger)
	}
	p.endRest(leader.Pid)
	if !await(outputs, 0) || p.forced || p.res.Leftovers > 0 {
		p.sweep()
	} else {
		p.s.sweeper.soon()
	}
	if !await(outputs, pipeWait) {
		for _, f := range p.outs {
			p.s.note(f.SetReadDeadline(time.Now()))
		}
		if t := p.cmd.Terminal; t != nil {
			p.s.note(t.Master.SetReadDeadline(time.Now()))
		}
		<-outputs
	}
	if p.in != nil { // closed already, unless somebody held it and did not read
		if err := p.in.Close(); !errors.Is(err, os.ErrClosed) {
			p.s.note(err)
		}
	}
	<-fed
	for _, f := range p.outs {
		p.s.note(f.Close())
	}
}

// await reports whether the channel was closed within d.
func await(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
	}
	select { // both may have been ready
	case <-c:
		return true
	default:
		return false
	}
}

// read takes one output to its end.
func (p *portableRun) read(i int) {
	defer p.readers.Done()
	buf := bufs.Get().(*[bufSize]byte)
	defer bufs.Put(buf)
	take := func(b []byte) { p.take(i, b) }
	end := io.EOF
	if t := p.cmd.Terminal; i == stdout && t != nil && t.Shown != nil {
		var lines lineEnds
		take = func(b []byte) { p.out.write(lines.unix(b)); p.tee.put(stdout, b) }
		end = syscall.EIO // nobody has it open any more
	}
	for {
		n, err := p.outs[i].Read(buf[:])
		if n > 0 {
			take(buf[:n])
			p.tee.wait()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) { // perhaps before this goroutine had its turn
			for left := 1 << 20; left > 0; left -= n { // more than a pipe holds
				if n = atHand(p.outs[i], buf[:]); n <= 0 {
					return
				}
				take(buf[:n])
			}
			return
		}
		if err != nil {
			if !errors.Is(err, end) {
				p.s.note(err)
			}
			return
		}
	}
}

// atHand reads what is in a pipe already, also where its deadline is over; it gives
// 0 where there is nothing.
func atHand(f *os.File, buf []byte) (n int) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	for again := true; again; {
		if c.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), buf) }) != nil {
			return 0
		}
		again = err == syscall.EINTR
	}
	return max(n, 0)
}

// feed writes the command's input. That a command does not read it all is no
// error.
func (p *portableRun) feed(done chan<- struct{}) {
	defer close(done)
	if p.in == nil {
		return
	}
	if _, err := p.in.Write(p.cmd.Input); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		p.s.note(err)
	}
	if err := p.in.Close(); !errors.Is(err, os.ErrClosed) {
		p.s.note(err)
	}
}

func (p *portableRun) wait(leader *os.Process, ended chan<- struct{}) {
	defer close(ended)
	state, err := leader.Wait()
	p.s.note(err)
	p.state = state
}

// watch ends the command when its time has come, and reports whether it has
// ended: one of another user, or stuck in the kernel, cannot be.
func (p *portableRun) watch(pgid int, ended <-chan struct{}) bool {
	for left := p.cmd.Timeout; ; {
		var timeout <-chan time.Time
		if left > 0 {
			timeout = time.After(left)
		}
		select {
		case <-ended:
			return true
		case <-timeout:
			left = p.cmd.Timeout + p.s.Suspended() - p.paused - time.Since(p.res.Start)
			if left > 0 {
				continue // it was stopped meanwhile
			}
			p.res.TimedOut = true
		case <-p.ctx.Done():
			p.cancelled()
		}
		break
	}
	p.forced = true
	if p.grace() > 0 {
		p.s.note(endGroup(pgid, p.stopSignal()))
		if await(ended, p.grace()) {
			return true
		}
	}
	p.killed = true
	p.s.note(endGroup(pgid, syscall.SIGKILL))
	if await(ended, killWait) {
		return true
	}
	p.s.note(fmt.Errorf("process %d: %w", pgid, errStuck))
	return false
}

// endRest ends what the command left in its group. As long as there is
// something its number belongs to the group; if there is nothing, the number
// could in theory be another's by now, and is not signalled again.
func (p *portableRun) endRest(pgid int) {
	n := leftInGroup(pgid)
	if n == 0 {
		return
	}
	p.res.Leftovers += n
	grace := p.leftoverGrace()
	if p.killed {
		grace = 0
	}
	begin := time.Now()
	p.s.note(endGroup(pgid, syscall.SIGTERM))
	for wait := time.Millisecond; inGroup(pgid) > 0; wait = min(2*wait, 20*time.Millisecond) {
		passed := time.Since(begin)
		if passed > grace+killWait {
			p.s.note(errStuck)
			return
		}
		if passed >= grace || p.s.killed.Load() {
			p.s.note(endGroup(pgid, syscall.SIGKILL))
		}
		time.Sleep(wait)
	}
}
