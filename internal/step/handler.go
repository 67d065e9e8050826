package step

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

// rounds runs a step, and where its handler is a repair, the step and the
// handler in turn.
func (x *Executor) rounds(ctx context.Context, p *Place, s *workflow.Step, path string) *Outcome {
	h := s.OnFailure
	g, err := x.goOn(ctx, p, s, path)
	if err != nil {
		return &Outcome{Status: event.Failed, Err: err}
	}
	total, waited, out := g.made, time.Duration(0), g.last
	for round := g.round; ; round++ {
		if !g.failed {
			out = x.operation(ctx, p, s, path, g.first, total, out)
			total, waited = total+out.Attempts, waited+out.Waited
			out.Attempts, out.Waited = total, waited
		}
		left := g
		g = handlerLeft{}
		if out.Err == nil {
			out.Recovered = round > 1
			break
		}
		if out.Tolerated || x.Life.Interrupted(ctx, out.Err) {
			break
		}
		if x.onExitCode(ctx, p, s, out) {
			break
		}
		if round > s.Handlings() || h.Rerun && limited(out.Err) {
			break
		}
		err := left.err
		if !left.handled {
			err = x.handle(ctx, *p, s, path, out, round, left.since)
		}
		if err != nil && (x.Life.Interrupted(ctx, err) || h.Fatal) {
			out.Err = err
			break
		}
		if !h.Rerun {
			if err == nil && h.Recovers() {
				out.Status, out.Err, out.Recovered = event.Succeeded, nil, true
			}
			break
		}
	}
	tolerate(s, out)
	if out.Err == nil && out.Status != event.Failed {
		out.Incomplete = out.Incomplete || out.Result.Incomplete
		x.followUp(ctx, p, s, out)
	}
	return out
}

// handlerLeft is where an earlier life of the run has left a step and its handler.
type handlerLeft struct {
	first   bool     // the round is the first of this life
	round   int      // the present one, from 1
	made    int      // attempts in the rounds before
	last    *Outcome // how the attempt before failed; nil where no handler has begun
	failed  bool     // no attempt of the round follows, and its handler has begun
	since   int64    // the number of the event with which that began; 0: it has not
	handled bool     // and has ended, with err
	err     error
}

// goOn reads where an earlier life has left a step, and sets the variables that the
// rounds of its handler have set.
func (x *Executor) goOn(ctx context.Context, p *Place, s *workflow.Step, path string) (handlerLeft, error) {
	g := handlerLeft{first: true, round: 1}
	if s.OnFailure == nil {
		return g, nil
	}
	rec := p.recorded(path)
	if rec == nil || !unfinished(rec) {
		return g, nil
	}
	h := rec.Handler
	if h.Number == 0 {
		if n := handledBefore(*p, s, rec.First); n > 0 {
			return g, inputError("step %q was cut short in round %d of its handler, by a version of bide that did not record the rounds: how many attempts it has left is not known; put back what it has done, and run it again with `bide rerun --from`", s.Label(), n)
		}
		return g, nil
	}
	g.last = x.lastFailure(&journal.StepRecord{Class: h.Class, Message: h.Message, Failed: h.Failed, FailedAt: h.FailedAt, Attempts: h.Made})
	g.last.Err = x.setResult(ctx, p, s, &g.last.Result, g.last.Err)
	for n := 1; n <= h.Number && (n < h.Number || h.Status != event.Running); n++ {
		x.takeHandled(ctx, p, s, g.last, n)
	}
	g.round, g.made = h.Number, h.Made
	switch {
	case h.Status == event.Running:
		g.failed = true
	case s.OnFailure.Rerun:
		g.round++
	default:
		g.failed, g.handled = true, true
		if h.Status != event.Succeeded {
			g.err = &failure.Failure{Class: h.ErrClass, Message: h.Err}
		}
	}
	if g.failed {
		g.since = h.Since
		g.last.Reason = reasonOf(h.GivenUp)
		g.last.Err = &Error{Step: path, Label: s.Label(), At: s.Pos, Attempts: h.Made, Reason: g.last.Reason, Err: g.last.Err}
	}
	return g, nil
}

// handledBefore is the last round of the handler of a step of which a step has run since
// an event.
func handledBefore(p Place, s *workflow.Step, since int64) (n int) {
	for len(s.OnFailure.Steps) > 0 && p.Past[p.handling(n+1).Path(s.OnFailure.Steps[0].Path)].Last > since {
		n++
	}
	return n
}

// reasonOf is the reason of a name.
func reasonOf(name string) driver.Reason {
	for r := driver.ReasonAttempts; r <= driver.ReasonInterrupted; r++ {
		if r.String() == name {
			return r
		}
	}
	return driver.ReasonNone
}

// handling is the place of a round of a handler, from 1.
func (p Place) handling(round int) Place {
	p.Rounds += "#" + strconv.Itoa(round)
	return p
}

// takeHandled sets the variables of a round of a handler that has ended.
func (x *Executor) takeHandled(ctx context.Context, p *Place, s *workflow.Step, out *Outcome, round int) {
	x.setHandled(p, s, out, round)
	q := p.handling(round)
	for _, step := range s.OnFailure.Steps {
		var d record
		if rec := q.recorded(q.Path(step.Path)); rec != nil && json.Unmarshal(rec.Data, &d) == nil {
			x.setAgain(q, &d)
		}
	}
	x.captureHandled(ctx, *p, s.OnFailure)
}

// tolerate says whether a failed step lets the next one run.
func tolerate(s *workflow.Step, out *Outcome) {
	if out.Err == nil || unrecorded(out.Err) {
		return
	}
	out.Unmended = !out.Tolerated && s.Unmended()
	out.Tolerated = out.Tolerated || s.Tolerated()
}

// followUp runs what belongs to a step that ended well: on_success, the steps
// of its exit status, validations.
func (x *Executor) followUp(ctx context.Context, p *Place, s *workflow.Step, out *Outcome) {
	var err error
	if s.Validate != nil {
		var incomplete bool
		incomplete, err = x.validate(ctx, *p, s.Validate)
		out.Incomplete = out.Incomplete || incomplete
	}
	if steps, ok := s.OnExitCode[0]; ok && err == nil && out.Result.ExitCode == 0 {
		err = x.Sequence(ctx, p, steps)
	}
	if err == nil {
		err = x.Sequence(ctx, p, s.OnSuccess)
	}
	if err == nil {
		return
	}
	out.Status, out.Err = event.Failed, err
	tolerate(s, out)
}

// onExitCode runs the steps for a failed step's exit status: where they end
// well, the step is recovered. It is false where there are none.
func (x *Executor) onExitCode(ctx context.Context, p *Place, s *workflow.Step, out *Outcome) bool {
	code, ok := failure.ExitCode(out.Err)
	steps, has := s.OnExitCode[code]
	if !ok || !has || code == 0 {
		return false
	}
	x.setError(p, s, out)
	err := x.synced(ctx) // as before another handler
	if err == nil {
		err = x.Sequence(ctx, p, steps)
	}
	if err != nil {
		out.Err = err
		return true
	}
	out.Status, out.Err, out.Recovered = event.Succeeded, nil, true
	return true
}

// handle runs the on_failure steps after the attempts of a round have failed. since is the
// number of the event with which an earlier life of the run began that; 0: none did.
func (x *Executor) handle(ctx context.Context, p Place, s *workflow.Step, path string, out *Outcome, round int, since int64) error {
	h := s.OnFailure
	x.setHandled(&p, s, out, round)
	q := p.handling(round)
	start := x.Clock.Now()
	name := path + "#" + strconv.Itoa(round)
	q.Since = max(q.Since, since)
	if since == 0 {
		q.Past = nil // what is recorded of such a round is of another execution of the step
		e := p.Event(event.RoundStarted, name)
		e.Time, e.Attempts = start, out.Attempts
		x.record(e)
		// What it mends may look well to a later life that knows nothing of the failure.
		if err := x.synced(ctx); err != nil {
			return err
		}
	}
	q.Env = p.Env.Export("TEST_ATTEMPT", strconv.Itoa(round))
	t, err := x.Span(ctx, &p, h.Timeout)
	if err == nil {
		err = x.within(ctx, t, "the on_failure handler", func(ctx context.Context) error { return x.repair(ctx, q, h) })
	}
	if err != nil && x.Life.Interrupted(ctx, err) {
		return err // a later life continues with it
	}
	var facts []event.Event
	e := p.Event(event.RoundFinished, name)
	e.Time, e.Status = x.Clock.Now(), event.Succeeded
	e.DurationMS = e.Time.Sub(start).Milliseconds()
	if err != nil {
		e.Status, e.Class, e.Message = event.Failed, driver.Class(err), err.Error()
		told := p.Event(event.Note, p.Path(s.Path))
		told.Message = fmt.Sprintf("the on_failure handler of %q failed: %v", s.Label(), err)
		facts = append(facts, told)
	}
	x.record(append(facts, e)...)
	x.captureHandled(ctx, p, h)
	return err
}

// setHandled sets what the steps of a handler read.
func (x *Executor) setHandled(p *Place, s *workflow.Step, out *Outcome, round int) {
	x.setError(p, s, out)
	p.Scope.Set("test", map[string]any{
		"attempt": int64(round), "exit_code": int64(out.Result.ExitCode),
		"output": failure.Plain("STDOUT:\n" + out.Result.Output + "\nSTDERR:\n" + out.Result.Stderr),
	})
}

// captureHandled sets the variables that a handler takes out of its steps.
func (x *Executor) captureHandled(ctx context.Context, p Place, h *workflow.Handler) {
	for name, from := range h.Captures {
		v, ok, err := Lookup(x.View(ctx, &p), from)
		if err != nil {
			x.noteAt(p, "capture %s of on_failure is not set: %v", name, err)
		}
		if ok {
			p.Scope.SetValue(name, v)
		}
	}
}

// repair runs the steps of a handler, which may have to commit.
func (x *Executor) repair(ctx context.Context, p Place, h *workflow.Handler) error {
	must := &workflow.Step{Name: "on_failure", CommitRequired: h.CommitRequired}
	check, err := x.beforeCommits(ctx, &p, must)
	if err != nil {
		return err
	}
	if err := x.Sequence(ctx, &p, h.Steps); err != nil {
		return err
	}
	return check.after(ctx, &p, must)
}

// setError sets what handlers read of a failure.
func (x *Executor) setError(p *Place, s *workflow.Step, out *Outcome) {
	text := x.printed(&out.Result)
	at := out.FailedAt
	if at.IsZero() { // no attempt was made
		at = x.Clock.Now()
	}
	p.Scope.SetKept("error", map[string]any{
		"message": failure.Plain(Cause(out.Err).Error()), "exit_code": int64(out.Result.ExitCode), "step": s.Label(),
		"class": driver.Class(out.Err), "attempts": int64(out.Attempts), "timestamp": at.UTC().Format(time.RFC3339),
		"stderr": plain(text.stderr), "output": plain(text.output),
	})
}
