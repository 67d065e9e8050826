package engine

import (
	"context"
	"errors"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
)

// told is what another part of this life of the run has recorded of a phase.
func (r *run) told(phase string) journal.PhaseRecord {
	if r.opt.Part == nil || r.opt.Part.Begin {
		return journal.PhaseRecord{}
	}
	return r.state.Phases[phase]
}

// phase tells the beginning and the end of a phase. A part of a run does not
// tell again what another one has told.
func (r *run) phase(ctx context.Context, p step.Place, name string, f func(context.Context, step.Place) error) error {
	p.Phase = name
	start := r.x.Clock.Now()
	told := r.told(name)
	if told.Status == "" {
		r.emit(event.Event{Type: event.PhaseStarted, Phase: name})
	} else {
		start = told.Started
	}
	err := f(ctx, p)
	if errors.Is(err, ErrInterrupted) || errors.Is(err, errPart) || told.Ended() && err == nil {
		return err
	}
	e := event.Event{Type: event.PhaseFinished, Phase: name, Status: event.Succeeded, DurationMS: r.x.Clock.Now().Sub(start).Milliseconds()}
	switch {
	case err != nil:
		e.Status, e.Message = event.Failed, err.Error()
	case name == "map" && (r.tally.Failed || r.tally.Items.Failed > 0): // also where those that failed are left out
		e.Status = event.CompletedWithFailures
	}
	r.emit(e)
	return err
}

// mergeBlock runs the merge block of the file, whose steps read vars.
func (r *run) mergeBlock(ctx context.Context, vars map[string]any) error {
	p := r.place()
	p.Scope = r.env.Scope.Child()
	p.Scope.Set("merge", vars)
	return r.phase(ctx, p, "merge", func(ctx context.Context, p step.Place) error {
		if r.file.Map != nil {
			if err := r.mapped(ctx, &p); err != nil {
				return err
			}
		}
		return r.x.Block(ctx, &p, r.file.Merge, "merge", nil)
	})
}
