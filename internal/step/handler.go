package step

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// rounds runs a step, and where its handler is a repair, the step and the
// handler in turn.
func (x *Executor) rounds(ctx context.Context, p Site, s *workflow.Step, path string) Outcome {
	h, n := s.OnFailure, s.Rounds()
	done, out := x.roundsDone(p, s, path)
	total, waited := out.Attempts, time.Duration(0)
	if done > 0 && done < n {
		// The handler may not have come to its end; what is recorded of it is
		// passed over.
		if _, err := x.handle(ctx, p, s, h, out, done); err != nil && (x.Life.Interrupted(ctx, err) || h.Fatal) {
			out.Err = err
			return out
		}
	}
	for round := done + 1; round <= n || round == 1; round++ {
		out = x.operation(ctx, p, s, path, round, done, total, out)
		total, waited = total+out.Attempts, waited+out.Waited
		out.Attempts, out.Waited = total, waited
		if out.Err == nil {
			out.Recovered = round > 1
			break
		}
		if out.Tolerated || x.Life.Interrupted(ctx, out.Err) {
			break
		}
		var did bool
		if out, did = x.onExitCode(ctx, p, s, out); did {
			break
		}
		if round > s.Handlings() {
			break
		}
		recovered, err := x.handle(ctx, p, s, h, out, round)
		if err != nil && (x.Life.Interrupted(ctx, err) || h.Fatal) {
			out.Err = err
			break
		}
		if !h.Rerun {
			if recovered && h.Recovers() {
				out.Status, out.Err, out.Recovered = event.Succeeded, nil, true
			}
			break
		}
	}
	out = tolerate(s, out)
	if out.Err == nil && out.Status != event.Failed {
		out.Incomplete = out.Incomplete || out.Result.Incomplete
		out = x.followUp(ctx, p, s, out)
	}
	return out
}

// roundsDone is how many rounds of a step and its repair an earlier life of the
// run has finished, and how the last of them failed.
func (x *Executor) roundsDone(p Site, s *workflow.Step, path string) (int, Outcome) {
	rec, ok := p.Past[path]
	if !ok || s.OnFailure == nil || !s.OnFailure.Rerun || !unfinished(rec) {
		return 0, Outcome{}
	}
	done := rec.Retry.Failures / perRound(s)
	if done == 0 {
		return 0, Outcome{}
	}
	out := lastFailure(rec)
	out.Attempts = done * perRound(s)
	return done, out
}

// perRound is how many attempts a round has at most.
func perRound(s *workflow.Step) int {
	if s.Retry == nil {
		return 1
	}
	return max(1, s.Retry.Attempts)
}

// tolerate says whether a failed step lets the next one run.
func tolerate(s *workflow.Step, out Outcome) Outcome {
	if out.Err == nil || errors.Is(out.Err, ErrInterrupted) {
		return out
	}
	out.Tolerated = out.Tolerated || s.Tolerated()
	return out
}

// followUp runs what belongs to a step that ended well: on_success, the steps
// of its exit status, validations.
func (x *Executor) followUp(ctx context.Context, p Site, s *workflow.Step, out Outcome) Outcome {
	var err error
	if s.Validate != nil {
		var incomplete bool
		incomplete, err = x.validate(ctx, p, s.Validate)
		out.Incomplete = out.Incomplete || incomplete
	}
	if steps, ok := s.OnExitCode[0]; ok && err == nil && out.Result.ExitCode == 0 {
		err = x.Sequence(ctx, p, steps)
	}
	if err == nil {
		err = x.Sequence(ctx, p, s.OnSuccess)
	}
	if err == nil {
		return out
	}
	out.Status, out.Err = event.Failed, err
	return tolerate(s, out)
}

// onExitCode runs the steps for a failed step's exit status: where they end
// well, the step is recovered.
func (x *Executor) onExitCode(ctx context.Context, p Site, s *workflow.Step, out Outcome) (Outcome, bool) {
	code, ok := failure.ExitCode(out.Err)
	steps, has := s.OnExitCode[code]
	if !ok || !has || code == 0 {
		return out, false
	}
	x.setError(p, s, out)
	if err := x.Sequence(ctx, p, steps); err != nil {
		out.Err = err
		return out, true
	}
	out.Status, out.Err, out.Recovered = event.Succeeded, nil, true
	return out, true
}

// handle runs the on_failure steps and reports whether they ended well.
func (x *Executor) handle(ctx context.Context, p Site, s *workflow.Step, h *workflow.Handler, out Outcome, round int) (bool, error) {
	x.setError(p, s, out)
	p.Scope.Set("test", map[string]any{
		"attempt": int64(round), "exit_code": int64(out.Result.ExitCode),
		"output": "STDOUT:\n" + out.Result.Output + "\nSTDERR:\n" + out.Result.Stderr,
	})
	q := p
	q.Rounds += "#" + strconv.Itoa(round)
	q.Env = p.Env.Export("TEST_ATTEMPT", strconv.Itoa(round))
	t, err := x.Span(ctx, p, h.Timeout)
	if err == nil {
		err = x.within(ctx, t, "the on_failure handler", func(ctx context.Context) error { return x.repair(ctx, q, h) })
	}
	if err != nil {
		e := p.Event(event.Note, p.Path(s.Path))
		e.Message = fmt.Sprintf("the on_failure handler of %q failed: %v", s.Label(), err)
		x.record(e)
	}
	for name, from := range h.Captures {
		if v, ok := Lookup(x.View(ctx, p), from); ok {
			p.Scope.SetValue(name, v)
		}
	}
	return err == nil, err
}

// repair runs the steps of a handler, which may have to commit.
func (x *Executor) repair(ctx context.Context, p Site, h *workflow.Handler) error {
	must := &workflow.Step{Name: "on_failure", CommitRequired: h.CommitRequired}
	check, err := x.beforeCommits(ctx, p, must)
	if err != nil {
		return err
	}
	if err := x.Sequence(ctx, p, h.Steps); err != nil {
		return err
	}
	return check.after(ctx, p, must)
}

// setError sets what handlers read of a failure.
func (x *Executor) setError(p Site, s *workflow.Step, out Outcome) {
	p.Scope.Set("error", map[string]any{
		"message": Cause(out.Err).Error(), "exit_code": int64(out.Result.ExitCode), "step": s.Label(),
		"class": retry.Class(out.Err), "attempts": int64(out.Attempts), "timestamp": x.Clock.Now().UTC().Format(time.RFC3339),
		"stderr": out.Result.Stderr, "output": out.Result.Output,
	})
}
