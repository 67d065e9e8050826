package cluster

import (
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/mapper"
)

// Entry is what a coordinator has decided and accepted since its last one.
type Entry struct {
	Seq  int `json:"seq"`  // from 1
	Life int `json:"life"` // of the run, from 1
	// Begins is the owner of the life, its coordinator, if the life begins with this entry;
	// "" otherwise.
	Begins    string     `json:"begins,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
}

// Decision is one thing that a coordinator has decided or accepted.
type Decision struct {
	Time time.Time `json:"time"`
	// Open is a log that is written while nothing else happens: its events may be shown
	// before they are accepted.
	Open string `json:"open,omitempty"`
	// Accepted is the part of a log that counts, and Events are the facts that follow it.
	Accepted *Prefix       `json:"accepted,omitempty"`
	Events   []event.Event `json:"events,omitempty"`
	// Repaired is the part of a log that counts instead of what was accepted, because the
	// rest is damaged.
	Repaired *Prefix `json:"repaired,omitempty"`
}

// Order is what a coordinator adds to the order of its run: what it has decided and not
// recorded yet. Shared.Begin gives the Order of a life that begins.
type Order struct {
	Life    int        `json:"life"`
	Seq     int        `json:"seq"`            // of the last entry that is recorded
	Sent    *Entry     `json:"sent,omitempty"` // the next entry, which may be in the store already
	Pending []Decision `json:"pending,omitempty"`
}

// Accept adds that a part of a log counts from now on.
func (o *Order) Accept(p Prefix, now time.Time) { o.add(Decision{Time: now, Accepted: &p}) }

// Opened adds that the events of a log may be shown as they come.
func (o *Order) Opened(log string, now time.Time) { o.add(Decision{Time: now, Open: log}) }

// Tell adds facts of the coordinator.
func (o *Order) Tell(now time.Time, facts ...event.Event) {
	if len(facts) > 0 {
		o.add(Decision{Time: now, Events: facts})
	}
}

// Requeue adds that dead letters are run again.
func (o *Order) Requeue(list []Letter, now time.Time) {
	for _, l := range list {
		e := mapper.RequeuedFact(mapper.Again{Index: l.Index, ID: l.ID})
		e.Time = now
		o.Tell(now, e)
	}
}

func (o *Order) add(d Decision) { o.Pending = append(o.Pending, d) }

// Next gives the entry that is to be recorded. ok is false if there is none. Until Recorded
// says that the entry is in the store, Next gives the same one, whatever is decided in the
// meantime.
func (o *Order) Next() (e Entry, ok bool) {
	if o.Sent == nil && len(o.Pending) > 0 {
		o.Sent = &Entry{Seq: o.Seq + 1, Life: o.Life, Decisions: slices.Clone(o.Pending)}
		o.Pending = nil
	}
	if o.Sent == nil {
		return e, false
	}
	return *o.Sent, true
}

// Recorded says that the entry that Next gave is in the store.
func (o *Order) Recorded() { o.Seq, o.Sent = o.Sent.Seq, nil }
