package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// Recording is what a recorded run has met: each attempt with how it ended.
type Recording struct {
	Run      string
	Header   journal.Header
	Settings engine.Settings
	Items    []journal.Item
	Status   string // event.Interrupted of a run whose end is not recorded
	Took     time.Duration

	merged    bool // the merge block was run
	attempts  map[attemptKey]*recorded
	waits     map[attemptKey]event.Wait // after the attempt
	itemWaits map[[2]int]event.Wait     // of items, after an attempt
	outputs   map[attemptKey]string     // of steps, or of calls as JSON, by the attempt that ended well
	fellBack  map[attemptKey]bool       // steps whose fallback made them end well; their number is 0
	decisions decisions
	static    func(path string) string
}

// attemptKey names an attempt: of an item (0: none), its attempt, the step, its
// attempt.
type attemptKey struct {
	index, round int
	path         string
	n            int
}

// compare orders keys by place.
func (k attemptKey) compare(o attemptKey) int {
	return cmp.Or(strings.Compare(k.path, o.path), cmp.Compare(k.index, o.index), cmp.Compare(k.round, o.round), cmp.Compare(k.n, o.n))
}

// recorded is how an attempt went.
type recorded struct {
	from    time.Duration // since the run began
	took    time.Duration
	failure *failure.Failure // nil: it succeeded
}

// Record reads what a run has met.
func Record(ctx context.Context, r *journal.Reader) (*Recording, error) {
	rec := &Recording{Run: r.Run(), Header: r.Header(), attempts: map[attemptKey]*recorded{}, waits: map[attemptKey]event.Wait{},
		outputs: map[attemptKey]string{}, fellBack: map[attemptKey]bool{}, itemWaits: map[[2]int]event.Wait{}, decisions: decisions{}, static: static}
	if rec.Header.Kind == workflow.Dataflow.String() {
		rec.static = (&stepNames{pipeline: true}).static
	}
	if err := json.Unmarshal(rec.Header.Options, &rec.Settings); err != nil {
		return nil, fmt.Errorf("the recorded options of run %s: %w", rec.Run, err)
	}
	f := folder{rec: rec, rounds: map[int]int{}, open: map[attemptKey]time.Time{}}
	for e, err := range r.Events(ctx, 1, journal.EventFilter{}) {
		if err == nil {
			err = f.take(e)
		}
		if err != nil {
			return nil, err
		}
	}
	if rec.Header.Kind == "mapreduce" {
		var err error
		if rec.Items, err = allItems(ctx, r); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

func allItems(ctx context.Context, r *journal.Reader) (list []journal.Item, err error) {
	const page = 1000
	for {
		more, err := r.Items(ctx, len(list)+1, page)
		if err != nil || len(more) == 0 {
			return list, err
		}
		list = append(list, more...)
	}
}

// folder makes a recording of events.
type folder struct {
	rec    *Recording
	start  time.Time   // less the time between the lives so far
	last   time.Time   // of the event before
	rounds map[int]int // the present attempt at an item
	open   map[attemptKey]time.Time
}

func (f *folder) key(e event.Event) attemptKey {
	return attemptKey{e.Index, f.rounds[e.Index], e.Step, e.Attempt}
}

func (f *folder) take(e event.Event) error {
	rec := f.rec
	defer func() { f.last = e.Time }()
	rec.decisions.take(e, f.rounds)
	rec.Took = e.Time.Sub(f.start) // as far as is known
	rec.merged = rec.merged || e.Phase == "merge" || strings.HasPrefix(e.Step, "merge[")
	switch e.Type {
	case event.RunStarted:
		f.start, rec.Took, rec.Status = e.Time, 0, event.Interrupted
	case event.RunResumed:
		f.start = f.start.Add(e.Time.Sub(f.last)) // between its lives nothing happens
		rec.Took = e.Time.Sub(f.start)
	case event.RunFinished:
		rec.Status, rec.Took = e.Status, e.Time.Sub(f.start)
	case event.ItemStarted:
		f.rounds[e.Index] = e.Attempt
	case event.AttemptStarted:
		f.open[f.key(e)] = e.Time
	case event.AttemptFinished, event.AttemptFailed:
		k := f.key(e)
		began, ok := f.open[k]
		if !ok {
			began = e.Time.Add(-time.Duration(e.DurationMS) * time.Millisecond)
		}
		delete(f.open, k)
		a := &recorded{from: began.Sub(f.start), took: e.Time.Sub(began)}
		if e.Type == event.AttemptFailed {
			var d struct {
				Stdout  string           `json:"stdout"`
				Stderr  string           `json:"stderr"`
				Failure *failure.Failure `json:"failure"`
			}
			if len(e.Data) > 0 {
				if err := json.Unmarshal(e.Data, &d); err != nil {
					return fmt.Errorf("the record of attempt %d of %s: %w", e.Attempt, e.Step, err)
				}
			}
			if a.failure = d.Failure; a.failure == nil {
				a.failure = &failure.Failure{Exit: e.ExitCode}
			}
			a.failure.Class, a.failure.Message = e.Class, e.Message
			if a.failure.Stdout == "" && a.failure.Stderr == "" {
				a.failure.Stdout, a.failure.Stderr = d.Stdout, d.Stderr
			}
		}
		rec.attempts[k] = a
	case event.StepFinished:
		f.finished(e)
	case event.RetryScheduled:
		var w event.Wait
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &w) == nil {
			rec.waits[f.key(e)] = w
		}
	case event.ItemRetry:
		var w event.Wait
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &w) == nil {
			rec.itemWaits[[2]int{e.Index, e.Attempt}] = w
		}
	}
	return nil
}

// finished takes the end of a step, with what it printed, or of a call, with what
// it gave. The last attempt of a call, where it ended well, has no end of its own.
func (f *folder) finished(e event.Event) {
	var d struct {
		Output string          `json:"output"`
		Value  json.RawMessage `json:"value"`
		File   string          `json:"value_file"`
	}
	at := attemptKey{e.Index, f.rounds[e.Index], e.Step, 0}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil {
		f.rec.outputs[at] = d.Output
		if d.File != "" {
			d.Value, _ = os.ReadFile(d.File) // what was removed is not known any more
		}
		if len(d.Value) > 0 {
			f.rec.outputs[at] = string(d.Value)
		}
	}
	f.rec.fellBack[at] = e.Status == event.Degraded
	at.n = e.Attempts
	if began, open := f.open[at]; open && e.Status == event.Succeeded {
		delete(f.open, at)
		f.rec.attempts[at] = &recorded{from: began.Sub(f.start), took: e.Time.Sub(began)}
	}
}

// decisions are what was decided about each step and each item, in order.
type decisions map[string][]string

func (d decisions) take(e event.Event, rounds map[int]int) {
	item := ""
	if e.Index > 0 {
		item = fmt.Sprintf("item %d", e.Index)
	}
	at := strings.TrimSpace(fmt.Sprintf("%s %s", item, e.Step))
	say := func(format string, args ...any) {
		d[at] = append(d[at], fmt.Sprintf(format, args...))
	}
	switch e.Type {
	case event.AttemptFailed:
		say("attempt %d fails (%s)", e.Attempt, e.Class)
	case event.RetryScheduled:
		say("again after attempt %d, in %dms", e.Attempt, e.DelayMS)
	case event.StepFinished:
		if e.Status == event.Interrupted { // which a later life goes on with
			break
		}
		say("%s after %d", e.Status, e.Attempts)
	case event.ItemRetry:
		say("the item again after attempt %d, in %dms", e.Attempt, e.DelayMS)
	case event.ItemFinished:
		say("the item %s after %d", e.Status, e.Attempts)
	case event.BreakerChanged:
		at = "breaker " + e.Label
		if e.From != e.To {
			say("%s", e.To)
		}
	case event.ItemStarted:
		rounds[e.Index] = e.Attempt
	}
}

// Fit gives a model that does on the average what the recording met: classes of
// errors by their share, latencies as they were, times in which everything
// failed as outages, answers 429 as a rate, and what the attempts of an item have
// in common.
func (r *Recording) Fit() *Model {
	m := &Model{Steps: map[string]*Target{}, Items: max(len(r.Items), 1)}
	for path, list := range r.byStep() {
		m.Steps[path] = fit(list)
	}
	r.fitValues(m)
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.Steps)), func(t *Target) bool { return len(t.Outages) > 0 }) {
		m.Correlation = r.fitCorrelation() // failures of an outage come together, and say nothing of items
	}
	return m
}

// fitValues has each call give what its first did that ended well.
func (r *Recording) fitValues(m *Model) {
	if r.Header.Kind != workflow.Dataflow.String() {
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.outputs), attemptKey.compare) {
		if t := m.Steps[r.static(k.path)]; t != nil && t.Output == nil && r.outputs[k] != "" {
			text := r.outputs[k]
			t.Output, t.value = &text, true
		}
	}
}

// byStep are the attempts of each step by their beginning.
func (r *Recording) byStep() map[string][]*recorded {
	keys := slices.SortedFunc(maps.Keys(r.attempts), func(a, b attemptKey) int {
		return cmp.Or(cmp.Compare(r.attempts[a].from, r.attempts[b].from), a.compare(b))
	})
	steps := map[string][]*recorded{}
	for _, k := range keys {
		p := r.static(k.path)
		steps[p] = append(steps[p], r.attempts[k])
	}
	return steps
}

// mostLatencies bounds how many latencies a model keeps of a step.
const mostLatencies = 1000

func fit(list []*recorded) *Target {
	t := &Target{}
	inside := t.fitOutages(list)
	counts, total := map[string]int{}, 0
	var limited []*recorded
	for i, a := range list {
		switch {
		case a.failure != nil && a.failure.Class == "rate_limit":
			limited = append(limited, a)
		case !inside[i]:
			total++
			if a.failure != nil {
				counts[a.failure.Class]++
			}
		}
		if a.failure == nil || !a.failure.Timeout {
			t.Latency.Empirical = append(t.Latency.Empirical, a.took)
		}
	}
	for class, n := range counts {
		t.Failures = append(t.Failures, Failure{class, float64(n) / float64(total)})
	}
	sortFailures(t.Failures)
	slices.Sort(t.Latency.Empirical)
	if n := len(t.Latency.Empirical); n > mostLatencies {
		thin := make([]time.Duration, mostLatencies)
		for i := range thin {
			thin[i] = t.Latency.Empirical[i*n/mostLatencies]
		}
		t.Latency.Empirical = thin
	}
	if c, s := fitQueue(list); c > 0 {
		t.Latency = Latency{Capacity: c, Service: s}
	}
	t.fitLimit(list, limited)
	return t
}

// fitOutages finds times in which so many attempts failed one after another
// that chance does not explain it. inside are the attempts in them.
func (t *Target) fitOutages(list []*recorded) (inside map[int]bool) {
	inside = map[int]bool{}
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j].failure != nil && list[j].failure.Class == classOf(list[i]) && classOf(list[i]) != "rate_limit" {
			j++
		}
		if j-i >= 10 && t.unlikely(list, j-i) {
			end := list[j-1].from + list[j-1].took
			if j < len(list) {
				end = list[j].from
			}
			t.Outages = append(t.Outages, Outage{From: list[i].from, For: end - list[i].from, Class: classOf(list[i])})
			for k := i; k < j; k++ {
				inside[k] = true
			}
		}
		i = max(j, i+1)
	}
	if len(inside) == len(list) { // it has always failed: that is its rate
		t.Outages = nil
		return map[int]bool{}
	}
	return inside
}

func classOf(a *recorded) string {
	if a.failure == nil {
		return ""
	}
	return a.failure.Class
}

// unlikely reports whether n failures in a row are less likely than one in a
// hundred, at the rate of the others.
func (t *Target) unlikely(list []*recorded, n int) bool {
	failed := 0
	for _, a := range list {
		if a.failure != nil {
			failed++
		}
	}
	p := max(float64(failed-n), 1) / max(float64(len(list)-n), 2)
	chance := float64(len(list))
	for range n {
		chance *= p
	}
	return chance < 0.01
}

// fitLimit takes a rate from answers 429: what got through while there were
// any, and what got through before the first of them.
func (t *Target) fitLimit(list, limited []*recorded) {
	if len(limited) == 0 {
		return
	}
	first, last := limited[0].from, limited[len(limited)-1].from
	before, during := 0, 0
	var hints []time.Duration
	for _, a := range list {
		switch {
		case a.failure != nil && a.failure.Class == "rate_limit":
			if a.failure.RetryAfter > 0 {
				hints = append(hints, a.failure.RetryAfter)
			}
		case a.from < first:
			before++
		case a.from <= last:
			during++
		}
	}
	t.Limit = &Limited{Count: max(during, 1), Per: max(last-first, time.Second), Burst: max(before, 1)}
	if len(hints) > 0 {
		slices.Sort(hints)
		t.Limit.RetryAfter = hints[len(hints)/2]
	}
}

// Warnings are what the recording cannot say.
func (r *Recording) Warnings() []string {
	var list []string
	edges := map[time.Duration]int{}
	for _, a := range r.attempts {
		edges[a.from]++
		edges[a.from+a.took]--
	}
	var times []time.Duration
	for t := range edges {
		times = append(times, t)
	}
	slices.Sort(times)
	now, most := 0, 0
	for _, t := range times {
		now += edges[t]
		most = max(most, now)
	}
	if len(r.attempts) == 0 {
		return []string{"the run has recorded no attempt: nothing is known of failures and latencies"}
	}
	unknown := false
	for path, steps := range r.byStep() {
		if c, s := fitQueue(steps); c > 0 {
			list = append(list, fmt.Sprintf("latencies of %s grow with the number at once, as those of a queue that serves %d of them, each in about %s", path, c, Span(int64(s))))
		} else {
			unknown = true
		}
		if len(steps) < 20 {
			list = append(list, fmt.Sprintf("of %s there are %d attempts: its rates of failure are rough", path, len(steps)))
		}
	}
	slices.Sort(list)
	if unknown {
		list = slices.Insert(list, 0, fmt.Sprintf("latencies were recorded with at most %d attempts at once: whether more would make them longer, one run cannot say", most))
	}
	if len(list) > 6 {
		list = append(list[:5], fmt.Sprintf("and of %d more steps there are less than 20 attempts", len(list)-5))
	}
	return list
}

// Attempts is how many attempts were recorded, those of steps that are made of
// steps left out: they are not counted beside what is inside them.
func (r *Recording) Attempts() (n int) {
	outer := map[attemptKey]bool{}
	for k := range r.attempts {
		for at := k.path; ; {
			i := strings.LastIndexByte(at, '.')
			if i < 0 {
				break
			}
			at = at[:i]
			outer[attemptKey{k.index, k.round, at, 0}] = true
		}
	}
	for k := range r.attempts {
		if k.n = 0; !outer[k] {
			n++
		}
	}
	return n
}
