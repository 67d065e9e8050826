package engine

import (
	"context"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
)

// mapReduce runs setup, the map over the items, and reduce. Each phase that is
// recorded as finished is passed over step by step, as steps are.
func (r *run) mapReduce(ctx context.Context) error {
	p := r.place()
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

// setup runs the setup steps and takes capture_outputs out of them.
func (r *run) setup(ctx context.Context, p step.Place) error {
	b := r.file.Setup
	t, err := r.x.Span(ctx, &p, b.Timeout)
	if err != nil {
		return fmt.Errorf("setup.timeout: %w", err)
	}
	return r.x.Within(ctx, t, "setup", func(ctx context.Context) error { return r.setupSteps(ctx, p) })
}

func (r *run) setupSteps(ctx context.Context, p step.Place) error {
	b := r.file.Setup
	results := make([]action.Result, len(b.Steps))
	if err := r.x.Each(ctx, &p, b.Steps, func(i int, out *step.Outcome) { results[i] = out.Result }); err != nil {
		return err
	}
	if len(b.Outputs) == 0 {
		return nil
	}
	const path = "setup.capture_outputs"
	if rec, ok := p.Past[path]; ok && rec.Status == event.Succeeded {
		if _, done := r.x.Replay(p, path, &rec); done {
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

// readItems reads the work items into the journal, unless they are there.
func (r *run) readItems(ctx context.Context, p step.Place) error {
	n, err := r.host.list(ctx, p)
	if err != nil {
		return err
	}
	r.tally.Items.Total = n
	if n == 0 && (r.opt.Part == nil || r.opt.Part.Map != nil) { // else the part before has told it
		r.note("there are no work items: the map is left out%s", map[bool]string{true: ", reduce runs"}[r.file.Reduce != nil])
	}
	return nil
}

// reduce runs the reduce steps with all that the map gave. The journal forgets
// those of an earlier reduce once dead letters are run again.
func (r *run) reduce(ctx context.Context, p step.Place) error {
	if err := r.mapped(ctx, &p); err != nil {
		return err
	}
	return r.x.Block(ctx, &p, r.file.Reduce, "reduce", nil)
}

// mapped has steps read what the map gave, once for all of them.
func (r *run) mapped(ctx context.Context, p *step.Place) (err error) {
	if !r.results.made {
		if r.results.file, err = r.host.results(ctx, *p); err != nil {
			return err
		}
		r.results.made = true
	}
	if r.results.file != "" {
		p.Env = p.Env.Export("BIDE_RESULTS_FILE", r.results.file)
	}
	return nil
}

// mapPhase runs the map over all items that are not finished.
func (r *run) mapPhase(ctx context.Context, p step.Place) error {
	x, err := r.newMap(ctx, p)
	if err != nil {
		return err
	}
	return x.Work(ctx)
}

// newMap makes the map.
func (r *run) newMap(ctx context.Context, p step.Place) (*agents.Map, error) {
	o := agents.Options{
		Executor: r.x, Env: r.env, Seals: r.seals, Git: r.gitWork, State: r.state, Control: &r.control, Host: r.host, Place: p,
		Total: r.tally.Items.Total, Tally: &r.tally, NotBefore: r.notBefore,
		MaxParallel: r.opt.MaxParallel, Canary: r.opt.Canary, AllowRedBase: r.opt.AllowRedBase,
	}
	if r.opt.Part != nil {
		o.Halt = r.opt.Part.Halt
	}
	return agents.New(ctx, o)
}

// elsewhere has the map worked off by the run's part.
func (r *run) elsewhere(ctx context.Context, p step.Place) error {
	x, err := r.newMap(ctx, p)
	if err != nil {
		return err
	}
	items, err := x.Elsewhere(ctx)
	if err != nil {
		return err
	}
	if r.tally.Items.Total > 0 {
		if !r.opt.Part.Lanes {
			if err := r.gitWork.Freeze(ctx); err != nil {
				return err
			}
		}
		if err := r.host.Ready(ctx, x); err != nil { // lanes take over what it has recorded
			return err
		}
	}
	timeout, err := r.x.Span(ctx, &p, r.file.Timeout)
	if err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	m := &PartMap{Total: r.tally.Items.Total, Policy: items.Policy, State: items.State(), Timeout: timeout,
		Budget: Usage{r.file.MaxCost, r.file.MaxTokens}, Paused: !r.state.Held.IsZero(), m: items}
	if u := r.x.Agents.Used(); u != nil {
		m.Used = Usage{u.CostUSD, u.InputTokens + u.OutputTokens + u.CacheTokens + u.OtherTokens}
	}
	if err := r.opt.Part.Map(ctx, m); err != nil {
		return err
	}
	return errPart
}
