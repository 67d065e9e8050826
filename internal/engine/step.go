package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/template"
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
