package telemetry

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// Which items get spans.
const (
	ItemsFailed = ""     // those that failed or were retried, MaxItems at most
	ItemsAll    = "all"  // all
	ItemsNone   = "none" // none
)

// MaxItems bounds the items that get spans, where not all do.
const MaxItems = 10_000

// Fold makes spans, log records and measurements of the events of one run, in
// their order. It is pure; what it makes it gives to its three functions, of
// which any may be nil. It must not be used by two goroutines at once.
type Fold struct {
	Span    func(Span)
	Log     func(Record)
	Metrics *Metrics
	// Items says which items get spans.
	Items string
	// Part: the events are those of a part of a run that several workers share. What is of the
	// whole run is not measured then, but what this worker does is.
	Part bool
	// Lives is how many lives the run had before the first event, and First the
	// span of the first of them.
	Lives int
	First SpanLink

	trace    Trace
	pipeline string
	started  time.Time
	last     time.Time // of the last event
	steps    map[stepKey]*openStep
	items    map[int]*openItem
	tasks    map[string]bool
	traced   int            // items that got spans
	live     bool           // the run has begun and not ended
	running  int            // items
	stands   map[int]string // where items stand that may continue: retrying, dead_lettered
	pause    time.Time
	breakers map[string]breakerState
	holdups  timeline.Holdups
	held     map[string]bool // what is counted of them
}

type stepKey struct {
	index int
	step  string
}

// openStep is a step that has begun and not ended.
type openStep struct {
	label, action string
	method        string // of an http step
	start         time.Time
	id, parent    SpanID
	place         Place
	events        []SpanEvent
	attempt       int // the open one; 0: none
	began         time.Time
	used          *usage // by the agent of the open attempt; nil: nothing is known
}

// usage is what an agent used in a call, which is told in parts.
type usage struct {
	Input  float64 `json:"input_tokens"`
	Output float64 `json:"output_tokens"`
	Cache  float64 `json:"cache_tokens"`
	Cost   float64 `json:"cost_usd"`
	Model  string  `json:"model"`
}

// openItem is an attempt at a work item. Its spans wait until it is known
// whether they are wanted.
type openItem struct {
	id      string
	attempt int
	start   time.Time
	spans   []Span
	retried bool // a step of it was
}

type breakerState struct {
	state string
	since time.Time
}

// Event takes in an event.
func (f *Fold) Event(e event.Event) {
	f.holdups.Apply(e)
	f.event(e)
	f.last = e.Time
	switch e.Type {
	case event.RunStarted, event.RunResumed, event.RunControlled, event.HoldStarted, event.HoldEnded:
		f.countHoldups()
	}
}

func (f *Fold) event(e event.Event) {
	switch e.Type {
	case event.RunStarted, event.RunResumed:
		f.begin(e)
	case event.StepStarted:
		f.stepStarted(e)
	case event.AttemptStarted:
		f.attemptStarted(e)
	case event.AttemptFailed, event.AttemptFinished:
		f.attemptEnded(e)
	case event.RetryScheduled:
		f.retry(e)
	case event.StepFinished:
		f.stepEnded(e)
	case event.ItemStarted:
		f.itemStarted(e)
	case event.ItemRetry, event.ItemFinished, event.ItemReturned:
		f.itemEnded(e)
	case event.ItemRequeued, event.ItemRemoved:
		f.moves(e.Index, "")
	case event.BreakerChanged:
		f.breaker(e)
	case event.RunPaused:
		f.paused(e)
		f.log(Record{Time: e.Time, Severity: Warn, Body: cmp.Or(f.holdups.AgentsText(journal.ShortRun(e.Run), e.Time), e.Message)}, e)
	case event.HoldStarted:
		held := timeline.Holdups{}
		held.Apply(e)
		f.log(Record{Time: e.Time, Severity: Warn, Body: strings.Join(held.Says(journal.ShortRun(e.Run), e.Time, true), "")}, e)
	case event.AgentUsage:
		f.usage(e)
	case event.Note, event.RunControlled, event.HoldEnded, event.CanaryFinished, event.WidthChanged, event.AgentPaused:
		f.log(Record{Time: e.Time, Severity: Warn, Body: e.Message}, e)
	case event.RunFinished:
		f.finish(e)
	}
}

// countHoldups counts what holds up the run while a process has it.
func (f *Fold) countHoldups() {
	h := &f.holdups
	for reason, on := range map[string]bool{"paused": !h.Paused.IsZero(), "same_error": h.Map.On(), "merge_queue": h.Queue.On()} {
		if on = on && f.live; on == f.held[reason] {
			continue
		}
		n := 1.0
		if !on {
			n = -1
		}
		f.count("bide.runs.held", n, f.run("bide.hold.reason", reason)...)
		value.Put(&f.held, reason, on)
	}
}

// origin is what run_started and run_resumed keep of the trace.
type origin struct {
	TraceID string `json:"trace_id"`
	Parent  string `json:"traceparent"`
	Sampled *bool  `json:"trace_sampled"`
}

func (f *Fold) begin(e event.Event) {
	f.CutOff()
	f.Gone()
	f.Lives++
	f.steps, f.items, f.breakers = map[stepKey]*openStep{}, map[int]*openItem{}, map[string]breakerState{}
	if f.tasks == nil {
		f.tasks = map[string]bool{}
	}
	var o origin
	_ = json.Unmarshal(e.Data, &o) // what is not there is none
	parent, _ := ParseParent(o.Parent)
	f.trace = NewTrace(e.Run, f.Lives, parent)
	if o.Sampled != nil {
		f.trace.Sampled = *o.Sampled
	}
	if f.Lives == 1 {
		f.First = SpanLink{f.trace.ID, f.trace.Root()}
	}
	f.pipeline, f.started, f.live = e.Label, e.Time, true
	f.count("cicd.pipeline.run.active", 1, f.run("cicd.pipeline.run.state", "executing")...)
}

// CutOff ends the spans of a life of the run that was killed, with the last event of it: what
// was in flight, and the run, which those that have ended are inside of, and to which a later
// life links. It does nothing where the run has ended.
func (f *Fold) CutOff() {
	if !f.live || f.trace.Run == "" || f.last.IsZero() {
		return
	}
	cut := []Attr{{"cicd.pipeline.task.run.result", result(event.Interrupted)}}
	for _, key := range slices.SortedFunc(maps.Keys(f.steps), stepKey.compare) {
		s := f.steps[key]
		if s.attempt > 0 {
			f.put(key.index, Span{ID: f.trace.Attempt(s.place, s.attempt), Parent: s.id, Name: s.label, Kind: Client, Start: s.began, End: f.last,
				Attrs: []Attr{{"bide.attempt.number", int64(s.attempt)}}})
		}
		f.put(key.index, Span{ID: s.id, Parent: s.parent, Name: s.label, Kind: Internal, Start: s.start, End: f.last, Events: s.events,
			Attrs: append([]Attr{{"cicd.pipeline.task.name", s.label}, {"cicd.pipeline.task.run.id", key.step}}, cut...)})
	}
	for _, index := range slices.Sorted(maps.Keys(f.items)) {
		it := f.items[index]
		f.traceItem(it, event.Event{Time: f.last, Item: it.id, Index: index}, event.Interrupted)
	}
	f.runSpan(event.Event{Time: f.last, Run: f.trace.Run, Status: event.Interrupted})
}

// compare orders steps by their item and their path.
func (k stepKey) compare(b stepKey) int {
	return cmp.Or(cmp.Compare(k.index, b.index), strings.Compare(k.step, b.step))
}

// Gone says that no process has the run any more: what is in flight counts no
// more. It is told by hand of one that was killed; a run_finished tells it too.
func (f *Fold) Gone() {
	if !f.live {
		return
	}
	f.live = false
	f.count("cicd.pipeline.run.active", -1, f.run("cicd.pipeline.run.state", "executing")...)
	f.countHoldups()
	if f.running > 0 {
		f.count("bide.items", -float64(f.running), Attr{"bide.item.state", event.Running})
		f.count("cicd.worker.count", -float64(f.running), Attr{"cicd.worker.state", "busy"})
		f.running = 0
	}
	for index, state := range f.stands {
		if state == retrying {
			f.moves(index, "")
		}
	}
}

// retrying is where an item is whose next attempt has not begun.
const retrying = "retrying"

// moves notes where an item is that may continue; "" for one that does.
func (f *Fold) moves(index int, state string) {
	if f.Part {
		return // another worker may have it next
	}
	if old := f.stands[index]; old != "" {
		f.count("bide.items", -1, Attr{"bide.item.state", old})
		delete(f.stands, index)
	}
	if state != "" {
		f.count("bide.items", 1, Attr{"bide.item.state", state})
		value.Put(&f.stands, index, state)
	}
}

// run gives the attributes of a metric of the whole run.
func (f *Fold) run(pairs ...string) []Attr {
	attrs := []Attr{{"cicd.pipeline.name", f.pipeline}}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			attrs = append(attrs, Attr{pairs[i], pairs[i+1]})
		}
	}
	return attrs
}

// ofRun are the metrics of a whole run, and ofWorker those that take their place in a part.
var (
	ofRun = map[string]bool{"cicd.pipeline.run.duration": true, "cicd.pipeline.run.active": true, "cicd.pipeline.run.errors": true,
		"cicd.worker.count": true, "bide.items": true, "bide.runs.held": true}
	ofWorker = map[string]bool{"bide.worker.items": true, "bide.worker.item.duration": true}
)

// measures reports whether a metric is measured here.
func (f *Fold) measures(name string) bool {
	return f.Metrics != nil && !(f.Part && ofRun[name]) && (f.Part || !ofWorker[name])
}

func (f *Fold) count(name string, v float64, attrs ...Attr) {
	if f.measures(name) {
		f.Metrics.add(name, v, attrs)
	}
}

func (f *Fold) span(s Span) {
	if f.Span == nil || !f.trace.Sampled {
		return
	}
	s.Trace = f.trace.ID
	f.Span(s)
}

func (f *Fold) log(r Record, e event.Event) {
	if f.Log == nil {
		return
	}
	r.Event = "bide." + string(e.Type)
	r.Trace, r.Span = f.trace.ID, f.trace.Root()
	r.Attrs = append(r.Attrs, Attr{"cicd.pipeline.name", f.pipeline}, Attr{"cicd.pipeline.run.id", e.Run})
	if e.Step != "" {
		r.Attrs = append(r.Attrs, Attr{"cicd.pipeline.task.run.id", e.Step})
		if s := f.steps[stepKey{e.Index, e.Step}]; s != nil {
			r.Span = s.id
		}
	}
	if e.Item != "" {
		r.Attrs = append(r.Attrs, Attr{"bide.item.id", e.Item})
	}
	if e.Class != "" {
		r.Attrs = append(r.Attrs, Attr{"error.type", e.Class})
	}
	f.Log(r)
}

// task is a step's name as an attribute of a metric.
func (f *Fold) task(label string) Attr {
	if !f.tasks[label] {
		if len(f.tasks) >= 200 {
			return Attr{"cicd.pipeline.task.name", "_OTHER"}
		}
		f.tasks[label] = true
	}
	return Attr{"cicd.pipeline.task.name", label}
}

func (f *Fold) place(e event.Event) Place {
	p := Place{Index: e.Index, Step: e.Step}
	if it := f.items[e.Index]; it != nil && e.Index > 0 {
		p.Attempt = it.attempt
	}
	return p
}

func (f *Fold) stepStarted(e event.Event) {
	p := f.place(e)
	s := &openStep{label: e.Label, start: e.Time, place: p, id: f.trace.Step(p), parent: f.parent(p)}
	var d struct{ Action, Method string }
	if len(e.Data) > 0 {
		_ = json.Unmarshal(e.Data, &d) // what is of another shape tells nothing
	}
	s.action, s.method = d.Action, d.Method
	f.steps[stepKey{e.Index, e.Step}] = s
}

// parent finds the span around a step: the open attempt of the step that it is
// inside of, the item, or the run.
func (f *Fold) parent(p Place) SpanID {
	for around := range event.Around(p.Step) {
		if s := f.steps[stepKey{p.Index, around}]; s != nil {
			if s.attempt > 0 {
				return f.trace.Attempt(s.place, s.attempt)
			}
			return s.id
		}
	}
	if p.Index > 0 {
		return f.trace.Item(p.Index, p.Attempt)
	}
	return f.trace.Root()
}

func (f *Fold) attemptStarted(e event.Event) {
	if s := f.steps[stepKey{e.Index, e.Step}]; s != nil {
		f.tokens(s.used) // of an attempt that a kill cut short
		s.attempt, s.began, s.used = e.Attempt, e.Time, nil
	}
}

func (f *Fold) attemptEnded(e event.Event) {
	s := f.steps[stepKey{e.Index, e.Step}]
	if s == nil || s.attempt == 0 {
		return
	}
	kind := "original"
	if e.Attempt > 1 {
		kind = "retry"
	}
	var d struct {
		Program    string
		HTTPStatus int64 `json:"http_status"`
	}
	if s.action == "shell" || s.action == "http" {
		_ = json.Unmarshal(e.Data, &d) // what is not there is not told
	}
	attrs := []Attr{{"bide.attempt.number", int64(e.Attempt)}}
	switch s.action {
	case "shell":
		attrs = append(attrs, Attr{"process.executable.name", path.Base(cmp.Or(d.Program, "sh"))}, Attr{"process.exit.code", int64(e.ExitCode)})
	case "http":
		if s.method != "" {
			attrs = append(attrs, Attr{"http.request.method", s.method})
		}
		if d.HTTPStatus > 0 {
			attrs = append(attrs, Attr{"http.response.status_code", d.HTTPStatus})
		}
		if e.Attempt > 1 {
			attrs = append(attrs, Attr{"http.request.resend_count", int64(e.Attempt - 1)})
		}
	case "claude":
		attrs = append(attrs, Attr{"gen_ai.operation.name", "invoke_agent"})
	}
	measured := []Attr{f.task(s.label), {"bide.attempt.type", kind}}
	if s.action != "" {
		measured = append(measured, Attr{"bide.action", s.action})
	}
	if e.Class != "" {
		attrs = append(attrs, Attr{"error.type", e.Class})
		measured = append(measured, Attr{"error.type", e.Class})
	}
	if u := s.used; u != nil {
		attrs = append(attrs, Attr{"gen_ai.usage.input_tokens", int64(u.Input + u.Cache)}, Attr{"gen_ai.usage.output_tokens", int64(u.Output)},
			Attr{"bide.agent.cost_usd", u.Cost})
		f.tokens(u)
		s.used = nil
	}
	f.observe("bide.attempt.duration", e.Time.Sub(s.began).Seconds(), measured...)
	f.put(e.Index, Span{ID: f.trace.Attempt(s.place, e.Attempt), Parent: s.id, Name: s.label, Kind: Client, Start: s.began, End: e.Time,
		Attrs: attrs, Failed: e.Class, Message: e.Message})
	if e.Type == event.AttemptFailed {
		f.log(Record{Time: e.Time, Severity: Warn, Body: e.Message, Attrs: []Attr{{"bide.attempt.number", int64(e.Attempt)}}}, e)
	}
	s.attempt = 0
}

func (f *Fold) observe(name string, v float64, attrs ...Attr) {
	if f.measures(name) {
		f.Metrics.observe(name, v, attrs)
	}
}

// put gives a span away, or keeps it until its item has ended.
func (f *Fold) put(index int, s Span) {
	it := f.items[index]
	switch {
	case index == 0 || it == nil:
		f.span(s)
	case f.Items == ItemsNone, f.Span == nil:
	default:
		it.spans = append(it.spans, s)
	}
}

func (f *Fold) retry(e event.Event) {
	w, delay := wait(e)
	f.observe("bide.retry.delay", delay.Seconds(), Attr{"bide.retry.source", w})
	if it := f.items[e.Index]; it != nil {
		it.retried = true
	}
	if s := f.steps[stepKey{e.Index, e.Step}]; s != nil {
		s.events = append(s.events, SpanEvent{e.Time, "bide.retry", []Attr{{"bide.retry.delay", delay.Seconds()}, {"bide.retry.source", w},
			{"bide.attempt.number", int64(e.Attempt)}}})
	}
}

// wait is what an event says of the wait before the next attempt.
func wait(e event.Event) (source string, delay time.Duration) {
	var w event.Wait
	_ = json.Unmarshal(e.Data, &w)
	w.Delay = cmp.Or(w.Delay, time.Duration(e.DelayMS)*time.Millisecond)
	w.Source = cmp.Or(w.Source, event.FromPolicy)
	return w.Source, w.Delay
}

func (f *Fold) stepEnded(e event.Event) {
	key := stepKey{e.Index, e.Step}
	s := f.steps[key]
	defer delete(f.steps, key)
	retried := e.Attempts > 1
	f.count("bide.step.outcomes", 1, f.task(e.Label), Attr{"cicd.pipeline.task.run.result", result(e.Status)}, Attr{"bide.retried", retried})
	if e.Attempts > 0 {
		f.observe("bide.step.attempts", float64(e.Attempts), f.task(e.Label))
	}
	if s == nil {
		return // skipped, or taken over from an earlier life
	}
	if s.attempt > 0 && e.Class == "" { // an attempt whose end is not told apart
		f.attemptEnded(event.Event{Type: event.AttemptFinished, Time: e.Time, Index: e.Index, Step: e.Step, Attempt: s.attempt, Data: e.Data})
	}
	f.put(e.Index, Span{ID: s.id, Parent: s.parent, Name: s.label, Kind: Internal, Start: s.start, End: e.Time, Events: s.events,
		Failed: e.Class, Message: e.Message,
		Attrs: []Attr{{"cicd.pipeline.task.name", s.label}, {"cicd.pipeline.task.run.id", e.Step}, {"cicd.pipeline.task.run.result", result(e.Status)}}})
}

// result is a status in the words of the semantic conventions, where they have
// one.
func result(status string) string {
	switch status {
	case event.Succeeded:
		return "success"
	case event.Failed, event.DeadLettered, event.CompletedWithFailures:
		return "failure"
	case event.Skipped:
		return "skip"
	case event.Interrupted:
		return "cancellation"
	}
	return status // degraded: ended well through a fallback
}

func (f *Fold) itemStarted(e event.Event) {
	f.moves(e.Index, "")
	f.items[e.Index] = &openItem{id: e.Item, attempt: e.Attempt, start: e.Time}
	f.running++
	f.count("bide.worker.items", 1)
	f.count("bide.items", 1, Attr{"bide.item.state", event.Running})
	f.count("cicd.worker.count", 1, Attr{"cicd.worker.state", "busy"})
}

func (f *Fold) itemEnded(e event.Event) {
	it := f.items[e.Index]
	delete(f.items, e.Index)
	if it != nil {
		f.running--
		f.count("bide.items", -1, Attr{"bide.item.state", event.Running})
		f.count("cicd.worker.count", -1, Attr{"cicd.worker.state", "busy"})
	}
	status := e.Status
	if e.Type == event.ItemRetry {
		status = retrying
		source, delay := wait(e)
		f.observe("bide.retry.delay", delay.Seconds(), Attr{"bide.retry.source", source})
	}
	if it != nil {
		f.observe("bide.worker.item.duration", e.Time.Sub(it.start).Seconds(), Attr{"bide.item.state", cmp.Or(status, "returned")})
	}
	switch status {
	case event.Interrupted:
	case retrying, event.DeadLettered:
		f.moves(e.Index, status)
	default:
		f.moves(e.Index, "")
		f.count("bide.items", 1, Attr{"bide.item.state", status})
	}
	if status == event.DeadLettered {
		f.count("bide.items.dead_lettered", 1, Attr{"error.type", e.Class})
		f.log(Record{Time: e.Time, Severity: Error, Body: e.Message}, e)
	}
	if it == nil || f.Span == nil {
		return
	}
	for key := range f.steps { // of an attempt that was cut off
		if key.index == e.Index {
			delete(f.steps, key)
		}
	}
	f.traceItem(it, e, status)
}

// traceItem gives the spans of an attempt at an item away, if they are wanted.
func (f *Fold) traceItem(it *openItem, e event.Event, status string) {
	wanted := f.Items == ItemsAll || f.Items == ItemsFailed && f.traced < MaxItems &&
		(status != event.Succeeded && status != event.Skipped || it.attempt > 1 || it.retried)
	if !wanted {
		return
	}
	f.traced++
	for _, s := range it.spans {
		f.span(s)
	}
	f.span(Span{ID: f.trace.Item(e.Index, it.attempt), Parent: f.trace.Root(), Name: "item", Kind: Internal, Start: it.start, End: e.Time,
		Failed: e.Class, Message: e.Message,
		Attrs: []Attr{{"bide.item.id", e.Item}, {"bide.item.index", int64(event.Number(e.Index))}, {"bide.item.state", status}, {"bide.attempt.number", int64(it.attempt)}}})
}

// breakerStates are the values of the gauge of a breaker's state.
var breakerStates = map[string]float64{"closed": 0, "half-open": 1, "open": 2}

func (f *Fold) breaker(e event.Event) {
	name := Attr{"bide.breaker", e.Label}
	if f.Metrics != nil {
		f.Metrics.set("bide.breaker.state", breakerStates[e.To], []Attr{name})
	}
	if e.From == e.To {
		return
	}
	f.count("bide.breaker.transitions", 1, name, Attr{"bide.breaker.to", e.To})
	was := f.breakers[e.Label]
	if was.state == "open" {
		f.observe("bide.pause.duration", e.Time.Sub(was.since).Seconds(), Attr{"bide.pause.reason", "breaker"})
	}
	f.breakers[e.Label] = breakerState{e.To, e.Time}
}

func (f *Fold) paused(e event.Event) {
	until := e.Time.Add(time.Duration(e.DelayMS) * time.Millisecond)
	from := e.Time
	if f.pause.After(from) {
		from = f.pause // the pause before is prolonged
	}
	if until.After(from) {
		f.observe("bide.pause.duration", until.Sub(from).Seconds(), Attr{"bide.pause.reason", "rate_limit"})
		f.pause = until
	}
}

func (f *Fold) usage(e event.Event) {
	var u usage
	if json.Unmarshal(e.Data, &u) != nil {
		return
	}
	f.count("bide.agent.cost", u.Cost, u.model()...)
	s := f.steps[stepKey{e.Index, e.Step}]
	if s == nil || s.attempt == 0 {
		f.tokens(&u)
		return
	}
	if s.used == nil {
		s.used = &usage{}
	}
	sum := s.used
	sum.Input, sum.Output, sum.Cache, sum.Cost, sum.Model = sum.Input+u.Input, sum.Output+u.Output, sum.Cache+u.Cache, sum.Cost+u.Cost, cmp.Or(u.Model, sum.Model)
}

func (u *usage) model() []Attr {
	if u.Model == "" {
		return nil
	}
	return []Attr{{"gen_ai.request.model", u.Model}}
}

// tokens measures what an attempt used, in all its calls; nil for nothing.
func (f *Fold) tokens(u *usage) {
	if u == nil {
		return
	}
	for _, t := range []struct {
		kind string
		n    float64
	}{{"input", u.Input + u.Cache}, {"output", u.Output}} {
		if t.n > 0 {
			f.observe("gen_ai.client.token.usage", t.n, append([]Attr{{"gen_ai.token.type", t.kind}}, u.model()...)...)
		}
	}
}

func (f *Fold) finish(e event.Event) {
	if f.trace.Run == "" {
		return
	}
	took := e.Time.Sub(f.started).Seconds()
	f.Gone()
	f.observe("cicd.pipeline.run.duration", took, f.run("cicd.pipeline.run.state", "executing", "cicd.pipeline.result", result(e.Status), "error.type", e.Class)...)
	if e.Class != "" {
		f.count("cicd.pipeline.run.errors", 1, f.run("error.type", e.Class)...)
	}
	f.runSpan(e)
}

// runSpan gives away the span of a life of the run, which an event ends.
func (f *Fold) runSpan(e event.Event) {
	s := Span{ID: f.trace.Root(), Parent: f.trace.Parent, Name: "RUN " + f.pipeline, Kind: Server, Start: f.started, End: e.Time,
		Attrs:  []Attr{{"cicd.pipeline.name", f.pipeline}, {"cicd.pipeline.run.id", e.Run}, {"cicd.pipeline.result", result(e.Status)}},
		Failed: e.Class, Message: e.Message}
	if e.Class != "" {
		s.Attrs = append(s.Attrs, Attr{"error.type", e.Class})
	}
	if f.Lives > 1 {
		s.Link = &f.First
	}
	f.span(s)
}
