package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/breaker"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// StepError is a step that failed for good.
type StepError struct {
	Step     string // its path
	Label    string
	At       string // file:line:col
	Attempts int
	Reason   retry.Reason
	Err      error
}

func (e *StepError) Error() string {
	msg := fmt.Sprintf("step %q failed", e.Label)
	if e.Attempts > 1 {
		msg += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	switch e.Reason {
	case retry.ReasonNone, retry.ReasonAttempts:
	default:
		msg += " (" + e.Reason.String() + ")"
	}
	msg += ": " + e.Err.Error()
	if e.At != "" {
		msg = e.At + ": " + msg
	}
	return msg
}

// Unwrap gives the last error.
func (e *StepError) Unwrap() error { return e.Err }

// bare takes the steps off an error, for the matchers of a retry policy: they
// read its text, and the label of a step says nothing about what went wrong.
func bare(err error) error {
	for {
		var se *StepError
		if !errors.As(err, &se) {
			return err
		}
		err = se.Err
	}
}

// outcome is how a step ended.
type outcome struct {
	status    string
	result    action.Result
	attempts  int
	reason    retry.Reason
	err       error // of a failed step
	tolerated bool  // the next step runs although it failed
}

// Label is what a person knows a step by: its name, its id, or its text.
func Label(s *workflow.Step) string { return s.Label() }

func label(s *workflow.Step) string { return s.Label() }

// recorded is what step_finished carries for a later life of the run.
type recorded struct {
	Vars      map[string]any `json:"vars,omitempty"`
	Secrets   seals          `json:"secrets,omitempty"` // what is masked in Vars
	Output    string         `json:"output,omitempty"`
	Stderr    string         `json:"stderr,omitempty"`
	File      string         `json:"output_file,omitempty"`
	Size      int64          `json:"output_size,omitempty"`
	Digest    string         `json:"output_sha256,omitempty"`
	ExitCode  int            `json:"exit,omitempty"`
	Tolerated bool           `json:"tolerated,omitempty"`
	Recovered bool           `json:"recovered,omitempty"`
}

// step executes one step, or takes over what an earlier life of the run
// recorded of it.
func (r *run) step(ctx context.Context, p place, s *workflow.Step) outcome {
	path := s.Path + p.at
	if rec, ok := p.steps[path]; ok {
		if out, done := r.replay(p, s, rec); done {
			return out
		}
	}
	r.gitState(ctx, p)
	if s.When != nil {
		run, err := s.When.EvalBool(template.Resolver(p.view()))
		if err != nil {
			out := outcome{status: event.Failed, err: &action.InputError{Err: fmt.Errorf("when: %w", err)}}
			return r.ended(p, s, path, time.Now(), out, nil)
		}
		if !run {
			return r.ended(p, s, path, time.Now(), outcome{status: event.Skipped}, nil)
		}
	}
	start := time.Now()
	r.emit(event.Event{Type: event.StepStarted, Time: start, Phase: p.phase, Step: path, Label: label(s), Item: p.item, Index: p.index})
	mark := p.scope.Mark()
	out := r.rounds(ctx, p, s, path)
	set := p.scope.Since(mark)
	if out.err != nil && errors.Is(out.err, ErrInterrupted) {
		// Not finished: a resume goes on with it.
		return out
	}
	return r.ended(p, s, path, start, out, set)
}

// replay takes over a step that has ended in an earlier life of the run.
func (r *run) replay(p place, s *workflow.Step, rec journal.StepRecord) (outcome, bool) {
	if rec.Status == event.Running || rec.Status == event.Interrupted || rec.Status == "" {
		return outcome{}, false
	}
	var d recorded
	if len(rec.Data) > 0 {
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return outcome{status: event.Failed, err: fmt.Errorf("the record of step %s: %w", s.Path, err)}, true
		}
	}
	if rec.Status == event.Failed && !d.Tolerated {
		return outcome{}, false // resuming a failed run tries the step again
	}
	r.unseal(d.Vars, d.Secrets)
	p.scope.Apply(normal(d.Vars))
	r.count(rec.Status)
	return outcome{status: rec.Status, result: d.result(), attempts: rec.Attempts, tolerated: true}, true
}

// result is what the step's last attempt did, for those who read it after a
// resume. Of an output that is too long for the record, last.output has all.
func (d *recorded) result() action.Result {
	res := action.Result{Output: d.Output, Stderr: d.Stderr, ExitCode: d.ExitCode, StdoutFile: d.File, StdoutSize: d.Size, Digest: d.Digest}
	last, _ := d.Vars["last"].(map[string]any)
	if whole, ok := last["output"].(string); ok && (len(res.Output) > inline || len(d.Secrets) > 0) {
		res.Output = whole
	}
	if whole, ok := last["stderr"].(string); ok && (len(res.Stderr) > inline || len(d.Secrets) > 0) {
		res.Stderr = whole
	}
	return res
}

// ended tells how a step ended.
func (r *run) ended(p place, s *workflow.Step, path string, start time.Time, out outcome, set map[string]any) outcome {
	e := event.Event{Type: event.StepFinished, Phase: p.phase, Step: path, Label: label(s), Item: p.item, Index: p.index,
		Status: out.status, Attempts: out.attempts, DurationMS: time.Since(start).Milliseconds(), ExitCode: out.result.ExitCode}
	d := recorded{Tolerated: out.tolerated && out.status == event.Failed, ExitCode: out.result.ExitCode,
		Output: r.clip(out.result.Output), Stderr: r.clip(out.result.Stderr), File: out.result.StdoutFile}
	if out.result.StdoutFile != "" {
		d.Size, d.Digest = out.result.StdoutSize, out.result.Digest
	}
	if p.item == "" {
		d.Vars = set
	}
	if out.err != nil {
		e.Class, e.Message = retry.Class(out.err), out.err.Error()
		var se *StepError
		if !errors.As(out.err, &se) {
			out.err = &StepError{Step: path, Label: label(s), At: s.Pos.String(), Attempts: out.attempts, Reason: out.reason, Err: out.err}
		}
	}
	e.Data = r.encode(d)
	r.count(out.status)
	r.emit(e)
	return out
}

func (r *run) count(status string) {
	switch status {
	case event.Skipped:
		r.stepsSkipped.Add(1)
	case event.Failed:
		r.stepsFailed.Add(1)
	default:
		r.stepsDone.Add(1)
	}
}

// inline is how much of an output stands in a record; the whole of a larger
// one is a file.
const inline = 4 << 10

// clip shortens an output for a record. Secrets are masked before that: half a
// secret would not be found any more.
func (r *run) clip(s string) string { return clip(r.mask.String(s)) }

// tail is the end of an output, for the history of a failure, masked as in clip.
func (r *run) tail(s string) string { return tail(r.mask.String(s)) }

// clip shortens an output: its head and its tail.
func clip(s string) string {
	if len(s) <= inline {
		return s
	}
	half := inline / 2
	return strings.ToValidUTF8(s[:half], "") + fmt.Sprintf("\n… %d bytes left out …\n", len(s)-2*half) + strings.ToValidUTF8(s[len(s)-half:], "")
}

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
		res, err := r.leaf(ctx, p, s, &workflow.Shell{Text: s.Retry.Fallback}, path+".fallback", 1)
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

func breakerConfig(rt *workflow.Retry) *circuit.Config {
	if rt == nil {
		return nil
	}
	return rt.Breaker
}

// of gives the shared retry budget that a step's policy names, or nil.
func (q *quotas) of(s *workflow.Step) (*retry.Quota, error) {
	if s.Retry == nil || s.Retry.Quota == nil {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := s.Retry.Quota
	if got := q.m[c.Name]; got != nil {
		return got, nil
	}
	got, err := retry.NewQuota(retry.QuotaConfig{Ratio: c.Ratio, Floor: int(c.Floor)})
	if err != nil {
		return nil, err
	}
	if q.m == nil {
		q.m = map[string]*retry.Quota{}
	}
	q.m[c.Name] = got
	return got, nil
}
