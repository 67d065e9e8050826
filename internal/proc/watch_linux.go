package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serve continues until nothing is left of the command. An error means that
// something of it may be.
func (w *watch) serve() error {
	defer w.end()
	if w.tee != nil {
		w.tee.onRoom(w.w.ring)
	}
	for {
		next, err := w.act(time.Now())
		if err != nil {
			return err
		}
		if w.over() {
			break
		}
		if err := w.poll(next); err != nil {
			return errors.Join(err, endGroup(w.pid, syscall.SIGKILL))
		}
	}
	switch {
	case w.swept:
	case w.forced || w.res.Leftovers > 0:
		w.sweep()
	default:
		w.s.sweeper.soon()
	}
	return nil
}

// end gives back what the loop used.
func (w *watch) end() {
	for i := range pollBell {
		w.shut(i)
	}
	w.s.unregister(w.w)
	if w.buf != nil {
		bufs.Put(w.buf)
	}
}

// over: the group is gone, and so are the outputs, or we have waited for them
// in vain.
func (w *watch) over() bool {
	return w.empty && (w.silent() || w.gaveUp)
}

// silent: both outputs have ended.
func (w *watch) silent() bool { return w.fds[pollOut].Fd < 0 && w.fds[pollErr].Fd < 0 }

// act does what is due, and says when something will be due next (zero:
// nothing will, without an event).
func (w *watch) act(t time.Time) (next time.Time, err error) {
	switch {
	case !w.exited:
		return w.actRunning(t)
	case !w.reaped:
		if !w.silent() && !w.forced {
			if w.linger.IsZero() {
				w.linger = t.Add(w.s.linger)
			}
			if t.Before(w.linger) {
				return w.linger, nil
			}
		}
		if err := w.reap(t); err != nil {
			return time.Time{}, err
		}
		return w.act(t)
	case !w.empty:
		return w.actLeftovers(t)
	case !w.silent():
		return w.actHeld(t)
	}
	return time.Time{}, nil
}

// actRunning watches over a command that runs.
func (w *watch) actRunning(t time.Time) (time.Time, error) {
	if !w.forced {
		if w.ctx.Err() != nil {
			w.cancelled()
			w.force(t)
		} else if !w.timeout.IsZero() && !t.Before(w.timeout) && !w.later(t) {
			w.res.TimedOut = true
			w.force(t)
		}
	}
	if !w.killed && (w.forced && !t.Before(w.kill) || w.s.killed.Load()) {
		w.kill = t
		w.signal(syscall.SIGKILL)
	}
	switch {
	case w.killed && t.After(w.kill.Add(killWait)):
		// Another user's, or stuck in the kernel: nobody can end it, and to
		// wait for it would be to wait for ever.
		w.res.ExitCode = -1
		return t, fmt.Errorf("process %d: %w", w.pid, errStuck)
	case w.killed:
		return w.kill.Add(killWait + time.Millisecond), nil
	case w.forced:
		return w.kill, nil
	}
	return w.timeout, nil
}

// later puts the timeout off by the time for which the command has been stopped,
// and reports whether that is later than t.
func (w *watch) later(t time.Time) bool {
	w.timeout = w.res.Start.Add(w.cmd.Timeout + w.s.Suspended() - w.paused)
	return t.Before(w.timeout)
}

// force begins to end the command.
func (w *watch) force(t time.Time) {
	w.forced = true
	w.kill = t.Add(w.grace())
	if w.grace() > 0 {
		w.signal(w.stopSignal())
	}
}

func (w *watch) signal(sig syscall.Signal) {
	w.killed = w.killed || sig == syscall.SIGKILL
	w.s.note(endGroup(w.pid, sig))
}

// reap takes the leader's status and tells the rest of the group to end. As
// long as somebody is in the group, its number is no other's; a group that is
// empty is not signalled.
func (w *watch) reap(t time.Time) error {
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		_, err := syscall.Wait4(w.pid, &status, 0, &usage)
		if err == nil {
			break
		}
		if err != syscall.EINTR {
			// Somebody else in this program waited for our child.
			w.res.ExitCode = -1
			w.reaped, w.empty = true, true
			return fmt.Errorf("the status of process %d is lost: %w", w.pid, err)
		}
	}
	w.reaped = true
	w.ended(status, &usage)
	if syscall.Kill(-w.pid, 0) == syscall.ESRCH {
		w.empty = true
		return nil
	}
	n := leftInGroup(w.pid)
	w.res.Leftovers += n
	w.empty = n == 0 // zombies, that init has not noticed yet
	if !w.empty && !w.forced {
		w.kill = t.Add(w.leftoverGrace())
		w.signal(syscall.SIGTERM)
	}
	return nil
}

// actLeftovers waits for the rest of the group, and kills it when it has had
// its time.
func (w *watch) actLeftovers(t time.Time) (time.Time, error) {
	if inGroup(w.pid) == 0 {
		w.empty = true
		return w.act(t)
	}
	if !w.killed && (!t.Before(w.kill) || w.s.killed.Load()) {
		w.kill = t
		w.signal(syscall.SIGKILL)
		w.pause = 0
	}
	if w.killed && t.After(w.kill.Add(killWait)) {
		return t, fmt.Errorf("process group %d: %w", w.pid, errStuck)
	}
	w.pause = min(max(2*w.pause, time.Millisecond), 20*time.Millisecond)
	return t.Add(w.pause), nil
}

// actHeld deals with an output that is held open from outside of the group.
func (w *watch) actHeld(t time.Time) (time.Time, error) {
	if !w.swept {
		w.swept = true
		w.sweep()
		t = time.Now()
		w.giveUp = t.Add(pipeWait)
	}
	w.gaveUp = !t.Before(w.giveUp)
	return w.giveUp, nil
}

// poll waits until something happens or next comes, and takes note of it.
func (w *watch) poll(next time.Time) error {
	if w.tee.full() {
		// The command waits for its live writer, its end and its timeout do not.
		saved := [2]int32{w.fds[pollOut].Fd, w.fds[pollErr].Fd}
		w.fds[pollOut].Fd, w.fds[pollErr].Fd = -1, -1
		defer func() { w.fds[pollOut].Fd, w.fds[pollErr].Fd = saved[0], saved[1] }()
	}
	until := next
	if brief := w.res.Start.Add(brief); time.Now().Before(brief) {
		if until.IsZero() || brief.Before(until) {
			until = brief
		}
	} else if w.w.await(w.fds[:], next) == nil { // else it is waited for as a brief one
		until = time.Now()
	}
	// What this goroutine has made ready runs before the thread blocks. Else the
	// runtime's monitor has to take its place from it, and then looks every 20 µs
	// for a millisecond whether there is more to take.
	runtime.Gosched()
	_, err := unix.Poll(w.fds[:], millis(until))
	if err == unix.EINTR {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("poll", err)
	}
	for i := range 2 {
		if w.fds[i].Fd >= 0 && w.fds[i].Revents != 0 {
			w.read(i)
		}
	}
	if w.fds[pollPid].Fd >= 0 && w.fds[pollPid].Revents != 0 {
		w.exited = true
		w.tee.unbound()
		w.shut(pollPid)
	}
	if w.fds[pollBell].Revents != 0 {
		w.w.silence()
	}
	return nil
}

// millis is the time until t as poll takes it, rounded up; -1 for the zero
// time.
func millis(t time.Time) int {
	if t.IsZero() {
		return -1
	}
	d := time.Until(t)
	if d <= 0 {
		return 0
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
}

// read takes what there is of an output.
func (w *watch) read(i int) {
	if w.fds[i].Revents&unix.POLLIN == 0 {
		w.shut(i) // nobody holds the other end, and nothing is left in it
		return
	}
	if w.buf == nil {
		w.buf = bufs.Get().(*[bufSize]byte)
	}
	n, err := unix.Read(int(w.fds[i].Fd), w.buf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
	case err != nil:
		w.s.note(os.NewSyscallError("read", err))
		w.shut(i)
	case n == 0:
		w.shut(i)
	default:
		w.take(i, w.buf[:n])
	}
}
