// Package unchanged finds out whether an item of a map is as an earlier run left
// it, so that it need not run.
//
// An item's end carries a fingerprint of all that counts: its data, its files, the
// steps by their meaning and the values that these name (print.go). Before the
// first item starts, [Map.Compare] reads the ends in earlier journals of the same
// workflow (compare.go), and records the end of each unchanged item as a fact of
// this run, with the reasons why the others run (text.go).
package unchanged

import (
	"context"

	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Map is a map with skip_unchanged, and what is read of its run.
type Map struct {
	Executor *step.Executor
	File     *workflow.File
	Env      *environ.Environment
	Store    *journal.Store
	Journal  *journal.Journal
	State    *journal.State
	Repo     *worktree.Repo // nil: the run is in no repository
	Place    step.Place     // where the items run
	Total    int            // of items
	Isolated bool           // each item has a worktree of its own
	// All has all items run, whatever is unchanged.
	All             bool
	SkipPermissions bool // of agents

	// Items reads items with their secrets, and as they were edited.
	Items func(ctx context.Context, from, limit int) ([]event.Item, error)
	// Stored is the data of such an item as it is recorded.
	Stored func(ctx context.Context, it event.Item) ([]byte, error)
	// Label is what a person knows an item by.
	Label func(event.Item) string
	// Pipeline reads the pipeline of a step.
	Pipeline func(context.Context, step.Place, *workflow.Pipeline) (*workflow.File, error)

	prints *prints
	why    reasons // why items run
}

// Print makes the fingerprint of an item before its first step, and the tags of
// its files by name. p is where its steps run. Of an item that an earlier life of
// the run has begun, nobody knows what its first steps have read: its print says
// only which item it is.
func (m *Map) Print(ctx context.Context, p step.Place, it event.Item, begun bool) (print string, inputs map[string]string, err error) {
	stored, err := m.Stored(ctx, it)
	if err != nil {
		return "", nil, err
	}
	pr := imprint{id: m.prints.id(stored)}
	if !begun {
		pr = m.prints.item(ctx, p, stored, it)
	}
	return pr.String(), pr.inputs, nil
}
