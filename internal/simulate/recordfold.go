package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/value"
)

// between reports whether events of a type are also recorded while no process has the
// run.
func between(t event.Type) bool {
	switch t {
	case event.ItemRequeued, event.ItemRemoved, event.StepRequeued, event.RunControlled, event.Note:
		return true
	}
	return false
}

// begins reports whether an event says that something begins, which nothing does after
// an interrupt.
func begins(t event.Type) bool {
	switch t {
	case event.ItemStarted, event.StepStarted, event.AttemptStarted, event.RetryScheduled, event.ItemRetry, event.RoundStarted:
		return true
	}
	return false
}

// folder makes a recording of events.
type folder struct {
	rec    *Recording
	life   *pastLife
	start  time.Time   // less the time between the lives so far
	last   time.Time   // of the event before
	rounds map[int]int // the present attempt at an item
	open   map[attemptKey]time.Time
	tries  beginnings
	ending map[int]attemptKey       // the step of an item that has ended last
	counts event.Event              // the event before, where it is a breaker that changed
	asked  attemptKey               // of the agent that has answered last
	due    map[attemptKey]time.Time // when the next attempt at a step was to begin
	paused time.Time                // the end of the latest pause of all agents
}

// beginnings count how often steps were tried in a life.
type beginnings struct {
	begun   map[attemptKey]int // a step that a loop around it begins again
	givenUp map[attemptKey]int // by its retry policy, which its handler may have begin again
}

func newBeginnings() beginnings { return beginnings{map[attemptKey]int{}, map[attemptKey]int{}} }

// again is how often a step was begun before.
func (t *beginnings) again(k attemptKey) int { return max(t.begun[k.step()]-1, 0) }

// draws names what is drawn for the waits of a step now.
func (t *beginnings) draws(k attemptKey) attemptKey {
	k.again = t.again(k)
	k.n = 0
	k.n = t.givenUp[k]
	return k
}

// take counts what has begun and what was given up.
func (t *beginnings) take(k attemptKey, e event.Event) {
	switch {
	case e.Type == event.StepStarted:
		t.begun[k.step()]++
	case e.Type == event.AttemptFailed && e.Status != "":
		k.n, k.again = 0, t.again(k)
		t.givenUp[k]++
	}
}

// key names the attempt of an event, or its step where that is of none.
func (f *folder) key(e event.Event) attemptKey {
	k := attemptKey{life: len(f.rec.lives) - 1, index: e.Index, round: f.rounds[e.Index], path: e.Step, n: e.Attempt}
	k.again = f.tries.again(k)
	return k
}

// begin begins a life.
func (f *folder) begin(e event.Event) {
	f.endLife()
	f.life = &pastLife{began: e.Time, ended: e.Time, lastStart: e.Time, waits: map[attemptKey][]event.Wait{}, decisions: decisions{}, starts: map[attemptKey][]virtual.Turn{}}
	f.rec.lives = append(f.rec.lives, f.life)
	f.tries, f.ending, f.due = newBeginnings(), map[int]attemptKey{}, map[attemptKey]time.Time{}
	var d struct {
		Parallel int  `json:"max_parallel"`
		Other    bool `json:"file_changed"`
	}
	if e.Type == event.RunResumed && len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil {
		f.life.parallel, f.life.otherFile = d.Parallel, d.Other
	}
	switch {
	case len(f.rec.lives) == 1:
		f.start, f.rec.Took = e.Time, 0
	default:
		f.start = f.start.Add(e.Time.Sub(f.last)) // between its lives nothing happens
	}
	f.rec.Status = event.Interrupted
}

// endLife ends what the life before left in flight. A breaker counts how an attempt has
// ended before that is recorded: so the process may have died between the two.
func (f *folder) endLife() {
	for k, began := range f.open {
		f.cut(k, began, f.life.ended)
		a, c := f.rec.attempts[k], f.counts
		if c.Label != k.path || f.life.status != "" || f.life.ended.After(c.Time) {
			continue
		}
		a.ended = f.life.turn(f.life.ended)
		if a.counted = true; c.To == circuit.Open.String() {
			a.failure = &failure.Failure{Class: "exit", Exit: 1}
		}
	}
}

// cut ends an attempt of which no end is recorded.
func (f *folder) cut(k attemptKey, began, ended time.Time) {
	delete(f.open, k)
	f.rec.attempts[k] = &recorded{from: began.Sub(f.start), took: ended.Sub(began), cut: true}
}

// turn is the turn of an event, after those of all events before it.
func (f *folder) turn(e event.Event) virtual.Turn { return f.life.turn(e.Time) }

func (l *pastLife) turn(at time.Time) virtual.Turn {
	l.turns = append(l.turns, at)
	return virtual.Turn{At: at, Number: uint64(len(l.turns)) - 1}
}

// instead is the turn of an event that takes the place of an earlier one.
func (f *folder) instead(of virtual.Turn, e event.Event) virtual.Turn {
	f.life.turns[of.Number] = time.Time{}
	return f.turn(e)
}

func (f *folder) take(e event.Event) error {
	rec := f.rec
	defer func() { f.last = e.Time }()
	if e.Type == event.RunStarted || e.Type == event.RunResumed {
		f.begin(e)
	}
	if f.life == nil || f.life.status != "" { // from between two lives
		return nil
	}
	f.life.decisions.take(e, f.rounds)
	if !between(e.Type) {
		f.life.ended = e.Time
		rec.Took = e.Time.Sub(f.start) // as far as is known
	}
	rec.merged = rec.merged || e.Phase == "merge" || strings.HasPrefix(e.Step, "merge[")
	f.tries.take(f.key(e), e)
	if e.Type == event.ItemStarted || e.Step != "" && e.Type != event.StepFinished && e.Type != event.ItemReturned {
		delete(f.ending, e.Index) // what is decided next is decided after this
	}
	if begins(e.Type) {
		f.life.lastStart = e.Time
		if e.Type != event.RetryScheduled && e.Type != event.ItemRetry {
			f.life.lastBegin = e.Time
		}
	}
	switch f.counts = (event.Event{}); e.Type {
	case event.BreakerChanged:
		f.counts = e
	case event.RunFinished:
		f.life.status, rec.Status = decided(e), decided(e)
		var d struct {
			At time.Time `json:"interrupted_at"`
		}
		if json.Unmarshal(e.Data, &d) == nil && !d.At.IsZero() { // what began in the same moment, began before
			f.life.stopped = d.At
			if f.life.lastBegin.After(d.At) {
				f.life.stopped = f.life.lastBegin
			}
		}
	case event.ItemsReady:
		rec.listed = e.Total
	case event.RunControlled:
		f.life.asked = append(f.life.asked, asked{journal.ControlRequest{Do: e.Label, Parallel: e.Total}, f.turn(e)})
	case event.ItemStarted:
		f.rounds[e.Index] = e.Attempt
		turn := event.Turn{At: e.Time}
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &turn) != nil {
			turn.At = e.Time
		}
		at, _ := slices.BinarySearchFunc(f.life.items, turn.At, time.Time.Compare) // it is decided in order, and recorded when it begins
		f.life.items = slices.Insert(f.life.items, at, turn.At)
		f.began(e)
	case event.StepStarted:
		f.began(e)
	case event.RoundStarted:
		if k, is := handlerRound(f.key(e)); is {
			k.again = f.tries.again(k)
			f.life.starts[k] = append(f.life.starts[k], f.turn(e))
		}
	case event.AgentUsage:
		f.used(e)
	case event.RunPaused, event.AgentPaused:
		f.turnedAway(e)
	case event.ForeachStarted:
		f.foreach(e)
	case event.AttemptStarted:
		f.began(e)
		f.lag(e)
		f.open[f.key(e)] = e.Time
	case event.AttemptFinished, event.AttemptFailed:
		return f.ended(e)
	case event.StepFinished:
		f.finished(e)
		f.over(e)
	case event.ItemFinished, event.ItemReturned:
		f.decided(e)
	case event.RetryScheduled:
		w := f.waits(f.key(e), e)
		f.due[f.key(e).step()] = e.Time.Add(max(w.Delay, time.Duration(e.DelayMS)*time.Millisecond))
	case event.ItemRetry:
		f.decided(e)
		f.waits(attemptKey{life: len(rec.lives) - 1, index: e.Index, round: e.Attempt, path: step.ItemJitter}, e)
	}
	return nil
}

// longestLag is the longest one that this machine has made: what is later waited for
// something.
const longestLag = 100 * time.Millisecond

// lag takes by how much an attempt begins later than it was due.
func (f *folder) lag(e event.Event) {
	at := f.key(e).step()
	due, is := f.due[at]
	delete(f.due, at)
	if late := e.Time.Sub(due); is && late > -time.Millisecond && late < longestLag {
		p := f.rec.static(e.Step)
		f.rec.lags[p] = append(f.rec.lags[p], max(late, 0))
	}
}

// began takes the beginning of a step or of an attempt.
func (f *folder) began(e event.Event) {
	k := f.key(e)
	if e.Type == event.ItemStarted {
		k.n = 0
	}
	f.life.starts[k] = append(f.life.starts[k], f.turn(e))
}

// atEnd is the number of the end of a step, among those of its attempts, and atHandler that
// of a round of its handler.
const (
	atEnd     = -1
	atHandler = -2
)

// handlerRound gives the step whose handler begins a round; false: it is a round of a foreach.
func handlerRound(k attemptKey) (attemptKey, bool) {
	at := strings.LastIndexAny(k.path, "#@")
	if at < 0 || k.path[at] != '#' {
		return k, false
	}
	k.path, k.n = k.path[:at], atHandler
	return k, true
}

// over takes the end of a step.
func (f *folder) over(e event.Event) {
	k := f.key(e)
	k.n = atEnd
	f.life.starts[k] = append(f.life.starts[k], f.turn(e))
	f.ending[e.Index] = k
}

// decided takes what becomes of a work item. It is decided a moment after the last of its
// steps has ended, and maybe after that of an item whose step ended later: so that step
// ends when it is decided.
func (f *folder) decided(e event.Event) {
	if list := f.life.starts[f.ending[e.Index]]; len(list) > 0 && e.Index > 0 {
		list[len(list)-1] = f.instead(list[len(list)-1], e)
	}
	delete(f.ending, e.Index)
}

func (f *folder) waits(k attemptKey, e event.Event) (w event.Wait) {
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &w) == nil {
		k = f.tries.draws(k)
		f.life.waits[k] = append(f.life.waits[k], w)
	}
	return w
}

// used takes what an agent has used in the attempt that is being made.
func (f *folder) used(e event.Event) {
	var d struct {
		Input  int64   `json:"input_tokens"`
		Output int64   `json:"output_tokens"`
		Cache  int64   `json:"cache_tokens"`
		USD    float64 `json:"cost_usd"`
		Calls  *int    `json:"calls"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	used := action.Usage{InputTokens: d.Input, OutputTokens: d.Output, CacheRead: d.Cache, CostUSD: d.USD}
	at := f.attemptAt(e)
	began := f.open[at]
	list := f.rec.calls[at]
	if n := len(list); n > 0 && d.Calls != nil && *d.Calls == 0 { // a part of the call before
		last := &list[n-1]
		last.took, last.usage = last.took+e.Time.Sub(last.at.At), last.usage.Plus(used)
		last.at = f.instead(last.at, e)
		return
	}
	if n := len(list); n > 0 {
		began = list[n-1].at.At
	}
	for _, t := range []time.Time{f.paused, f.life.began} { // before which it was not asked
		if t.After(began) && !t.After(e.Time) {
			began = t
		}
	}
	f.rec.calls[at] = append(list, agentCall{at: f.turn(e), took: e.Time.Sub(began), usage: used})
	f.asked = at
}

// turnedAway takes the pause that the agent has caused that was asked last; of one of a
// chain, in the step that the pause is of.
func (f *folder) turnedAway(e event.Event) {
	var p event.Pause
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &p) != nil {
		return
	}
	at, class := f.asked, "rate_limit"
	if e.Type == event.RunPaused {
		f.paused = p.Until
	} else {
		at, class = f.attemptAt(e), e.Class
	}
	if list := f.rec.calls[at]; len(list) > 0 {
		last := &list[len(list)-1]
		if e.Type == event.AgentPaused { // when it is decided who is asked next
			last.at = f.instead(last.at, e)
		}
		last.after, last.class = max(p.Until.Sub(last.at.At), 1), class
	}
}

// attemptAt names the attempt that is being made at the step of an event.
func (f *folder) attemptAt(e event.Event) attemptKey {
	at := f.key(e)
	for k := range f.open {
		if k.step() == at.step() {
			return k
		}
	}
	return at
}

// foreach takes the values of a foreach, where they are in the record itself.
func (f *folder) foreach(e event.Event) {
	var d struct {
		Vars struct{ Values json.RawMessage }
	}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil && len(d.Vars.Values) > 0 {
		k := f.key(e)
		f.rec.values[k] = append(f.rec.values[k], listed{string(d.Vars.Values), f.turn(e)})
	}
}

// ended takes the end of an attempt.
func (f *folder) ended(e event.Event) error {
	k := f.key(e)
	began, ok := f.open[k]
	if !ok {
		began = e.Time.Add(-time.Duration(e.DurationMS) * time.Millisecond)
	}
	delete(f.open, k)
	a := &recorded{from: began.Sub(f.start), took: e.Time.Sub(began), ended: f.turn(e)}
	f.rec.attempts[k] = a
	if e.Type == event.AttemptFinished {
		return nil
	}
	var d struct {
		Stdout  string           `json:"stdout"`
		Stderr  string           `json:"stderr"`
		Raw     value.Raw        `json:"raw"`
		Whole   action.Log       `json:"stdout_log"`
		WholeE  action.Log       `json:"stderr_log"`
		Failure *failure.Failure `json:"failure"`
	}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return fmt.Errorf("the record of attempt %d of %s: %w", e.Attempt, e.Step, err)
		}
	}
	d.Stdout, d.Stderr = d.Raw.Text("/stdout", d.Stdout), d.Raw.Text("/stderr", d.Stderr)
	for _, part := range []struct {
		log  action.Log
		text *string
	}{{d.Whole, &d.Stdout}, {d.WholeE, &d.Stderr}} {
		if part.log.File == "" {
			continue
		}
		if whole, err := part.log.Text(); err == nil { // what was removed is not known any more
			*part.text = whole
		}
	}
	if a.failure = d.Failure; a.failure == nil {
		a.failure = &failure.Failure{Exit: e.ExitCode}
	}
	a.failure.Class, a.failure.Message = e.Class, e.Message
	if a.failure.Stdout == "" && a.failure.Stderr == "" {
		a.failure.Stdout, a.failure.Stderr = d.Stdout, d.Stderr
	}
	return nil
}

// finished takes the end of a step, with what it printed, or of a call, with what
// it gave. The last attempt of a call, where it ended well, has no end of its own.
func (f *folder) finished(e event.Event) {
	var d struct {
		Output string                `json:"output"`
		Raw    value.Raw             `json:"raw"`
		Value  json.RawMessage       `json:"value"`
		File   string                `json:"value_file"`
		Vars   value.Object          `json:"vars"`
		Kept   map[string]action.Log `json:"kept"`
	}
	at := f.key(e)
	at.n = 0
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil {
		d.Raw.Put("/vars", map[string]any(d.Vars))
		out := output{text: d.Raw.Text("/output", d.Output)}
		if last, is := d.Vars["last"].(map[string]any); is {
			if whole, is := last["output"].(string); is && len(whole) > len(out.text) {
				out.text = whole
			}
		}
		if log, is := d.Kept["/last/output"]; is {
			if whole, err := log.Text(); err == nil { // what was removed is not known any more
				out.text = whole
			}
		}
		out.clipped = mask.LeavesOut(out.text)
		if d.File != "" {
			d.Value, _ = os.ReadFile(d.File) // what was removed is not known any more
		}
		if len(d.Value) > 0 {
			out.text = string(d.Value)
		}
		for _, name := range slices.Sorted(maps.Keys(d.Vars)) {
			if text, is := d.Vars[name].(string); is {
				out.set = append(out.set, [2]string{name, text})
			}
		}
		f.rec.outputs[at] = out
	}
	if e.Status == event.Degraded || e.Status == event.Failed { // the fallback of a step that succeeded was not made
		f.rec.fellBack[at] = e.Status == event.Degraded
	}
	for k, began := range f.open { // the last of it
		if k.n > 0 && k.index == at.index && k.round == at.round && k.path == at.path {
			if e.Status != event.Succeeded {
				f.cut(k, began, e.Time)
				continue
			}
			delete(f.open, k)
			f.rec.attempts[k] = &recorded{from: began.Sub(f.start), took: e.Time.Sub(began), ended: f.turn(e)}
		}
	}
}
