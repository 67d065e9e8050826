package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// operation is a step under its retry policy, as driver.Drive runs it: one
// attempt each time that it is asked, and what is recorded of them.
type operation struct {
	*Executor
	ctx    context.Context
	p      *Place
	s      *workflow.Step
	path   string
	policy retry.Policy
	made   int  // attempts in the rounds before this one
	again  bool // this life of the run has made an attempt before

	out     *Outcome // that whoever asked for the operation has afterwards
	at      Place    // of the attempt
	prior   former
	start   time.Time // of the attempt
	prev    time.Duration
	drawing event.Drawing // of jitter
	idle    time.Time     // when the present wait began; zero for none
	waited  time.Duration // in all waits that are over
	asked   int           // how often all waits were ended before the one that is next was told of; -1: none is
	facts   []event.Event // that are not recorded yet: the failure of the attempt, until it is known what follows
	turn    turn
	breaker guard.Admission // that turn asks
	holding *Holding        // of the limits of the machine, for the attempt
	// heldBack is how long the attempt that begins has waited for a limit of the machine.
	heldBack struct {
		time  time.Duration
		limit string
	}
}

// operation takes a step to the end of its retries, and does what the policy
// says when it is exhausted. first says that nothing of the step has run in this life of
// the run; made attempts were made in the rounds of its handler before, and last is how
// the last of them ended.
func (x *Executor) operation(ctx context.Context, p *Place, s *workflow.Step, path string, first bool, made int, last *Outcome) *Outcome {
	o := &operation{Executor: x, ctx: ctx, p: p, s: s, path: path, policy: s.Retry.Policy(), made: made, again: !first, prior: formerOf(last), out: &Outcome{}, asked: -1}
	op := driver.Operation{Policy: &o.policy, Clock: lifeClock{o}, Soft: soft{x.Life, ctx}, SoftKnown: true, Observer: o.observe}
	if s.Retry != nil {
		if x.Rand != nil {
			o.drawing.From = x.Rand(p.Address, path)
		}
		o.policy.Rand = &o.drawing
	}
	var err error
	if o.policy.Quota, err = x.Limits.quota(s); err == nil {
		err = o.admission(&op)
	}
	if err != nil {
		return &Outcome{Status: event.Failed, Err: err}
	}
	if rec := p.recorded(path); rec != nil && first && unfinished(rec) {
		if out := o.goOn(ctx, &op, rec); out != nil {
			return out
		}
	}
	_, err = driver.Drive(ctx, &op, o.attempt)
	o.wake(x.Clock.Now())
	o.end(err)
	o.out.Waited = o.waited
	if o.out.Err != nil && !x.Life.Interrupted(ctx, o.out.Err) {
		x.exhausted(ctx, *p, s, path, o.out)
		o.out.Waited = o.waited
	}
	return o.out
}

// goOn has an operation continue where an earlier life of the run has left it. With an
// outcome it is over.
func (o *operation) goOn(ctx context.Context, op *driver.Operation, rec *journal.StepRecord) *Outcome {
	st := RecordedState(rec.Retry)
	if st.Attempt == 0 {
		if o.policy.Deadline > 0 && rec.Attempts > o.made {
			op.State.Began = rec.Began // the first attempt was cut short, and counts in the deadline
		}
		return nil
	}
	o.out = o.lastFailure(rec)
	o.out.Attempts -= o.made
	o.out.Err = o.setResult(ctx, o.p, o.s, &o.out.Result, o.out.Err) // as that attempt has left them
	if rec.GivenUp != "" {                                           // it is decided that no attempt follows
		o.out.Reason = reasonOf(rec.GivenUp)
		o.exhausted(ctx, *o.p, o.s, o.path, o.out)
		return o.out
	}
	o.prior = formerOf(o.out)
	op.State, op.Last, o.prev = st, o.out.Err, st.Prev
	if now := o.Clock.Now(); st.Due.After(now) {
		o.idle = now
	}
	return nil
}

// wake ends the present wait.
func (o *operation) wake(now time.Time) {
	if !o.idle.IsZero() {
		o.waited, o.idle = o.waited+now.Sub(o.idle), time.Time{}
	}
}

// unfinished reports whether a step was in flight when its process ended.
func unfinished(rec *journal.StepRecord) bool {
	return rec.Status == event.Running || rec.Status == event.Interrupted
}

// RecordedState is what the journal knows of retries, as the machine wants it.
func RecordedState(rec journal.Retry) driver.State {
	return driver.State{Attempt: rec.Failures, Slept: rec.Slept, Prev: rec.Prev, Began: rec.Began,
		FirstFailure: rec.FirstFailure, Due: rec.NotBefore, Rules: rec.Rules}
}

// attempt makes one attempt.
func (o *operation) attempt(ctx context.Context, n int) (struct{}, error) {
	o.at = *o.p
	o.at.attempt(o.Values.Mask(), o.made+n, o.prior)
	if o.at.Past != nil {
		o.takeOver(&o.at)
	}
	if o.holding != nil {
		o.at.Holding = o.holding
	}
	*o.out = Outcome{Attempts: n}
	defer func() { o.prior = formerOf(o.out) }()
	err := o.perform(ctx, &o.at, o.s, o.path, o.made+n, &o.out.Result)
	if err != nil && o.ctx.Err() != nil {
		// Whatever it died of, it did so while it was being ended.
		if stop := o.Life.Stopping(o.ctx); stop != nil && (errors.Is(stop, ErrInterrupted) || isCancelled(o.ctx, err)) {
			err = stop
		}
	} else if err != nil && ctx.Err() != nil && (o.ended(err) || errors.Is(err, context.Cause(ctx))) {
		// The deadline of the policy, which is not the run's end.
		err = &failure.DeadlineError{Deadline: o.policy.Deadline, Before: Cause(o.prior.Err)}
	}
	o.out.Err = err
	if err == nil {
		return struct{}{}, nil
	}
	err = Cause(err)
	if o.ended(err) || Final(err) {
		err = retry.Permanent(err) // another attempt would meet the same
	}
	return struct{}{}, failure.Under(&o.policy, err)
}

// ended reports whether an attempt was cut short, and did not fail: by the end of the
// run, a budget that is spent, or the end of the time that something has of which the
// step is a part.
func (o *operation) ended(err error) bool {
	return endsRun(err) || o.ctx.Err() != nil && errors.Is(err, context.Cause(o.ctx))
}

// takeOver has the steps inside this one take over what an earlier life of the run has
// recorded of them: in the attempt that was cut short there, or that failed for good,
// also where the step was begun again after that and no attempt was made yet. Any other
// attempt begins with the first of them.
func (o *operation) takeOver(p *Place) {
	rec := cmp.Or(o.p.recorded(o.path), &journal.StepRecord{})
	begun := rec.Attempts == 0 && rec.BeganAt != 0
	if o.again || unfinished(rec) && !rec.InFlight() && !begun {
		p.Past = nil
	}
	p.Since = max(p.Since, rec.BeganAt)
	o.again = true
}

func isCancelled(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))
}

// observe records what the driver tells. The failure of an attempt and the wait
// that follows it are one record.
func (o *operation) observe(e retry.Event) {
	facts := o.facts
	switch e.Type {
	case retry.AttemptStarted:
		o.start = e.Time
		if o.idle.IsZero() {
			o.waited += o.heldBack.time
		}
		o.wake(e.Time) // a wait for a limit follows one between attempts
		started := o.p.Event(event.AttemptStarted, o.path)
		started.Time, started.Attempt = e.Time, o.made+e.Attempt
		if o.heldBack.time > 0 {
			started.DelayMS, started.From = o.heldBack.time.Milliseconds(), o.heldBack.limit
			o.heldBack.time = 0
		}
		facts = append(facts, started)
	case retry.AttemptFailed:
		if o.out.Err == nil {
			*o.out = Outcome{Attempts: e.Attempt, Err: e.Err} // a panic
		}
		o.out.FailedAt = e.Time
		if !o.ended(e.Err) {
			o.facts = append(facts, o.failed(o.p, o.s, o.path, o.out, o.made, o.start, e.Time))
			return
		}
	case retry.WaitScheduled:
		_, o.asked = o.Life.sleeping() // who hears of the wait may end it at once
		wait := o.p.Event(event.RetryScheduled, o.path)
		wait.Time, wait.Attempt, wait.DelayMS, wait.Class = e.Time, o.made+e.Attempt, e.Delay.Milliseconds(), driver.Class(o.out.Err)
		if o.Recorder.Detailed() {
			state := e.State
			wait.Retry = &state
			wait.Data = Data(event.Waited(&o.policy, state, e.Delay, o.prev, e.RetryAfter, o.drawing.Take()))
		}
		o.prev, o.idle = e.State.Prev, e.Time
		facts = append(facts, wait)
	case retry.Finished:
		if len(facts) > 0 && e.Reason.Exhausted() && (o.s.Retry != nil || handled(o.s)) {
			facts[0].Status = e.Reason.String()
		}
		if e.Reason == driver.ReasonNone {
			done := o.p.Event(event.AttemptFinished, o.path)
			done.Time, done.Attempt, done.DurationMS = e.Time, o.made+e.Attempt, e.Time.Sub(o.start).Milliseconds()
			if r := ranOf(&o.out.Result); r != (ran{}) && o.Recorder.Detailed() {
				done.Data = Data(r)
			}
			facts = append(facts, done)
		}
	case retry.Refused:
		if o.out.Err == nil {
			*o.out = Outcome{Attempts: o.out.Attempts, Err: e.Err, FailedAt: o.out.FailedAt}
		} else {
			o.out.Err = e.Err
		}
	}
	if len(facts) > 0 {
		o.keep(facts)
	}
	o.facts = facts[:0]
}

// end says how the operation ended.
func (o *operation) end(err error) {
	out := o.out
	if err == nil {
		out.Status, out.Err = event.Succeeded, nil
		if out.Result.Instead != "" {
			out.Status = event.Degraded
		}
		return
	}
	if out.Err != nil && o.ended(out.Err) {
		out.Status = event.Interrupted
		return
	}
	var e *retry.Error
	if !errors.As(err, &e) {
		out.Status, out.Err = event.Failed, err
		return
	}
	out.Status, out.Reason = event.Failed, e.Reason
	if stop := o.Life.Stopping(o.ctx); stop != nil && (e.Reason == driver.ReasonCancelled || e.Reason == driver.ReasonInterrupted || o.ctx.Err() != nil) {
		stopped(out, stop)
		return
	}
	if out.Err == nil {
		out.Err = err
	}
}

// stopped is a step that did not end because the run stops.
func stopped(out *Outcome, err error) {
	out.Status = event.Interrupted
	if out.Err != nil && !unrecorded(err) && !errors.Is(out.Err, err) {
		err = errors.Join(err, out.Err)
	}
	out.Err = err
}

// lastFailure is how the last attempt failed that an earlier life of the run
// has recorded: whoever reads it sees what it would have seen then.
// Of an output whose log a power cut took away it has the end.
func (x *Executor) lastFailure(rec *journal.StepRecord) *Outcome {
	out := &Outcome{Status: event.Failed, Attempts: rec.Attempts, FailedAt: rec.FailedAt}
	var d attemptData
	if len(rec.Failed) == 0 || json.Unmarshal(rec.Failed, &d) != nil || d.Failure == nil {
		d.Failure = &failure.Failure{}
	}
	d.open(x.Values)
	d.Failure.Class, d.Failure.Message = rec.Class, cmp.Or(d.Message, rec.Message)
	out.Err = d.Failure
	out.Result = action.Result{ExitCode: d.Exit, Status: d.Failure.Status, Output: d.Stdout, Stderr: d.Stderr, Session: d.Session, Summary: d.Summary, Full: d.Full,
		Duration: d.Took, Header: d.Header, Usage: d.Usage, StdoutFile: d.File}
	if d.StdoutLog != nil && x.readLog(*d.StdoutLog, &out.Result.Output) {
		out.Result.OutputLog = d.StdoutLog
	}
	if d.StderrLog != nil && x.readLog(*d.StderrLog, &out.Result.Stderr) {
		out.Result.StderrLog = d.StderrLog
	}
	return out
}

// readLog reads the output of a failed attempt; where it cannot, the text stays as it is.
func (x *Executor) readLog(log action.Log, text *string) bool {
	whole, err := x.Actions.Text(log)
	if err != nil {
		x.Note("what reads the failure of an earlier attempt has the end of its output: %v", err)
		return false
	}
	*text = whole
	return true
}

// exhausted does what the retry policy says when it allows no further attempt.
func (x *Executor) exhausted(ctx context.Context, p Place, s *workflow.Step, path string, out *Outcome) {
	out.Err = &Error{Step: path, Label: s.Label(), At: s.Pos, Attempts: out.Attempts, Reason: out.Reason, Err: out.Err}
	if s.Retry == nil {
		return
	}
	switch s.Retry.OnFailure {
	case "continue":
		out.Tolerated = true
	case "fallback":
		x.setError(&p, s, out)
		q := p
		q.attempt(x.Values.Mask(), out.Attempts+1, formerOf(out))
		res, err := x.leaf(ctx, q, s, s.Retry.FallbackAction(), path+".fallback", 1)
		if err == nil {
			err = x.setResult(ctx, &p, s, &res, nil)
		}
		if err == nil {
			*out = Outcome{Status: event.Degraded, Result: res, Attempts: out.Attempts}
			return
		}
		if stop := x.Life.Stopping(ctx); stop != nil && x.Life.Interrupted(ctx, err) {
			stopped(out, stop)
			return
		}
		own := *out.Err.(*Error) // which is made above
		own.Err = fmt.Errorf("%w; the fallback failed too: %w", own.Err, err)
		out.Err = &own
	}
}

// admission has the attempts of a step wait for their turn, ask its breaker, and take
// what they need of the limits of the machine.
func (o *operation) admission(op *driver.Operation) error {
	b, err := o.Limits.breaker(o.s)
	o.breaker = guard.Admission{Breaker: b}
	o.turn = turn{Admission: &o.breaker, o: o, names: o.stepLimits(o.s)}
	op.Admission = &o.turn
	return err
}

// lifeClock is the clock of a run, whose waits end when the run stops: whatever else
// would end them is asked of the lifecycle too.
type lifeClock struct{ o *operation }

func (c lifeClock) Now() time.Time { return c.o.Clock.Now() }

func (c lifeClock) Wait(ctx context.Context, d time.Duration, _ <-chan struct{}) error {
	asked := c.o.asked
	c.o.asked = -1
	return c.o.Life.sleep(ctx, d, asked)
}

func (c lifeClock) WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return c.o.Clock.WithTimeout(ctx, d, cause)
}
