package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

const mapBreaker = "map"

// changed records a change of the map's breaker.
func (x *mapRun) changed(c *policy.BreakerChange) {
	if c == nil {
		return
	}
	x.r.emit(event.Event{Type: event.BreakerChanged, Phase: "map", Label: mapBreaker,
		From: c.From.String(), To: c.To.String(), Data: data(x.m.Snapshot())})
}

// counted records how many agents have failed in a row, so that a resume's
// breaker opens after as many as this one would.
func (x *mapRun) counted(v policy.Verdict) {
	if x.r.file.Policy.Breaker == nil || v.Breaker != nil {
		return
	}
	s := x.m.Snapshot()
	if s.Breaker == nil || s.Breaker.Failures == x.inRow {
		return
	}
	x.inRow = s.Breaker.Failures
	state := s.Breaker.State.String()
	x.r.emit(event.Event{Type: event.BreakerChanged, Phase: "map", Label: mapBreaker, From: state, To: state, Data: data(s)})
}

// record tells what became of an item. The lock is held, so that the order of
// the records is that of the decisions.
func (x *mapRun) record(a agentRun, v policy.Verdict, err error) {
	e := event.Event{Phase: "map", Item: a.item.ID, Index: a.item.Index, DurationMS: time.Since(a.start).Milliseconds()}
	e.Label = x.label(a)
	switch v.Fate {
	case policy.ItemSucceeded:
		e.Type, e.Status, e.Attempts, e.Data = event.ItemFinished, event.Succeeded, a.attempt, data(a.data)
		x.r.emit(e)
	case policy.ItemPassed:
		e.Type, e.Status, e.Attempts, e.Data = event.ItemFinished, event.Skipped, a.attempt, data(a.data)
		x.r.emit(e)
	case policy.ItemReturned, policy.ItemPaused:
		e.Type, e.Status, e.Attempt = event.ItemFinished, event.Interrupted, a.attempt
		x.r.emit(e)
	case policy.ItemRetry:
		x.failed(&e, a, v, err)
		e.Type, e.Attempt, e.DelayMS = event.ItemRetry, a.attempt, v.Delay.Milliseconds()
		x.r.emit(e)
	default:
		x.failedForGood(e, a, v, err)
	}
	x.show(v.Show)
	if v.Stop != "" {
		x.r.note("the map stops: %s", stopText(v.Stop, x.r.file.Policy))
	}
}

// startLabel is the label of an item that has no scope yet.
func (x *mapRun) startLabel(it journal.Item) string {
	if x.r.file.Map.Label == nil {
		return ""
	}
	sc := x.p.scope.Child()
	if setItem(sc, it, x.r.items.Total) != nil {
		return "" // the item itself fails of it
	}
	return x.label(agentRun{scope: sc})
}

// failedName is what a person knows a failed item by, until its error is shown.
type failedName struct{ id, label string }

// show tells the errors of items that failed for good, when error_collection
// says so: each as it comes, some at a time, or none, as the summary has them.
func (x *mapRun) show(list []policy.Report) {
	for _, rep := range list {
		name := x.names[rep.Item]
		delete(x.names, rep.Item)
		x.r.emit(event.Event{Type: event.Note, Phase: "map", Item: name.id, Label: name.label, Index: rep.Item + 1, Attempts: rep.Attempt,
			Class: rep.Class, Message: fmt.Sprintf("item %s failed after %d attempts: %s", name.id, rep.Attempt, rep.Message)})
	}
}

func (x *mapRun) label(a agentRun) string {
	if x.r.file.Map.Label == nil || a.scope == nil {
		return ""
	}
	text, err := x.r.file.Map.Label.Expand(a.scope)
	if err != nil {
		return ""
	}
	return text
}

// letter is a failed attempt of an item: what item_retry_scheduled and
// item_dead_lettered carry.
type letter struct {
	CorrelationID string    `json:"correlation_id"`
	Attempt       int       `json:"attempt"`
	At            time.Time `json:"at"`
	DurationMS    int64     `json:"duration_ms"`
	Step          string    `json:"step,omitempty"`
	StepLabel     string    `json:"step_label,omitempty"`
	ExitCode      int       `json:"exit_code"`
	Class         string    `json:"class"`
	Message       string    `json:"message"`
	Stderr        string    `json:"stderr,omitempty"`
	Stdout        string    `json:"stdout,omitempty"`
	Worktree      string    `json:"worktree,omitempty"`
	Branch        string    `json:"branch,omitempty"`
	Log           string    `json:"log,omitempty"`
	Eligible      bool      `json:"eligible"`
}

// failed fills an event with what is to be known of a failed attempt.
func (x *mapRun) failed(e *event.Event, a agentRun, v policy.Verdict, err error) letter {
	if err == nil {
		err = errors.New("it failed")
	}
	l := letter{CorrelationID: fmt.Sprintf("%s/%d", x.r.id, a.item.Index), Attempt: a.attempt, At: a.start, DurationMS: e.DurationMS,
		Class: retry.Class(err), Message: err.Error(), Worktree: a.data.Worktree, Branch: a.data.Branch, Log: a.data.Log}
	l.Eligible = l.Class != "recovery" // an item that takes the whole run down is not run again unasked
	var se *StepError
	if errors.As(err, &se) {
		l.Step, l.StepLabel = se.Step, se.Label
	}
	l.ExitCode, _ = exitCode(err)
	var ee *action.ExitError
	if errors.As(err, &ee) {
		l.Stderr, l.Stdout = x.r.tail(ee.Stderr), x.r.tail(ee.Stdout)
	}
	e.Class, e.Message, e.ExitCode, e.Data = l.Class, l.Message, l.ExitCode, data(l)
	return l
}

func (x *mapRun) failedForGood(e event.Event, a agentRun, v policy.Verdict, err error) {
	x.failed(&e, a, v, err)
	x.r.classes.add(e.Class, x.r.mask.String(e.Message), x.r.mask.String(a.item.ID))
	e.Attempts = a.attempt
	if x.names == nil {
		x.names = map[int]failedName{}
	}
	if x.r.file.Policy.Collection != "aggregate" {
		x.names[v.Item] = failedName{a.item.ID, e.Label}
	}
	letterData := e.Data
	e.Type, e.Status = event.ItemFinished, event.Failed
	switch v.Fate {
	case policy.ItemDeadLettered:
		e.Status = event.DeadLettered
	case policy.ItemSkipped:
		e.Status = event.Skipped
	case policy.ItemHandled:
		a.data.Handled = true
	}
	e.Data = data(a.data)
	x.r.emit(e)
	if v.Fate == policy.ItemDeadLettered {
		e.Type, e.Status, e.Data = event.ItemDeadLettered, "", letterData
		x.r.emit(e)
	}
}

func stopText(s policy.StopReason, ep workflow.ErrorPolicy) string {
	switch s {
	case policy.ByMaxFailures:
		return fmt.Sprintf("%d items have failed for good (max_failures: %d)", ep.MaxFailures, ep.MaxFailures)
	case policy.ByFailureThreshold:
		return fmt.Sprintf("more than %.4g of the finished items have failed (failure_threshold)", ep.FailureThreshold)
	case policy.ByFirstFailure:
		return "an item failed for good (continue_on_failure: false)"
	case policy.ByItemFailure:
		return "an item failed for good (on_item_failure: stop)"
	case policy.ByRateLimit:
		return "a rate limit lasts longer than max_wait"
	}
	return string(s)
}
