package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
)

// merging is what is on record before an agent's work is merged: a process that
// is killed between the merge and the record of the item's end has not lost the
// item, nor does its next life run the item again on a tree that has its work.
type merging struct {
	Commit     string   `json:"commit"` // that will be in the run's branch
	Result     itemData `json:"result"` // of the item, if it is
	DurationMS int64    `json:"duration_ms"`
}

// merging records that an agent's work is about to be merged. It is on the disk
// before git begins.
func (g *gitWork) merging(ctx context.Context, a *agentRun, commit string) error {
	m := merging{Commit: commit, Result: a.data, DurationMS: time.Since(a.start).Milliseconds()}
	m.Result.Worktree, m.Result.Branch = "", ""
	if err := g.x.Recorder.Record(event.Event{Type: event.ItemMerging, Phase: "map", Item: a.item.ID, Index: a.item.Index, Attempt: a.attempt, Data: data(m)}); err != nil {
		return err
	}
	return g.x.Recorder.Sync(ctx)
}

// takeOver finishes an item whose work was merged when the process before this
// one went down. It is false where the work is not merged: the item runs again.
func (x *mapRun) takeOver(ctx context.Context, index int, rec journal.ItemRecord) (bool, error) {
	if x.r.git.tree == nil {
		return false, nil
	}
	var m merging
	if err := json.Unmarshal([]byte(rec.Merging), &m); err != nil {
		return false, fmt.Errorf("the recorded merge of item %d: %w", index, err)
	}
	if merged, err := x.r.git.tree.Holds(ctx, m.Commit); err != nil || !merged {
		return false, err
	}
	it, err := x.r.j.Item(ctx, index)
	if err == nil {
		err = x.r.seals.open(&it)
	}
	if err != nil {
		return false, err
	}
	x.r.emit(event.Event{Type: event.ItemFinished, Phase: "map", Item: it.ID, Label: x.Label(it), Index: index,
		Status: event.Succeeded, Attempts: rec.Attempts, DurationMS: m.DurationMS, Data: data(m.Result)})
	x.counted(m.Result, cmp.Or(x.Label(it), it.ID))
	value.Put(&x.taken, index, true)
	former, err := x.r.git.tree.Former(it.ID, rec.Attempts)
	if err != nil {
		return true, err
	}
	if k, err := former.Remove(ctx); err != nil {
		x.r.note("item %s is merged, but its worktree is left: %v", nameOf(x.r.env.Mask(), it), err)
	} else if k.Branch != "" {
		x.r.emit(event.Event{Type: event.Note, Phase: "map", Item: it.ID, Index: index, Message: k.String()})
	}
	return true, nil
}
