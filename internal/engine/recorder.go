package engine

import (
	"context"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
)

// recorder keeps the facts of a run in its journal, secrets masked, and tells
// them to those who watch.
type recorder struct {
	step.Details
	j     *journal.Journal
	sinks []event.Sink
	// masks is the run's mask; nil, which hides nothing, until the secrets are
	// known.
	masks func() *mask.Masker
	// kept, if not nil, is given each record that the journal has.
	kept func(facts []event.Event) error
	// synced, if not nil, takes the place of the journal's Sync.
	synced func() error
	mu     sync.Mutex // keeps sinks in the order of the journal
}

// Record keeps facts as one record, and then tells them to those who watch. A
// journal that cannot be written ends the run through Failed.
func (r *recorder) Record(facts ...event.Event) error {
	for i := range facts {
		r.prepare(&facts[i])
	}
	if len(r.sinks) == 0 && r.kept == nil {
		return r.j.RecordAll(facts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.j.RecordAll(facts)
	if err == nil && r.kept != nil {
		err = r.kept(facts)
	}
	if err != nil {
		return err // what is on no record has not happened
	}
	for _, e := range facts {
		for _, s := range r.sinks {
			s.Emit(e)
		}
	}
	return nil
}

// Sync returns when everything that was recorded would outlive a power cut.
func (r *recorder) Sync(ctx context.Context) error {
	if r.synced != nil {
		return r.synced() // the journal is a copy
	}
	return r.j.Sync(ctx)
}

// Show tells those who watch something that is not kept.
func (r *recorder) Show(e event.Event) {
	if len(r.sinks) == 0 {
		return
	}
	r.prepare(&e)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sinks {
		s.Emit(e)
	}
}

func (r *recorder) prepare(e *event.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Run = r.j.Run()
	hideSecrets(e, r.masks())
}

// hideSecrets masks what is told of a run, and cuts a message that is too long to be read.
func hideSecrets(e *event.Event, m *mask.Masker) {
	if m.Active() {
		e.Message = m.String(e.Message)
		e.Label = m.String(e.Label)
		e.Item = m.String(e.Item)
		e.Data = m.Bytes(e.Data)
	}
	if len(e.Message) > step.Brief && e.Type != event.Output && e.Type != event.AgentMessage {
		e.Message = m.Text(e.Message).Ends(step.Brief)
	}
}
