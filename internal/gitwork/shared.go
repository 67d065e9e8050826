package gitwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/worktree"
)

// Shared is what the machines that share a run know of its git work. Each works in a clone
// of its own. What one of them adds, the others have before anything is recorded that
// refers to it. An error of any method says that nothing more may be recorded by its caller.
type Shared interface {
	// Share is called once, with the run in this machine's clone.
	Share(run *worktree.Run)
	// Merged takes over what other machines have added, and gives the record of the merge of
	// an item that one of them has made; nil where there is none.
	Merged(ctx context.Context, index int) (*MergeRecord, error)
	// Merge adds the merge of an item, and the commit of it that was checked; "" for none. It
	// is called while nothing else is merged here.
	Merge(ctx context.Context, index, attempt int, m worktree.Move, checked string) error
	// Standing adds how the run's own worktree is.
	Standing(ctx context.Context) error
	// Keep adds a branch of an item with work that is not merged.
	Keep(ctx context.Context, index int, branch, commit string) error
	// LeftOut are the files that were uncommitted where the run was started.
	LeftOut() []string
}

// Elsewhere gives the record of the merge of an item that another machine has made, which
// went down before it could record the end of the item; nil where there is none.
func (g *Work) Elsewhere(ctx context.Context, it event.Item) (*MergeRecord, error) {
	if g.Shared == nil || g.Tree == nil {
		return nil, nil
	}
	return g.Shared.Merged(ctx, it.Index)
}

// keep has other machines know of the branches of an item's work that is not merged.
func (g *Work) keep(ctx context.Context, index int, k worktree.Kept) error {
	if g.Shared == nil || k.Branch == "" {
		return nil
	}
	var errs []error
	for _, branch := range append([]string{k.Branch}, k.Others...) {
		commit, err := g.Repo.Branch(ctx, branch)
		if err == nil {
			err = g.Shared.Keep(ctx, index, branch, commit)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keptAs says where something is that is in no branch, and what to do about it: nobody
// finds it in the clone of a worker, which goes with that.
func (g *Work) keptAs(paths []string, then string) string {
	if g.Shared != nil {
		return "all of it goes with the clone of the worker"
	}
	return "kept as " + strings.Join(paths, ", ") + then
}

// KeepAll is keep of branches of earlier attempts that a worktree of the pool had.
func (g *Work) KeepAll(ctx context.Context, index int, list []worktree.Kept) error {
	var errs []error
	for _, k := range list {
		errs = append(errs, g.keep(ctx, index, k))
	}
	return errors.Join(errs...)
}

// keepBeside has other machines know of what the steps of the run itself left in the stash of
// this clone, or on branches of their own.
func (g *Work) keepBeside(ctx context.Context) error {
	k, err := g.Tree.KeepBeside(ctx)
	return errors.Join(err, g.keep(ctx, 0, k))
}

// tellBeside is keepBeside at the end of the run, and tells of all that is kept so.
func (g *Work) tellBeside(ctx context.Context) error {
	if err := g.keepBeside(ctx); err != nil {
		return err
	}
	list, err := g.Tree.Beside(ctx)
	if n := len(list); n > 0 {
		slices.Sort(list)
		g.Stashed += n
		g.tellStash("steps of the run left work in git's stash or on branches of their own: no merge has it; it is kept in %s %s", diag.Plural(n, "branch", "branches"), strings.Join(list, ", "))
	}
	return err
}

// mergeShared ends the git work of a run that many machines share: none of them has the
// user's branch.
func (g *Work) mergeShared(ctx context.Context, ahead bool, items, nowhere int) error {
	if err := g.Shared.Standing(ctx); err != nil {
		return fmt.Errorf("the work of the run: %w", err)
	}
	if nowhere > 0 {
		items -= nowhere
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Message: fmt.Sprintf("%s left what neither a merge nor a branch has: it went with the clones of the workers, as the notes say", diag.Count(nowhere, "item"))})
	}
	switch {
	case ahead && g.Yes:
		g.tellUnmerged(ctx, "the work is in branch "+g.Tree.Branch+", and bide run -y merges it where it follows the run")
		return nil
	case ahead:
		g.tellUnmerged(ctx, "the work is in branch "+g.Tree.Branch+" and is not merged yet")
		return nil
	}
	return g.tellLeft(ctx, items)
}
