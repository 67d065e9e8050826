package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/retry"
)

// agentRun is one attempt at one item.
type agentRun struct {
	gitwork.Agent
	scope *vars.Scope
	set   map[string]any // the variables that its steps set, where a handler may read them
	past  past           // what an earlier life of the run did of it
	anew  bool           // it is to begin again, from its first step
}

// itemData is what item_finished carries of an item's result.
type itemData = mapper.Result

// Run runs an agent for an item.
func (x *mapRun) Run(ctx context.Context, at mapper.Attempt) mapper.Ending {
	a := agentRun{Agent: gitwork.Agent{Item: at.Item, Attempt: at.Number, Label: at.Label, Start: at.Start}, past: x.takePast(at.Item.Index)}
	err := x.agent(ctx, &a, at)
	e := mapper.Ending{Result: a.Result, Recorded: a.Recorded}
	if e.Parked = a.Parked; err == nil && e.Parked != nil {
		return e
	}
	if err == nil {
		x.counted(a.Result, cmp.Or(at.Label, a.Item.ID))
		return e
	}
	e.Err, e.RetryAfter = step.Cause(err), retryAfter(err)
	e.Failure = *failure.From(e.Err) // its step has a place of its own
	e.Failure.Stdout, e.Failure.Stderr = x.r.x.Tail(e.Failure.Stdout), x.r.x.Tail(e.Failure.Stderr)
	if se, ok := errors.AsType[*step.Error](err); ok {
		e.Step, e.StepLabel = se.Step, se.Label
	}
	e.Interrupted, e.Anew = a.anew || x.interrupted(ctx, err), a.anew
	e.Limited = errors.As(err, new(*step.OutlastedError))
	if a.anew {
		x.r.note("item %s: %v", items.NameOf(x.r.env.Mask(), a.Item), err)
	}
	e.Shortage = failure.Shortage(err)
	x.timedOut(&e, err)
	if unset, ok := errors.AsType[*step.UnsetError](err); ok && unset.OfItem {
		e.Err = retry.Permanent(e.Err) // no other agent finds more in the item
	}
	if len(a.set) > 0 {
		e.State = func() json.RawMessage { return data(x.r.x.Seal(a.set)) }
	}
	return e
}

// namedItems is how many items the note about those whose repair did not help names.
const namedItems = 3

// counted counts an item that succeeded in some way of event.Kinds; kind is "" for
// one that did as it was meant to. The name is shown of one whose repair did not help.
func (x *mapRun) counted(d itemData, name string) {
	if d.Kind == "" && !d.Unmended {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if d.Unmerged > 0 {
		x.r.tally.unmerged++
	}
	if n := x.kinds.Of(d.Kind); n != nil {
		*n++
	}
	if d.Unmended {
		x.kinds.Unmended++
		if len(x.unmended) < namedItems {
			x.unmended = append(x.unmended, name)
		}
	}
}

// interrupted reports whether an agent was ended because the run stops.
func (x *mapRun) interrupted(ctx context.Context, err error) bool {
	why := x.r.x.Life.Stopping(ctx) // the workflow's timeout, perhaps, which is no failure of the item
	return why != nil && (errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, new(*step.BudgetError)) || errors.Is(err, why))
}

// Label is what a person knows an item by: what the file says, or else its name,
// where that is not its id.
func (x *mapRun) Label(it event.Item) string {
	text := x.r.file.Map.Label
	if text == nil {
		if name := items.NameOf(x.r.env.Mask(), it); name != it.ID {
			return name
		}
		return ""
	}
	sc := x.p.Scope.Child()
	if sc.SetItem(it, x.r.tally.items.Total) != nil {
		return "" // the item itself fails of it
	}
	label, err := text.Expand(sc)
	if err != nil {
		return ""
	}
	return label
}

// agent runs the template's steps on an item.
func (x *mapRun) agent(ctx context.Context, a *agentRun, at mapper.Attempt) error {
	return x.r.x.Within(step.Finish(ctx), x.timeout, "the agent of item "+cmp.Or(at.Label, a.Item.ID), func(ctx context.Context) error {
		it := step.ItemAttempt{Item: a.Item, Attempt: a.Attempt, Recoveries: at.Recoveries, Last: at.Last, Probe: at.Probe}
		p, err := x.r.x.ForItem(x.p, it, x.r.tally.items.Total)
		if err != nil {
			return err
		}
		a.scope, p.Holding = p.Scope, at.Holding
		p.Unmended = new(atomic.Bool)
		if x.r.file.Policy.Handler != "" {
			mark := p.Scope.Mark()
			defer func() { a.set = p.Scope.Since(mark); p.Scope.Unmark() }()
		}
		leave, err := x.enter(ctx, &p, a)
		if err != nil {
			return err
		}
		p.Past = a.past
		x.setEvidence(p, at.Last)
		if err := x.printed(ctx, p, a); err != nil {
			return leave(ctx, err)
		}
		ended := make([]step.Outcome, len(x.r.file.Map.Template.Steps))
		err = x.r.x.Template(ctx, p, x.r.file.Map.Template, func(i int, out step.Outcome) {
			ended[i] = out
			if out.Status != event.Interrupted && a.Tree != nil && i+1 < len(ended) {
				x.mark(a, p.Path(x.r.file.Map.Template.Steps[i].Path))
			}
		})
		x.collect(a, ended)
		if p.Unmended.Load() { // a step in a foreach of it, perhaps
			a.Result.Kind, a.Result.Unmended = event.Tolerated, true
		}
		if err != nil && a.Tree != nil && !x.interrupted(ctx, err) && a.past.cutShort(p, x.r.file.Map.Template.Steps, ended) {
			a.anew = true
			err = fmt.Errorf("the step failed in the worktree in which it was cut short, and the item begins anew: %w", err)
		}
		if err == nil && x.r.file.Map.Evidence != nil && a.Tree != nil {
			err = x.evidence(ctx, p, a)
		}
		return leave(ctx, err)
	})
}

// mark notes in the agent's worktree which step of it has ended.
func (x *mapRun) mark(a *agentRun, path string) {
	if err := a.Tree.Mark(context.Background(), path); err != nil {
		x.r.x.NoteOnce("mark", fmt.Sprintf("the worktree of item %s: %v", items.NameOf(x.r.env.Mask(), a.Item), err))
	}
}

// retryAfter is how long the other side asked to be left alone.
func retryAfter(err error) time.Duration {
	var e interface{ RetryAfter() (time.Duration, bool) }
	if errors.As(err, &e) {
		if d, ok := e.RetryAfter(); ok {
			return d
		}
	}
	return 0
}

// timedOut applies timeout_action to an agent that took too long.
func (x *mapRun) timedOut(e *mapper.Ending, err error) {
	act := x.r.file.Map.TimeoutAction
	if act == "" || act == "retry" || !errors.As(err, new(*step.TimeoutError)) {
		return
	}
	switch act {
	case "skip":
		e.Skipped = true
	case "dlq", "fail", "graceful_terminate":
		e.Err = retry.Permanent(err)
	}
	if act == "fail" {
		e.Halt = "timeout_action: fail"
	}
}
