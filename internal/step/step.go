package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry/driver"
)

// Outcome is how a step ended.
type Outcome struct {
	Status   string // event.Succeeded, Degraded, Failed, Skipped or Interrupted
	Result   action.Result
	Attempts int
	Reason   driver.Reason
	Err      error     // of a failed step
	FailedAt time.Time // when the last attempt failed; zero where none did
	// Tolerated says that the next step runs although this one failed.
	Tolerated bool
	// Unmended says of a tolerated step that its repair did not mend it, and that
	// the file does not say that it may fail.
	Unmended bool
	// Recovered says that a handler made up for the failure.
	Recovered bool
	// Incomplete says that a score was missed, or that rounds of a foreach failed, and that the
	// file lets that pass.
	Incomplete bool
	// Waited is how long it waited between attempts, which is not in the duration
	// that is recorded.
	Waited time.Duration
}

// Kind is the status in more detail: whether it ended as it was meant to, or how
// else.
func (o *Outcome) Kind() string {
	switch {
	case o.Status == event.Failed && o.Tolerated:
		return event.Tolerated
	case o.Status == event.Skipped || o.Status == event.Failed:
		return o.Status
	case o.Incomplete:
		return event.Incomplete
	case o.Recovered:
		return event.Recovered
	}
	return o.Status
}

// record is what step_finished carries for a later life of the run.
type record struct {
	Sealed
	Output     string `json:"output,omitempty"`
	Stderr     string `json:"stderr,omitempty"`
	File       string `json:"output_file,omitempty"`
	Size       int64  `json:"output_size,omitempty"`
	Digest     string `json:"output_sha256,omitempty"`
	Stored     int64  `json:"stored_size,omitempty"` // of File, where it is masked or an agent's stream
	StoredSHA  string `json:"stored_sha256,omitempty"`
	StderrFile string `json:"stderr_file,omitempty"`
	ExitCode   int    `json:"exit,omitempty"`
	Tolerated  bool   `json:"tolerated,omitempty"`
	Unmended   bool   `json:"unmended,omitempty"`
	Recovered  bool   `json:"recovered,omitempty"`
	Incomplete bool   `json:"incomplete,omitempty"`
	WaitedMS   int64  `json:"waited_ms,omitempty"`
	By         string `json:"by,omitempty"` // which agent of a chain answered in place of which
}

// Sealed is variables as they are recorded: with their secrets masked.
type Sealed struct {
	Vars    value.Object  `json:"vars,omitempty"`
	Secrets environ.Seals `json:"secrets,omitempty"` // what is masked in Vars
	// Last are the names of more variables that are what the variable last is: a
	// step's result goes by the kind of its action and by its id as well.
	Last []string `json:"last,omitempty"`
	// Kept are the texts in Vars that are in logs, by their places in it, where Vars has
	// null.
	Kept map[string]action.Log `json:"kept,omitempty"`
	// Raw has the texts in the whole of the record that JSON cannot have.
	Raw value.Raw `json:"raw,omitempty"`
}

// Seal masks the secrets in variables, for a record.
func (x *Executor) Seal(set map[string]any) (s Sealed) {
	if len(set) == 0 {
		return s
	}
	if last, ok := set["last"].(map[string]any); ok {
		set = maps.Clone(set)
		for name, v := range set {
			if m, ok := v.(map[string]any); ok && name != "last" && reflect.ValueOf(m).Pointer() == reflect.ValueOf(last).Pointer() {
				s.Last = append(s.Last, name)
				delete(set, name)
			}
		}
		slices.Sort(s.Last) // the same facts have the same text
	}
	set, s.Kept = takeKept(set)
	v, marks := x.Values.Seal(set)
	s.Vars, s.Secrets = v.(map[string]any), marks
	s.Raw.Add("/vars", v)
	return s
}

// Open gives recorded variables with their secrets.
func (x *Executor) Open(s Sealed) map[string]any {
	vars := map[string]any(s.Vars)
	s.Raw.Put("/vars", vars)
	x.Values.Unseal(vars, s.Secrets)
	x.putKept(vars, s.Kept)
	for _, name := range s.Last {
		vars[name] = vars["last"]
	}
	return vars
}

// Step executes one step, or takes over what an earlier life of the run
// recorded of it. It does not change p, and reads it until it returns.
func (x *Executor) Step(ctx context.Context, p *Place, s *workflow.Step) *Outcome {
	path := p.Path(s.Path)
	rec := p.recorded(path)
	if rec != nil {
		if out, done := x.Replay(*p, path, rec); done {
			return out
		}
	}
	x.gitState(ctx, p)
	start := x.Clock.Now()
	if s.When != nil {
		run, err := s.When.EvalBool(template.Resolver(x.View(ctx, p)))
		if err != nil {
			return x.ended(ctx, p, s, path, start, &Outcome{Status: event.Failed, Err: inputError("when: %w", err)}, unmarked)
		}
		if stop := x.Life.Stopping(ctx); stop != nil {
			return &Outcome{Status: event.Interrupted, Err: stop} // a condition that was cut short says nothing
		}
		if !run {
			if x.Skipped != nil {
				x.Skipped(*p, s)
			}
			return x.ended(ctx, p, s, path, start, &Outcome{Status: event.Skipped}, unmarked)
		}
	}
	mark := unmarked
	if x.Recorder.Detailed() {
		mark = p.Scope.Mark()
		defer p.Scope.Unmark()
	}
	p, err := x.standing(ctx, p, rec)
	if err != nil {
		return x.ended(ctx, p, s, path, start, &Outcome{Status: event.Failed, Err: err}, unmarked)
	}
	x.begins(ctx, p, s, path, start)
	out := x.rounds(ctx, p, s, path)
	if out.Err != nil && ctx.Err() != nil && isCancelled(ctx, out.Err) {
		if stop := x.Life.Stopping(ctx); errors.Is(stop, ErrInterrupted) {
			stopped(out, stop) // what it read for the step was cut short
		}
	}
	if out.Err != nil && unrecorded(out.Err) {
		return out // not finished: a resume continues with it
	}
	return x.ended(ctx, p, s, path, start, out, mark)
}

// begins records that a step begins.
func (x *Executor) begins(ctx context.Context, p *Place, s *workflow.Step, path string, now time.Time) {
	e := p.Event(event.StepStarted, path)
	e.Time, e.Label = now, s.Label()
	if x.Recorder.Detailed() {
		if p.Index == 0 {
			e.Message = s.Filled(x.View(ctx, p), x.Values.Mask())
		}
		e.Data = begun(s.Action, p.For, p.From)
	}
	x.record(e)
}

// unmarked is the mark of a step that set no variables of which anybody would read.
const unmarked = -1

// actions are the data of step_started by the kind of action.
var actions sync.Map

// begun is what step_started tells of an action, which round it is in, and where its git
// context begins.
func begun(a workflow.Action, round string, from *worktree.Point) json.RawMessage {
	h, isHTTP := a.(*workflow.HTTP)
	if isHTTP || round != "" || from != nil {
		d := map[string]any{"action": a.Kind()}
		if from != nil {
			d["from"] = from
		}
		if isHTTP {
			d["method"] = cmp.Or(h.Method, "GET")
		}
		if round != "" {
			d["for"] = round
		}
		return Data(d)
	}
	if d, ok := actions.Load(a.Kind()); ok {
		return d.(json.RawMessage)
	}
	d := Data(map[string]string{"action": a.Kind()})
	actions.Store(a.Kind(), d)
	return d
}

// Replay takes over a step that has ended in an earlier life of the run. It is
// false where the step is to be executed.
func (x *Executor) Replay(p Place, path string, rec *journal.StepRecord) (*Outcome, bool) {
	d, out, done, err := ended(rec)
	if !done {
		return out, false
	}
	if err == nil {
		x.setAgain(p, &d)
		out.Result, err = x.resultOf(&d)
	}
	if err != nil {
		return &Outcome{Status: event.Failed, Err: fmt.Errorf("the record of step %s: %w", path, err)}, true
	}
	x.countAgain(&p, path, out)
	return out, true
}

// ended reads the record of a step. It is not done where the step is to be executed: to
// resume a failed run tries the step again.
func ended(rec *journal.StepRecord) (d record, out *Outcome, done bool, err error) {
	if rec.Status == event.Running || rec.Status == event.Interrupted || rec.Status == "" {
		return d, &Outcome{}, false, nil
	}
	if len(rec.Data) > 0 {
		err = json.Unmarshal(rec.Data, &d)
	}
	d.Output, d.Stderr = d.Raw.Text("/output", d.Output), d.Raw.Text("/stderr", d.Stderr)
	out = &Outcome{Status: rec.Status, Attempts: rec.Attempts, Tolerated: d.Tolerated, Unmended: d.Unmended, Recovered: d.Recovered, Incomplete: d.Incomplete}
	return d, out, err != nil || rec.Status != event.Failed || d.Tolerated, err
}

// TakenOver says whether a resume takes over what is recorded of a step, instead of
// executing it.
func TakenOver(rec journal.StepRecord) bool {
	_, _, done, _ := ended(&rec)
	return done
}

// setAgain sets the variables that a step has set.
func (x *Executor) setAgain(p Place, d *record) {
	set := x.Open(d.Sealed)
	d.putBack()
	p.Scope.Apply(set)
}

// resultOf is what the step's last attempt did, for those who read it after a
// resume. Of an output that is too long for the record, last.output has all, where
// that is not of a step of its handler.
func (x *Executor) resultOf(d *record) (res action.Result, err error) {
	res = action.Result{Output: d.Output, Stderr: d.Stderr, ExitCode: d.ExitCode, StdoutFile: d.File, StderrFile: d.StderrFile, StdoutSize: d.Size, Digest: d.Digest}
	last, _ := d.Vars["last"].(map[string]any)
	for name, text := range map[string]*string{"output": &res.Output, "stderr": &res.Stderr} {
		if k, is := last[name].(*kept); is && name == "output" {
			res.OutputLog = &k.Log
		} else if is {
			res.StderrLog = &k.Log
		}
		if len(*text) <= Inline && !mask.LeavesOut(*text) && len(d.Secrets) == 0 {
			continue
		}
		v, err := value.Read(last[name])
		if err != nil {
			return res, err
		}
		if whole, ok := v.(string); ok && (x.Clip(whole) == *text || x.Filed(whole) == *text) {
			*text = whole
		}
	}
	return res, nil
}

// ended records how a step ended, with what it has set since a mark in its scope.
func (x *Executor) ended(ctx context.Context, p *Place, s *workflow.Step, path string, start time.Time, out *Outcome, mark int) *Outcome {
	e := p.Event(event.StepFinished, path)
	e.Label, e.Status, e.Attempts, e.ExitCode = s.Label(), out.Status, out.Attempts, out.Result.ExitCode
	e.Time = x.Clock.Now()
	e.DurationMS = (e.Time.Sub(start) - out.Waited).Milliseconds()
	if out.Err != nil {
		own, is := out.Err.(*Error)
		if is = is && own.Step == path; is {
			own.Attempts = out.Attempts                                 // those of all rounds
			e.Class, e.Message = driver.Class(own.Err), own.Err.Error() // the rest of it is the fact's
		} else {
			e.Class, e.Message = driver.Class(out.Err), out.Err.Error()
		}
		if _, is := errors.AsType[*Error](out.Err); !is {
			out.Err = &Error{Step: path, Label: s.Label(), At: s.Pos, Attempts: out.Attempts, Reason: out.Reason, Err: out.Err}
		}
	}
	if x.Recorder.Detailed() {
		e.Data = Data(x.recordOf(p, out, mark))
	}
	if x.Safe != nil && out.Status != event.Skipped {
		if err := x.Safe(context.WithoutCancel(ctx), *p, path); err != nil {
			err = &UnsafeError{path, err}
			x.Life.Halt(err)
			stopped(out, err) // a resume runs it again
			return out
		}
	}
	x.countStep(p, path, out)
	x.record(e)
	return out
}

// recordOf is what a later life of the run reads of a step that has ended.
func (x *Executor) recordOf(p *Place, out *Outcome, mark int) *record {
	d := record{WaitedMS: out.Waited.Milliseconds(), Tolerated: out.Tolerated && out.Status == event.Failed, Unmended: out.Unmended && out.Status == event.Failed, Recovered: out.Recovered, Incomplete: out.Incomplete,
		ExitCode: out.Result.ExitCode, Output: x.Clip(out.Result.Output), Stderr: x.Clip(out.Result.Stderr), File: out.Result.StdoutFile, StderrFile: out.Result.StderrFile, By: out.Result.Instead}
	if out.Result.StdoutFile != "" {
		d.Size, d.Digest = out.Result.StdoutSize, out.Result.Digest
		d.Stored, d.StoredSHA = out.Result.StoredSize, out.Result.StoredDigest
	}
	if mark != unmarked && (p.Index == 0 || p.Keep) {
		d.Sealed = x.Seal(p.Scope.Since(mark))
		d.leaveOut(&out.Result)
		if log := out.Result.OutputLog; log != nil && d.Kept["/last/output"] == *log {
			d.Output = x.Filed(out.Result.Output)
		}
		if log := out.Result.StderrLog; log != nil && d.Kept["/last/stderr"] == *log {
			d.Stderr = x.Filed(out.Result.Stderr)
		}
	}
	d.Output, d.Stderr = d.Raw.Take("/output", d.Output), d.Raw.Take("/stderr", d.Stderr)
	return &d
}

// leaveOut takes the outputs out of the variable last where the record has them
// already, word for word: large ones are most of what a run writes.
func (d *record) leaveOut(res *action.Result) {
	last, ok := d.Vars["last"].(map[string]any)
	if !ok || len(d.Secrets) > 0 {
		return
	}
	last = maps.Clone(last) // it is the variable itself
	for name, text := range map[string][2]string{"output": {d.Output, res.Output}, "stderr": {d.Stderr, res.Stderr}} {
		if last[name] == text[0] && text[0] == text[1] {
			delete(last, name)
			delete(d.Raw, "/vars/last/"+name)
		}
	}
	d.Vars["last"] = last
}

// putBack is the opposite of leaveOut.
func (d *record) putBack() {
	last, ok := d.Vars["last"].(map[string]any)
	if !ok {
		return
	}
	for name, text := range map[string]string{"output": d.Output, "stderr": d.Stderr} {
		if _, there := last[name]; !there {
			last[name] = text
		}
	}
}

// Set records variables as the end of a step that has no action: what a setup
// captures out of its steps.
func (x *Executor) Set(p Place, path, label string, set map[string]any) {
	p.Scope.Apply(set)
	e := p.Event(event.StepFinished, path)
	e.Label, e.Status, e.Attempts, e.Data = label, event.Succeeded, 1, Data(record{Sealed: x.Seal(set)})
	x.record(e)
}

// Details makes all details of facts: a recorder for which another life of the run may
// follow.
type Details struct{}

// Detailed reports that they are made.
func (Details) Detailed() bool { return true }

// Data is the data of an event.
func Data(v any) json.RawMessage {
	if made, is := v.(json.RawMessage); is {
		return made
	}
	b, err := json.Marshal(v)
	if err != nil {
		return unrepresentable(err)
	}
	return b
}

func unrepresentable(err error) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"unrepresentable": err.Error()})
	return b
}

// failed is the event of a failed attempt, with all that is known of it.
func (x *Executor) failed(p *Place, s *workflow.Step, path string, out *Outcome, made int, start, now time.Time) event.Event {
	f := failure.From(out.Err)
	e := p.Event(event.AttemptFailed, path)
	e.Time, e.Label, e.Attempt, e.Class, e.Message, e.ExitCode = now, s.Label(), made+out.Attempts, f.Class, f.Message, out.Result.ExitCode
	e.DurationMS = now.Sub(start).Milliseconds()
	if x.Recorder.Detailed() {
		e.Data = Data(x.failedData(s, out, f, start))
	}
	return e
}

// failedData is what a later life of the run reads of a failed attempt.
func (x *Executor) failedData(s *workflow.Step, out *Outcome, f *failure.Failure, start time.Time) *attemptData {
	d := attemptData{ran: ranOf(&out.Result), Stdout: x.whole(out.Result.Output), Stderr: x.whole(out.Result.Stderr), At: start, Exit: out.Result.ExitCode, Session: out.Result.Session, Failure: f.Beside(handled(s))}
	if a, is := s.Action.(*workflow.Claude); is && x.handsOver(a) && (!a.ContinueSession || out.Result.Full || out.Result.Session == "") {
		d.Summary, d.Full = out.Result.Summary, out.Result.Full
	}
	if handled(s) { // which reads all of it, also after a resume
		d.Message, d.Took, d.Header, d.Usage, d.File = f.Message, out.Result.Duration, out.Result.Header, out.Result.Usage, out.Result.StdoutFile
		text := x.printed(&out.Result)
		if k, is := text.output.(*kept); is {
			d.StdoutLog = &k.Log
		} else {
			d.Stdout = out.Result.Output
		}
		if k, is := text.stderr.(*kept); is {
			d.StderrLog = &k.Log
		} else {
			d.Stderr = out.Result.Stderr
		}
		d.seal(x.Values)
		if d.Message == f.Message && len(d.Message) <= Brief && utf8.ValidString(d.Message) {
			d.Message = "" // the event has it
		}
	}
	d.Message = d.Raw.Take("/message", d.Message)
	d.Stdout, d.Stderr = d.Raw.Take("/stdout", d.Stdout), d.Raw.Take("/stderr", d.Stderr)
	return &d
}

// attemptData is the data of attempt_failed: all that a later life of the run
// needs to see the failure as this one does.
type attemptData struct {
	ran
	Stdout  string    `json:"stdout,omitempty"`
	Stderr  string    `json:"stderr,omitempty"`
	At      time.Time `json:"at"`
	Exit    int       `json:"exit,omitempty"`    // of the result
	Session string    `json:"session,omitempty"` // of an agent
	Summary string    `json:"summary,omitempty"` // of an agent whose next attempt takes over from this one
	Full    bool      `json:"full,omitempty"`    // its session is too long to be continued
	// StdoutLog and StderrLog are where the whole of Stdout and Stderr stands, of which
	// these are the ends.
	StdoutLog *action.Log `json:"stdout_log,omitempty"`
	StderrLog *action.Log `json:"stderr_log,omitempty"`
	// These are where a handler reads them; the message, where the event has not all of it.
	Message string            `json:"message,omitempty"`
	Took    time.Duration     `json:"duration_ns,omitempty"`
	Header  map[string]string `json:"headers,omitempty"`
	Usage   *action.Usage     `json:"usage,omitempty"`
	File    string            `json:"output_file,omitempty"`
	// Secrets are what is masked in the message and in what was printed, where something
	// reads them.
	Secrets environ.Seals `json:"secrets,omitempty"`
	Raw     value.Raw     `json:"raw,omitempty"` // what of these texts JSON cannot have
	// Failure is without its class and message, which the event has.
	Failure *failure.Failure `json:"failure"`
}

// texts are those in which a secret may be, by their names in a record.
func (d *attemptData) texts() map[string]*string {
	return map[string]*string{"message": &d.Message, "stdout": &d.Stdout, "stderr": &d.Stderr}
}

// seal masks the secrets, which open puts back.
func (d *attemptData) seal(values Values) {
	set := map[string]any{}
	for name, text := range d.texts() {
		set[name] = *text
	}
	sealed, marks := values.Seal(set)
	for name, text := range d.texts() {
		*text = sealed.(map[string]any)[name].(string)
	}
	d.Secrets = marks
}

func (d *attemptData) open(values Values) {
	set := map[string]any{}
	for name, text := range d.texts() {
		*text = d.Raw.Text("/"+name, *text)
		set[name] = *text
	}
	values.Unseal(set, d.Secrets)
	for name, text := range d.texts() {
		*text = set[name].(string)
	}
}

// ran is what attempt_finished and attempt_failed tell of what ran.
type ran struct {
	Program string `json:"program,omitempty"` // of a command, where it is not sh
	Answer  int    `json:"http_status,omitempty"`
}

func ranOf(r *action.Result) ran { return ran{r.Program, r.Status} }

// handled reports whether something of the step reads how it failed.
func handled(s *workflow.Step) bool {
	return s.OnFailure != nil || len(s.OnExitCode) > 0 || s.Retry != nil && s.Retry.OnFailure == "fallback"
}
