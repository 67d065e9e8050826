package flow

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/retry"
)

// call makes the call of a node.
func (fr *frame) call(i int32, n *plan.Node) (any, error) {
	args, err := fr.inputs(n)
	if err != nil {
		fr.tellSkipped(i, err)
		return nil, err
	}
	s := fr.fn.sites[i]
	if s.plain && s.all == nil && fr.x.opt.Watcher == nil {
		return fr.plainly(s, args)
	}
	op := operation{fr: fr, s: s, args: args}
	op.act = func(ctx context.Context, _ int) (any, error) { return n.Call.Module.Call(ctx, args) }
	return op.run()
}

// plainly makes a call without options of which nobody is told.
func (fr *frame) plainly(s *site, args []any) (any, error) {
	if err := fr.x.stopping(fr.ctx); err != nil {
		return nil, err
	}
	v, err := guardedCall(fr.ctx, s, args)
	if err == nil {
		return v, nil
	}
	if fr.ctx.Err() != nil {
		return nil, fr.x.stopping(fr.ctx)
	}
	op := operation{fr: fr, s: s}
	return nil, op.failed(&retry.Error{Reason: retry.ReasonAttempts, Attempts: 1, Last: err})
}

// operation is one call, with everything that its options say.
type operation struct {
	fr      *frame
	s       *site
	args    []any
	act     func(ctx context.Context, attempt int) (any, error)
	c       *Call // nil: nobody is told
	began   time.Time
	history []retry.Attempt
	made    int // attempts
}

// run brings the call to its end.
func (op *operation) run() (any, error) {
	fr := op.fr
	w := fr.x.opt.Watcher
	var past Past
	if w != nil {
		op.c, op.began = fr.describe(op.s, op.args), time.Now()
		known := false
		if past, known = w.Past(op.c); known && past.Done {
			return past.Value, nil
		}
		if err := fr.x.stopping(fr.ctx); err != nil {
			return nil, err
		}
		w.Started(op.c)
	}
	v, cached, err := op.within(past)
	end := End{Value: v, Cached: cached, Attempts: op.made, Err: err}
	if err != nil {
		end = op.answer(err)
	}
	if interrupted(end.Err) {
		return nil, end.Err
	}
	if end.Outcome == Succeeded || end.Outcome == Degraded && end.Fallback {
		end.Value = op.wrapped(end.Value)
	}
	if w != nil {
		end.Took = time.Since(op.began)
		w.Finished(op.c, end)
	}
	if end.Outcome == Failed {
		return nil, end.Err
	}
	return end.Value, nil
}

// wrapped is a value as `on_error: wrap` gives it.
func (op *operation) wrapped(v any) any {
	if o := op.options(); o.OnError == check.Wrap {
		return map[string]any{"ok": true, "value": v, "error": nil}
	}
	return v
}

var noOptions = &check.Options{Priority: check.NormalPriority}

func (op *operation) options() *check.Options {
	if o := op.s.node.Call.Options; o != nil {
		return o
	}
	return noOptions
}

// answer gives the value that the call has although it failed, if its options
// have one.
func (op *operation) answer(failure error) End {
	fr, site := op.fr, op.s.node.Call
	end := End{Outcome: Degraded, Err: failure, Attempts: op.made}
	if interrupted(failure) {
		return end
	}
	var fallback error
	if site.Fallback != plan.None {
		if site.Failure != plan.None {
			fr.complete(site.Failure, op.description(failure), nil, nil)
		}
		v, err := fr.need(site.Fallback)
		switch {
		case err == nil:
			end.Value, end.Fallback = v, true
			return end
		case interrupted(err):
			end.Err = err
			return end
		}
		fallback = err
	}
	switch op.options().OnError {
	case check.Log:
		end.Logged = true
		fallthrough
	case check.Skip:
		end.Value = types.Zero(op.s.node.Type)
	case check.Wrap:
		end.Value = map[string]any{"ok": false, "value": nil, "error": op.description(failure)}
	default:
		e := op.failed(failure)
		e.Fallback = fallback
		end.Outcome, end.Err = Failed, e
	}
	return end
}

// description is what `error` is in a fallback.
func (op *operation) description(failure error) map[string]any {
	last := failure
	if re, ok := failure.(*retry.Error); ok && re.Last != nil {
		last = re.Last
	}
	return map[string]any{"message": last.Error(), "class": retry.Class(last), "module": op.s.node.Label, "attempts": int64(op.made)}
}

func (op *operation) failed(err error) *CallError {
	fr, n := op.fr, op.s.node
	return &CallError{Path: fr.pathOf(op.s), Name: n.Call.Name, Callee: n.Label, Pos: fr.x.f.plan.Pos(n), Attempts: op.made, Err: err}
}

// within makes the attempts within the deadline, unless the result is in the
// cache.
func (op *operation) within(past Past) (v any, cached bool, err error) {
	ctx := op.fr.ctx
	if d := op.options().Deadline; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, &DeadlineError{d})
		defer cancel()
	}
	if op.s.cache != nil {
		v, cached, err = op.s.cache.get(op, ctx, func() (any, error) { return op.attempts(ctx, past) })
	} else {
		v, err = op.attempts(ctx, past)
	}
	if interrupted(err) && op.fr.x.stopping(op.fr.ctx) == nil {
		// It was the call's own deadline.
		err = op.exhausted(retry.ReasonDeadline, &DeadlineError{op.options().Deadline}, 0)
	}
	return v, cached, err
}

// attempts makes attempts for as long as the policy allows. The error is a
// *retry.Error or an *InterruptedError.
func (op *operation) attempts(ctx context.Context, past Past) (any, error) {
	s, x := op.s, op.fr.x
	m, d := retry.NewMachine(&s.policy, time.Now()), retry.Decision{Action: retry.Retry}
	if past.State.Attempt > 0 {
		m, d = retry.ResumeMachine(&s.policy, past.State, time.Now())
		op.made = past.State.Attempt
	}
	if deadline, ok := ctx.Deadline(); ok {
		m.SetDeadline(deadline)
	}
	last := past.Last
	for {
		if d.Action == retry.Stop {
			return nil, op.exhausted(d.Reason, last, m.State().Slept)
		}
		if err := x.sleep(ctx, d.Delay); err != nil {
			m.Cancel()
			return nil, err
		}
		n := m.State().Attempt + 1
		began := time.Now()
		v, err := op.attempt(ctx, n)
		if err == nil {
			m.Next(nil, time.Time{})
			return v, nil
		}
		if interrupted(err) {
			m.Cancel()
			return nil, err
		}
		last = err
		d = m.Next(err, time.Now())
		op.remember(n, began, d, err)
		if w := x.opt.Watcher; w != nil && d.Action == retry.Retry {
			w.Retry(op.c, n, d.Delay, err)
		}
	}
}

func (op *operation) exhausted(reason retry.Reason, last error, slept time.Duration) *retry.Error {
	e := &retry.Error{Reason: reason, Attempts: op.made, Last: last, History: op.history, Slept: slept}
	if !op.began.IsZero() {
		e.Elapsed = time.Since(op.began)
	}
	return e
}

// remember keeps the first and the last failed attempts.
func (op *operation) remember(n int, began time.Time, d retry.Decision, err error) {
	if len(op.history) == retry.HistoryFirst+retry.HistoryLast {
		op.history = append(op.history[:retry.HistoryFirst], op.history[retry.HistoryFirst+1:]...)
	}
	op.history = append(op.history, retry.Attempt{Number: n, Start: began, Duration: time.Since(began), Delay: d.Delay,
		Class: retry.Class(err), Message: err.Error(), Err: err})
}

// attempt makes one attempt, when throttle, slots and breaker let it.
func (op *operation) attempt(ctx context.Context, n int) (v any, err error) {
	s, x := op.s, op.fr.x
	priority, wait := op.options().Priority, x.patience(ctx)
	asked := time.Now()
	if s.throttle != nil {
		if err := s.throttle.take(priority, wait); err != nil {
			return nil, err
		}
	}
	for _, g := range [...]*gate{s.slots, s.all} {
		if g == nil {
			continue
		}
		if err := g.enter(priority, wait); err != nil {
			return nil, err
		}
		defer g.leave()
	}
	if err := x.stopping(ctx); err != nil {
		return nil, err
	}
	var ticket circuit.Ticket
	if s.breaker != nil {
		if ticket, err = s.breaker.Acquire(); err != nil {
			return nil, err
		}
		defer func() { s.breaker.Done(ticket, outcomeOf(err)) }()
	}
	began := time.Now()
	if w := x.opt.Watcher; w != nil {
		w.Attempt(op.c, n, began.Sub(asked))
	}
	op.made = n
	v, err = op.timed(ctx, n)
	if err != nil && !interrupted(err) {
		if w := x.opt.Watcher; w != nil {
			w.Failed(op.c, n, err, began)
		}
	}
	return v, err
}

// timed makes an attempt within its timeout. What comes too late is no
// success.
func (op *operation) timed(outer context.Context, n int) (any, error) {
	limit := op.s.policy.Timeout
	if limit == 0 && op.c == nil && op.s.node.Op == plan.Call {
		return op.ended(outer, outer, 0, n)
	}
	ctx, cancel := outer, context.CancelFunc(nil)
	if limit > 0 {
		ctx, cancel = context.WithTimeout(outer, limit)
	} else {
		ctx, cancel = context.WithCancel(outer)
	}
	defer cancel()
	if op.c != nil {
		ctx = context.WithValue(ctx, callKey{}, Attempt{op.c, n})
	}
	return op.ended(outer, ctx, limit, n)
}

func (op *operation) ended(outer, ctx context.Context, limit time.Duration, n int) (any, error) {
	v, err := guarded(func() (any, error) { return op.act(ctx, n) })
	switch {
	case outer.Err() != nil && err != nil:
		return nil, &InterruptedError{context.Cause(outer)}
	case outer.Err() == nil && limit > 0 && ctx.Err() != nil:
		if err == nil {
			err = errLate
		}
		return nil, &retry.TimeoutError{Limit: limit, Err: err}
	}
	return v, err
}

var errLate = errors.New("its result came too late")

// outcomeOf says what an attempt was to a breaker. One that was interrupted says
// nothing about the module.
func outcomeOf(err error) circuit.Outcome {
	switch {
	case err == nil:
		return circuit.Success
	case interrupted(err):
		return circuit.Neutral
	}
	return circuit.Failure
}

func interrupted(err error) bool {
	if err == nil {
		return false
	}
	var e *InterruptedError
	return errors.As(err, &e)
}

// Attempt is what an attempt of a module finds in its context with
// [AttemptFrom].
type Attempt struct {
	Call   *Call
	Number int // from 1
}

type callKey struct{}

// AttemptFrom gives the attempt that a context belongs to, where a watcher is
// told of it.
func AttemptFrom(ctx context.Context) (Attempt, bool) {
	a, ok := ctx.Value(callKey{}).(Attempt)
	return a, ok
}

// guarded makes an error of a panic.
func guarded(f func() (any, error)) (v any, err error) {
	defer func() {
		if x := recover(); x != nil {
			v, err = nil, &retry.PanicError{Value: x, Stack: debug.Stack()}
		}
	}()
	return f()
}

func guardedCall(ctx context.Context, s *site, args []any) (v any, err error) {
	defer func() {
		if x := recover(); x != nil {
			v, err = nil, &retry.PanicError{Value: x, Stack: debug.Stack()}
		}
	}()
	return s.node.Call.Module.Call(ctx, args)
}
