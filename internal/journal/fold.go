package journal

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
)

// Apply takes an event into the state. Events come in the order of their
// numbers. An event that says nothing of how the run continues, or is of a type
// not known here, changes nothing. The error is of an item that cannot be.
func (s *State) Apply(e event.Event) error {
	s.Seq = max(s.Seq, e.Seq)
	switch e.Type {
	case event.RunStarted, event.RunResumed, event.RunPaused, event.PauseEnded, event.RunControlled, event.Note, event.RunFinished:
		s.applyRun(e)
	case event.PhaseStarted, event.PhaseFinished:
		s.applyPhase(e)
	case event.StepStarted, event.AttemptStarted, event.AttemptFailed, event.RetryScheduled, event.StepFinished, event.ForeachStarted:
		if e.Index == 0 {
			s.applyStep(e)
		} else if e.Type == event.StepFinished && !event.Aside(e.Step) {
			s.itemStepEnded(e.Status, string(e.Data))
		}
	case event.RoundStarted, event.RoundFinished:
		if e.Index == 0 {
			s.applyRound(e)
		}
	case event.StepRequeued:
		delete(s.Steps, e.Step)
		s.LostWork = slices.DeleteFunc(s.LostWork, func(path string) bool { return path == e.Step })
		s.Status, s.Finished, s.Class, s.Message = event.Interrupted, time.Time{}, "", ""
	case event.ItemStarted, event.ItemRetry, event.ItemMerging, event.ItemHandlerDue, event.ItemFinished, event.ItemRequeued, event.ItemRemoved, event.ItemReturned:
		return s.applyItem(e)
	case event.HoldStarted, event.HoldProbe, event.HoldEnded:
		s.applyHold(e)
	case event.CanaryFinished:
		s.CanaryPassed = e.Status == event.Succeeded
	case event.AgentPaused:
		var p event.Pause
		if json.Unmarshal(e.Data, &p) == nil {
			p.Noted = e.Time
			value.Put(&s.AgentPauses, e.Label, p)
			if p.Chain != nil {
				value.Put(&s.Chains, p.Chain.Name, *p.Chain)
			}
		}
	case event.WidthChanged:
		switch {
		case e.Step == "":
			s.Width = e.Data
		case e.Index == 0:
			s.applyStep(e)
		}
	case event.ItemsCompared:
		s.Compared = true
	case event.BreakerChanged:
		value.Put(&s.Breakers, e.Label, BreakerRecord{State: e.To, Since: e.Time, Data: e.Data})
	case event.AgentUsage:
		s.applyUsage(e)
	case event.ItemUsed:
		if t := &s.Items; e.Index > 0 && e.Index <= len(t.status) && !t.status[e.Index-1].Done() {
			t.update(e.Index, func(x *special) { x.used.Time = millis(e.DurationMS) })
		}
	}
	return nil
}

func (s *State) applyRun(e event.Event) {
	switch e.Type {
	case event.RunStarted:
		s.Status = event.Running
		if s.Started.IsZero() {
			s.Started, s.Origin = e.Time, e.Data
		}
	case event.RunResumed:
		s.settle(true)
		s.Resumes++
		s.Status, s.Finished, s.Class, s.Message, s.kinds = event.Running, time.Time{}, "", "", event.KindCounts{}
		s.Left = Left{}
		var told struct {
			FileChanged bool `json:"file_changed"`
		}
		_ = json.Unmarshal(e.Data, &told) // what it does not tell is not so
		s.FileChanged = told.FileChanged
	case event.RunPaused:
		s.Pauses++
		s.Pause = event.Pause{Until: e.Time.Add(millis(e.DelayMS)), Since: e.Time, Streak: 1}
		if len(e.Data) > 0 {
			var p event.Pause
			if err := json.Unmarshal(e.Data, &p); err == nil && !p.Until.IsZero() {
				s.Pause = p
			}
		}
		s.Pause.Noted = e.Time
	case event.PauseEnded:
		s.Pause = event.Pause{}
	case event.Note:
		s.applyNote(e)
	case event.RunControlled:
		s.applyControl(e)
	case event.RunFinished:
		s.settle(false)
		if e.Status != event.Interrupted { // the next life is another matter
			s.Held, s.Parallel = time.Time{}, 0
		}
		s.Status, s.Finished, s.Class, s.Message, s.Ran = e.Status, e.Time, e.Class, e.Message, millis(e.DurationMS)
		var told struct {
			Items      event.KindCounts
			OnceMerged string `json:"once_merged"`
		}
		_ = json.Unmarshal(e.Data, &told) // what it does not tell is not known
		s.kinds, s.Left.Once = told.Items, told.OnceMerged
	}
}

func (s *State) applyNote(e event.Event) {
	switch e.Class {
	case event.Merged:
		if s.Left.OnlyMerge() {
			s.Status, s.Class, s.Message = event.StatusMerged(s.Left.Once, e), "", ""
		}
		s.Left = Left{}
	case event.Unmerged:
		what, _, _ := strings.Cut(e.Message, "; merge it with: ")
		work := s.Left.Work // a merge that was tried in vain does not tell it again
		if len(e.Data) > 0 {
			work = event.LeftWork{}
			_ = json.Unmarshal(e.Data, &work) // what it does not tell is not known
		}
		s.Left = Left{what, e.Label, s.Left.Once, work}
	}
	var lost event.LostSteps
	if e.Class != event.LostWork || json.Unmarshal(e.Data, &lost) != nil {
		return
	}
	for _, path := range lost.Steps {
		if !slices.Contains(s.LostWork, path) {
			s.LostWork = append(s.LostWork, path)
		}
	}
}

func (s *State) applyControl(e event.Event) {
	switch e.Label {
	case Pause:
		if s.Held.IsZero() {
			s.Held = e.Time
		}
	case Continue:
		s.Held = time.Time{}
	case Parallel:
		s.Parallel = e.Total
	case RetryNow:
		s.retryNow(e.Time)
	}
}

// retryNow ends at a time the pauses for rate limits, those of agents of chains too, and
// all waits for a next attempt.
func (s *State) retryNow(at time.Time) {
	s.Pause, s.AgentPauses, s.Chains = event.Pause{}, nil, nil
	for path, step := range s.Steps {
		if step.Retry.NotBefore.After(at) {
			step.Retry.NotBefore = at
			s.Steps[path] = step
		}
	}
	for i, x := range s.Items.special {
		if x.retry.NotBefore.After(at) {
			x.retry.NotBefore = at
			s.Items.special[i] = x
		}
	}
}

// Waits says whether at a time a step or an item waits for its next attempt, or a pause
// holds back an agent.
func (s *State) Waits(now time.Time) bool {
	for _, step := range s.Steps {
		if step.Retry.NotBefore.After(now) {
			return true
		}
	}
	for i, x := range s.Items.special {
		if s.Items.status[i-1] == ItemWaiting && x.retry.NotBefore.After(now) {
			return true
		}
	}
	return s.Limited(now)
}

// Limited says whether at a time a pause holds back all agents, or one of a chain.
func (s *State) Limited(now time.Time) bool {
	for _, p := range s.AgentPauses {
		if p.Until.After(now) {
			return true
		}
	}
	return s.Pause.Until.After(now)
}

// settle ends what is in flight: its process no longer exists. died says that the
// process did not end by itself, which counts as a recovery of what it had in
// flight.
func (s *State) settle(died bool) {
	add := 0
	if died {
		add = 1
	}
	for path, step := range s.Steps {
		if step.Status == event.Running {
			step.Status = event.Interrupted
			step.Recoveries += add
			s.Steps[path] = step
		}
	}
	t := &s.Items
	for i, x := range t.special {
		if x.since > 0 && !x.left {
			x.left = true
			t.special[i] = x
		}
	}
	if t.counts[ItemRunning] == 0 {
		return
	}
	for i, status := range t.status {
		if status != ItemRunning {
			continue
		}
		t.set(i+1, ItemPending)
		if died {
			t.update(i+1, func(x *special) { x.recoveries++ })
		}
	}
}

func (s *State) applyPhase(e event.Event) {
	p := s.Phases[e.Phase]
	if e.Type == event.PhaseStarted {
		s.Phase = e.Phase
		p = PhaseRecord{Status: event.Running, Started: e.Time}
	} else {
		if s.Phase == e.Phase {
			s.Phase = ""
		}
		p.Status, p.Finished = e.Status, e.Time
	}
	value.Put(&s.Phases, e.Phase, p)
}

func (s *State) applyStep(e event.Event) {
	step := s.Steps[e.Step]
	step.Last = e.Seq
	switch e.Type {
	case event.StepStarted:
		// A step that was not over continues with the waits that it had; any
		// other begins again.
		if step.Status != event.Running && step.Status != event.Interrupted {
			step = step.again(e.Seq)
		}
		if step.From == nil && bytes.Contains(e.Data, []byte(`"from":`)) {
			var d struct{ From json.RawMessage }
			if json.Unmarshal(e.Data, &d) == nil {
				step.From = d.From
			}
		}
		step.Status = event.Running
		step.Phase = cmp.Or(e.Phase, s.Phase)
	case event.AttemptStarted:
		step.GivenUp = ""
		if e.Attempt > step.Attempts { // and not the same one again, after an interrupt
			if step.Attempts > 0 || step.BeganAt == 0 {
				step.BeganAt, step.List, step.Rounds, step.Width = e.Seq, nil, nil, nil // it begins with the first of what is inside
			}
			step.Attempts, step.Began = e.Attempt, e.Time
		}
	case event.AttemptFailed:
		step.Attempts = max(step.Attempts, e.Attempt)
		step.Class, step.Message, step.Failed, step.FailedAt, step.GivenUp = e.Class, e.Message, e.Data, e.Time, e.Status
		step.Retry.failed(e.Time)
	case event.RetryScheduled:
		step.Retry.wait(e)
	case event.ForeachStarted:
		step.List, step.Rounds, step.Width = e.Data, nil, nil
		if step.List == nil {
			step.List = json.RawMessage("{}")
		}
	case event.WidthChanged:
		step.Width = e.Data
	case event.StepFinished:
		step.Status = e.Status
		if step.Phase == "" { // it was skipped, and has no start
			step.Phase = cmp.Or(e.Phase, s.Phase)
		}
		step.Attempts = max(step.Attempts, e.Attempts)
		step.Data, step.Finished = e.Data, e.Time
		if e.Status != event.Interrupted || step.Failed == nil { // else it continues with how it has failed
			step.Class, step.Message = e.Class, e.Message
		}
		if e.Status != event.Interrupted {
			step.Retry, step.Recoveries, step.Failed, step.FailedAt, step.Began = Retry{}, 0, nil, time.Time{}, time.Time{}
			step.GivenUp, step.Handler = "", HandlerRound{}
			if e.Status != event.Failed { // else a later life continues with its rounds
				step.List, step.Rounds, step.Width = nil, nil, nil
			}
		}
	}
	value.Put(&s.Steps, e.Step, step)
}

// again is a step that is over and begins again. What is inside of it and has ended stays
// so: only what has failed of it is tried again.
func (s StepRecord) again(seq int64) StepRecord {
	if s.Status != event.Failed {
		return StepRecord{First: seq, Last: seq}
	}
	return StepRecord{First: seq, Last: seq, BeganAt: s.BeganAt, List: s.List, Rounds: s.Rounds, Width: s.Width}
}

func (s *State) applyIteration(e event.Event) {
	it := s.Iterations[e.Step]
	var d struct {
		State   string
		Changed bool
	}
	_ = json.Unmarshal(e.Data, &d) // what it does not tell is not known
	if e.Type == event.RoundStarted {
		it.Before = d.State
	} else {
		it.Over, it.Changed = true, d.Changed
	}
	value.Put(&s.Iterations, e.Step, it)
}

// applyRound takes a fact of a round of a foreach or a handler.
func (s *State) applyRound(e event.Event) {
	loop, mark, n, ok := event.RoundOf(e.Step)
	if !ok {
		return
	}
	if strings.HasPrefix(e.Step, "@") {
		s.applyIteration(e)
		return
	}
	step := s.Steps[loop]
	step.Last = e.Seq
	switch {
	case mark == '@' && e.Type == event.RoundStarted:
		value.Put(&step.Rounds, n, Round{Status: event.Running})
	case mark == '@':
		value.Put(&step.Rounds, n, Round{Status: e.Status, Data: e.Data, Class: e.Class, Error: e.Message})
	case e.Type == event.RoundStarted:
		if step.Handler.Number != n { // and not the same one again
			step.Handler = HandlerRound{Number: n, Since: e.Seq, Made: e.Attempts, Class: step.Class, Message: step.Message, Failed: step.Failed, FailedAt: step.FailedAt, GivenUp: step.GivenUp}
		}
		step.Handler.Status, step.Retry, step.GivenUp = event.Running, Retry{}, ""
	default:
		step.Handler.Status, step.Handler.ErrClass, step.Handler.Err = e.Status, e.Class, e.Message
	}
	value.Put(&s.Steps, loop, step)
}

func (r *Retry) failed(at time.Time) {
	r.Failures++
	if r.FirstFailure.IsZero() {
		r.FirstFailure = at
	}
}

// wait takes a wait that was scheduled: as it is recorded, or, of an event
// without the state, as its delay says.
func (r *Retry) wait(e event.Event) {
	if s := e.Retry; s != nil {
		r.Slept, r.Prev, r.Began, r.FirstFailure, r.NotBefore, r.Rules = s.Slept, s.Prev, s.Began, s.FirstFailure, s.Due, s.Rules
		return
	}
	r.Prev = millis(e.DelayMS)
	r.Slept += r.Prev
	r.NotBefore = e.Time.Add(r.Prev)
}

// applyHold takes a fact of the hold of the map, or of that of the merge queue.
func (s *State) applyHold(e event.Event) {
	last, began := &s.Hold, &s.HoldBegan
	if e.Label == event.MergeQueue {
		last, began = &s.QueueHold, &s.QueueHoldBegan
	}
	switch e.Type {
	case event.HoldStarted:
		*last, *began = e.Data, e.Data
	case event.HoldProbe:
		*last = e.Data
	default:
		*last, *began = nil, nil
	}
}

func (s *State) applyItem(e event.Event) error {
	t := &s.Items
	if err := t.grow(e.Index); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	if x, ok := t.special[e.Index]; ok && x.merging != "" {
		x.merging = ""
		t.special[e.Index] = x
	}
	switch e.Type {
	case event.ItemMerging:
		waits := e.Status == event.Pending // in the merge queue: no process has it in flight
		if waits {
			t.set(e.Index, ItemWaiting)
		}
		t.update(e.Index, func(x *special) {
			if x.merging = string(e.Data); waits {
				x.since, x.left = 0, false
			}
		})
	case event.ItemStarted:
		t.set(e.Index, ItemRunning)
		t.attempt(e.Index, e.Attempt)
		t.update(e.Index, func(x *special) {
			if !x.left { // a process that gave it back and starts it again begins again
				x.since = e.Seq
			}
			x.left = false
			if x.retry.Began.IsZero() {
				x.retry.Began = e.Time
			}
		})
	case event.ItemRetry:
		t.set(e.Index, ItemWaiting)
		t.attempt(e.Index, e.Attempt)
		t.update(e.Index, func(x *special) {
			x.since, x.left = 0, false
			x.retry.failed(e.Time)
			x.retry.wait(e)
			x.failed = e.Seq
			if e.Retry != nil {
				x.retry.Failures = e.Retry.Attempt
			}
		})
	case event.ItemHandlerDue:
		t.set(e.Index, ItemHandling)
		t.attempt(e.Index, e.Attempts)
		t.update(e.Index, func(x *special) { *x = special{handler: e.Seq, before: x.before, since: e.Seq} })
	case event.ItemFinished:
		t.set(e.Index, finished(e.Status))
		t.attempt(e.Index, e.Attempts)
		t.causes.Apply(e)
		if delete(t.kinds, e.Index); bytes.Contains(e.Data, []byte(ofKind)) && e.Status != event.Unchanged && finished(e.Status).Done() {
			value.Put(&t.kinds, e.Index, e.Seq)
		}
		if e.Class == event.BeginsAnew && e.Status == event.Interrupted {
			t.update(e.Index, func(x *special) { x.since, x.left = 0, false })
		}
	case event.ItemRequeued:
		t.set(e.Index, ItemPending)
		t.causes.Apply(e)
		delete(t.kinds, e.Index)
		delete(t.special, e.Index)
		if n := int(t.attempts[e.Index-1]); n > 0 {
			t.update(e.Index, func(x *special) { x.before = n })
		}
		if len(e.Data) > 0 {
			var d struct{ Item json.RawMessage }
			if json.Unmarshal(e.Data, &d) == nil && len(d.Item) > 0 {
				value.Put(&t.edited, e.Index, d.Item)
			}
		}
		t.giveBack(e)
		s.outdate()
	case event.ItemReturned:
		if e.Status != event.Running {
			t.set(e.Index, ItemPending)
			if x, ok := t.special[e.Index]; ok {
				x.used = event.Used{}
				t.special[e.Index] = x
			}
		}
		t.attempt(e.Index, e.Attempt)
		t.giveBack(e)
	case event.ItemRemoved:
		if t.status[e.Index-1] == ItemDeadLettered {
			t.set(e.Index, ItemFailed)
		}
	}
	return nil
}

// ofKind is in the data of an item_finished that has a kind: no text in JSON has these bytes.
const ofKind = `"kind":`

// finished is the status of an item that an item_finished of a status leaves.
func finished(status string) ItemStatus {
	switch status {
	case event.Succeeded, event.Degraded:
		return ItemSucceeded
	case event.Skipped:
		return ItemSkipped
	case event.Unchanged:
		return ItemUnchanged
	case event.DeadLettered:
		return ItemDeadLettered
	case event.Interrupted, event.Pending, event.Running:
		return ItemPending
	}
	return ItemFailed
}

// outdate forgets what was made of the items' results: an item runs again, so
// the map is not over, and reduce and merge are to be done again.
func (s *State) outdate() {
	if p, ok := s.Phases["map"]; ok {
		p.Status, p.Finished = event.Running, time.Time{}
		s.Phases["map"] = p
	}
	for _, phase := range []string{"reduce", "merge"} {
		if _, ok := s.Phases[phase]; !ok {
			continue
		}
		delete(s.Phases, phase)
		for path, step := range s.Steps {
			if step.Phase == phase {
				delete(s.Steps, path)
			}
		}
	}
}

func (s *State) applyUsage(e event.Event) {
	var members map[string]any
	if json.Unmarshal(e.Data, &members) != nil {
		return // no object: it has no numbers
	}
	for name, v := range members {
		if n, ok := v.(float64); ok {
			value.Put(&s.Usage, name, s.Usage[name]+n)
		}
	}
	if t := &s.Items; e.Index > 0 && e.Index <= len(t.status) && t.status[e.Index-1] == ItemRunning {
		t.update(e.Index, func(x *special) { x.used = x.used.Plus(members) })
	}
}

// millis is a number of milliseconds; what a Duration cannot hold is the
// longest one.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

// State folds the run's events. In a Journal, what was in flight when the
// process before this one ended is settled as after a run_resumed; in a Reader
// of its own it is still in flight.
func (r *Reader) State(ctx context.Context) (*State, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if s, err := r.takeLeft(ctx); s != nil || err != nil {
		return s, err
	}
	return r.fold(ctx, nil)
}

// folded is a state, and where the events ended of which it is.
type folded struct {
	of    end
	state *State
}

// takeLeft gives the state that is left, once, if the events still have the same end; nil
// for none.
func (r *Reader) takeLeft(ctx context.Context) (*State, error) {
	l := r.left
	if r.left = nil; l == nil {
		return nil, nil
	}
	now, err := r.lastRow(ctx)
	if err != nil || now != l.of {
		return nil, err
	}
	if r.dead > 0 {
		l.state.settle(l.state.Status == event.Running)
	}
	return l.state, nil
}

// fold is State that gives each each event as well, in order, where there is one.
func (r *Reader) fold(ctx context.Context, each func(*Fact) error) (*State, error) {
	s := &State{}
	n, _, loaded, err := r.ItemList(ctx)
	if err != nil {
		return nil, err
	}
	if loaded {
		if n, err = r.countItems(ctx, n); err != nil {
			return nil, err
		}
		s.Items.limit = n
		if n > 0 {
			if err := s.Items.grow(n); err != nil {
				return nil, damaged(r.path, err.Error(), nil)
			}
		}
	}
	settled := r.dead == 0
	apply := func(e event.Event) error {
		if !settled && e.Seq > r.dead {
			s.settle(s.Status == event.Running)
			settled = true
		}
		if err := s.Apply(e); err != nil {
			return damaged(r.path, err.Error(), err)
		}
		return nil
	}
	aside := map[string]bool{} // by the path of a step, as it is written
	last, err := r.scan(ctx, 1, func(f *Fact) error {
		if f.rec.index > 0 && f.rec.kind.vocabulary() == string(event.StepFinished) {
			text := f.rec.step.text
			is, known := aside[text]
			if !known || text == "" {
				is = event.Aside(f.rec.step.meaning(f.known))
				aside[strings.Clone(text)] = is
			}
			if !is {
				s.itemStepEnded(f.rec.status.meaning(f.known), f.rec.data)
			}
		}
		switch e, matters, err := f.ofState(); {
		case err != nil:
			return err
		case matters:
			if err := apply(e); err != nil {
				return err
			}
		}
		if each == nil {
			return nil
		}
		return each(f)
	})
	if err != nil {
		return nil, err
	}
	if !settled {
		s.settle(s.Status == event.Running)
	}
	return s, r.examples(ctx, &s.Items.causes, last)
}

// itemStepEnded counts a step inside an item, whose end has this data.
func (s *State) itemStepEnded(status, data string) {
	if ofStepKind(data) {
		status = (&StepRecord{Status: status, Data: json.RawMessage(data)}).Kind()
	}
	s.ItemSteps.Add(status, 1)
}

// ofState gives what of an event matters to Apply, and whether anything does.
func (f *Fact) ofState() (e event.Event, matters bool, err error) {
	kind := event.Type(f.rec.kind.vocabulary())
	if kind == "" && f.rec.index > 0 {
		kind = f.Type()
	}
	switch {
	case kind == event.AgentUsage, kind == event.AgentPaused, kind == event.ItemUsed, kind == event.ItemReturned:
	case f.rec.index == 0:
		if kind == event.Note && f.rec.class == (token{}) || kind == event.AgentMessage || kind == event.ItemsReady {
			return e, false, nil
		}
	case kind == event.ItemMerging, kind == event.ItemRequeued && f.rec.data != "", kind == event.ItemFinished && (f.rec.class != token{} || strings.Contains(f.rec.data, ofKind)):
	case isItem(kind):
		e, err := f.rec.itemEvent(f.known, f.seq, kind)
		if err != nil {
			err = f.r.unreadable(f.seq, err)
		}
		return e, true, err
	default:
		return e, false, nil
	}
	e, err = f.Event()
	return e, true, err
}

// countItems is the length of the list as the table has it, which bounds what
// is asked of the memory.
func (r *Reader) countItems(ctx context.Context, want int) (int, error) {
	n := 0
	err := r.query(ctx, func(row []driver.Value) error {
		n = int(integer(row[0]))
		return nil
	}, "SELECT count(*) FROM items")
	if err == nil && n != want {
		err = damaged(r.path, fmt.Sprintf("%d of %d items are there", n, want), nil)
	}
	return n, err
}

// isItem says which words of the vocabulary are the types of what Apply takes
// of work items.
func isItem(kind event.Type) bool {
	switch kind {
	case event.ItemStarted, event.ItemRetry, event.ItemMerging, event.ItemHandlerDue, event.ItemFinished, event.ItemRequeued, event.ItemRemoved, event.ItemReturned:
		return true
	}
	return false
}

// itemEvent is what of an item's event matters to Apply: numbers only. An event
// has attempt or attempts.
func (rec *record) itemEvent(known map[int64]string, seq int64, kind event.Type) (event.Event, error) {
	n := int(max(rec.attempt, rec.attempts))
	state, err := rec.retryState()
	if rec.status.stranger(known) {
		err = errWord
	}
	return event.Event{
		Seq: seq, Type: kind, Time: instant(rec.time), Index: int(rec.index), Attempt: n, Attempts: n,
		Status: rec.status.meaning(known), DelayMS: rec.delay, Retry: state,
	}, err
}
