package engine

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
	"github.com/bide-dev/bide/internal/value"
)

// takeOver finishes an item whose work was merged when the process before this one went
// down, and has one wait again that was in the merge queue. Another one whose work is not
// merged runs again.
func (x *mapRun) takeOver(ctx context.Context, index int, rec journal.ItemRecord) (mapper.Taken, error) {
	if x.r.gitWork.Tree == nil {
		return mapper.RunsAgain, nil
	}
	var m gitwork.MergeRecord
	if err := json.Unmarshal([]byte(rec.Merging), &m); err != nil {
		return mapper.RunsAgain, fmt.Errorf("the recorded merge of item %d: %w", index, err)
	}
	merged, err := x.r.gitWork.Tree.Holds(ctx, m.Commit)
	if err != nil || !merged && (x.queue == nil || m.Branch == "") {
		return mapper.RunsAgain, err
	}
	it, err := x.r.j.Item(ctx, index)
	if err == nil {
		err = x.r.seals.Open(&it)
	}
	if err != nil {
		return mapper.RunsAgain, err
	}
	if !merged {
		has, err := x.r.gitWork.Tree.Has(ctx, m.Commit)
		if err != nil || !has {
			return mapper.RunsAgain, err
		}
		x.queue.waitsAgain(it, rec.Attempts, m)
		return mapper.WaitsAgain, nil
	}
	x.r.emit(event.Event{Type: event.ItemFinished, Phase: "map", Item: it.ID, Label: x.Label(it), Index: index,
		Status: event.Succeeded, Attempts: rec.Attempts, DurationMS: m.DurationMS, Data: data(m.Result)})
	x.counted(m.Result, cmp.Or(x.Label(it), it.ID))
	value.Put(&x.taken, index, true)
	former, err := x.r.gitWork.Tree.Former(it.ID, rec.Attempts)
	if err != nil {
		return mapper.WasMerged, err
	}
	if m.Branch != "" {
		if err := x.r.gitWork.Tree.Landed(ctx, m.Branch, m.Commit); err != nil {
			return mapper.WasMerged, err
		}
	}
	if k, err := former.Remove(ctx); err != nil {
		x.r.note("item %s is merged, but its worktree is left: %v", items.NameOf(x.r.env.Mask(), it), err)
	} else if k.Branch != "" {
		x.r.emit(event.Event{Type: event.Note, Phase: "map", Item: it.ID, Index: index, Message: k.String()})
	}
	return mapper.WasMerged, nil
}
