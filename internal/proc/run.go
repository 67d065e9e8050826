//go:build unix

package proc

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// run is one command on its way.
type run struct {
	s   *Supervisor
	w   *worker
	cmd *Cmd
	ctx context.Context

	out, err capture
	tee      *tee
	res      Result
	paused   time.Duration // for how long commands had been stopped when it was started

	// forced: we have told the command to end.
	forced bool
}

// grace is Cmd.Grace with its default; 0 means at once.
func (r *run) grace() time.Duration {
	switch g := r.cmd.Grace; {
	case g == 0:
		return DefaultGrace
	case g < 0:
		return 0
	default:
		return g
	}
}

// leftoverGrace is the time that what the command left behind has to end.
func (r *run) leftoverGrace() time.Duration {
	if r.forced {
		return r.grace()
	}
	return min(leftoverGrace, r.grace())
}

// argv is Cmd.Argv with its default.
func (r *run) argv() []string {
	if len(r.cmd.Argv) == 0 {
		return []string{r.cmd.Path}
	}
	return r.cmd.Argv
}

// cancelled notes why the context ended.
func (r *run) cancelled() {
	if errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		r.res.TimedOut = true
	} else {
		r.res.Cancelled = true
	}
}

// stopSignal is what the group is asked to end with.
func (r *run) stopSignal() syscall.Signal {
	var by interface{ Signal() syscall.Signal }
	if r.ctx.Err() != nil && errors.As(context.Cause(r.ctx), &by) && by.Signal() > 0 {
		return by.Signal()
	}
	return syscall.SIGTERM
}

// take passes on output as it came.
func (r *run) take(stream int, p []byte) {
	c := &r.out
	if stream == stderr {
		c = &r.err
	}
	c.write(p)
	r.tee.put(stream, p)
}

// ended notes the status of the reaped leader.
func (r *run) ended(status syscall.WaitStatus, usage *syscall.Rusage) {
	r.res.ExitCode = status.ExitStatus() // -1 if signalled
	if status.Signaled() {
		r.res.SignalNumber = int(status.Signal())
		r.res.Signal = signalName(status.Signal())
	}
	r.res.CPU = Usage{
		User:   time.Duration(usage.Utime.Nano()),
		System: time.Duration(usage.Stime.Nano()),
		MaxRSS: int64(usage.Maxrss) * maxRSSUnit,
	}
}

// sweep ends what left the group. It is called when there is cause to think
// that something did; without cause the sweeper looks soon.
func (r *run) sweep() {
	own := r.w.seq.Load()
	n, err := r.s.sweep(func(seq uint64) bool { return seq == own }, r.leftoverGrace())
	r.res.Leftovers += n
	r.s.note(err)
}

// closeOutputs ends the live output and the files, and fills in the result.
func (r *run) closeOutputs(patience time.Duration) {
	errs := r.tee.close(patience)
	r.out.fail(errs[stdout])
	r.err.fail(errs[stderr])
	r.res.Stdout, r.res.Stderr = r.out.finish(), r.err.finish()
}

// start forks and executes the command. files are its standard descriptors.
//
// "Text file busy" is tried again: where another goroutine has just written the
// executable, a process that is being forked at that moment holds it open for
// writing until its own exec.
func (r *run) start(files []uintptr, sys *syscall.SysProcAttr) (pid int, err error) {
	attr := syscall.ProcAttr{Dir: r.cmd.Dir, Env: r.w.env, Files: files, Sys: sys}
	for wait := time.Millisecond; ; wait *= 2 {
		r.s.pause.starts.RLock()
		from := now()
		pid, err = syscall.ForkExec(r.cmd.Path, r.argv(), &attr)
		if err == nil {
			r.s.register(r.w, pid, from)
		}
		r.s.pause.starts.RUnlock()
		if err == nil {
			return pid, nil
		}
		if err == syscall.EBADF { // dup2(2) of the child, where the next descriptor is beyond the limit
			err = syscall.EMFILE
		}
		if err != syscall.ETXTBSY || wait > 64*time.Millisecond {
			return 0, &os.PathError{Op: "exec", Path: r.cmd.Path, Err: err}
		}
		time.Sleep(wait)
	}
}
