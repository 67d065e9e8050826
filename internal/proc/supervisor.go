//go:build unix

package proc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long things may take that a well-behaved command never needs.
const (
	// linger is how long what a command left behind may keep writing to its
	// output, as in `exec > >(tee log)`, before it is told to end.
	linger = 50 * time.Millisecond
	// leftoverGrace is the time from SIGTERM to SIGKILL for what a command
	// left behind that ended by itself; Cmd.Grace if that is shorter.
	leftoverGrace = 500 * time.Millisecond
	// pipeWait is how long we wait for the end of an output when all
	// processes that we know of have ended.
	pipeWait = 100 * time.Millisecond
	// killWait is how long a process may take to end after SIGKILL.
	killWait = 5 * time.Second
	// sweepEvery is how often we look for processes that left their group,
	// while commands end.
	sweepEvery = 250 * time.Millisecond
)

// bufSize is the size of the buffers of bufs: half a Linux pipe.
const bufSize = 32 << 10

var bufs = sync.Pool{New: func() any { return new([bufSize]byte) }}

var (
	errClosed  = errors.New("the supervisor is closed")
	errStopped = fmt.Errorf("%w: all commands were killed", errClosed)
	errStdin   = errors.New("both a file and a text are given for standard input")
	errNUL     = errors.New("an argument or a variable contains a zero byte")
)

// Options of [New]. The zero value is what bide uses.
type Options struct {
	// NoCompanion leaves out the companion process: what runs when this
	// process is killed continues until ReapOrphans. Programs that do not call
	// CompanionMain need it.
	NoCompanion bool
	// portable runs commands in the way of other systems, for tests.
	portable bool
}

// Supervisor starts the commands of one run of bide and answers for them. It
// is safe for use by many goroutines. On Linux a Run takes a thread for
// its first moment only.
type Supervisor struct {
	id       string
	chain    string // the links of MarkerVar before ours, with a comma
	born     uint64 // ticks
	portable bool
	session  bool          // a command leads a session of its own, not only a group
	linger   time.Duration // what the constant says, or longer in tests
	devNull  *os.File
	seq      atomic.Uint64
	killed   atomic.Bool
	pause    pause

	mu      sync.Mutex
	closed  bool
	fault   error
	slots   *slots
	free    []*worker
	workers []*worker
	active  sync.WaitGroup

	companion *companion
	sweeper   sweeper
}

// worker is the place of one command at a time: a slot, and what is used again
// from command to command.
type worker struct {
	slot int
	seq  atomic.Uint64 // of the command that runs, 0: none
	env  []string
	// names are those of the variables in env, while it is made.
	names map[string]struct{}
	poller

	mu   sync.Mutex
	pgid int // 0: nothing to signal
}

// New begins a run. Its processes are noted in the file "processes" in dir,
// which Close removes if nothing else is in it; with dir "" there is no such file and nothing for
// ReapOrphans to find, but the companion works all the same. What a former run
// left in dir is ended first.
//
// The companion is started in the background, unless StartCompanion was called
// before; the first command waits until it is there. New fails if CompanionMain
// was not called and Options.NoCompanion is not set, since the program would
// then run itself instead of a companion.
func New(dir string, opts Options) (*Supervisor, error) {
	if !opts.NoCompanion && !hooked.Load() {
		return nil, errors.New("proc: call proc.CompanionMain first thing in main or TestMain, or set Options.NoCompanion")
	}
	if dir != "" {
		if _, err := ReapOrphans(dir); err != nil {
			return nil, err
		}
	}
	var random [idLength / 2]byte
	rand.Read(random[:]) // never fails, says its documentation
	s := &Supervisor{
		id:       hex.EncodeToString(random[:]),
		born:     now(),
		portable: opts.portable,
		session:  onTerminal(),
		linger:   linger,
	}
	if outer := os.Getenv(MarkerVar); outer != "" {
		s.chain = outer + ","
	}
	self, _ := lookup(os.Getpid()) // zero where there is no table: never equal to another
	var err error
	if s.devNull, err = os.Open(os.DevNull); err != nil {
		return nil, err
	}
	s.slots, err = newSlots(dir, header{pid: os.Getpid(), start: self.start, id: s.id, boot: BootID()})
	if err != nil {
		return nil, errors.Join(err, s.devNull.Close())
	}
	if !opts.NoCompanion {
		if s.companion = early.Swap(nil); s.companion == nil {
			s.companion = startCompanion()
		}
		s.companion.lists <- s.slots
	}
	s.sweeper.s = s
	return s, nil
}

// Run starts the command and waits for its end and that of everything it
// started. The error is nil or a *StartError; without a start, ExitCode is -1.
//
// When ctx ends or Timeout passes, the command's group gets SIGTERM and, after
// Grace, SIGKILL. Run returns when nothing is left of the command.
func (s *Supervisor) Run(ctx context.Context, c *Cmd) (Result, error) {
	w, err := s.prepare(ctx, c)
	if err != nil {
		return s.notStarted(ctx, c, err)
	}
	defer s.release(w)
	r := &run{s: s, w: w, cmd: c, ctx: ctx}
	r.out.init("stdout", c)
	r.err.init("stderr", c)
	if c.Stdout != nil || c.Stderr != nil {
		r.tee = newTee(c.Stdout, c.Stderr)
	}
	r.res.Start, r.paused = time.Now(), s.Suspended()
	if c.Spill != nil {
		shown := time.AfterFunc(ShowAfter, func() {
			r.out.show()
			r.err.show()
		})
		defer shown.Stop()
	}
	if s.portable || c.Terminal != nil {
		err = r.portable()
	} else {
		err = r.native()
	}
	if err != nil {
		r.closeOutputs(0)
		if short(err) {
			s.spare(w)
		}
		return s.notStarted(ctx, c, err)
	}
	r.closeOutputs(r.grace())
	r.res.Duration = time.Since(r.res.Start)
	return r.res, nil
}

// onTerminal reports whether this process has a terminal that controls it, or
// may have one. A command of ours must not have it: as it is in the background,
// it would be stopped where it wants to read a password, instead of being told
// that nobody is there. To lead a session keeps it off. Where there is no
// terminal, to lead a group is enough; it costs less, since Linux shares out the
// processors session by session and begins again with each.
func onTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err != unix.ENXIO
	}
	_ = unix.Close(fd) // it was only looked for
	return true
}

func (s *Supervisor) notStarted(ctx context.Context, c *Cmd, err error) (Result, error) {
	e := startError(c, err)
	r := Result{ExitCode: -1, Start: time.Now()}
	if e.Kind == StartCancelled {
		r.TimedOut = errors.Is(err, context.DeadlineExceeded)
		r.Cancelled = !r.TimedOut
	}
	return r, e
}

// prepare checks what no system call would, and takes a worker.
func (s *Supervisor) prepare(ctx context.Context, c *Cmd) (*worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.Stdin != nil && c.Input != nil {
		return nil, errStdin
	}
	hasNUL := func(text string) bool { return strings.IndexByte(text, 0) >= 0 }
	if hasNUL(c.Path) || hasNUL(c.Dir) || slices.ContainsFunc(c.Argv, hasNUL) || slices.ContainsFunc(c.Env, hasNUL) {
		return nil, errNUL
	}
	if s.companion != nil {
		// No command runs before there is somebody to end it for us: a command
		// may kill bide, or somebody may, in its first moment.
		<-s.companion.ready
	}
	w, err := s.acquire()
	if err != nil {
		return nil, err
	}
	marker := MarkerVar + "=" + s.chain + s.id + "." + strconv.FormatUint(w.seq.Load(), 16)
	w.environ(c.Env)
	w.env = append(w.env, marker)
	return w, nil
}

// environ makes w.env of an environment, without a marker. Of a variable that is there twice
// the last value counts, as everywhere in bide: programs take the first that they find.
func (w *worker) environ(env []string) {
	w.env = w.env[:0]
	clear(w.names)
	for _, v := range slices.Backward(env) {
		name, _, _ := strings.Cut(v, "=")
		if _, again := w.names[name]; again || name == MarkerVar {
			continue
		}
		w.names[name] = struct{}{}
		w.env = append(w.env, v)
	}
	slices.Reverse(w.env)
}

// acquire takes a worker and gives it the number of its step, both under the
// lock, so that ended never takes a step that begins for one that is over.
func (s *Supervisor) acquire() (*worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.killed.Load():
		return nil, errStopped
	}
	if n := len(s.free); n > 0 {
		w := s.free[n-1]
		s.free = s.free[:n-1]
		s.begin(w)
		return w, nil
	}
	if len(s.workers) == s.slots.count() {
		if err := s.slots.grow(); err != nil {
			return nil, err
		}
	}
	w := &worker{slot: len(s.workers), names: map[string]struct{}{}}
	if s.workers = append(s.workers, w); len(s.workers) == 2 {
		widen()
	}
	s.begin(w)
	return w, nil
}

func (s *Supervisor) begin(w *worker) {
	w.seq.Store(s.seq.Add(1))
	s.active.Add(1)
}

// leastProcs is the least number of goroutines that may be running where commands run
// beside each other. One that starts a process is held up until the process has begun,
// and one that waits for the disk is in a system call and counts as running until the
// runtime's monitor takes its place away, which costs more than the place does: on two
// processors a map over /bin/true takes 5 % more processor time without it, one with
// durability: strict 8 % (medians of 8 pairs).
const leastProcs = 4

// widen is for the first time that a second command begins beside another: it stops
// the world for a moment, which a run of one command after the other need not pay.
var widen = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
})

// spare closes the descriptors that workers keep from command to command, of one and
// of all that have nothing to do: there are too few for those that have.
func (s *Supervisor) spare(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range append(slices.Clip(s.free), w) {
		if err := w.poller.close(); err != nil && s.fault == nil {
			s.fault = err
		}
	}
}

func (s *Supervisor) release(w *worker) {
	w.seq.Store(0)
	clear(w.env) // a secret must not live longer than its command
	s.mu.Lock()
	s.free = append(s.free, w)
	s.mu.Unlock()
	s.active.Done()
}

// register notes the new process, for KillAll and for those who come after us.
func (s *Supervisor) register(w *worker, pid int, from uint64) {
	s.note(s.slots.set(w.slot, slot{pid, from - min(from, 1), now() + 1}))
	w.mu.Lock()
	w.pgid = pid
	w.mu.Unlock()
	if s.killed.Load() { // KillAll may have come before this one was noted
		s.note(endGroup(pid, syscall.SIGKILL))
	}
}

func (s *Supervisor) unregister(w *worker) {
	w.mu.Lock()
	w.pgid = 0
	w.mu.Unlock()
	s.note(s.slots.clear(w.slot))
}

// KillAll sends sig to the group of every running command. After SIGKILL no
// command is started any more: it is the end of a second Ctrl-C.
func (s *Supervisor) KillAll(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		s.killed.Store(true)
	}
	s.mu.Lock()
	workers := slices.Clone(s.workers)
	s.mu.Unlock()
	for _, w := range workers {
		w.mu.Lock()
		if w.pgid > 1 {
			// The only failure is that all of the group have other users by
			// now; the command's own end is waited for in any case.
			_ = syscall.Kill(-w.pgid, sig)
		}
		w.mu.Unlock()
	}
}

// Close ends what is still running, waits for it, looks once more for anything
// that carries our marker, and dismisses the companion. The error tells what
// could not be ended, and whether the companion could not be started.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.KillAll(syscall.SIGKILL)
	s.active.Wait()
	s.sweeper.stop()
	errs := []error{s.fault}
	if s.seq.Load() > 0 {
		_, err := s.sweep(func(uint64) bool { return true }, leftoverGrace)
		errs = append(errs, err)
	}
	if s.companion != nil {
		errs = append(errs, s.companion.kill())
	}
	for _, w := range s.workers {
		errs = append(errs, w.poller.close())
	}
	errs = append(errs, s.slots.remove(), s.slots.close(), s.devNull.Close())
	if s.companion != nil {
		errs = append(errs, s.companion.gone())
	}
	return errors.Join(errs...)
}

// sweep ends the processes of the steps that are picked, wherever they went.
// Where the system has no table of processes, there is nothing to find.
func (s *Supervisor) sweep(step func(uint64) bool, grace time.Duration) (int, error) {
	q := leftovers{id: s.id, step: step, since: s.born - min(s.born, 1), self: os.Getpid()}
	if s.companion != nil {
		q.after = s.companion.older()
	}
	n, err := q.endAll(grace, 1)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return n, err
}

// ended picks the steps that have begun and do not run any more.
func (s *Supervisor) ended() func(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	upTo := s.seq.Load()
	running := make(map[uint64]bool, len(s.workers))
	for _, w := range s.workers {
		running[w.seq.Load()] = true
	}
	return func(seq uint64) bool { return seq <= upTo && !running[seq] }
}

// sweeper looks, in the background and a few times a second at most, for what
// left the group of a command that ended by itself.
type sweeper struct {
	s *Supervisor

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	running sync.WaitGroup
}

// soon sees to it that a sweep comes within sweepEvery.
func (p *sweeper) soon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil || p.stopped {
		return
	}
	p.running.Add(1)
	p.timer = time.AfterFunc(sweepEvery, p.sweep)
}

func (p *sweeper) sweep() {
	defer p.running.Done()
	p.mu.Lock()
	p.timer = nil
	p.mu.Unlock()
	_, err := p.s.sweep(p.s.ended(), leftoverGrace)
	p.s.note(err)
}

// stop ends the sweeps.
func (p *sweeper) stop() {
	p.mu.Lock()
	p.stopped = true
	if p.timer != nil && p.timer.Stop() {
		p.running.Done()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// note keeps the first trouble with ending processes, for Close to tell.
func (s *Supervisor) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.fault = err
	}
}
