package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/value"
)

// mergeRecord is what is on record before an agent's work is merged: a process that
// is killed between the merge and the record of the item's end has not lost the
// item, nor does its next life run the item again on a tree that has its work.
type mergeRecord struct {
	Commit     string   `json:"commit"` // that will be in the run's branch
	Result     itemData `json:"result"` // of the item, if it is
	DurationMS int64    `json:"duration_ms"`
	// Branch has the commit while it waits in the merge queue; "" where there is none.
	Branch string `json:"branch,omitempty"`
}

// recordMerge records that an agent's work is about to be merged. It is on the disk
// before git begins.
func (g *gitWork) recordMerge(ctx context.Context, a *agentRun, commit string) error {
	m := mergeRecord{Commit: commit, Result: a.data, DurationMS: time.Since(a.start).Milliseconds()}
	m.Result.Worktree, m.Result.Branch = "", ""
	if err := g.x.Recorder.Record(event.Event{Type: event.ItemMerging, Phase: "map", Item: a.item.ID, Index: a.item.Index, Attempt: a.attempt, Data: data(m)}); err != nil {
		return err
	}
	return g.x.Recorder.Sync(ctx)
}

// takeOver finishes an item whose work was merged when the process before this one went
// down, and has one wait again that was in the merge queue. Another one whose work is not
// merged runs again.
func (x *mapRun) takeOver(ctx context.Context, index int, rec journal.ItemRecord) (mapper.Taken, error) {
	if x.r.gitWork.tree == nil {
		return mapper.RunsAgain, nil
	}
	var m mergeRecord
	if err := json.Unmarshal([]byte(rec.Merging), &m); err != nil {
		return mapper.RunsAgain, fmt.Errorf("the recorded merge of item %d: %w", index, err)
	}
	merged, err := x.r.gitWork.tree.Holds(ctx, m.Commit)
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
		has, err := x.r.gitWork.tree.Has(ctx, m.Commit)
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
	former, err := x.r.gitWork.tree.Former(it.ID, rec.Attempts)
	if err != nil {
		return mapper.WasMerged, err
	}
	if m.Branch != "" {
		if err := x.r.gitWork.tree.Landed(ctx, m.Branch, m.Commit); err != nil {
			return mapper.WasMerged, err
		}
	}
	if k, err := former.Remove(ctx); err != nil {
		x.r.note("item %s is merged, but its worktree is left: %v", nameOf(x.r.env.Mask(), it), err)
	} else if k.Branch != "" {
		x.r.emit(event.Event{Type: event.Note, Phase: "map", Item: it.ID, Index: index, Message: k.String()})
	}
	return mapper.WasMerged, nil
}
