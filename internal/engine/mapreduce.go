package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/step"
)

// mapReduce runs setup, the map over the items, and reduce. Each phase that is
// recorded as finished is passed over step by step, as steps are.
func (r *run) mapReduce(ctx context.Context) error {
	p := r.site()
	if r.file.Setup != nil {
		if err := r.phase(ctx, p, "setup", r.setup); err != nil {
			return err
		}
	}
	if err := r.readItems(ctx, p); err != nil {
		return err
	}
	phase := r.mapPhase
	if r.opt.Part != nil && r.opt.Part.Map != nil {
		phase = r.elsewhere
	}
	if err := r.phase(ctx, p, "map", phase); err != nil {
		return err
	}
	if r.file.Reduce == nil {
		return nil
	}
	return r.phase(ctx, p, "reduce", r.reduce)
}

// phase tells the beginning and the end of a phase. A part of a run does not
// tell again what another one has told.
func (r *run) phase(ctx context.Context, p step.Site, name string, f func(context.Context, step.Site) error) error {
	p.Phase = name
	start := r.x.Clock.Now()
	told := r.told(name)
	if told.Status == "" {
		r.emit(event.Event{Type: event.PhaseStarted, Phase: name})
	} else {
		start = told.Started
	}
	err := f(ctx, p)
	if errors.Is(err, ErrInterrupted) || errors.Is(err, errPart) || told.Status == event.Succeeded && err == nil {
		return err
	}
	e := event.Event{Type: event.PhaseFinished, Phase: name, Status: event.Succeeded, DurationMS: r.x.Clock.Now().Sub(start).Milliseconds()}
	if err != nil {
		e.Status, e.Message = event.Failed, err.Error()
	}
	r.emit(e)
	return err
}

// setup runs the setup steps and takes capture_outputs out of them.
func (r *run) setup(ctx context.Context, p step.Site) error {
	b := r.file.Setup
	t, err := r.x.Span(ctx, p, b.Timeout)
	if err != nil {
		return fmt.Errorf("setup.timeout: %w", err)
	}
	return r.x.Within(ctx, t, "setup", func(ctx context.Context) error { return r.setupSteps(ctx, p) })
}

func (r *run) setupSteps(ctx context.Context, p step.Site) error {
	b := r.file.Setup
	results := make([]action.Result, len(b.Steps))
	if err := r.x.Each(ctx, p, b.Steps, func(i int, out step.Outcome) { results[i] = out.Result }); err != nil {
		return err
	}
	if len(b.Outputs) == 0 {
		return nil
	}
	const path = "setup.capture_outputs"
	if rec, ok := p.Past[path]; ok && rec.Status == event.Succeeded {
		if _, done := r.x.Replay(p, path, rec); done {
			return nil
		}
	}
	set := map[string]any{}
	for _, c := range b.Outputs {
		v, err := step.Captured(ctx, c, results[c.Command], r.env.Mask())
		if err != nil {
			return fmt.Errorf("%s: capture_outputs %s: %w", c.Pos, c.Name, err)
		}
		set[c.Name] = v
	}
	r.x.Set(p, path, "capture_outputs", set)
	return nil
}

// itemList makes the list of work items.
func (r *run) itemList() *items.List {
	return &items.List{Executor: r.x, Seals: r.seals, Temp: r.dir(), Command: r.host.command}
}

// readItems reads the work items into the journal, unless they are there.
func (r *run) readItems(ctx context.Context, p step.Site) error {
	n, err := r.host.list(ctx, p)
	if err != nil {
		return err
	}
	r.tally.items.Total = n
	if n == 0 {
		r.note("there are no work items: the map is left out%s", map[bool]string{true: ", reduce runs"}[r.file.Reduce != nil])
	}
	return nil
}
