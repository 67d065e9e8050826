package mapper

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

const phase = "map"

// Breaker is the label of the map's breaker in the record.
const Breaker = "map"

// Result is what item_finished carries of an item's result.
type Result struct {
	// Print is the item's fingerprint, first so that a reader finds it without
	// reading all, and Inputs the files in it, by name, with a digest of each. Since
	// is the run that has ended an item that is unchanged.
	Print  string            `json:"print,omitempty"`
	Inputs map[string]string `json:"inputs,omitempty"`
	Since  string            `json:"since,omitempty"`

	Output   string    `json:"output"`
	Raw      value.Raw `json:"raw,omitempty"` // what JSON cannot have of Output, and of a letter's Stdout and Stderr
	File     string    `json:"output_file,omitempty"`
	Size     int64     `json:"output_size,omitempty"`
	Digest   string    `json:"output_sha256,omitempty"`
	Commits  []string  `json:"commits,omitempty"`
	Files    []string  `json:"files_modified,omitempty"`
	Branch   string    `json:"branch,omitempty"`
	Worktree string    `json:"worktree,omitempty"`
	Log      string    `json:"log,omitempty"`
	Handled  bool      `json:"handled,omitempty"`
	// Kind is how an item succeeded, where that is not as it was meant to: the one
	// of event.Kinds of its steps that is most of a failure.
	Kind string `json:"kind,omitempty"`
	// Unmended: a step of it failed, its repair did not mend it, and the file does not
	// say that it may fail.
	Unmended bool `json:"unmended,omitempty"`
	// Unmerged is how many files the steps left uncommitted that are in no merge.
	Unmerged int `json:"unmerged,omitempty"`
	// Evidence is what the item has shown; nil where nothing was asked of it. Tip is
	// the commit that is merged then, and Merge the commit that merged it. Where setup left
	// files uncommitted, Tip is the commit that was checked without them.
	Evidence *Evidence `json:"evidence,omitempty"`
	Tip      string    `json:"tip,omitempty"`
	Merge    string    `json:"merge,omitempty"`
	// Steps are what the steps of the template gave: the output is theirs, joined by line
	// ends, without those that gave nothing. They are left out of an item without a worktree
	// in a template with one step that ended as its item did: it succeeded, or is the step
	// that failed.
	Steps []StepOutput `json:"steps,omitempty"`
}

// StepOutput is one step's part of an item's output.
type StepOutput struct {
	Step   string `json:"step"` // its label
	ID     string `json:"id,omitempty"`
	Status string `json:"status"`
	Size   int64  `json:"size"` // in bytes
}

// Evidence is what an item has shown before its work was merged.
type Evidence struct {
	// Commit and Tree are what was checked: all that the item had committed, upon Base,
	// from which it started.
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
	Base   string `json:"base"`
	// Changed is how many files the item has changed, and Refused those of them that it
	// must not.
	Changed int      `json:"changed"`
	Refused []string `json:"refused,omitempty"`
	Checks  []Check  `json:"checks,omitempty"`
}

// Check is one check of an item.
type Check struct {
	Check    string `json:"check"` // its label
	Status   string `json:"status"`
	ExitCode int    `json:"exit_code"`
	// Digest is that of all that it printed, which File has; both are "" where it
	// printed nothing.
	Digest     string `json:"output_sha256,omitempty"`
	File       string `json:"output_file,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	// RedBase says that the check fails on what the items start from as well, and that the
	// run was to continue all the same.
	RedBase bool `json:"red_base,omitempty"`
}

// Sum is the digest of the evidence, which the merge of the item's work names. It does not
// depend on where a machine keeps what checks have printed.
func (e *Evidence) Sum() string {
	named := *e
	named.Checks = slices.Clone(e.Checks)
	for i := range named.Checks {
		named.Checks[i].File = ""
	}
	sum := sha256.Sum256(step.Data(named))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Verified is the data of merge_verified: a merge that the merge queue has verified.
type Verified struct {
	Commit string   `json:"commit"`
	Tree   string   `json:"tree"`
	Base   string   `json:"base,omitempty"` // upon what the items were merged
	Items  []string `json:"items,omitempty"`
	Verify []string `json:"verify"` // the labels of its steps
	Runs   int      `json:"runs"`   // how often it ran until it was believed
}

// Letter is a failed attempt at an item: what item_retry_scheduled,
// item_handler_due and the item_finished of a dead letter carry.
type Letter struct {
	Result
	*event.Wait     // of item_retry_scheduled
	failure.Failure // why it failed

	CorrelationID string    `json:"correlation_id"`
	Attempt       int       `json:"attempt"`
	At            time.Time `json:"at,omitzero"` // when it began
	DurationMS    int64     `json:"duration_ms,omitempty"`
	Step          string    `json:"step,omitempty"`
	StepLabel     string    `json:"step_label,omitempty"`
	ExitCode      int       `json:"exit_code,omitempty"`
	Eligible      bool      `json:"eligible"` // to be run again
	// RetriesEnded is the [driver.Reason] for which the retries of the item allow no further
	// attempt; "" where it has no retries of its own.
	RetriesEnded string `json:"retries_ended,omitempty"`
}

// beside is a letter without what its fact says itself: class, message, exit status, when the
// attempt began and how long it took. Older journals have these twice. What it printed that
// JSON cannot have is in Raw.
func (l Letter) beside() Letter {
	l.Raw = maps.Clone(l.Raw)
	l.Stdout, l.Stderr = l.Raw.Take("/stdout", l.Stdout), l.Raw.Take("/stderr", l.Stderr)
	l.Class, l.Message, l.Exit, l.At, l.DurationMS, l.ExitCode = "", "", 0, time.Time{}, 0, 0
	return l
}

// left is the data of an item that failed and is no dead letter: its result, and the step
// that failed.
func (l *Letter) left() any {
	return struct {
		Result
		Step      string `json:"step"`
		StepLabel string `json:"step_label,omitempty"`
	}{l.Result, l.Step, l.StepLabel}
}

// Printed is what the attempt printed, of a letter that was read.
func (l *Letter) Printed() (stdout, stderr string) {
	return l.Raw.Text("/stdout", l.Stdout), l.Raw.Text("/stderr", l.Stderr)
}

// Due is the data of item_handler_due: all that a handler reads, so that it
// makes no difference to it whether the run was interrupted before.
type Due struct {
	Letter
	Handler string          `json:"handler"`
	Label   string          `json:"label,omitempty"` // the item's
	State   json.RawMessage `json:"state,omitempty"` // Ending.State
}

// handling is a handler that is to run for an item.
type handling struct {
	index int
	due   Due
	hold  *Held // of a hold that began: the handler is on_hold
}

// ClassEvidence is the class of an item that did not show what is asked of it.
const ClassEvidence = "evidence"

// ClassMergeCheck is the class of an item that breaks the merge (merge_queue).
const ClassMergeCheck = "merge_check"

// known is what the next attempt at an item knows of one that failed: what it printed
// only where a check of its work failed, which it may mend.
func known(f *failure.Failure) *failure.Failure {
	k := &failure.Failure{Class: f.Class, Message: f.Message, Exit: f.Exit}
	if f.Class == ClassEvidence {
		k.Stdout, k.Stderr = f.Stdout, f.Stderr
	}
	return k
}

// ended tells the machine how an agent ended and records what it decides.
func (x *Map) ended(w *worker, e *ending) {
	now := x.Clock.Now()
	if e.Parked != nil {
		x.park(e, now)
		x.free(w)
		return
	}
	if x.Deciding != nil {
		x.Deciding(e.a.Item.Index, e.a.Number)
	}
	v, err := x.machine.Finished(e.a.Item.Index, e.outcome(), now)
	if err != nil {
		panic(errProtocol("finish", err))
	}
	h := x.recordEnd(e, v, now)
	if v.Fate == policy.ItemRetry {
		x.feed.keep(e.a.Item)
	}
	x.free(w)
	if h != nil {
		x.give(job{due: h}) // to w, which was freed last
	}
}

// recordEnd records what became of an item, all in one, and gives the handler
// that is to run.
func (x *Map) recordEnd(e *ending, v policy.Verdict, now time.Time) *handling {
	facts := append(x.facts[:0], x.breaker(v.Breaker, now)...)
	if len(facts) == 0 {
		facts = append(facts, x.counted(now)...)
	}
	if !v.PausedUntil.IsZero() {
		facts = append(facts, x.paused(v.Stop != policy.ByRateLimit, step.MetLimit("the agent of item "+cmp.Or(e.a.Label, e.a.Item.ID)), now))
	}
	fact, h := x.fact(e, &v, now)
	facts = append(facts, x.keepUsed(e, v.Fate, now)...)
	switch {
	case v.Fate == policy.ItemRetry:
		x.last[e.a.Item.Index] = known(&e.Failure)
	case v.Fate.FailedForGood() && x.Policy.ErrorCollection.When != policy.Aggregate:
		if x.names == nil {
			x.names = map[int]name{}
		}
		x.names[v.Item] = name{e.a.Item.ID, e.a.Label}
	}
	facts = append(facts, fact)
	facts = append(facts, x.canaries(v.Canary, now)...)
	facts = append(facts, x.holds(v.Holds, now)...)
	facts = append(facts, x.shown(v.Show)...)
	if v.Stop != policy.NotStopped {
		facts = append(facts, event.Event{Time: now, Type: event.Note, Message: "the map stops: " + x.stopText(v.Stop)})
	}
	x.record(facts...)
	clear(facts)
	x.facts = facts[:0]
	return h
}

// keepUsed keeps what an item has used that is to be tried again, and gives the fact of its
// time. One that a hold gives back begins with all of its budget.
func (x *Map) keepUsed(e *ending, fate policy.Fate, now time.Time) []event.Event {
	switch fate {
	case policy.ItemRetry, policy.ItemReturned, policy.ItemPaused:
		if x.Budgeted {
			value.Put(&x.used, e.a.Item.Index, e.used)
			return x.usedFact(e, now)
		}
	}
	return nil
}

// usedFact is the fact of how long something of an item has run; none where nothing of it has
// in this attempt.
func (x *Map) usedFact(e *ending, now time.Time) []event.Event {
	if e.used.Time == e.a.Used.Time {
		return nil
	}
	f := step.UsedFact(step.Address{Phase: phase, Item: e.a.Item.ID, Index: e.a.Item.Index}, e.used.Time)
	f.Time = now
	return []event.Event{f}
}

// started is the fact that an attempt begins, which gets its label. turn is when it was its
// turn: since then it has waited for a limit of the machine.
func (x *Map) started(a *Attempt, turn time.Time) event.Event {
	a.Label = x.Template.Label(a.Item)
	e := event.Event{Type: event.ItemStarted, Time: a.Start, Phase: phase, Item: a.Item.ID, Label: a.Label, Index: a.Item.Index, Attempt: a.Number, Message: x.Template.Why(a.Item.Index)}
	if waited := a.Start.Sub(turn); waited > 0 {
		e.DelayMS, e.Data = waited.Milliseconds(), step.Data(event.Turn{At: turn})
	}
	return e
}

// fact is what is recorded of an item whose agent ended, and the handler that is
// to run. It may be called by many goroutines at once, and keeps nothing of v: most
// verdicts need no memory then.
func (x *Map) fact(e *ending, v *policy.Verdict, now time.Time) (fact event.Event, h *handling) {
	fact = event.Event{Time: now, Phase: phase, Item: e.a.Item.ID, Label: e.a.Label, Index: e.a.Item.Index, DurationMS: e.took.Milliseconds()}
	switch v.Fate {
	case policy.ItemSucceeded:
		fact.Type, fact.Status, fact.Attempts, fact.Data = event.ItemFinished, event.Succeeded, e.a.Number, e.data
	case policy.ItemReturned, policy.ItemPaused:
		fact.Type, fact.Status, fact.Attempt = event.ItemFinished, event.Interrupted, e.a.Number
		if e.Anew {
			fact.Class = event.BeginsAnew
		}
	case policy.ItemHeld:
		x.returned(&fact, e, v)
	case policy.ItemRetry:
		x.letter(&fact, e, v)
		state := v.Retry
		fact.Type, fact.Attempt, fact.DelayMS, fact.Retry = event.ItemRetry, e.a.Number, v.Delay.Milliseconds(), &state
	default:
		h = x.failedForGood(&fact, e, v)
	}
	return fact, h
}

func (x *Map) stopText(r policy.StopReason) string {
	if why := x.whys[r]; why != "" {
		return why
	}
	if x.StopText == nil {
		return string(r)
	}
	return x.StopText(r, x.machine.Counts())
}

// failedForGood completes the fact of an item that gets no further attempt.
func (x *Map) failedForGood(fact *event.Event, e *ending, v *policy.Verdict) *handling {
	l := x.letter(fact, e, v)
	fact.Type, fact.Status, fact.Attempts = event.ItemFinished, event.Failed, e.a.Number
	switch v.Fate {
	case policy.ItemDeadLettered:
		fact.Status = event.DeadLettered // with the letter: end and letter are one record
	case policy.ItemHandled:
		h := &handling{index: fact.Index, due: Due{Letter: *l, Handler: v.Handler, Label: fact.Label}}
		if e.State != nil {
			h.due.State = e.State()
		}
		fact.Type, fact.Status, fact.Label, fact.Data = event.ItemHandlerDue, "", v.Handler, step.Data(h.due)
		return h
	default:
		if v.Fate == policy.ItemSkipped {
			fact.Status = event.Skipped
		}
		if x.Recorder.Detailed() {
			fact.Data = step.Data(l.left())
		}
	}
	return nil
}

// letter fills a fact with what is to be known of a failed attempt. It is nil where nobody
// reads the letter.
func (x *Map) letter(fact *event.Event, e *ending, v *policy.Verdict) *Letter {
	fact.Class, fact.Message, fact.ExitCode = e.Failure.Class, cmp.Or(e.Failure.Message, "it failed"), e.Failure.Exit
	if !x.Recorder.Detailed() && v.Fate != policy.ItemHandled {
		return nil
	}
	l := &Letter{Result: e.Result, Failure: e.Failure, CorrelationID: x.Name + "/" + strconv.Itoa(e.a.Item.Index),
		Attempt: e.a.Number, At: e.a.Start, DurationMS: e.took.Milliseconds(), Step: e.Step, StepLabel: e.StepLabel, ExitCode: e.Failure.Exit}
	l.Message = fact.Message
	l.Eligible = l.Class != policy.ClassRecovery // an item that takes the whole run down is not run again unasked
	if v.Fate == policy.ItemRetry {
		wait := v.Wait
		l.Wait = &wait
	} else if v.Reason.Exhausted() {
		l.RetriesEnded = v.Reason.String()
	}
	if x.Recorder.Detailed() {
		fact.Data = step.Data(l.beside())
	}
	return l
}

// handled records the end of an item whose handler has run. Where the run stops
// first, the handler stays due.
func (x *Map) handled(id string, h *handling, err error) {
	if err != nil && x.Stopping != nil {
		if why := x.Stopping(); why != nil {
			x.undone = why
			return
		}
	}
	x.record(x.handledFacts(id, h, err)...)
}

// handledFacts are the end of an item whose handler has run, and how that failed.
func (x *Map) handledFacts(id string, h *handling, err error) []event.Event {
	l := &h.due.Letter
	l.Handled = true
	now := x.Clock.Now()
	facts := []event.Event{{Type: event.ItemFinished, Time: now, Phase: phase, Item: id, Label: h.due.Label, Index: h.index, Status: event.Failed,
		Attempts: l.Attempt, DurationMS: l.DurationMS, Class: l.Class, Message: l.Message, ExitCode: l.ExitCode, Data: step.Data(l.left())}}
	if err != nil {
		facts = append(facts, event.Event{Type: event.Note, Time: now, Message: fmt.Sprintf("the handler %s of item %s failed: %v", h.due.Handler, cmp.Or(h.due.Label, id), err)})
	}
	return facts
}

// breaker is the fact of a change of the map's breaker.
func (x *Map) breaker(c *policy.BreakerChange, now time.Time) []event.Event {
	if c == nil {
		return nil
	}
	s := x.machine.Snapshot().Breaker
	x.breakerAt = *s
	return []event.Event{{Type: event.BreakerChanged, Time: now, Phase: phase, Label: Breaker, From: c.From.String(), To: c.To.String(), Data: step.Data(s)}}
}

// counted is the fact of what the breaker has counted, so that a resume's opens
// after as many failures, or at the same rate, as this one would.
func (x *Map) counted(now time.Time) []event.Event {
	if x.Policy.Breaker == nil {
		return nil
	}
	s := x.machine.Snapshot().Breaker
	if s.Same(&x.breakerAt) {
		return nil
	}
	x.breakerAt = *s
	state := s.State.String()
	return []event.Event{{Type: event.BreakerChanged, Time: now, Phase: phase, Label: Breaker, From: state, To: state, Data: step.Data(s)}}
}

// shown are the errors of items that failed for good, when error_collection
// says so: each as it comes, some at a time, or none, as the summary has them.
func (x *Map) shown(list []policy.Report) (facts []event.Event) {
	for _, r := range list {
		n := x.names[r.Item]
		delete(x.names, r.Item)
		facts = append(facts, event.Event{Type: event.Note, Phase: phase, Item: n.id, Label: n.label, Index: r.Item, Attempts: r.Attempt,
			Class: r.Class, Message: FailedText(cmp.Or(n.label, n.id), r.Attempt, r.Message)})
	}
	return facts
}

// FailedText says that an item failed for good. One attempt at it is not counted: its
// steps may have made more.
func FailedText(name string, attempts int, message string) string {
	if attempts < 2 {
		return fmt.Sprintf("item %s failed: %s", name, message)
	}
	return fmt.Sprintf("item %s failed after %d attempts: %s", name, attempts, message)
}

// failed says that the agent could not even begin.
func (e *ending) failed(err error) {
	e.Err, e.Failure = err, *failure.From(err)
	e.Limited = errors.As(err, new(*step.LimitError))
}
