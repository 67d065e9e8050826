// Package local has the ports of this machine for the executor of steps: its recorder
// keeps facts in the journal of the run, its actions are processes, requests and files,
// with their outputs shown and kept in the run's directory. Secrets are masked in all that
// leaves.
package local

import (
	"context"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
)

// Recorder keeps the facts of a run in its journal, secrets masked, and tells
// them to those who watch.
type Recorder struct {
	step.Details
	Journal *journal.Journal
	Sinks   []event.Sink
	// Masks gives the run's mask; nil, which hides nothing, until the secrets are
	// known.
	Masks func() *mask.Masker
	// Kept, if not nil, is given each record that the journal has.
	Kept func(facts []event.Event) error
	// Synced, if not nil, takes the place of the journal's Sync.
	Synced func() error
	mu     sync.Mutex // keeps Sinks in the order of the journal
}

// Record keeps facts as one record, and then tells them to those who watch. A
// journal that cannot be written ends the run through Failed.
func (r *Recorder) Record(facts ...event.Event) error {
	for i := range facts {
		r.prepare(&facts[i])
	}
	if len(r.Sinks) == 0 && r.Kept == nil {
		return r.Journal.RecordAll(facts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.Journal.RecordAll(facts)
	if err == nil && r.Kept != nil {
		err = r.Kept(facts)
	}
	if err != nil {
		return err // what is on no record has not happened
	}
	for _, e := range facts {
		for _, s := range r.Sinks {
			s.Emit(e)
		}
	}
	return nil
}

// Sync returns when everything that was recorded would outlive a power cut.
func (r *Recorder) Sync(ctx context.Context) error {
	if r.Synced != nil {
		return r.Synced() // the journal is a copy
	}
	return r.Journal.Sync(ctx)
}

// Show tells those who watch something that is not kept.
func (r *Recorder) Show(e event.Event) {
	if len(r.Sinks) == 0 {
		return
	}
	r.prepare(&e)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.Sinks {
		s.Emit(e)
	}
}

func (r *Recorder) prepare(e *event.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Run = r.Journal.Run()
	HideSecrets(e, r.Masks())
}

// HideSecrets masks the secrets in an event, and cuts a message that is too long to be read.
func HideSecrets(e *event.Event, m *mask.Masker) {
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
