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
	// Begins: the life begins with this entry; its coordinator is the owner.
	Begins    string     `json:"begins,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
}

// Decision is one thing that a coordinator has decided or accepted.
type Decision struct {
	Time time.Time `json:"time"`
	// Open is a log that is written while nothing else happens: what stands in it
	// may be shown before it is accepted.
	Open string `json:"open,omitempty"`
	// Accepted is the part of a log that counts, and Events what follows it.
	Accepted *Prefix       `json:"accepted,omitempty"`
	Events   []event.Event `json:"events,omitempty"`
	// Repaired is the part of a log that counts instead of what was accepted of it, as
	// what is behind it is damaged.
	Repaired *Prefix `json:"repaired,omitempty"`
}

// Order is what a coordinator adds to the order of its run: what it has decided and
// not recorded yet. Shared.Begin gives that of a life that begins.
type Order struct {
	Life    int        `json:"life"`
	Seq     int        `json:"seq"`            // of the last entry that is recorded
	Sent    *Entry     `json:"sent,omitempty"` // the next entry, which may be in the store already
	Pending []Decision `json:"pending,omitempty"`
}

// Accept tells of a log that counts from now on.
func (o *Order) Accept(p Prefix, now time.Time) { o.add(Decision{Time: now, Accepted: &p}) }

// Opened tells of a log whose events may be shown as they come.
func (o *Order) Opened(log string, now time.Time) { o.add(Decision{Time: now, Open: log}) }

// Tell adds facts of the coordinator.
func (o *Order) Tell(now time.Time, facts ...event.Event) {
	if len(facts) > 0 {
		o.add(Decision{Time: now, Events: facts})
	}
}

// Requeue tells of dead letters that are run again.
func (o *Order) Requeue(list []Letter, now time.Time) {
	for _, l := range list {
		e := mapper.RequeuedFact(mapper.Again{Index: l.Index, ID: l.ID})
		e.Time = now
		o.Tell(now, e)
	}
}

func (o *Order) add(d Decision) { o.Pending = append(o.Pending, d) }

// Next gives the entry that is to be recorded; ok is false where there is none. It is
// the same one, whatever is decided meanwhile, until Recorded says that it is in the
// store.
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

// Recorded tells that the entry that Next gave is in the store.
func (o *Order) Recorded() { o.Seq, o.Sent = o.Sent.Seq, nil }
