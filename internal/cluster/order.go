package cluster

import (
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
)

// Order is what a coordinator has decided and accepted, and has not recorded yet.
// Its zero value is that of a run that begins.
type Order struct {
	Seq     int     `json:"seq"` // of the last entry
	Pending []Entry `json:"pending,omitempty"`
}

// Accept tells of a log that counts from now on.
func (o *Order) Accept(p Prefix, now time.Time) { o.add(Entry{Time: now, Accepted: &p}) }

// Opened tells of a log whose events may be shown as they come.
func (o *Order) Opened(log string, now time.Time) { o.add(Entry{Time: now, Open: log}) }

// Tell adds facts of the coordinator.
func (o *Order) Tell(now time.Time, facts ...event.Event) {
	if len(facts) > 0 {
		o.add(Entry{Time: now, Events: facts})
	}
}

// Requeue tells of dead letters that are run again.
func (o *Order) Requeue(list []journal.DeadLetter, now time.Time) {
	for _, l := range list {
		e := mapper.RequeuedFact(mapper.Again{Index: l.Index, ID: l.ID, Attempts: l.Attempts, Class: l.Class})
		e.Time = now
		o.Tell(now, e)
	}
}

func (o *Order) add(e Entry) {
	o.Seq++
	e.Seq = o.Seq
	o.Pending = append(o.Pending, e)
}

// Entries are what is to be recorded, until Recorded says that it is.
func (o *Order) Entries() []Entry { return slices.Clone(o.Pending) }

// Recorded tells that the entries up to a number are in the store.
func (o *Order) Recorded(seq int) {
	o.Pending = slices.DeleteFunc(slices.Clone(o.Pending), func(e Entry) bool { return e.Seq <= seq })
}
