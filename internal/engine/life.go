package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// whole is the run from its first event to its last.
func (r *run) whole(ctx context.Context) *Summary {
	err := r.loadEnv(ctx)
	begin := event.Event{Type: event.RunStarted, Label: r.file.Name}
	facts := map[string]any{"path": r.file.Path, "kind": r.file.Kind.String(), "dir": r.opt.Dir, "dry_run": false}
	if params, err := r.opt.recorded(r.file).given(); err == nil && params != nil {
		facts["params"] = params
	}
	life := 1
	if r.resumed() {
		c := r.state.Items.Counts()
		begin.Type, begin.Total, life = event.RunResumed, c.Total, r.state.Resumes+2
		facts = map[string]any{"items": event.ItemCounts{Total: c.Total, Succeeded: c.Succeeded, Failed: c.Failed, Skipped: c.Skipped, Unchanged: c.Unchanged, Pending: c.Pending}}
		if !r.state.Held.IsZero() {
			facts["paused_since"] = r.state.Held
		}
		if r.state.Hold != nil {
			facts["hold"] = r.state.Hold
		}
		if r.state.QueueHold != nil {
			facts["queue_hold"] = r.state.QueueHold
		}
		r.otherwise(facts)
	}
	if t := r.opt.Tracing; t != nil {
		maps.Copy(facts, t.Begin(r.x.Run, life, r.state.Origin))
	}
	begin.Data = data(facts)
	if r.opt.Part == nil || r.opt.Part.Begin {
		r.emit(begin)
	}
	for _, n := range r.env.Notes {
		r.note("%s", n)
	}
	if err == nil {
		r.restore()
		err = r.isolate(ctx)
	}
	if err == nil && r.opt.Composed != nil {
		r.opt.Composed(r.x)
	}
	if err == nil {
		err = r.phases(ctx)
	}
	var merging error
	if err == nil {
		var merged bool
		merged, merging = r.host.merge(ctx)
		if err = merging; err == nil && !merged && r.file.Merge != nil {
			r.note("the merge block is left out: the run has no worktree of its own, so there is nothing to merge (isolation: %s)", r.isolation())
		}
	}
	if err != nil && ctx.Err() != nil {
		err = r.x.Life.Stopping(ctx) // whatever it died of, it did so while it was being ended
	}
	if errors.Is(err, errPart) {
		return &Summary{Run: r.x.Run, Name: r.file.Name, Status: event.Running, Err: err}
	}
	err = r.finally(ctx, err)
	return r.finish(ctx, err, errors.Is(err, merging))
}

// otherwise adds to the facts of a resume what is not as the run was begun with: the
// number of items at once that was asked for, and that its file is another one.
func (r *run) otherwise(facts map[string]any) {
	if r.opt.MaxParallel > 0 {
		facts["max_parallel"] = r.opt.MaxParallel
	}
	if !r.opt.Force {
		return
	}
	if _, changed := changedFile(r.j.Header(), nil); changed != "" {
		facts["file_changed"] = true
	}
}

// phases runs what the file is made of.
func (r *run) phases(ctx context.Context) error {
	p := r.place()
	t, err := r.x.Span(ctx, &p, r.file.Timeout)
	if err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	if r.x.Agents.MaxWait, err = r.x.Span(ctx, &p, r.file.MaxWait); err != nil {
		return fmt.Errorf("max_wait: %w", err)
	}
	if left, wait := r.x.Agents.Waiting(r.x.Clock.Now()); left > 0 && r.resumed() {
		text := "agents wait %s more for the end of the rate limit that the run has met; to ask them now: bide control %s retry-now"
		switch {
		case r.state.Pause.Down:
			text = "agents are down, and are not asked for %s more; to ask them now: bide control %s retry-now"
		case !wait:
			text = "the rate limit that the run has met lasts %s more, longer than max_wait; if it is over already: bide control %s retry-now, and resume"
		}
		r.x.NotePassing(text, duration.Format(left.Round(time.Second)), r.x.Run)
	}
	return r.within(ctx, t)
}

// parts runs the parts of a file in their order.
func (r *run) parts(ctx context.Context) error {
	if err := r.subWorkflows(ctx); err != nil {
		return err
	}
	switch r.file.Kind {
	case workflow.MapReduce:
		return r.mapReduce(ctx)
	case workflow.Dataflow:
		return r.dataflow(ctx)
	}
	return r.standard(ctx)
}

// dataflow runs the run's own pipeline.
func (r *run) dataflow(ctx context.Context) error {
	out, err := r.flows.Run(ctx, r.place(), r.opt.Pipeline, r.opt.Inputs, "")
	r.env.Scope.Set("outputs", out)
	return err
}

// finish tells the end and gives the summary. done says that all has ended but perhaps the
// merge of the run.
func (r *run) finish(ctx context.Context, err error, done bool) *Summary {
	s := &Summary{
		Run: r.x.Run, Name: r.file.Name, Status: event.Succeeded, DurationMS: r.x.Clock.Now().Sub(r.started).Milliseconds(),
		Steps:     r.x.Tally.Counts(),
		Items:     r.tally.Items,
		Letters:   r.tally.Letters,
		Outputs:   r.outputs(),
		Errors:    r.tally.Causes.List(r.x.Values.Mask()),
		Repeated:  r.tally.Repeated,
		Usage:     r.x.Agents.Used(),
		Notes:     r.env.Notes,
		MapReduce: r.file.Kind == workflow.MapReduce, Pipeline: r.file.Kind == workflow.Dataflow, Err: err,
		AllowFailedItems: r.opt.AllowFailedItems || r.file.AllowFailedItems, FailOn: r.opt.FailOn,
	}
	if err == nil {
		err = r.host.settle(context.WithoutCancel(ctx))
		s.Err = err
	}
	s.Status, s.Message, s.Class = r.ending(err)
	if s.MergeWith = r.gitWork.MergeWith; s.MergeWith != "" && done && s.Status != event.Interrupted {
		s.OnceMerged = r.onceMerged()
	}
	if left, _ := r.x.Agents.Waiting(r.x.Clock.Now()); left > 0 {
		s.Limited = r.x.Clock.Now().Add(left)
	}
	if n := r.unmended(); n > 0 && err == nil {
		what, which := "step", ""
		if names := r.tally.Unmended; len(names) > 0 {
			what, which = "item", " ("+strings.Join(names, ", ")+", …)"
			if len(names) == n {
				which = " (" + strings.Join(names, ", ") + ")"
			}
		}
		r.note("%s%s failed and %s tolerated: the repair in on_failure did not help, so the exit status is 3. To allow this, write fail_workflow: false in on_failure; to end the run there, fail_workflow: true",
			diag.Count(n, what), which, diag.Plural(n, "was", "were"))
	}
	d := map[string]any{"steps": s.Steps, "items": s.Items, "outputs": s.Outputs, "errors": s.Errors, "usage": s.Usage, "name": s.Name}
	if s.MergeWith != "" {
		d["merge_with"], d["once_merged"] = s.MergeWith, s.OnceMerged
	}
	if at := r.x.Life.InterruptedAt(); s.Status == event.Interrupted && !at.IsZero() {
		d["interrupted_at"] = at
	}
	r.emit(event.Event{Type: event.RunFinished, Status: s.Status, DurationMS: s.DurationMS, Class: s.Class, Message: s.Message, Data: data(d)})
	return s
}

// outputs are what the run leaves for its caller.
func (r *run) outputs() map[string]any {
	out := map[string]any{}
	v, ok := r.env.Scope.Lookup("outputs")
	if m, is := v.V.(map[string]any); ok && is {
		maps.Copy(out, m)
	}
	return out
}

// within runs the parts of the file within the workflow's timeout. Of the time of a
// run that several processes share, a part of it may have passed.
func (r *run) within(ctx context.Context, t time.Duration) error {
	const what = "the workflow"
	part := r.opt.Part
	switch {
	case t <= 0 || part == nil:
		return r.x.Within(ctx, t, what, r.parts)
	case part.Lanes:
		return r.parts(ctx)
	}
	over := &step.TimeoutError{What: what, After: t}
	if part.Halt == OutOfTime { // what has run is told, and nothing runs
		if err := r.parts(ctx); err != nil && !errors.As(err, new(*agents.PolicyError)) {
			return err
		}
		return over
	}
	ctx, cancel := r.x.Clock.WithTimeout(ctx, max(t-part.Spent, 1), over)
	defer cancel()
	return r.parts(ctx)
}
