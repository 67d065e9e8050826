package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
)

// epoch is what times are counted from. The offset to it is cheaper to read
// than the time, and enough for an attempt that succeeds.
var epoch = time.Now()

// operation is the effects of one operation around its [Machine]: clock,
// timer, contexts, breaker and observer.
type operation struct {
	ctx     context.Context
	policy  *Policy
	machine Machine
	bounded bool // there is a deadline

	began   time.Duration // of the attempt, since epoch
	permit  circuit.Permit
	cancel  context.CancelFunc // ends the attempt's context; may be nil
	timer   *time.Timer
	history history

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

// begin takes the operation over and reports whether it goes on.
func (op *operation) begin(ctx context.Context, p *Policy, s *start) bool {
	op.ctx, op.policy = ctx, p
	var began time.Time
	if !p.Untimed {
		if s == nil {
			op.began = time.Since(epoch)
		} else {
			op.began = s.began
		}
		began = epoch.Add(op.began)
	}
	op.machine = NewMachine(p, began)
	if deadline, ok := ctx.Deadline(); ok {
		op.bounded = true
		op.machine.SetDeadline(deadline)
	}
	switch {
	case s == nil:
		return true
	case s.state.Attempt == 0:
		return op.failed(s.failure)
	}
	op.history.add(Attempt{Number: 1, Err: s.failure})
	op.last = s.failure
	op.machine.state, op.decision = s.state, s.decision
	if s.second != nil {
		return op.failed(s.second)
	}
	return op.decision.Action == Retry && op.wait()
}

// number is that of the attempt which is being made.
func (op *operation) number() int { return op.machine.state.Attempt + 1 }

// now returns the time, or zero if nobody wants to know it.
func (op *operation) now() time.Time {
	if op.policy.Untimed && !op.bounded {
		return time.Time{}
	}
	return time.Now()
}

// admitted reports whether an attempt may be made now. While a breaker refuses
// and the policy says so, it waits and asks again.
func (op *operation) admitted() bool {
	for {
		if op.interrupted() {
			return false
		}
		if op.policy.Breaker == nil {
			return true
		}
		var refusal error
		if op.permit, refusal = op.policy.Breaker.Acquire(); refusal == nil {
			return true
		}
		if !op.refused(refusal) {
			return false
		}
	}
}

// refused reports whether to ask the breaker again, after having waited.
func (op *operation) refused(refusal error) bool {
	now, number := op.now(), op.number()
	op.tell(Event{Type: Refused, Attempt: number, Err: refusal}, now)
	op.cause = refusal
	op.decision = op.machine.Next(refusal, now)
	if op.decision.Reason != ReasonCircuitOpen { // otherwise no attempt was used
		op.history.add(Attempt{Number: number, Start: op.shown(now), Err: refusal})
	}
	return op.decision.Action == Retry && op.wait()
}

// open returns the context of the next attempt.
func (op *operation) open() context.Context {
	ctx := op.ctx
	if op.policy.NumberAttempts {
		ctx = &numbered{ctx, op.number()}
	}
	if limit := op.policy.Timeout; limit > 0 && !op.endsWithin(limit) {
		ctx, op.cancel = context.WithTimeout(ctx, limit)
	}
	if !op.policy.Untimed && op.number() > 1 {
		op.began = time.Since(epoch)
	}
	return ctx
}

// endsWithin reports whether the deadline comes before a timeout that begins
// now, which is then not needed.
func (op *operation) endsWithin(limit time.Duration) bool {
	return op.bounded && time.Until(op.machine.deadline) <= limit
}

// close ends the context of an attempt, answers its permit, and returns its
// error, with what only the context can tell about it.
func (op *operation) close(ctx context.Context, at stage, err error) error {
	if op.cancel != nil {
		expired := ctx.Err() == context.DeadlineExceeded && op.ctx.Err() == nil
		op.cancel()
		op.cancel = nil
		if err != nil && expired {
			err = &TimeoutError{Limit: op.policy.Timeout, Err: err}
		}
	}
	if op.policy.Breaker != nil {
		op.permit.Done(op.outcome(at, err))
	}
	return err
}

// outcome is what the attempt says about the breaker's target. One that was
// cancelled, or never began, says nothing.
func (op *operation) outcome(at stage, err error) circuit.Outcome {
	switch {
	case at == returned && err == nil:
		return circuit.Success
	case at == preparing, op.ctx.Err() != nil, err != nil && isCancelled(err):
		return circuit.Neutral
	}
	return circuit.Failure
}

func (op *operation) succeeded() {
	number := op.number()
	op.machine.Next(nil, time.Time{})
	if op.policy.Observer != nil {
		now := op.now()
		op.tell(Event{Type: Finished, Attempt: number, Duration: op.elapsed(now)}, now)
	}
}

// failed takes the error of an attempt, and reports whether to make another,
// after having waited.
func (op *operation) failed(err error) bool {
	now := op.now()
	failure := Attempt{Number: op.number(), Err: err}
	if !op.policy.Untimed {
		failure.Duration = now.Sub(epoch) - op.began
		failure.Start = now.Add(-failure.Duration)
	}
	op.history.add(failure)
	op.last = err
	op.tell(Event{Type: AttemptFailed, Attempt: failure.Number, Duration: failure.Duration, Err: err}, now)
	if op.interrupted() {
		return false
	}
	op.decision = op.machine.Next(err, now)
	return op.decision.Action == Retry && op.wait()
}

// wait waits as decided and reports whether nothing came between.
func (op *operation) wait() bool {
	delay := op.decision.Delay
	op.history.newest().Delay = delay
	if op.policy.Observer != nil {
		op.tell(Event{
			Type: WaitScheduled, Attempt: op.history.newest().Number,
			Delay: delay, RetryAfter: op.decision.RetryAfter,
		}, op.now())
	}
	if delay > 0 {
		if op.timer == nil {
			op.timer = time.NewTimer(delay)
		} else {
			op.timer.Reset(delay)
		}
		select {
		case <-op.timer.C:
		case <-op.ctx.Done():
			op.timer.Stop()
		}
	}
	if op.interrupted() {
		op.machine.Cancel()
		return false
	}
	op.cause = nil // a refusal that was waited for is history
	return true
}

// interrupted reports whether the context has ended, and takes that for the
// end of the operation.
func (op *operation) interrupted() bool {
	err := op.ctx.Err()
	if err == nil {
		return false
	}
	op.cause = err
	if cause := context.Cause(op.ctx); cause != nil && !errors.Is(cause, err) {
		op.cause = errors.Join(err, cause)
	}
	op.decision = stop(ReasonCancelled)
	if err == context.DeadlineExceeded {
		op.decision = stop(ReasonDeadline)
	}
	return true
}

// failure returns the error of the operation.
func (op *operation) failure() error {
	now := op.now()
	e := &Error{
		Reason:     op.decision.Reason,
		Attempts:   op.history.total,
		Last:       op.last,
		Cause:      op.cause,
		History:    op.history.list(),
		Slept:      op.machine.state.Slept,
		Elapsed:    op.elapsed(now),
		RetryAfter: op.decision.RetryAfter,
	}
	if e.Last == nil && e.Reason != ReasonCancelled && e.Reason != ReasonDeadline {
		e.Last = e.Cause
	}
	op.tell(Event{
		Type: Finished, Attempt: e.Attempts, Duration: e.Elapsed,
		Reason: e.Reason, RetryAfter: e.RetryAfter, Err: e,
	}, now)
	return e
}

func (op *operation) tellStarted() {
	if op.policy.Observer != nil {
		op.tell(Event{Type: AttemptStarted, Attempt: op.number()}, op.now())
	}
}

func (op *operation) tell(e Event, now time.Time) {
	if op.policy.Observer != nil {
		e.Time = op.shown(now)
		op.policy.Observer(e)
	}
}

// shown returns the time for errors and events.
func (op *operation) shown(now time.Time) time.Time {
	if op.policy.Untimed {
		return time.Time{}
	}
	return now
}

func (op *operation) elapsed(now time.Time) time.Duration {
	if op.policy.Untimed {
		return 0
	}
	return op.machine.Elapsed(now)
}

// history is the failed attempts, the first and the last of them. The first
// has its place here, so that one failure allocates nothing.
type history struct {
	total int
	first Attempt
	kept  []Attempt // once there are two
}

func (h *history) add(a Attempt) {
	h.total++
	switch {
	case h.total == 1:
		h.first = a
		return
	case h.total == 2:
		h.kept = append(make([]Attempt, 0, HistoryFirst), h.first)
	case len(h.kept) == HistoryFirst+HistoryLast:
		copy(h.kept[HistoryFirst:], h.kept[HistoryFirst+1:])
		h.kept[len(h.kept)-1] = a
		return
	}
	h.kept = append(h.kept, a)
}

func (h *history) newest() *Attempt {
	if h.total == 1 {
		return &h.first
	}
	return &h.kept[len(h.kept)-1]
}

// list returns the attempts, with class and message filled in.
func (h *history) list() []Attempt {
	list := h.kept
	if h.total == 1 {
		list = []Attempt{h.first}
	}
	for i := range list {
		list[i].Class = Class(list[i].Err)
		list[i].Message = fmt.Sprint(list[i].Err) // survives an Error method that panics
	}
	return list
}

// numbered is the context of an attempt that knows its number.
type numbered struct {
	context.Context
	attempt int
}

type numberedKey struct{}

func (c *numbered) Value(key any) any {
	if key == (numberedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// AttemptFrom returns the number of the attempt that the context belongs to,
// from 1, or 0 if it belongs to none of a policy with NumberAttempts. Of nested
// operations it is the innermost.
func AttemptFrom(ctx context.Context) int {
	if c, ok := ctx.Value(numberedKey{}).(*numbered); ok {
		return c.attempt
	}
	return 0
}
