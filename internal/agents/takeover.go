package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// takeOver finishes an item whose work was merged when the process before this one went
// down, and has one wait again that was in the merge queue. Another one whose work is not
// merged runs again.
func (x *Map) takeOver(ctx context.Context, index int, rec journal.ItemRecord) (mapper.Taken, error) {
	if x.Git.Tree == nil {
		return mapper.RunsAgain, nil
	}
	var m gitwork.MergeRecord
	if err := json.Unmarshal([]byte(rec.Merging), &m); err != nil {
		return mapper.RunsAgain, fmt.Errorf("the recorded merge of item %d: %w", index, err)
	}
	merged, err := x.Git.Tree.Holds(ctx, m.Commit)
	if err != nil || !merged && (x.queue == nil || m.Branch == "") {
		return mapper.RunsAgain, err
	}
	it, err := x.item(ctx, index)
	if err == nil {
		err = x.Seals.Open(&it)
	}
	if err != nil {
		return mapper.RunsAgain, err
	}
	if !merged {
		has, err := x.Git.Tree.Has(ctx, m.Commit)
		if err != nil || !has {
			return mapper.RunsAgain, err
		}
		x.queue.WaitsAgain(it, rec.Attempts, m)
		return mapper.WaitsAgain, nil
	}
	_ = x.Executor.Recorder.Record(event.Event{Type: event.ItemFinished, Phase: "map", Item: it.ID, Label: x.Label(it), Index: index,
		Status: event.Succeeded, Attempts: rec.Attempts, DurationMS: m.DurationMS, Data: step.Data(m.Result)})
	x.counted(&m.Result, cmp.Or(x.Label(it), it.ID))
	value.Put(&x.taken, index, true)
	former, err := x.Git.Tree.Former(it.ID, rec.Attempts)
	if err != nil {
		return mapper.WasMerged, err
	}
	if m.Branch != "" {
		if err := x.Git.Tree.Landed(ctx, m.Branch, m.Commit); err != nil {
			return mapper.WasMerged, err
		}
	}
	if k, err := former.Remove(ctx); err != nil {
		x.Executor.Note("item %s is merged, but its worktree is left: %v", items.NameOf(x.Executor.Values.Mask(), it), err)
	} else if k.Branch != "" {
		_ = x.Executor.Recorder.Record(event.Event{Type: event.Note, Phase: "map", Item: it.ID, Index: index, Message: k.String()})
	}
	return mapper.WasMerged, nil
}
