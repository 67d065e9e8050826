package dataflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry/driver"
)

// host is where the calls of one pipeline run: the watcher that records them,
// and what the modules of a manifest work with.
type host struct {
	*Flows
	p  step.Place
	pl *Pipeline
	// instead says which agent of a chain answered in place of which, by the path of the
	// call, where it was not the first.
	instead sync.Map
	// said is what the command of a call's latest attempt printed to standard error, by the
	// path of the call.
	said sync.Map
}

type hostKey struct{}

// emit records a fact. A journal that cannot be written ends the run by itself.
func (h *host) emit(e event.Event) { _ = h.Executor.Recorder.Record(e) }

// step is the path of a call as a step.
func (h *host) step(c *flow.Call) string { return c.Path + h.p.Rounds }

func (h *host) event(t event.Type, c *flow.Call) event.Event {
	return event.Event{Type: t, Phase: h.p.Phase, Step: h.step(c), Label: c.Label(), Item: h.p.Item, Index: h.p.Index}
}

// callRecord is what step_finished carries of a call.
type callRecord struct {
	// Value is what it gave, File where that is if it is large.
	Value json.RawMessage `json:"value,omitempty"`
	File  string          `json:"value_file,omitempty"`
	Sum   string          `json:"value_sha256,omitempty"`
	// Inputs names what was called with what: a result is taken over only for
	// the same.
	Inputs string `json:"inputs,omitempty"`
	Cached bool   `json:"cached,omitempty"`
	// WaitedMS is how long it waited, for limits and between attempts, which is
	// not in its duration.
	WaitedMS int64 `json:"waited_ms,omitempty"`
	// By is what gave the value of a degraded call: "fallback", "on_error", or which agent of
	// a chain in place of which.
	By string `json:"by,omitempty"`
	// Stderr is what its command printed to standard error; Raw has that where it is no UTF-8.
	Stderr string    `json:"stderr,omitempty"`
	Raw    value.Raw `json:"raw,omitempty"`
	// Masked says that a secret was taken out of the value, which is therefore
	// of no use to a later life of the run.
	Masked bool `json:"masked,omitempty"`
}

// Past gives what an earlier life of the run recorded of a call.
func (h *host) Past(c *flow.Call) (past flow.Past, ok bool) {
	rec, ok := h.p.Past[h.step(c)]
	if !ok {
		return past, false
	}
	switch rec.Status {
	case event.Succeeded, event.Degraded:
		v, err := h.value(c, rec)
		if err != nil {
			h.Executor.Note("%s is called again: %v", c.Label(), err)
			return past, false
		}
		if h.p.Index == 0 { // else it is counted already
			h.Executor.Tally.Add("", &step.Outcome{Status: rec.Status})
		}
		return flow.Past{Done: true, Value: v}, true
	case event.Running, event.Interrupted:
		past.State = step.RecordedState(rec.Retry)
		var d callFailure
		if len(rec.Failed) == 0 || json.Unmarshal(rec.Failed, &d) != nil || d.Failure == nil {
			d.Failure = &failure.Failure{}
		}
		d.Failure.Class, d.Failure.Message, d.Failure.Stderr = rec.Class, rec.Message, d.Stderr
		past.Last = d.Failure
		return past, past.State.Attempt > 0
	}
	return past, false
}

// value reads the recorded value of a call.
func (h *host) value(c *flow.Call, rec journal.StepRecord) (any, error) {
	var d callRecord
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		return nil, fmt.Errorf("its record: %w", err)
	}
	switch {
	case d.Masked:
		return nil, errors.New("its result held a secret, which is not recorded")
	case d.Inputs != c.Digest():
		return nil, errors.New("what it calls, or its inputs, changed since it was recorded")
	}
	text := []byte(d.Value)
	if d.File != "" {
		var err error
		if text, err = os.ReadFile(d.File); err != nil {
			return nil, err
		}
		if d.Sum != "" && checksum(text) != d.Sum {
			return nil, fmt.Errorf("its result in %s is not as it was written", d.File)
		}
	}
	v, err := value.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("its recorded result: %w", err)
	}
	return types.Decode(v, c.Type)
}

// Started tells that a call begins.
func (h *host) Started(c *flow.Call) {
	e := h.event(event.StepStarted, c)
	if kind := h.pl.kind(c.Callee); kind != "" {
		e.Data = step.Data(map[string]any{"action": kind})
	}
	h.emit(e)
}

// Attempt tells that an attempt begins, and how long it waited for its turn.
func (h *host) Attempt(c *flow.Call, n int, waited time.Duration) {
	e := h.event(event.AttemptStarted, c)
	e.Attempt = n
	if ms := waited.Milliseconds(); ms > 0 && h.Executor.Recorder.Detailed() {
		e.Data = step.Data(map[string]any{"waited_ms": ms})
	}
	h.emit(e)
}

// callFailure is the data of the failed attempt of a call.
type callFailure struct {
	At     time.Time `json:"at"`
	Stderr string    `json:"stderr,omitempty"`
	// Failure is without its class and message, which the event has.
	Failure *failure.Failure `json:"failure"`
}

// Failed tells that an attempt failed.
func (h *host) Failed(c *flow.Call, n int, err error, began, ended time.Time) {
	e := h.event(event.AttemptFailed, c)
	e.Attempt, e.Class, e.Message, e.DurationMS = n, driver.Class(err), err.Error(), ended.Sub(began).Milliseconds()
	e.ExitCode, _ = failure.ExitCode(err)
	if h.Executor.Recorder.Detailed() {
		d := callFailure{At: began, Failure: failure.From(err).Beside(false)}
		var out interface{ Output() string }
		if errors.As(err, &out) {
			d.Stderr = h.Executor.Tail(out.Output())
		}
		d.Stderr = cmp.Or(d.Stderr, h.Executor.Tail(h.stderr(c)))
		e.Data = step.Data(d)
	}
	h.emit(e)
}

// stderr takes what the command of the latest attempt at a call printed to standard error.
func (h *host) stderr(c *flow.Call) string {
	text, _ := h.said.LoadAndDelete(h.step(c))
	said, _ := text.(string)
	return said
}

// Queued shows that an attempt waits for a slot or a token: it does not run yet.
func (h *host) Queued(c *flow.Call, n int, what driver.Source, d time.Duration) {
	e := h.event(event.AttemptQueued, c)
	e.Attempt, e.DelayMS, e.Data = n, d.Milliseconds(), step.Data(map[string]any{"for": what.String()})
	h.Executor.Recorder.Show(e)
}

// Retry tells when the next attempt follows.
func (h *host) Retry(c *flow.Call, n int, w flow.Wait) {
	e := h.event(event.RetryScheduled, c)
	e.Attempt, e.DelayMS, e.Class = n, w.Delay.Milliseconds(), driver.Class(w.Err)
	if h.Executor.Recorder.Detailed() {
		e.Retry = &w.State
		e.Data = step.Data(event.Waited(w.Policy, w.State, w.Delay, w.Before, w.Asked, w.Drawn))
	}
	h.emit(e)
}

var outcomes = map[flow.Outcome]string{
	flow.Succeeded: event.Succeeded, flow.Degraded: event.Degraded, flow.Failed: event.Failed, flow.Skipped: event.Skipped,
}

// Finished records the end of a call and what it gave.
func (h *host) Finished(c *flow.Call, end flow.End) {
	e := h.event(event.StepFinished, c)
	e.Status, e.Attempts, e.DurationMS = outcomes[end.Outcome], end.Attempts, (end.Took - end.Waited).Milliseconds()
	d := callRecord{Cached: end.Cached, WaitedMS: end.Waited.Milliseconds()}
	if end.Err != nil {
		e.Class, e.Message = driver.Class(end.Err), flow.Reason(end.Err)
	}
	if end.Outcome == flow.Degraded {
		if d.By = "on_error"; end.Fallback {
			d.By = "fallback"
		}
	}
	if by, ok := h.instead.Load(e.Step); ok && end.Outcome == flow.Succeeded {
		e.Status, d.By = event.Degraded, by.(string)
	}
	said := h.stderr(c)
	if h.Executor.Recorder.Detailed() {
		d.Stderr = h.Executor.Clip(said)
		d.Stderr = d.Raw.Take("/stderr", d.Stderr)
		if end.Outcome == flow.Succeeded || end.Outcome == flow.Degraded {
			if err := h.record(&d, c, end); err != nil {
				h.Executor.Note("the result of %s is not recorded, so a resumed run calls it again: %v", c.Label(), err)
			}
		}
		e.Data = step.Data(d)
	}
	if end.Outcome == flow.Skipped {
		e.Message = needs(end.Err)
	}
	if end.Unkept != nil {
		h.Executor.Note("the result of %s is not in the cache: %v", c.Label(), end.Unkept)
	}
	if end.Logged {
		h.emit(event.Event{Type: event.Note, Class: event.Logged, Message: fmt.Sprintf("%s failed, and the run continues with %s: %s",
			c.Label(), value.JSON(types.Encode(end.Value)), flow.Reason(end.Err))})
	}
	h.Executor.Tally.Add("", &step.Outcome{Status: e.Status})
	h.emit(e)
}

// needs says what kept a call from being made.
func needs(err error) string {
	var call *flow.CallError
	var node *flow.NodeError
	switch {
	case errors.As(err, &call):
		return fmt.Sprintf("it needs %s, which failed (%s)", call.Label(), call.Pos)
	case errors.As(err, &node):
		return fmt.Sprintf("it needs what failed at %s", node.Pos)
	}
	return "it needs what failed: " + err.Error()
}

// largeValue is the size in bytes from which a value is in a file of its
// own.
const largeValue = 64 << 10

func (h *host) record(d *callRecord, c *flow.Call, end flow.End) error {
	text := []byte(value.JSON(types.Encode(end.Value)))
	if masked := h.Env.Mask().Bytes(text); string(masked) != string(text) {
		text, d.Masked = masked, true
	}
	d.Inputs = c.Digest()
	if len(text) <= largeValue || h.Journal == nil {
		d.Value = text
		return nil
	}
	name := h.Journal.OutputFile(h.p.Index, h.step(c), max(end.Attempts, 1), "value")
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := h.Journal.CreateOutput(h.p.Index, h.step(c), max(end.Attempts, 1), "value")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d.File, d.Sum = name, checksum(text)
	return nil
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
