package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// rounds runs a step, and where its handler is a repair, the step and the
// handler in turn.
func (r *run) rounds(ctx context.Context, p place, s *workflow.Step, path string) outcome {
	h := s.OnFailure
	n := 1
	if h != nil && h.Rerun {
		n = max(1, h.MaxAttempts)
	}
	done, out := r.roundsDone(p, s, path)
	total := out.attempts
	if done > 0 && done < n {
		// The handler may not have come to its end; what is recorded of it is
		// passed over.
		if _, err := r.handle(ctx, p, s, h, out, done); err != nil && (r.interrupted(ctx, err) || h.Fatal) {
			out.err = err
			return out
		}
	}
	for round := done + 1; round <= n || round == 1; round++ {
		out = r.operation(ctx, p, s, path, round, done)
		total += out.attempts
		out.attempts = total
		if out.err == nil || r.interrupted(ctx, out.err) || out.tolerated {
			break
		}
		if handled, did := r.onExitCode(ctx, p, s, out); did {
			out = handled
			break
		}
		if h == nil || h.Ignore || round >= n && h.Rerun {
			break
		}
		recovered, err := r.handle(ctx, p, s, h, out, round)
		if err != nil && (r.interrupted(ctx, err) || h.Fatal) {
			out.err = err
			break
		}
		if !h.Rerun {
			if recovered && !h.FailWorkflow && h.Strategy != "cleanup" {
				out.status, out.err = event.Succeeded, nil
			}
			break
		}
	}
	out = tolerate(s, out)
	if out.err == nil && out.status != event.Failed {
		out = r.followUp(ctx, p, s, out)
	}
	return out
}

// roundsDone is how many rounds of a step and its repair an earlier life of the
// run has finished, and how the last of them failed.
func (r *run) roundsDone(p place, s *workflow.Step, path string) (int, outcome) {
	rec, ok := p.steps[path]
	if !ok || s.OnFailure == nil || !s.OnFailure.Rerun || rec.Status != event.Running && rec.Status != event.Interrupted {
		return 0, outcome{}
	}
	done := rec.Retry.Failures / perRound(s)
	if done == 0 {
		return 0, outcome{}
	}
	return done, outcome{status: event.Failed, attempts: done * perRound(s), err: &classError{rec.Class, errors.New(rec.Message)}}
}

// perRound is how many attempts a round has at most.
func perRound(s *workflow.Step) int {
	if s.Retry == nil {
		return 1
	}
	return max(1, s.Retry.Attempts)
}

// tolerate says whether a failed step lets the next one run.
func tolerate(s *workflow.Step, out outcome) outcome {
	if out.err == nil || errors.Is(out.err, ErrInterrupted) {
		return out
	}
	h := s.OnFailure
	switch {
	case s.MayFail:
		out.tolerated = true
	case h != nil && h.Ignore:
		out.tolerated = true
	case h != nil && h.Rerun && !h.FailWorkflow:
		out.tolerated = true
	}
	return out
}

// interrupted reports whether a failure is the run's own end and not the
// step's.
func (r *run) interrupted(ctx context.Context, err error) bool {
	return errors.Is(err, ErrInterrupted) || ctx.Err() != nil || errors.As(err, new(*BudgetError))
}

// followUp runs what belongs to a step that ended well: on_success, the steps
// of its exit status, validations.
func (r *run) followUp(ctx context.Context, p place, s *workflow.Step, out outcome) outcome {
	fail := func(err error) outcome {
		out.status, out.err = event.Failed, err
		return tolerate(s, out)
	}
	if s.Validate != nil {
		if err := r.validate(ctx, p, s.Validate, s.Path+".validate"); err != nil {
			return fail(err)
		}
	}
	if steps, ok := s.OnExitCode[0]; ok && out.result.ExitCode == 0 {
		if err := r.sequence(ctx, p, steps); err != nil {
			return fail(err)
		}
	}
	if len(s.OnSuccess) > 0 {
		if err := r.sequence(ctx, p, s.OnSuccess); err != nil {
			return fail(err)
		}
	}
	return out
}

// onExitCode runs the steps for a failed step's exit status: where they end
// well, the step is recovered.
func (r *run) onExitCode(ctx context.Context, p place, s *workflow.Step, out outcome) (outcome, bool) {
	code, ok := exitCode(out.err)
	steps, has := s.OnExitCode[code]
	if !ok || !has || code == 0 {
		return out, false
	}
	setError(p, s, out)
	if err := r.sequence(ctx, p, steps); err != nil {
		out.err = err
		return out, true
	}
	out.status, out.err = event.Succeeded, nil
	return out, true
}

func exitCode(err error) (int, bool) {
	var e interface{ ExitCode() int }
	if errors.As(err, &e) {
		return e.ExitCode(), true
	}
	return 0, false
}

// handle runs the on_failure steps and reports whether they ended well.
func (r *run) handle(ctx context.Context, p place, s *workflow.Step, h *workflow.Handler, out outcome, round int) (bool, error) {
	setError(p, s, out)
	p.scope.Set("test", map[string]any{
		"attempt": int64(round), "exit_code": int64(out.result.ExitCode), "output": testOutput(out),
	})
	q := p
	q.at += fmt.Sprintf("#%d", round)
	q.env = append(p.env[:len(p.env):len(p.env)], fmt.Sprintf("TEST_ATTEMPT=%d", round))
	if t := r.span(h.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "the on_failure handler", After: t})
		defer cancel()
	}
	err := r.repair(ctx, q, h)
	if err != nil {
		r.emit(event.Event{Type: event.Note, Phase: p.phase, Step: s.Path + p.at, Item: p.item, Index: p.index,
			Message: fmt.Sprintf("the on_failure handler of %q failed: %v", label(s), err)})
	}
	for name, from := range h.Captures {
		if v, ok := find(p.scope, from); ok {
			p.scope.SetValue(name, v)
		}
	}
	return err == nil, err
}

// repair runs the steps of a handler, which may have to commit.
func (r *run) repair(ctx context.Context, p place, h *workflow.Handler) error {
	must := &workflow.Step{Name: "on_failure", CommitRequired: h.CommitRequired}
	check, err := r.beforeCommits(ctx, p, must)
	if err != nil {
		return err
	}
	if err := r.sequence(ctx, p, h.Steps); err != nil {
		return err
	}
	return check.after(ctx, p, must)
}

func testOutput(out outcome) string {
	return "STDOUT:\n" + out.result.Output + "\nSTDERR:\n" + out.result.Stderr
}

// find gives the value of a variable or of a part of one, such as
// error.message.
func find(sc *vars.Scope, name string) (template.Value, bool) {
	t, err := template.Parse("${" + name + "}")
	if err != nil {
		return template.Value{}, false
	}
	return t.Value(sc)
}

// setError sets what handlers read of a failure.
func setError(p place, s *workflow.Step, out outcome) {
	p.scope.Set("error", map[string]any{
		"message": bare(out.err).Error(), "exit_code": int64(out.result.ExitCode), "step": label(s),
		"class": retry.Class(out.err), "attempts": int64(out.attempts), "timestamp": time.Now().UTC().Format(time.RFC3339),
		"stderr": out.result.Stderr, "output": out.result.Output,
	})
}
