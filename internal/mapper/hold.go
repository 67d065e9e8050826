package mapper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// Held is the data of hold_started, hold_probe and hold_ended.
type Held = policy.HoldState

// holds are the facts of what an end did to the hold of the map, in order, with those of
// the items that are given back.
func (x *Map) holds(changes []policy.HoldChange, now time.Time) (facts []event.Event) {
	for _, c := range changes {
		facts = append(facts, x.hold(c, now))
		for _, g := range c.Given {
			facts = append(facts, x.givenBack(g, now))
		}
		if c.Kind == policy.HoldStarted && x.OnHold != nil {
			x.due = append(x.due, &handling{hold: &c.State})
		}
		if c.Kind == policy.HoldEnded && c.State.Canary {
			e, _ := x.machine.Canaries()
			facts = append(facts, x.canaries(&e, now)...)
		}
	}
	return facts
}

// hold is the fact of one change, which says in a sentence what holds the map.
func (x *Map) hold(c policy.HoldChange, now time.Time) event.Event {
	s := c.State
	e := event.Event{Time: now, Phase: phase, Class: s.Signature.Class, Total: s.Items, Data: step.Data(s)}
	if s.Queue {
		e.Label = event.MergeQueue
	}
	switch next := max(s.Next.Sub(now), 0); c.Kind {
	case policy.HoldStarted:
		e.Type, e.DelayMS = event.HoldStarted, next.Milliseconds()
		e.Message = s.String()
	case policy.HoldProbed:
		e.Type, e.DelayMS = event.HoldProbe, next.Milliseconds()
		e.Message = s.String()
		if s.Good > 0 {
			e.Message += fmt.Sprintf("; %d of %d probes succeeded", s.Good, s.Close)
		}
	case policy.HoldEnded:
		e.Type, e.DurationMS = event.HoldEnded, now.Sub(s.Since).Milliseconds()
		e.Message = fmt.Sprintf("the hold ended after %s: %s", span(now.Sub(s.Since)), holdEnds[c.Why])
		if s.Queue {
			e.Message = fmt.Sprintf("the merge queue is no longer held, after %s: %s", span(now.Sub(s.Since)), queueHoldEnds[c.Why])
		}
	default:
		e.Type, e.DurationMS = event.HoldEnded, now.Sub(s.Since).Milliseconds()
		if s.Queue {
			e.Message = fmt.Sprintf("what is merged so far fails the verify: %s: the run stops", s.Message)
			break
		}
		why := stoppedFor(c, now)
		value.Put(&x.whys, policy.BySameError, why)
		e.Message = why + ": the map stops"
	}
	return e
}

// stoppedFor says what failed, by which the map stops, and what in the file has it stop.
func stoppedFor(c policy.HoldChange, now time.Time) string {
	s, by := c.State, "action: stop"
	if c.Why == "max_hold" {
		by = "max_hold: it was held for " + span(now.Sub(s.Since))
	}
	if s.Canary {
		return fmt.Sprintf("%d of the first items failed, the last with %q (same_error, %s)", s.Items, s.Message, by)
	}
	return fmt.Sprintf("the same thing keeps failing: %d items failed with %q (same_error, %s)", s.Items, s.Message, by)
}

// canaries is the fact that the first items are judged.
func (x *Map) canaries(c *policy.CanaryEnd, now time.Time) []event.Event {
	if c == nil {
		return nil
	}
	e := event.Event{Type: event.CanaryFinished, Time: now, Phase: phase, Total: c.Need, Status: event.Succeeded, Data: step.Data(c)}
	n := x.machine.Counts()
	switch {
	case !c.Passed:
		e.Status = event.Failed
		e.Message = fmt.Sprintf("%d of the first items failed, and %d of %d must succeed before others start", c.Failed, c.Need, c.Items)
	case c.Succeeded < c.Need:
		e.Message = fmt.Sprintf("the other %d items start", n.Pending)
	default:
		e.Message = fmt.Sprintf("%d of the first items succeeded: the other %d start", c.Succeeded, n.Pending)
	}
	return []event.Event{e}
}

// holdEnds are the reasons for which a hold ends, in words.
var holdEnds = map[string]string{
	"probes": "the probes succeeded", "another": "a probe failed otherwise", "continue": "somebody asked for it", "over": "no item is left",
}

var queueHoldEnds = map[string]string{"probes": "what is merged so far passes the verify", "continue": "somebody asked for it"}

func span(d time.Duration) string {
	if d >= time.Second {
		return duration.Format(d.Round(time.Second))
	}
	return duration.Format(d.Round(time.Millisecond))
}

// givenBack is the fact of an item whose failed attempts do not count any more.
func (x *Map) givenBack(g policy.Given, now time.Time) event.Event {
	x.before[g.Item] += g.Taken
	e := event.Event{Type: event.ItemReturned, Time: now, Phase: phase, Index: g.Item, Attempts: x.before[g.Item] + g.Retry.Attempt, Retry: &g.Retry,
		Message: "what failed before the hold does not count"}
	// Only its name is wanted, and seldom: where it cannot be read, its number says as much.
	if list, err := x.Items(context.Background(), g.Item, 1); err == nil && len(list) == 1 {
		e.Item, e.Label = list[0].ID, x.Template.Label(list[0])
	}
	switch {
	case g.Was != 0:
		if e.Type = event.ItemRequeued; g.Was == policy.ItemSkipped {
			e.Status = event.Skipped // it was no dead letter
		}
	case g.Running:
		e.Status = event.Running
	}
	delete(x.used, g.Item) // of one that runs there is none
	return e
}

// returned completes the fact of an item whose failed attempt does not count, because
// the map is held for what it failed of.
func (x *Map) returned(fact *event.Event, e *ending, v *policy.Verdict) {
	x.letter(fact, e, v)
	x.before[e.a.Item.Index] = e.a.Number - v.Retry.Attempt
	x.last[e.a.Item.Index] = known(&e.Failure)
	state := v.Retry
	fact.Type, fact.Attempt, fact.Retry = event.ItemReturned, e.a.Number, &state
}

// Probe has the next probe of each hold start now. held is false where there is none.
func (x *Map) Probe() (held bool) { return x.changeHolds(x.machine.Probe) }

// EndHold ends the holds. held is false where there is none.
func (x *Map) EndHold() (held bool) {
	return x.changeHolds(func(time.Time) []policy.HoldChange { return x.machine.EndHold() })
}

// QueueRed tells that what the merge queue has merged so far fails its verify, and why. It
// is false where the queue is to stop for that.
func (x *Map) QueueRed(f *failure.Failure, path string) (lasts bool) {
	x.changeHolds(func(now time.Time) []policy.HoldChange {
		c := x.machine.QueueRed(failure.Sign(f.Class, path, f.Message), f.Message, now)
		lasts = c.Kind != policy.HoldStopped
		return []policy.HoldChange{c}
	})
	return lasts
}

// QueueGreen tells that what is merged so far passes its verify.
func (x *Map) QueueGreen() {
	x.changeHolds(func(time.Time) (list []policy.HoldChange) {
		if c, ok := x.machine.QueueGreen(); ok {
			list = append(list, c)
		}
		return list
	})
}

// QueueHeld gives when what is merged so far is verified again. held is false where the
// merge queue is not held.
func (x *Map) QueueHeld() (until time.Time, held bool) {
	x.changeHolds(func(time.Time) []policy.HoldChange {
		var s policy.HoldState
		s, held = x.machine.QueueHeld()
		until = s.Next
		return nil
	})
	return until, held
}

// changeHolds changes the holds in turn, and is false where the map is over or nothing has
// changed.
func (x *Map) changeHolds(change func(time.Time) []policy.HoldChange) (changed bool) {
	ready := make(chan bool, 1)
	x.tell(func() {
		now := x.Clock.Now()
		list := change(now)
		x.record(x.holds(list, now)...)
		ready <- len(list) > 0
	})
	select {
	case changed = <-ready:
	case <-x.done:
	}
	if changed && x.HoldChanged != nil {
		x.HoldChanged()
	}
	return changed
}

// restoreEnds tells the machine how the last attempts ended before the run went down. For
// a run that had stopped and continues, they are past.
func (x *Map) restoreEnds(ctx context.Context, rec *Recorded) error {
	if x.Policy.SameError == nil || rec.GoOn || len(rec.Hold) > 0 || rec.Results == nil {
		return nil
	}
	type ended struct {
		policy.Ended
		seq int64
	}
	var ends []ended
	sign := func(class, message string, data json.RawMessage) failure.Signature {
		return failure.Sign(class, journal.FailedStep(data), message)
	}
	for r, err := range rec.Results {
		if err != nil {
			return err
		}
		e := ended{policy.Ended{Item: r.Index}, r.Seq}
		switch journal.StatusOf(r.Status) {
		case journal.ItemSucceeded:
		case journal.ItemDeadLettered:
			e.Fate, e.Attempts, e.Signature = policy.ItemDeadLettered, r.Attempts-x.before[r.Index], sign(r.Class, r.Message, r.Data)
		case journal.ItemSkipped:
			if r.Class == "" { // of an earlier version, which did not say why
				continue
			}
			e.Fate, e.Attempts, e.Signature = policy.ItemSkipped, r.Attempts-x.before[r.Index], sign(r.Class, r.Message, r.Data)
		case journal.ItemFailed:
			e.Fate, e.Attempts, e.Signature = policy.ItemFailed, r.Attempts-x.before[r.Index], sign(r.Class, r.Message, r.Data)
		default:
			continue
		}
		ends = append(ends, e)
	}
	for index, it := range rec.Items {
		if it.Failed == 0 || it.Status.Done() || it.Retry.Failures == 0 {
			continue
		}
		e, err := rec.Event(ctx, it.Failed)
		if err != nil {
			return err
		}
		ends = append(ends, ended{policy.Ended{Item: index, Fate: policy.ItemRetry, Attempts: it.Retry.Failures, Signature: sign(e.Class, e.Message, e.Data)}, it.Failed})
	}
	slices.SortFunc(ends, func(a, b ended) int { return cmp.Compare(a.seq, b.seq) })
	list := make([]policy.Ended, len(ends))
	for i, e := range ends {
		list[i] = e.Ended
	}
	x.machine.RestoreEnds(list)
	return nil
}

// restoreOnHold has on_hold run again for the holds that last. It reads them as they began,
// as it did before the run went down; what it had ended by then does not run again.
func (x *Map) restoreOnHold(began ...json.RawMessage) error {
	for _, data := range began {
		if len(data) == 0 || x.OnHold == nil {
			continue
		}
		h := &Held{}
		if err := json.Unmarshal(data, h); err != nil {
			return fmt.Errorf("the recorded beginning of a hold: %w", err)
		}
		x.due = append(x.due, &handling{hold: h})
	}
	return nil
}

// restoreHolds puts the holds where they stood.
func (x *Map) restoreHolds(ofMap, ofQueue json.RawMessage) error {
	if len(ofQueue) > 0 {
		var s Held
		if err := json.Unmarshal(ofQueue, &s); err != nil {
			return fmt.Errorf("the recorded hold of the merge queue: %w", err)
		}
		x.machine.RestoreQueueHold(s, x.Clock.Now())
	}
	if len(ofMap) == 0 {
		return nil
	}
	var s struct {
		Held
		Old []int `json:"order"` // of journals before `first`: its items, counted from 0
	}
	if err := json.Unmarshal(ofMap, &s); err != nil {
		return fmt.Errorf("the recorded hold of the map: %w", err)
	}
	for _, n := range s.Old {
		s.First = append(s.First, n+1)
	}
	return x.machine.RestoreHold(s.Held, x.Clock.Now())
}
