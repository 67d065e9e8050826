package agents

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/timeline"
)

// onHold runs the steps of on_hold, once for each hold: what an earlier life of the run has
// ended of them is taken over.
func (x *Map) onHold(ctx context.Context, h mapper.Held) error {
	p := x.p
	p.Scope = x.p.Scope.Child()
	p.Rounds = "#" + h.Since.UTC().Format("20060102T150405.000000000")
	holdups := timeline.Holdups{Map: timeline.HoldOf(h)}
	p.Scope.Set("hold", map[string]any{"signature": h.Signature.ID(), "message": failure.Plain(h.Message), "items": int64(h.Items),
		"text": holdups.MapText(journal.ShortRun(x.Executor.Run), h.Since, true)}) // as it was when the hold began, whenever this runs
	return x.Executor.Sequence(ctx, &p, x.Executor.File.Policy.OnHold)
}

// Handle runs the handler of an item that failed for good: on_item_failure:
// {custom: NAME}. It reads what is recorded and nothing else, so that it makes no
// difference whether the run was interrupted before; what an earlier life of the run
// has ended of it does not run again.
func (x *Map) Handle(ctx context.Context, it event.Item, d mapper.Due) error {
	steps, ok := x.Executor.File.Handlers[d.Handler]
	if !ok {
		return fmt.Errorf("there is no handler %s in the file any more", d.Handler)
	}
	p := x.p
	p.Item, p.Index, p.Attempt, p.Past, p.Rounds = it.ID, it.Index, d.Attempt, x.takePast(it.Index), "#"+d.Handler
	var err error
	if p.Scope, err = x.p.Scope.ForItem(it, x.Total, d.Attempt); err != nil {
		return err
	}
	var state step.Sealed
	if len(d.State) > 0 {
		if err := json.Unmarshal(d.State, &state); err != nil {
			return fmt.Errorf("the recorded variables of item %s: %w", items.NameOf(x.Executor.Values.Mask(), it), err)
		}
	}
	p.Scope.Apply(x.Executor.Open(state))
	p.Scope.Set("error", map[string]any{"message": failure.Plain(d.Message), "class": d.Class, "attempts": int64(d.Attempt), "exit_code": int64(d.ExitCode)})
	return x.Executor.Sequence(ctx, &p, steps)
}
