package virtual

import (
	"context"
	"sync"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
)

// Recorder keeps facts in memory. It is safe for concurrent use.
type Recorder struct {
	step.Details
	// Clock gives the time of facts without one.
	Clock step.Clock
	// Kept, if not nil, is told each fact, in order, under a lock. It keeps no pointer.
	Kept func(*event.Event)
	// Shown, if not nil, is told what is shown and not kept, with the time.
	Shown func(event.Event)
	// Forget keeps no facts: Kept sees them pass.
	Forget bool

	mu    sync.Mutex
	facts []event.Event
	last  event.Event
	seq   int64
}

// Record keeps facts as one record. It never fails.
func (r *Recorder) Record(facts ...event.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.last
	for i := range facts {
		*e = facts[i]
		if e.Time.IsZero() {
			e.Time = r.Clock.Now()
		}
		r.seq++
		e.Seq = r.seq
		if !r.Forget {
			r.facts = append(r.facts, *e)
		}
		if r.Kept != nil {
			r.Kept(e)
		}
	}
	return nil
}

// Sync has nothing to do.
func (r *Recorder) Sync(context.Context) error { return nil }

// Show tells Shown.
func (r *Recorder) Show(e event.Event) {
	if r.Shown != nil {
		e.Time = r.Clock.Now()
		r.Shown(e)
	}
}

// Facts gives what was recorded so far.
func (r *Recorder) Facts() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts[:len(r.facts):len(r.facts)]
}
