package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	circuitdriver "github.com/bide-dev/bide/circuit/driver"
	"github.com/bide-dev/bide/internal/carried"
)

// operation is the effects of one operation around its [Machine]: clock,
// timer, contexts, breaker, admission and observers.
type operation struct {
	Operation
	policy  *Policy
	caller  context.Context // the operation's own context
	ctx     context.Context // caller, or one within that ends with the deadline of the policy
	cancel  context.CancelFunc
	machine Machine
	timed   bool // the clock is read around each attempt
	past    int  // attempts of earlier lives

	began    time.Time              // of the attempt; zero if it is not known
	asked    time.Time              // when its admission was asked
	fresh    time.Time              // a reading of the clock since which nothing took time; zero if there is none
	breaker  *circuitdriver.Breaker // that of the policy, or nil
	ticket   circuitdriver.Ticket   // of breaker
	judged   circuit.Outcome        // what Judge says of the attempt
	admitted bool                   // Admission has taken something
	expire   context.CancelFunc     // ends the attempt's context; may be nil
	timer    *time.Timer
	history  history

	last     error // of an attempt that was made
	cause    error // what ended the operation if not an attempt
	decision Decision
}

// stage is how far an attempt has come.
type stage uint8

const (
	preparing stage = iota
	calling
	returned
)

// begin takes the operation over and reports whether it continues.
func (op *operation) begin(ctx context.Context, o *Operation, s *start) bool {
	p := o.Policy
	op.Operation, op.policy, op.caller, op.ctx = *o, p, ctx, ctx
	resumed := o.State.Attempt > 0 || !o.State.Began.IsZero()
	if p.Breaker != nil {
		op.breaker = p.Breaker.Driver()
		if op.Judge == nil && op.breaker.Judges() {
			op.Judge = op.breaker.Judge
		}
	}
	op.timed = p.Timed || p.Deadline > 0 || p.Observer != nil || o.Observer != nil || resumed || op.breaker != nil && op.breaker.Timed()
	var now time.Time
	if op.timed {
		now = op.now()
	}
	if resumed {
		op.past, op.last = o.State.Attempt, o.Last
		op.machine, op.decision = ResumeMachine(p, o.State, now)
	} else {
		op.machine = NewMachine(p, now)
	}
	if deadline, ok := ctx.Deadline(); ok {
		op.machine.SetDeadline(deadline)
	}
	if p.Deadline > 0 {
		op.ctx, op.cancel = op.within(ctx, op.machine.ends().Sub(now), errDeadline)
	}
	switch {
	case resumed:
		return op.decision.Action == ActionRetry && op.wait()
	case s == nil:
		return true
	case s.state.Attempt == 0:
		return op.failed(s.failure)
	}
	now = op.now()
	op.history.add(Attempt{Number: 1, Err: s.failure})
	op.last = s.failure
	op.machine.started, op.machine.state, op.decision = now, s.state, s.decision
	op.machine.state.FirstFailure = now
	if s.second != nil {
		return op.failed(s.second)
	}
	op.machine.state.Due = now.Add(op.decision.Delay)
	return op.decision.Action == ActionRetry && op.scheduled(now)
}

// end ends what drive has begun for the operation.
func (op *operation) end() {
	if op.cancel != nil {
		op.cancel()
	}
}

// number is that of the attempt which is being made.
func (op *operation) number() int { return op.machine.state.Attempt + 1 }

// within returns a context that ends after a time of the operation's clock.
func (op *operation) within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	if c, ok := op.Clock.(interface {
		WithTimeout(context.Context, time.Duration, error) (context.Context, context.CancelFunc)
	}); ok {
		return c.WithTimeout(ctx, d, cause)
	}
	return context.WithTimeoutCause(ctx, d, cause)
}

// errTimedOut is the cause of an attempt's context whose timeout is over.
var errTimedOut = fmt.Errorf("attempt timed out: %w", context.DeadlineExceeded)

// admit reports whether an attempt may be made now. While a breaker or a limit
// refuses and the policy says so, it waits and asks again.
func (op *operation) admit() bool {
	for {
		if op.interrupted() {
			return false
		}
		if op.timed && op.Admission != nil {
			op.asked = op.now()
		}
		refusal := op.ask()
		if refusal == nil {
			return true
		}
		if op.interrupted() || !op.refused(refusal) {
			return false
		}
	}
}

// ask asks the breaker and the admission. With an error nothing is held.
func (op *operation) ask() (err error) {
	if op.breaker != nil {
		if op.ticket, err = op.breaker.Admit(); err != nil {
			return err
		}
	}
	if op.Admission == nil {
		return nil
	}
	op.fresh = time.Time{}
	ctx, cancel := op.soft()
	if cancel != nil {
		defer cancel()
	}
	var queued func(Source, time.Duration)
	if op.observed() {
		queued = queueReport(op.policy.Observer, op.Observer, op.Clock, op.number())
	}
	err = op.Admission.Admit(ctx, op.number(), queued)
	op.admitted = err == nil
	if err != nil && op.breaker != nil {
		op.breaker.Answer(op.ticket, circuit.Neutral, 0)
	}
	return err
}

// soft returns the context that ends waits: with Soft as well as with ctx.
func (op *operation) soft() (context.Context, context.CancelFunc) {
	if op.Soft == nil || op.SoftKnown {
		return op.ctx, nil
	}
	soft := op.Soft
	ctx, cancel := context.WithCancelCause(op.ctx)
	stop := context.AfterFunc(soft, func() { cancel(context.Cause(soft)) })
	return ctx, func() { stop(); cancel(nil) }
}

// refused reports whether to ask again, after having waited.
func (op *operation) refused(refusal error) bool {
	now, number := op.now(), op.number()
	op.tell(Event{Type: Refused, Attempt: number, Err: refusal}, now)
	op.cause = refusal
	op.decide(op.machine.Refused(refusal, now))
	if op.machine.state.Attempt == number { // otherwise no attempt was used
		op.history.add(Attempt{Number: number, Start: now, Err: refusal})
	}
	return op.decision.Action == ActionRetry && op.scheduled(now)
}

// open returns the context of the next attempt.
func (op *operation) open() context.Context {
	ctx := op.ctx
	if op.policy.NumberAttempts {
		ctx = carried.WithNumber(ctx, op.number())
	}
	op.began = time.Time{}
	if op.timed || op.history.total > 0 {
		op.began = op.latest()
	}
	op.fresh = time.Time{}
	if limit := op.policy.Timeout; limit > 0 {
		ctx, op.expire = op.within(ctx, limit, errTimedOut)
	}
	return ctx
}

// close ends the context of an attempt, gives back what its admission has
// taken, and returns its error, with what only the context can tell about it.
func (op *operation) close(ctx context.Context, at stage, err error) error {
	if op.expire != nil {
		expired := context.Cause(ctx) == errTimedOut || op.foreseen(ctx, err)
		op.expire()
		op.expire = nil
		if err == errTimedOut {
			err = context.DeadlineExceeded // it says nothing that a TimeoutError does not say
		}
		if err != nil && expired {
			err = &TimeoutError{Limit: op.policy.Timeout, Err: err}
		}
	}
	if op.breaker == nil && !op.admitted {
		return err
	}
	end := End{Outcome: op.outcome(at, err), Err: err}
	if !op.began.IsZero() {
		end.Took = op.now().Sub(op.began)
	}
	if op.admitted { // it is told after the breaker, and though that should panic
		op.admitted = false
		defer op.Admission.Done(end)
	}
	if op.breaker != nil {
		op.breaker.Answer(op.ticket, end.Outcome, end.Took)
	}
	return err
}

// foreseen reports whether an attempt was an operation of its own that ended
// since the timeout of the attempt would have come before its next one.
func (op *operation) foreseen(ctx context.Context, err error) bool {
	if e, ok := err.(*Error); !ok || e.Reason != ReasonCallerDeadline {
		return false
	}
	own, _ := ctx.Deadline()
	outer, bounded := op.ctx.Deadline()
	return !own.IsZero() && (!bounded || own.Before(outer))
}

// outcome is what the attempt says about its target. One that the caller
// cancelled, or that never began, says nothing; one that hung until a deadline
// does.
func (op *operation) outcome(at stage, err error) circuit.Outcome {
	switch {
	case at == preparing, err != nil && op.caller.Err() == context.Canceled:
		return circuit.Neutral
	case at == returned && op.Judge != nil:
		return op.judged
	case at == returned && err == nil:
		return circuit.Success
	case isPermanent(err):
		return circuit.Neutral
	}
	return circuit.Failure
}

func (op *operation) succeeded() {
	number := op.number()
	op.machine.Next(nil, time.Time{})
	if op.observed() {
		now := op.now()
		op.tell(Event{Type: Finished, Attempt: number, Duration: op.machine.elapsed(now)}, now)
	}
}

// failed takes the error of an attempt, and reports whether to make another,
// after having waited.
func (op *operation) failed(err error) bool {
	now := op.note(err)
	if op.ended() {
		return false
	}
	op.decide(op.machine.Next(err, now))
	return op.decision.Action == ActionRetry && op.scheduled(now)
}

// decide takes what the machine says, and has the caller's context pay for a retry.
func (op *operation) decide(d Decision) {
	if d.Action == ActionRetry {
		if r := carried.RetriesOf(op.caller); r != nil && !r.Take() {
			op.machine.Cancel()
			d = Decision{Action: ActionStop, Reason: ReasonQuota, RetryAfter: d.RetryAfter}
		}
	}
	op.decision = d
}

// note keeps and tells a failed attempt, and returns the time.
func (op *operation) note(err error) time.Time {
	now := op.now()
	if op.machine.started.IsZero() { // this is the first reading
		op.machine.started = now
	}
	failure := Attempt{Number: op.number(), Err: err, Start: op.began}
	if !op.began.IsZero() {
		failure.Duration = now.Sub(op.began)
	}
	op.history.add(failure)
	op.last = err
	if op.observed() {
		op.tell(Event{Type: AttemptFailed, Attempt: failure.Number, Duration: failure.Duration, Err: err}, now)
	} else {
		op.fresh = now
	}
	return now
}

// torn is the end of an operation whose attempt ends the goroutine, or continues
// to panic.
func (op *operation) torn(ctx context.Context, err error) {
	op.note(op.close(ctx, calling, err))
	op.decision = stop(ReasonNotRetryable)
	op.machine.Cancel()
	op.tellFinished(op.failureError())
}

// scheduled tells of the wait that was decided, and waits.
func (op *operation) scheduled(now time.Time) bool {
	op.history.newest().Delay = op.decision.Delay
	if op.observed() {
		op.tell(Event{
			Type: WaitScheduled, Attempt: op.history.newest().Number, Delay: op.decision.Delay,
			Source: op.decision.Source, RetryAfter: op.decision.RetryAfter, Err: op.history.newest().Err, State: op.machine.State(),
		}, now)
	}
	return op.wait()
}

// wait waits as decided and reports whether nothing came between.
func (op *operation) wait() bool {
	if op.decision.Delay > 0 && !op.interrupted() {
		op.fresh = time.Time{}
		op.sleep(op.decision.Delay)
	}
	if op.interrupted() {
		op.machine.Cancel()
		return false
	}
	op.cause = nil // a refusal that was waited for is history
	return true
}

// sleep waits for d, or until the operation is interrupted.
func (op *operation) sleep(d time.Duration) {
	var soft <-chan struct{}
	if op.Soft != nil {
		soft = op.Soft.Done()
	}
	if op.Clock != nil {
		op.Clock.Wait(op.ctx, d, soft) // how it ended, interrupted tells
		return
	}
	if op.timer == nil {
		op.timer = time.NewTimer(d)
	} else {
		op.timer.Reset(d)
	}
	select {
	case <-op.timer.C:
		return
	case <-op.ctx.Done():
	case <-soft:
	}
	op.timer.Stop()
}

// interrupted reports whether the operation is to make no further attempt,
// whatever the policy says.
func (op *operation) interrupted() bool {
	if op.ended() {
		return true
	}
	if op.Soft != nil && op.Soft.Err() != nil {
		op.interrupt(ReasonInterrupted, context.Cause(op.Soft))
		return true
	}
	return false
}

// ended reports whether the caller's context or the deadline of the policy has
// ended the operation.
func (op *operation) ended() bool {
	switch {
	case op.ctx.Err() == nil:
		return false
	case op.caller.Err() == nil:
		op.interrupt(ReasonDeadline, nil)
	case op.caller.Err() == context.DeadlineExceeded:
		op.interrupt(ReasonCallerDeadline, endOf(op.caller))
	default:
		op.interrupt(ReasonCancelled, endOf(op.caller))
	}
	return true
}

// interrupt sets the end of the operation. What the last error asked for stays
// known.
func (op *operation) interrupt(reason Reason, cause error) {
	op.decision = Decision{Action: ActionStop, Reason: reason, RetryAfter: op.decision.RetryAfter}
	op.cause = cause
}

// failure returns the error of the operation, and tells of it.
func (op *operation) failure() error {
	e := op.failureError()
	op.tellFinished(e)
	return e
}

func (op *operation) failureError() *Error {
	e := &Error{
		Reason:     op.decision.Reason,
		Attempts:   op.past + op.history.total,
		Last:       op.last,
		Cause:      op.cause,
		History:    op.history.list(),
		Slept:      op.machine.state.Slept,
		RetryAfter: op.decision.RetryAfter,
		State:      op.machine.State(),
	}
	if !op.machine.started.IsZero() {
		e.Elapsed = op.machine.elapsed(op.latest())
	}
	if e.Last == nil && !e.Reason.byCaller() {
		e.Last = e.Cause
	}
	return e
}

func (op *operation) observed() bool { return op.policy.Observer != nil || op.Observer != nil }

func (op *operation) tellStarted() {
	if op.observed() {
		e := Event{Type: AttemptStarted, Attempt: op.number()}
		if op.Admission != nil {
			e.Waited = op.began.Sub(op.asked)
		}
		op.tell(e, op.began)
	}
}

func (op *operation) tellFinished(e *Error) {
	if op.observed() {
		op.tell(Event{
			Type: Finished, Attempt: e.Attempts, Duration: e.Elapsed,
			Reason: e.Reason, RetryAfter: e.RetryAfter, Err: e,
		}, op.now())
	}
}

func (op *operation) tell(e Event, now time.Time) {
	e.Time = now
	tell(op.policy.Observer, op.Observer, e)
}

func tell(first, second Observer, e Event) {
	if first != nil {
		first(e)
	}
	if second != nil {
		second(e)
	}
}

// queueReport is what an admission calls before it waits. It keeps the operation off
// the heap by knowing parts of it alone.
func queueReport(first, second Observer, clock Clock, number int) func(Source, time.Duration) {
	return func(source Source, d time.Duration) {
		tell(first, second, Event{Type: Queued, Time: read(clock), Attempt: number, Source: source, Delay: d})
	}
}

func (op *operation) now() time.Time { return read(op.Clock) }

// latest is now, or a reading from just before: reading the clock takes longer than
// the rest of an attempt that fails at once.
func (op *operation) latest() time.Time {
	if !op.fresh.IsZero() {
		return op.fresh
	}
	return op.now()
}

// read reads a clock, nil for the machine's.
func read(clock Clock) time.Time {
	if clock != nil {
		return clock.Now()
	}
	return time.Now()
}
