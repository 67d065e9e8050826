package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrInterrupted is the cause of a run that was stopped from outside and can
// be resumed.
var ErrInterrupted = errors.New("interrupted")

// Lifecycle knows whether a run may still start something new. It is safe for
// concurrent use.
type Lifecycle struct {
	clock Clock
	soft  context.Context

	mu   sync.Mutex
	why  error
	told atomic.Bool   // why is set, or held: else nobody need take mu to know that neither is
	cut  time.Time     // when it was interrupted
	done chan struct{} // closed when why is set
	over chan struct{} // closed when what has begun is not to be finished either
	stir chan struct{} // closed, and made again, when those who sleep are to look again
	held chan struct{} // closed when the run continues that is held; nil: it is not held
	now  int           // how often it was said that nothing is to be waited for any longer
	ends int           // how often that was said, of all or of the pauses of agents

	untils []*until // contexts that end when nothing new is to be started
}

// until is a context of Until.
type until struct {
	ctx context.Context // around it
	end context.CancelCauseFunc
}

// NewLifecycle makes the lifecycle of a run that starts nothing new once soft is
// done. end gives up what is kept for it.
func NewLifecycle(clock Clock, soft context.Context) (l *Lifecycle, end func()) {
	l = &Lifecycle{clock: clock, soft: soft, done: make(chan struct{}), over: make(chan struct{}), stir: make(chan struct{})}
	stop := context.AfterFunc(soft, func() { l.Halt(ErrInterrupted) })
	return l, func() { stop() }
}

// Halt ends the start of new work: a full disk, a budget. The first reason
// counts, but an interrupt wins over a budget.
func (l *Lifecycle) Halt(why error) {
	for _, u := range l.halt(why) {
		if why := l.Stopping(u.ctx); why != nil {
			u.end(why)
		}
	}
}

// halt is Halt, and gives the contexts that may end with it.
func (l *Lifecycle) halt(why error) []*until {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil && !isBudget(l.why) {
		return nil
	}
	l.told.Store(true)
	if l.why == nil {
		close(l.done)
	}
	if !isBudget(why) {
		close(l.over)
	}
	if l.why == nil || !isBudget(why) {
		l.why = why
	}
	if errors.Is(why, ErrInterrupted) {
		l.cut = l.clock.Now()
	}
	l.wakeAll()
	l.release()
	return slices.Clone(l.untils)
}

// InterruptedAt is when the run was interrupted; the zero time where it was not.
func (l *Lifecycle) InterruptedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// wakeAll has those who sleep look again. l.mu is held.
func (l *Lifecycle) wakeAll() {
	close(l.stir)
	l.stir = make(chan struct{})
}

// Hold has nothing new start until Release: no step, and no attempt at one. What
// runs continues. A run that stops is held no longer.
func (l *Lifecycle) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil && l.why == nil {
		l.held = make(chan struct{})
		l.told.Store(true)
	}
}

// Release ends Hold.
func (l *Lifecycle) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release()
}

func (l *Lifecycle) release() {
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// Held says whether nothing new is to start for now; the channel is closed when
// that ends.
func (l *Lifecycle) Held() (until <-chan struct{}, held bool) {
	if !l.told.Load() {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, l.held != nil
}

// Turn waits while the run is held. The error is the reason for which what has
// waited is not to begin.
func (l *Lifecycle) Turn(ctx context.Context) error {
	for {
		until, held := l.Held()
		if !held {
			return nil
		}
		if err := l.clock.Wait(ctx, -1, until); err != nil {
			return err
		}
		if err := l.Stopping(ctx); err != nil {
			return err
		}
	}
}

// RetryNow ends the waits of all who sleep.
func (l *Lifecycle) RetryNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	l.ends++
	l.wakeAll()
}

// EndPauses ends the waits of agents for the end of a rate limit: they look anew.
func (l *Lifecycle) EndPauses() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends++
	l.wakeAll()
}

// sleeping gives what ends a sleep, and how often RetryNow was called.
func (l *Lifecycle) sleeping() (stir <-chan struct{}, now int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stir, l.now
}

// pausing gives what ends a pause, and how often pauses were ended.
func (l *Lifecycle) pausing() (stir <-chan struct{}, ends int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stir, l.ends
}

func isBudget(err error) bool {
	_, is := errors.AsType[*BudgetError](err)
	return is
}

// UnsafeError ends a run: what a step did cannot be made durable. So nothing of the step's
// end is recorded, nor of what it is a part of.
type UnsafeError struct {
	Path string // of the step
	Err  error
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("what step %s did cannot be made durable: %v", e.Path, e.Err)
}

func (e *UnsafeError) Unwrap() error { return e.Err }

// unrecorded reports whether a step ended with an error of which there is no record: a
// resume continues with the step.
func unrecorded(err error) bool {
	return errors.Is(err, ErrInterrupted) || errors.As(err, new(*UnsafeError))
}

// endsRun reports whether an error ends the run, and is no failure of what it ends.
func endsRun(err error) bool { return unrecorded(err) || isBudget(err) }

// Done is closed when nothing new is to be started any more.
func (l *Lifecycle) Done() <-chan struct{} { return l.done }

// Stopping gives the reason for which nothing new is started, or nil.
func (l *Lifecycle) Stopping(ctx context.Context) error {
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); errors.As(cause, new(*TimeoutError)) {
			return cause
		}
		return ErrInterrupted // whatever the caller's reason is
	}
	if l.soft.Err() != nil {
		return ErrInterrupted // the goroutine that halts may come later
	}
	if !l.told.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if finishes(ctx) && isBudget(l.why) {
		return nil
	}
	return l.why
}

func finishes(ctx context.Context) bool {
	finish, _ := ctx.Value(finishKey{}).(bool)
	return finish
}

// finishKey marks the context of work that comes to its end although a budget of
// the run is spent.
type finishKey struct{}

// Finish is the context of work that, once begun, comes to its end although a
// budget of the run is spent: the agent of a work item.
func Finish(ctx context.Context) context.Context {
	if finishes(ctx) {
		return ctx
	}
	return context.WithValue(ctx, finishKey{}, true)
}

// Sleep waits, unless the run stops, and until [Lifecycle.RetryNow].
func (l *Lifecycle) Sleep(ctx context.Context, d time.Duration) error { return l.sleep(ctx, d, -1) }

// sleep is Sleep where RetryNow had been called so often when the wait began; -1: it
// begins now.
func (l *Lifecycle) sleep(ctx context.Context, d time.Duration, first int) error {
	return l.wait(ctx, d, first, l.sleeping)
}

// pause is sleep, and until [Lifecycle.EndPauses]; ends is what pausing gave before it
// was asked how long the pause is.
func (l *Lifecycle) pause(ctx context.Context, d time.Duration, ends int) error {
	return l.wait(ctx, d, ends, l.pausing)
}

// wait waits, unless the run stops, and until a number is not the first one any more; -1:
// that which it has now.
func (l *Lifecycle) wait(ctx context.Context, d time.Duration, first int, number func() (stir <-chan struct{}, now int)) error {
	until := l.clock.Now().Add(d)
	for {
		stir, now := number()
		if first < 0 {
			first = now
		}
		if err := l.Stopping(ctx); err != nil || d <= 0 || now != first {
			return err
		}
		if l.clock.Wait(ctx, d, stir) != nil {
			return l.Stopping(ctx)
		}
		d = until.Sub(l.clock.Now())
	}
}

// wake is closed when work under ctx is not to continue.
func (l *Lifecycle) wake(ctx context.Context) <-chan struct{} {
	if finishes(ctx) {
		return l.over
	}
	return l.done
}

// Interrupted reports whether a failure is the run's own end and not that of
// what failed.
func (l *Lifecycle) Interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil || endsRun(err)
}

// Stopped reports whether an agent or a verify was ended because the run stops: by an
// interrupt, a budget or, perhaps, the workflow's timeout, which is no failure of the item.
func (l *Lifecycle) Stopped(ctx context.Context, err error) bool {
	why := l.Stopping(ctx)
	return why != nil && (endsRun(err) || errors.Is(err, context.Canceled) || errors.Is(err, why))
}

// Until is ctx, ended when nothing new is to be started under it: for what waits
// for others before the work begins. It has ended when Halt returns, so that on a clock of
// any kind the same happens each time.
func (l *Lifecycle) Until(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	u := &until{ctx, cancel}
	l.mu.Lock()
	l.untils = append(l.untils, u)
	l.mu.Unlock()
	if why := l.Stopping(ctx); why != nil {
		cancel(why)
	}
	return inner, func() {
		l.mu.Lock()
		if i := slices.Index(l.untils, u); i >= 0 {
			l.untils = slices.Delete(l.untils, i, i+1)
		}
		l.mu.Unlock()
		cancel(nil)
	}
}

// Soft is a context that ends when nothing new is to be started under ctx.
func (l *Lifecycle) Soft(ctx context.Context) context.Context { return soft{l, ctx} }

type soft struct {
	life *Lifecycle
	ctx  context.Context
}

func (s soft) Deadline() (time.Time, bool) { return time.Time{}, false }
func (s soft) Value(key any) any           { return s.ctx.Value(key) }
func (s soft) Err() error                  { return s.life.Stopping(s.ctx) }
func (s soft) Done() <-chan struct{}       { return s.life.wake(s.ctx) }
