package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/breaker"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// operation is a step under its retry policy: the attempts, the waits between
// them, and what the policy does when it is exhausted.
func (r *run) operation(ctx context.Context, p place, s *workflow.Step, path string, round, done int) outcome {
	pol := s.Retry.Policy()
	if q, err := r.quotas.of(s); err != nil {
		return outcome{status: event.Failed, err: err}
	} else if q != nil {
		pol.Quota = q
	}
	m, first := r.machine(p, path, &pol, round == done+1, done*perRound(s))
	if deadline, ok := ctx.Deadline(); ok {
		m.SetDeadline(deadline)
	}
	br, err := r.breakers.of(r, s, breakerConfig(s.Retry))
	if err != nil {
		return outcome{status: event.Failed, err: err}
	}
	out := r.attempts(ctx, p, s, path, &m, br, first)
	if out.err == nil || r.interrupted(ctx, out.err) {
		return out
	}
	return r.exhausted(ctx, p, s, path, out)
}

// machine begins the retries of a step, or, in the first round of this life,
// goes on with those of an earlier one. before attempts belong to rounds that
// are over.
func (r *run) machine(p place, path string, pol *retry.Policy, first bool, before int) (retry.Machine, retry.Decision) {
	rec, ok := p.steps[path]
	if !ok || !first || rec.Status != event.Running && rec.Status != event.Interrupted || rec.Retry.Failures <= before {
		return retry.NewMachine(pol, time.Now()), retry.Decision{Action: retry.Retry}
	}
	st := retryState(rec.Retry)
	st.Attempt -= before
	return retry.ResumeMachine(pol, st, time.Now())
}

// retryState is what the journal knows of retries, as the machine wants it.
func retryState(rec journal.Retry) retry.State {
	return retry.State{Attempt: rec.Failures, Slept: rec.Slept, Prev: rec.Prev, FirstFailure: rec.FirstFailure, Due: rec.NotBefore}
}

// attempts makes attempts for as long as the machine says so. first is what to
// do before the first one: after a resume there may be a wait left, or nothing
// to do at all.
func (r *run) attempts(ctx context.Context, p place, s *workflow.Step, path string, m *retry.Machine, br *breaker.Breaker, d retry.Decision) outcome {
	var out outcome
	for {
		switch d.Action {
		case retry.Done:
			out.status, out.err = event.Succeeded, nil
			return out
		case retry.Stop:
			out.status, out.reason = event.Failed, d.Reason
			if rec := p.steps[path]; out.err == nil {
				out.attempts = rec.Attempts
				out.err = fmt.Errorf("the retries that are recorded allow no further attempt; the last error was: %w", &classError{rec.Class, errors.New(rec.Message)})
			}
			return out
		}
		if err := r.sleep(ctx, d.Delay); err != nil {
			return r.stopped(out, err)
		}
		if out = r.oneAttempt(ctx, p, s, path, m.State().Attempt+1, br, out); errors.Is(out.err, ErrInterrupted) {
			m.Cancel()
			return out
		}
		err := bare(out.err)
		if isInput(err) {
			err = retry.Permanent(err) // another attempt would meet the same
		}
		d = m.Next(err, time.Now())
		if d.Action == retry.Retry {
			r.emit(event.Event{Type: event.RetryScheduled, Phase: p.phase, Step: path, Item: p.item, Index: p.index,
				Attempt: out.attempts, DelayMS: d.Delay.Milliseconds(), Class: retry.Class(out.err), Data: data(map[string]any{"delay_ns": d.Delay.Nanoseconds()})})
		}
	}
}

// stopped is a step that did not come to its end because the run stops.
func (r *run) stopped(out outcome, err error) outcome {
	out.status = event.Interrupted
	if out.err != nil && !errors.Is(err, ErrInterrupted) {
		err = errors.Join(err, out.err)
	}
	out.err = err
	return out
}

// oneAttempt makes one attempt and tells about it.
func (r *run) oneAttempt(ctx context.Context, p place, s *workflow.Step, path string, n int, br *breaker.Breaker, prev outcome) outcome {
	var ticket circuit.Ticket
	if br != nil {
		var err error
		if ticket, err = br.Acquire(); err != nil {
			prev.err = err
			return prev
		}
	}
	start := time.Now()
	r.emit(event.Event{Type: event.AttemptStarted, Time: start, Phase: p.phase, Step: path, Item: p.item, Index: p.index, Attempt: n})
	out := outcome{attempts: n}
	out.result, out.err = r.attempt(ctx, p, s, path, n)
	if out.err != nil && r.stopping(ctx) != nil && isCancelled(ctx, out.err) {
		out.err = r.stopping(ctx)
	}
	if br != nil {
		br.Done(ticket, outcomeOf(out.err))
	}
	if out.err != nil && !errors.Is(out.err, ErrInterrupted) {
		e := event.Event{Type: event.AttemptFailed, Phase: p.phase, Step: path, Label: label(s), Item: p.item, Index: p.index, Attempt: n,
			Class: retry.Class(out.err), Message: out.err.Error(), ExitCode: out.result.ExitCode, DurationMS: time.Since(start).Milliseconds()}
		e.Data = data(map[string]any{"stderr": r.tail(out.result.Stderr), "stdout": r.tail(out.result.Output), "at": start})
		r.emit(e)
	}
	return out
}

func isCancelled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// tail is the end of an output, for the history of a failure.
func tail(s string) string {
	if len(s) <= inline {
		return s
	}
	return "… " + strings.ToValidUTF8(s[len(s)-inline:], "")
}

func isInput(err error) bool {
	var e *action.InputError
	return errors.As(err, &e)
}

// exhausted does what the retry policy says when it allows no further attempt.
func (r *run) exhausted(ctx context.Context, p place, s *workflow.Step, path string, out outcome) outcome {
	out.err = &StepError{Step: path, Label: label(s), At: s.Pos.String(), Attempts: out.attempts, Reason: out.reason, Err: out.err}
	if s.Retry == nil {
		return out
	}
	switch s.Retry.OnFailure {
	case "continue":
		out.tolerated = true
	case "fallback":
		setError(p, s, out)
		res, err := r.leaf(ctx, p, s, s.Retry.FallbackAction(), path+".fallback", 1)
		if err == nil {
			r.setResult(p, s, res, nil)
			return outcome{status: event.Degraded, result: res, attempts: out.attempts}
		}
		if r.interrupted(ctx, err) {
			return r.stopped(out, err)
		}
		out.err = fmt.Errorf("%w; the fallback failed too: %w", out.err, err)
	}
	return out
}
