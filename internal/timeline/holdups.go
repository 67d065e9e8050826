package timeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
)

// Holdups are what holds up a run. All who tell of it say the same, in a sentence each.
type Holdups struct {
	Paused time.Time                   // since when it is paused by bide control; zero if it is not
	Pause  event.Pause                 // of all agents; zero for none
	Chains map[string]event.ChainPause // of all agents of a chain
	Map    Hold
	Queue  Hold
}

// Hold is what holds the map or its merge queue. The zero Hold is none.
type Hold struct {
	text        string // what fails, and how many items
	good        string // how many probes have succeeded
	since, next time.Time
	queue       bool
}

// HoldupsOf are those of the recorded state of a run.
func HoldupsOf(st *journal.State) Holdups {
	h := Holdups{Pause: st.Pause, Chains: st.Chains}
	h.resumed(event.Resumed{Paused: st.Held, Hold: st.Hold, QueueHold: st.QueueHold})
	return h
}

// HoldOf is a hold as it is recorded.
func HoldOf(s policy.HoldState) Hold {
	h := Hold{text: s.String(), since: s.Since, next: s.Next, queue: s.Queue}
	if s.Good > 0 {
		h.good = fmt.Sprintf("; %d of %d probes succeeded", s.Good, s.Close)
	}
	return h
}

// holdIn is the hold of which an event tells.
func holdIn(e event.Event) Hold {
	var s policy.HoldState
	if json.Unmarshal(e.Data, &s) != nil || s.Since.IsZero() {
		return Hold{text: e.Message, since: e.Time, next: e.Time.Add(millis(e.DelayMS)), queue: e.Label == event.MergeQueue}
	}
	return HoldOf(s)
}

// On reports whether it is one.
func (h Hold) On() bool { return h.text != "" }

// Apply takes in an event of the run.
func (h *Holdups) Apply(e event.Event) {
	switch e.Type {
	case event.RunResumed:
		var at event.Resumed
		if json.Unmarshal(e.Data, &at) == nil {
			h.resumed(at)
		}
	case event.RunFinished:
		if e.Status != event.Interrupted { // the next life is another matter
			h.Paused = time.Time{}
		}
	case event.RunPaused:
		h.Pause = event.Pause{Until: e.Time.Add(millis(e.DelayMS))}
		if p := (event.Pause{}); json.Unmarshal(e.Data, &p) == nil && !p.Until.IsZero() {
			h.Pause = p
		}
	case event.PauseEnded:
		h.Pause = event.Pause{}
	case event.AgentPaused:
		if p := (event.Pause{}); json.Unmarshal(e.Data, &p) == nil && p.Chain != nil {
			chains := maps.Clone(h.Chains) // who has it may read it meanwhile
			if chains == nil {
				chains = map[string]event.ChainPause{}
			}
			chains[p.Chain.Name] = *p.Chain
			h.Chains = chains
		}
	case event.HoldStarted, event.HoldProbe:
		*h.holdOf(e) = holdIn(e)
	case event.HoldEnded:
		*h.holdOf(e) = Hold{}
	case event.RunControlled:
		switch {
		case e.Label == journal.Pause && h.Paused.IsZero():
			h.Paused = e.Time
		case e.Label == journal.Continue:
			h.Paused = time.Time{}
		case e.Label == journal.RetryNow:
			h.Pause, h.Chains = event.Pause{}, nil
		}
	}
}

// resumed takes over what held up the run in the life before, which who watches this one may
// not have seen.
func (h *Holdups) resumed(at event.Resumed) {
	h.Paused = at.Paused
	for hold, recorded := range map[*Hold]json.RawMessage{&h.Map: at.Hold, &h.Queue: at.QueueHold} {
		var s policy.HoldState
		if recorded != nil && json.Unmarshal(recorded, &s) == nil {
			*hold = HoldOf(s)
		}
	}
}

func (h *Holdups) holdOf(e event.Event) *Hold {
	if e.Label == event.MergeQueue {
		return &h.Queue
	}
	return &h.Map
}

// Says says what holds up the run at a time: what it is, since or until when, when it is
// tried again, and what to do. running says whether a process has the run, and name what a
// command calls it.
func (h *Holdups) Says(name string, now time.Time, running bool) (list []string) {
	for _, s := range []string{h.PausedText(name), h.AgentsText(name, now), h.MapText(name, now, running), h.QueueText(name, now, running)} {
		if s != "" {
			list = append(list, s)
		}
	}
	return list
}

// PausedText says that somebody has paused the run; "" where nobody has.
func (h *Holdups) PausedText(name string) string {
	if h.Paused.IsZero() {
		return ""
	}
	return fmt.Sprintf("paused since %s: nothing new starts until bide control %s continue", h.Paused.Local().Format(time.DateTime), name)
}

// Agents is until when no agent is asked, or none of the chain that waits longest, and
// whether they are down and met no limit; the zero time where they are asked.
func (h *Holdups) Agents(now time.Time) (chain string, until time.Time, down bool) {
	if h.Pause.Until.After(now) {
		return "", h.Pause.Until, h.Pause.Down
	}
	for _, name := range slices.Sorted(maps.Keys(h.Chains)) {
		if c := h.Chains[name]; c.Until.After(now) && c.Until.After(until) {
			chain, until, down = name, c.Until, c.Down
		}
	}
	return chain, until, down
}

// AgentsText says until when no agent is asked, or none of a chain; "" where they are.
func (h *Holdups) AgentsText(name string, now time.Time) string {
	chain, until, down := h.Agents(now)
	if until.IsZero() {
		return ""
	}
	what, why := "agents", "are held back by a rate limit until"
	if chain != "" {
		what = "the agents of " + chain
	}
	if down {
		why = "are down, and not asked until"
	}
	return fmt.Sprintf("%s %s %s; bide control %s retry-now asks them now", what, why, until.Local().Format(time.DateTime), name)
}

// MapText says what holds the map; "" for nothing.
func (h *Holdups) MapText(name string, now time.Time, running bool) string {
	return h.Map.says(name, now, running && h.Paused.IsZero())
}

// QueueText says what holds the merge queue; "" for nothing.
func (h *Holdups) QueueText(name string, now time.Time, running bool) string {
	return h.Queue.says(name, now, running)
}

func (h Hold) says(name string, now time.Time, tried bool) string {
	if h.text == "" {
		return ""
	}
	s := h.text + ", since " + h.since.Local().Format(time.DateTime) + h.good
	if !tried {
		return s
	}
	again, trying, do := "one item is tried at ", "one item is being tried", "tries one now, continue ends the hold"
	if h.queue {
		again, trying, do = "it is verified again at ", "it is being verified again", "verifies it now, continue ends the hold"
	}
	if h.next.After(now) {
		s += "; " + again + h.next.Local().Format(time.TimeOnly)
	} else {
		s += "; " + trying
	}
	return s + "; bide control " + name + " probe " + do
}
