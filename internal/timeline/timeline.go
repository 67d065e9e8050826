// Package timeline is when what happened in a run: its steps as a tree, the
// attempts and the waits of each with their sources, the lives of the run. The
// dashboard and `bide show --gantt` draw it.
//
// A [Timeline] is a fold over the run's events; it reads nothing by itself:
//
//	t := timeline.New(header)
//	_, err := reader.Scan(ctx, t.Seq+1, t.Take)
//
// Work items are counted here and no more: there may be a million of them.
// Steps inside of items are not in it.
package timeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// Sources lists the sources of waits in the order of legends.
var Sources = []string{event.FromPolicy, event.FromRetryAfter, event.FromRateLimit, event.FromLimit, event.FromBudget}

// maxSpans bounds the attempts, and the waits, that are kept of one step; later
// ones are counted only.
const maxSpans = 1000

// Timeline is what happened when. It belongs to its caller; a reader and Take
// must not run at once.
type Timeline struct {
	Seq             int64 // the last event that has a part in it; 0 for none
	Name            string
	Status          string // event.Running until a run_finished, then that event's
	Class, Message  string
	Started, Latest time.Time // of the first and of the last event
	Finished        time.Time // zero while the run continues
	Lives           []Life
	Pauses          []Wait // a rate limit held back every agent
	Breakers        []Breaker
	Notes           []string
	Changes         []string // what was asked of it while it was running, and what its items were compared with
	// ItemKinds are the items of a run that has ended which ended neither as they were
	// meant to nor as failures.
	ItemKinds event.KindCounts
	// Holdups are what holds it up.
	Holdups Holdups
	// Widths are how many ran at once, of a map, and of each foreach, that finds that out.
	Widths Widths
	// Waited sums the waits by their source, those of work items included.
	Waited map[string]Sum
	// Tries counts the attempts of steps outside of work items; ItemTries, the
	// attempts at work items and those that their steps made after the first.
	Tries, ItemTries int
	// Usage sums the numbers that agents report, by name, as in cost_usd.
	Usage    map[string]float64
	Inflight int // work items that have begun and not ended

	given    int // items at once, as the run was started; 0 where that is not known
	told     int // and as it was told since
	phase    string
	rows     []*Row // in the order in which they began, planned ones after them
	byPath   map[string]*Row
	unmerged int       // the place in Notes, from 1, of the note of what this life left unmerged; 0 for none
	merges   string    // the command that merges it; "" for none
	once     string    // how the run has ended when that is merged; "" where more is missing
	lists    bool      // paths may be of calls for the elements of lists
	busy     spans     // when something worked
	open     time.Time // since when work items are in flight; zero for none are
	limit    time.Time // the end of the last pause for a rate limit, over the ends of processes; zero for none
}

// Life is one process that had the run.
type Life struct {
	From, To time.Time     // To is that of its last event
	Died     bool          // it ended without saying so
	ran      time.Duration // as it counted itself; 0 where it did not
}

// Sum is a number of waits and their length in all.
type Sum struct {
	Count int
	Total time.Duration
}

// Breaker is a change of a circuit breaker.
type Breaker struct {
	At             time.Time
	Name, From, To string
}

// Row is one line of the tree: a step, a phase, or a list of calls.
type Row struct {
	Path, Label, Phase string
	Kind               Kind
	Parent             *Row // nil at the top
	Depth              int
	Status             string // event.Pending before it began
	Class, Message     string
	Exit               int
	Began, Ended       time.Time
	Tries              int // attempts in all; Attempts may hold fewer
	Attempts           []Attempt
	Waits              []Wait      // begun or over; see Turn
	Recovered          []time.Time // when it continued after its process died
	Seq                int64       // of the last event that changed it
	Done, Total        int         // of a list: calls that have ended, and all
	Failed, Degraded   int         // of them: how they ended

	order  int           // its place among the planned ones; 0 for not planned
	ran    time.Duration // in attempts that have ended
	waited time.Duration // in all Waits, those that are not kept too
	last   Wait          // the last of them
	queued time.Time     // since when it waits for its turn; zero if it does not
	cut    string        // the source of a wait that its process did not live to see the end of
	active int           // of a list: attempts of its calls that run
	since  time.Time     // since when there are any
}

// Kind says what a row stands for.
type Kind uint8

// The kinds of row.
const (
	Step  Kind = iota
	Phase      // setup, map, reduce, merge
	List       // the calls for the elements of a list
)

// Attempt is one attempt of a step.
type Attempt struct {
	N              int
	From, To       time.Time // To is zero while it runs
	Status         string    // running, succeeded, failed, interrupted
	Class, Message string
	Exit           int
	Seq            int64 // of the event that ended it, or of its begin
}

// Wait is a time in which a step waited.
type Wait struct {
	From, To        time.Time
	Source          string
	Attempt         int           // the one that failed
	Least, Greatest time.Duration // between which the policy drew it; zero where that is not known
	Class           string
}

// New makes the timeline of a run before its first event, with the steps that
// its file says will come.
func New(h journal.Header) *Timeline {
	t := &Timeline{Name: h.Name, Status: "", Started: h.Started, Waited: map[string]Sum{}, Usage: map[string]float64{}, byPath: map[string]*Row{}, lists: h.Kind == workflow.Dataflow.String()}
	t.plan(h)
	return t
}

// Take takes the next event.
func (t *Timeline) Take(f *journal.Fact) error {
	t.Seq = f.Seq()
	if f.Index() > 0 {
		t.item(f)
		return nil
	}
	switch f.Type() {
	case event.AgentMessage, event.ItemsReady:
		t.latest(f.Time())
		return nil
	case event.AgentUsage:
		t.usage(f.Data())
		t.latest(f.Time())
		return nil
	}
	e, err := f.Event()
	if err != nil {
		return err
	}
	t.Apply(e)
	return nil
}

// Apply is Take of a whole event of the run itself.
func (t *Timeline) Apply(e event.Event) {
	t.Seq = e.Seq
	t.Holdups.Apply(e)
	t.Widths.Apply(e)
	switch e.Type {
	case event.RunStarted, event.RunResumed:
		t.begin(e)
	case event.RunFinished:
		t.Status, t.Class, t.Message, t.Finished = e.Status, e.Class, e.Message, e.Time
		var told struct {
			Items      event.KindCounts
			OnceMerged string `json:"once_merged"`
		}
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &told) == nil { // what it does not tell is not known
			t.ItemKinds, t.once = told.Items, told.OnceMerged
		}
		if e.Status != event.Interrupted { // the next life is another matter
			t.told = 0
		}
		if n := len(t.Lives); n > 0 {
			t.Lives[n-1].ran = millis(e.DurationMS)
		}
		t.settle(e.Time, false)
	case event.RunPaused:
		t.paused(e.Time, e.Time.Add(millis(e.DelayMS)))
	case event.PauseEnded:
		t.goOn(e.Time)
	case event.PhaseStarted, event.PhaseFinished:
		t.phaseChanged(e)
	case event.HoldProbe: // that it failed like those before says nothing new
	case event.BreakerChanged:
		t.Breakers = append(t.Breakers, Breaker{e.Time, e.Label, e.From, e.To})
	case event.Note:
		if e.Class == event.Passing {
			break // what holds the run back now is told by its state
		}
		if e.Class == event.Unmerged || e.Class == event.Merged {
			t.forgetUnmerged()
		}
		if e.Class == event.Merged && t.once != "" {
			t.Status, t.Class, t.Message, t.once = event.StatusMerged(t.once, e), "", "", ""
		}
		t.Notes = append(t.Notes, e.Message)
		if e.Class == event.Unmerged {
			t.unmerged, t.merges = len(t.Notes), e.Label
		}
	case event.RunControlled, event.ItemsCompared, event.CanaryFinished, event.AgentPaused, event.HoldStarted, event.HoldEnded:
		t.Changes = append(t.Changes, e.Message)
		t.controlled(e)
	case event.ForeachStarted, event.WidthChanged, event.RoundStarted, event.RoundFinished: // for a resume; a step's rounds are shown by the steps in them
	default:
		if e.Step != "" {
			t.step(e)
		}
	}
	t.latest(e.Time)
}

// controlled takes what the run was told by bide control.
func (t *Timeline) controlled(e event.Event) {
	switch {
	case e.Type == event.RunControlled && e.Label == journal.Parallel:
		t.told = e.Total
	case e.Type == event.RunControlled && e.Label == journal.RetryNow:
		t.retryNow(e.Time)
	}
}

// AtOnce is how many items of the map run at once; 0 where that is not known.
func (t *Timeline) AtOnce() int {
	if f := t.Widths.Of(""); f != nil && t.told == 0 {
		return f.Widths[len(f.Widths)-1].Items
	}
	return cmp.Or(t.told, t.given)
}

// Took is how long processes had the run in all: the time between one and the next
// is not counted. now is the end of the last one where the run continues.
func (t *Timeline) Took(now time.Time) (took time.Duration) {
	for i, l := range t.Lives {
		if i == len(t.Lives)-1 && t.Status == event.Running {
			l.To = now
		}
		took += cmp.Or(l.ran, max(0, l.To.Sub(l.From)))
	}
	return took
}

// latest notes the time of an event: the last sign of life of a process.
func (t *Timeline) latest(at time.Time) {
	if t.Started.IsZero() {
		t.Started = at
	}
	if at.After(t.Latest) {
		t.Latest = at
	}
	if n := len(t.Lives); n > 0 {
		t.Lives[n-1].To = t.Latest
	}
}

// Unmerged is what the last life of the run left unmerged, "" for nothing, and the command
// that merges it, "" where there is none; others are the other notes.
func (t *Timeline) Unmerged() (what, command string, others []string) {
	if t.unmerged == 0 {
		return "", "", t.Notes
	}
	what = t.Notes[t.unmerged-1]
	if t.merges != "" {
		what = strings.TrimSuffix(what, "; merge it with: "+t.merges)
	}
	return what, t.merges, slices.Delete(slices.Clone(t.Notes), t.unmerged-1, t.unmerged)
}

func (t *Timeline) forgetUnmerged() {
	if t.unmerged > 0 {
		t.Notes = slices.Delete(t.Notes, t.unmerged-1, t.unmerged)
		t.unmerged = 0
	}
}

func (t *Timeline) begin(e event.Event) {
	if n := len(t.Lives); n > 0 && t.Finished.IsZero() {
		t.Lives[n-1].Died = true
		t.settle(t.Latest, true)
	}
	t.forgetUnmerged() // this life tells it anew
	t.once = ""
	t.Status, t.Class, t.Message, t.Finished = event.Running, "", "", time.Time{}
	t.Lives = append(t.Lives, Life{From: e.Time, To: e.Time})
	if t.limit.After(e.Time) {
		t.paused(e.Time, t.limit)
	}
	if e.Label != "" {
		t.Name = e.Label
	}
}

// settle ends at a time what is in flight, as its process no longer exists.
func (t *Timeline) settle(at time.Time, died bool) {
	t.Inflight = 0
	t.idle(at)
	t.stopPause(at)
	for _, r := range t.rows {
		if r.Status != event.Running && r.Status != Waiting {
			continue
		}
		r.Status, r.Seq = event.Interrupted, t.Seq
		if a := r.running(); a != nil {
			a.To, a.Status = at, event.Interrupted
			t.worked(r, a)
		}
		if t.stopWaiting(r, at) {
			r.cut = r.last.Source
		}
		if r.Ended = at; died && r.Kind == Step {
			r.Recovered = append(r.Recovered, time.Time{}) // filled in when it continues
		}
	}
}

// Gone says that no process has the run any more: what its events leave in
// flight ended with the last of them.
func (t *Timeline) Gone() {
	if t.Finished.IsZero() && t.Status == event.Running {
		t.Status = event.Interrupted
		t.settle(t.Latest, true)
		if n := len(t.Lives); n > 0 {
			t.Lives[n-1].Died = true
		}
	}
}

// Waiting is the status of a step that has begun and does not run: it waits for
// its turn, or for its next attempt.
const Waiting = "waiting"

func (t *Timeline) phaseChanged(e event.Event) {
	r := t.row(e.Phase, e.Phase, e.Phase)
	r.Kind, r.Seq = Phase, e.Seq
	if e.Type == event.PhaseStarted {
		t.phase = e.Phase
		r.Status, r.Ended = event.Running, time.Time{}
		if r.Began.IsZero() {
			r.Began = e.Time
		}
		r.Attempts = append(r.Attempts, Attempt{N: len(r.Attempts) + 1, From: e.Time, Status: event.Running, Seq: e.Seq})
		return
	}
	t.phase = ""
	r.Status, r.Ended, r.Class, r.Message = e.Status, e.Time, e.Class, e.Message
	if a := r.running(); a != nil {
		a.To, a.Status = e.Time, e.Status
		r.ran += max(0, a.To.Sub(a.From))
	}
}

// step takes an event of a step of the run itself.
func (t *Timeline) step(e event.Event) {
	phase := cmp.Or(e.Phase, t.phase)
	r := t.row(e.Step, e.Label, phase)
	r.Seq = e.Seq
	switch e.Type {
	case event.StepStarted:
		t.stepStarted(r, e)
	case event.AttemptStarted:
		t.attemptStarted(r, e)
	case event.AttemptFailed:
		t.attemptEnded(r, e, event.Failed)
		r.Class, r.Message, r.Exit = e.Class, e.Message, e.ExitCode
	case event.AttemptFinished:
		t.attemptEnded(r, e, event.Succeeded)
	case event.RetryScheduled:
		r.Status = Waiting
		t.waits(r, waitOf(e))
	case event.StepFinished:
		if a := r.running(); a != nil {
			t.attemptEnded(r, e, e.Status)
			a.Status = event.Succeeded
			if e.Status != event.Succeeded && e.Status != event.Degraded {
				a.Status = e.Status
			}
		}
		if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Status == event.Succeeded {
			r.Attempts[n-1].Seq = e.Seq // it has the outputs
		}
		r.Status = (&journal.StepRecord{Status: e.Status, Data: e.Data}).Kind()
		r.Ended, r.Class, r.Message, r.Exit = e.Time, e.Class, e.Message, e.ExitCode
		t.stopWaiting(r, e.Time)
		if r.Began.IsZero() {
			r.Began = e.Time // skipped: it never began
		}
		for p := r.list(); p != nil; p = p.Parent.list() {
			p.took(e)
		}
	}
}

func (t *Timeline) stepStarted(r *Row, e event.Event) {
	if n := len(r.Recovered); n > 0 && r.Recovered[n-1].IsZero() {
		r.Recovered[n-1] = e.Time
	}
	if r.Began.IsZero() {
		r.Began = e.Time
	}
	r.Label = cmp.Or(e.Message, r.Label)
	if value := text(e.Data, "for"); value != "" {
		r.Label = named(cmp.Or(e.Message, e.Label), value)
	}
	r.Status, r.Ended, r.queued = Waiting, time.Time{}, e.Time
	r.Class, r.Message, r.Exit = "", "", 0
	for p := r.list(); p != nil; p = p.Parent.list() {
		p.Status, p.Seq, p.Ended = event.Running, e.Seq, time.Time{}
		if p.Began.IsZero() {
			p.Began = e.Time
		}
	}
}

// took takes the end of one of a list's calls.
func (r *Row) took(e event.Event) {
	r.Seq = e.Seq
	r.Done++
	switch e.Status {
	case event.Failed:
		r.Failed++
		r.Class, r.Message = e.Class, e.Message
	case event.Degraded:
		r.Degraded++
	}
	if r.Done < r.Total {
		return
	}
	r.Ended, r.Status = e.Time, event.Succeeded
	switch {
	case r.Failed > 0:
		r.Status = event.Failed
	case r.Degraded > 0:
		r.Status = event.Degraded
	}
}

func (t *Timeline) attemptStarted(r *Row, e event.Event) {
	t.Tries++
	r.Tries++
	source := t.turn(r)
	t.stopWaiting(r, e.Time)
	from := e.Time.Add(-millis(number(e.Data, "waited_ms")))
	if from.Equal(e.Time) && !r.queued.IsZero() && e.Time.Sub(r.queued) >= leastTurn {
		from = r.queued
	}
	if from.Before(e.Time) {
		t.waits(r, Wait{From: from, To: e.Time, Source: source, Attempt: e.Attempt - 1})
	}
	r.queued, r.cut = time.Time{}, ""
	r.Status = event.Running
	if len(r.Attempts) < maxSpans {
		r.Attempts = append(r.Attempts, Attempt{N: e.Attempt, From: e.Time, Status: event.Running, Seq: e.Seq})
		for p := r.list(); p != nil; p = p.Parent.list() {
			if p.active++; p.active == 1 {
				p.since = e.Time
			}
		}
	}
}

func (t *Timeline) attemptEnded(r *Row, e event.Event, status string) {
	a := r.running()
	if a == nil {
		return
	}
	a.To, a.Status, a.Class, a.Message, a.Exit, a.Seq = e.Time, status, e.Class, e.Message, e.ExitCode, e.Seq
	t.worked(r, a)
}

// worked takes note of an attempt that has ended.
func (t *Timeline) worked(r *Row, a *Attempt) {
	r.ran += max(0, a.To.Sub(a.From))
	if r.Kind != Step {
		return
	}
	t.busy.add(a.From, a.To)
	for p := r.list(); p != nil; p = p.Parent.list() {
		if p.active--; p.active == 0 {
			p.ran += max(0, a.To.Sub(p.since))
		}
	}
}

// list is the row, or the nearest above it, that is a list; nil for none.
func (r *Row) list() *Row {
	for r != nil && r.Kind != List {
		r = r.Parent
	}
	return r
}

// running is the attempt that has not ended, if there is one.
func (r *Row) running() *Attempt {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].To.IsZero() {
		return &r.Attempts[n-1]
	}
	return nil
}

// item takes an event of a work item.
func (t *Timeline) item(f *journal.Fact) {
	at := f.Time()
	switch f.Type() {
	case event.AgentUsage:
		t.usage(f.Data())
	case event.ItemStarted:
		if t.ItemTries++; t.Inflight == 0 {
			t.open = at
		}
		t.Inflight++
	case event.AttemptStarted:
		if f.Again() {
			t.ItemTries++
		}
	case event.RetryScheduled:
		t.sum(Wait{From: at, To: at.Add(millis(f.Delay())), Source: SourceOf(f.Data())})
	case event.ItemRetry, event.ItemFinished:
		if f.Type() == event.ItemRetry {
			t.sum(Wait{From: at, To: at.Add(millis(f.Delay())), Source: SourceOf(f.Data())})
		}
		if t.Inflight > 0 {
			if t.Inflight--; t.Inflight == 0 {
				t.idle(at)
			}
		}
	}
	t.latest(at)
}

// usage takes what an agent reports: the numbers among its members.
func (t *Timeline) usage(data string) {
	var members map[string]any
	if json.Unmarshal([]byte(data), &members) != nil {
		return // no object: it has no numbers
	}
	for name, v := range members {
		if n, ok := v.(float64); ok {
			t.Usage[name] += n
		}
	}
}

// idle ends a time in which work items were in flight.
func (t *Timeline) idle(at time.Time) {
	if !t.open.IsZero() {
		t.busy.add(t.open, at)
		t.open = time.Time{}
	}
}

// SourceOf is the source that the data of a wait names. Data without one is of
// a journal that did not tell, where the policy is the only source.
func SourceOf(data string) string {
	const name = `"source":"`
	if i := strings.Index(data, name); i >= 0 {
		rest := data[i+len(name):]
		for _, s := range Sources {
			if strings.HasPrefix(rest, s+`"`) {
				return s
			}
		}
	}
	return event.FromPolicy
}

func waitOf(e event.Event) Wait {
	var d event.Wait
	if len(e.Data) > 0 {
		_ = json.Unmarshal(e.Data, &d) // what is of another shape tells nothing
	}
	d.Delay = cmp.Or(d.Delay, millis(e.DelayMS))
	d.Source = cmp.Or(d.Source, event.FromPolicy)
	return Wait{From: e.Time, To: e.Time.Add(d.Delay), Source: d.Source, Attempt: e.Attempt, Least: d.Least, Greatest: d.Greatest, Class: e.Class}
}

// named is the label of a step with the value that its round of a foreach is for.
func named(label, value string) string {
	if strings.Contains(label, "${item}") {
		return strings.ReplaceAll(label, "${item}", value)
	}
	return label + " · " + value
}

// text is a member of an object that is a text; "" for none.
func text(data json.RawMessage, name string) (s string) {
	if !bytes.Contains(data, []byte(`"`+name+`":`)) {
		return ""
	}
	var d map[string]json.RawMessage
	if json.Unmarshal(data, &d) != nil || json.Unmarshal(d[name], &s) != nil {
		return ""
	}
	return s
}

// number is a member of an object that is a number; 0 for none.
func number(data json.RawMessage, name string) int64 {
	if len(data) == 0 || !strings.Contains(string(data), name) {
		return 0
	}
	var d map[string]json.RawMessage
	var n int64
	if json.Unmarshal(data, &d) == nil && json.Unmarshal(d[name], &n) == nil {
		return n
	}
	return 0
}

// millis is a number of milliseconds, bounded so that times stay times.
func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 1<<42)) * time.Millisecond
}

// Unreadable is the status of a run whose journal cannot be read.
const Unreadable = "unreadable"

// Sign is a mark for a status: nobody has to tell colours apart.
func Sign(s string) string {
	switch s {
	case event.Succeeded:
		return "✓"
	case event.Degraded, event.Recovered, event.Incomplete:
		return "!"
	case event.Failed, event.DeadLettered, Unreadable:
		return "✗"
	case event.Running:
		return "▶"
	case Waiting:
		return "◷"
	case event.Skipped:
		return "↷"
	case event.Unchanged:
		return "="
	case event.Interrupted:
		return "■"
	case event.CompletedWithFailures, event.Tolerated:
		return "!"
	}
	return "○"
}
