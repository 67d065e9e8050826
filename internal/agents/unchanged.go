package agents

import (
	"context"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/unchanged"
)

// Compare decides which items are unchanged since an earlier run, if the file asks. known
// has what the map does not: journals, and how they are read.
func (x *Map) Compare(ctx context.Context, known unchanged.Map) error {
	if x.Executor.File.Map.Unchanged == nil {
		return nil
	}
	known.Executor, known.File, known.Env, known.State, known.Repo = x.Executor, x.Executor.File, x.Env, x.State, x.Git.Repo
	known.Isolated = x.Git.Tree != nil
	known.Place, known.Total, known.Items, known.Stored, known.Label = x.p, x.Total, x.items, x.stored, x.Label
	x.unchanged = &known
	return x.unchanged.Compare(ctx)
}

// Why is why an item runs; "" where nobody has asked.
func (x *Map) Why(index int) string {
	if x.unchanged == nil {
		return ""
	}
	return x.unchanged.Why(index)
}

// printed puts the fingerprint of an item into its result, before its first step.
func (x *Map) printed(ctx context.Context, p *step.Place, a *attempt) (err error) {
	if x.unchanged != nil {
		a.Result.Print, a.Result.Inputs, err = x.unchanged.Print(ctx, *p, a.Item, len(a.past) > 0)
	}
	return err
}

// stored is the data of an item as it is recorded, of which data is with its
// secrets.
func (x *Map) stored(ctx context.Context, it event.Item) ([]byte, error) {
	x.mu.Lock()
	edited, sealed := x.edited[it.Index], x.Seals.Sealed(it.Index)
	x.mu.Unlock()
	switch {
	case !sealed:
		return it.Data, nil
	case edited != nil:
		return edited, nil
	}
	it, err := x.item(ctx, it.Index)
	return it.Data, err
}
