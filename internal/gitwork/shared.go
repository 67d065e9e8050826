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

// Shared is what machines that share a run know about its git work. Each works in its own
// clone. What one of them adds reaches the others before anything that refers to it is
// recorded. After an error of any method, its caller may record nothing more.
type Shared interface {
	// Share is called once, with the run in this machine's clone.
	Share(run *worktree.Run)
	// Merged takes over what other machines have added. It gives the record of the merge of
	// an item if one of them has made it; nil otherwise.
	Merged(ctx context.Context, index int) (*MergeRecord, error)
	// Merge adds the merge of an item, and the commit that was checked for it; "" for none.
	// No other merge is made here at that time.
	Merge(ctx context.Context, index, attempt int, m worktree.Move, checked string) error
	// Standing adds the state of the run's own worktree. step is the step that has ended
	// there; "" for none.
	Standing(ctx context.Context, step string) error
	// Keep adds a branch of an item with work that is not merged.
	Keep(ctx context.Context, index int, branch, commit string) error
	// LeftOut are the files that were uncommitted where the run was started.
	LeftOut() []string
}

// Elsewhere gives the record of the merge of an item if another machine has made it and
// then ended before it could record the end of the item; nil otherwise.
func (g *Work) Elsewhere(ctx context.Context, it event.Item) (*MergeRecord, error) {
	if g.Shared == nil || g.Tree == nil {
		return nil, nil
	}
	return g.Shared.Merged(ctx, it.Index)
}

// keep tells other machines about the branches with an item's unmerged work.
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

// keptAs says where something is that is in no branch, and what to do about it. Nobody
// finds it in the clone of a worker, which is deleted with the worker.
func (g *Work) keptAs(paths []string, then string) string {
	if g.Shared != nil {
		return "all of it goes with the clone of the worker"
	}
	return "kept as " + strings.Join(paths, ", ") + then
}

// KeepAll is keep for branches of earlier attempts that were found in a worktree of the
// pool.
func (g *Work) KeepAll(ctx context.Context, index int, list []worktree.Kept) error {
	var errs []error
	for _, k := range list {
		errs = append(errs, g.keep(ctx, index, k))
	}
	return errors.Join(errs...)
}

// keepBeside tells other machines about what the steps of the run itself left in the stash
// of this clone, or on branches of their own.
func (g *Work) keepBeside(ctx context.Context) error {
	k, err := g.Tree.KeepBeside(ctx)
	return errors.Join(err, g.keep(ctx, 0, k))
}

// tellBeside is keepBeside at the end of the run. It also reports all that is kept in this
// way.
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

// mergeShared ends the git work of a run that many machines share. None of them has the
// user's branch.
func (g *Work) mergeShared(ctx context.Context, ahead bool, items, nowhere int) error {
	if err := g.Shared.Standing(ctx, ""); err != nil {
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
	return g.tellLeft(ctx, items, g.Unmerged)
}
