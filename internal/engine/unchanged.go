package engine

import (
	"context"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/unchanged"
	"github.com/bide-dev/bide/internal/workflow"
)

// compare decides which items are unchanged since an earlier run, if the file asks.
func (x *mapRun) compare(ctx context.Context) error {
	r := x.r
	if r.file.Map.Unchanged == nil {
		return nil
	}
	x.unchanged = &unchanged.Map{
		Executor: r.x, File: r.file, Env: r.env, Store: r.opt.Store, Journal: r.j, State: r.state, Repo: r.gitWork.Repo,
		Place: x.p, Total: r.tally.items.Total, All: r.opt.All, SkipPermissions: r.acts.World.SkipPermissions,
		Items: x.items, Stored: x.stored, Label: x.Label,
		Pipeline: func(ctx context.Context, p step.Site, a *workflow.Pipeline) (*workflow.File, error) {
			pl, err := r.flows.OfStep(ctx, p, a)
			if err != nil {
				return nil, err
			}
			return pl.AsFile(), nil
		},
	}
	return x.unchanged.Compare(ctx)
}

// Why is why an item runs; "" where nobody has asked.
func (x *mapRun) Why(index int) string {
	if x.unchanged == nil {
		return ""
	}
	return x.unchanged.Why(index)
}

// printed puts the fingerprint of an item into its result, before its first step.
func (x *mapRun) printed(ctx context.Context, p step.Site, a *agentRun) (err error) {
	if x.unchanged != nil {
		a.Result.Print, a.Result.Inputs, err = x.unchanged.Print(ctx, p, a.Item, len(a.past) > 0)
	}
	return err
}

// stored is the data of an item as it is recorded, of which data is with its
// secrets.
func (x *mapRun) stored(ctx context.Context, it event.Item) ([]byte, error) {
	x.mu.Lock()
	edited, sealed := x.edited[it.Index], x.r.seals.Sealed(it.Index)
	x.mu.Unlock()
	switch {
	case !sealed:
		return it.Data, nil
	case edited != nil:
		return edited, nil
	}
	if d := x.r.state.Items.Edited(it.Index); d != nil {
		return d, nil
	}
	list, err := x.r.host.items(ctx, it.Index, 1)
	if err == nil && len(list) == 0 {
		err = journal.ErrNoItem
	}
	if err != nil {
		return nil, err
	}
	return list[0].Data, nil
}
