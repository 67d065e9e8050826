package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/worktree"
)

// BranchOf gives the branch in which an item's work was left; "" for none.
func BranchOf(res journal.Result) string {
	var d mapper.Result
	if json.Unmarshal(res.Data, &d) != nil {
		return ""
	}
	return d.Branch
}

// Fate says what has become of the work that a run left in branches.
type Fate int

// The values of a Fate. MergedSince: it was merged, but the run does not know; a person
// merged it, or a bide that was killed right after the merge. GivenUp: no branch has it any
// more, and it is in no merge. If the repository cannot be read, the work counts as
// waiting.
const (
	Waits Fate = iota
	MergedSince
	GivenUp
)

// FateOf finds out, in the repository of a directory, what has become of the work of a run.
// It looks at the branch of the run itself, and the branches for which ours is true. If
// none of these is left, it looks at the commits that the run has reported.
func FateOf(ctx context.Context, dir, run string, work event.LeftWork, ours func(branch string) bool) Fate {
	repo, err := worktree.Open(ctx, dir)
	if err != nil {
		return Waits
	}
	branches, err := repo.List(ctx, run)
	if err != nil {
		return Waits
	}
	branches = slices.DeleteFunc(branches, func(i worktree.Info) bool { return i.Item != "" && !ours(i.Branch) })
	switch has, err := repo.HasAll(ctx, work.Into, work.Commits); {
	case slices.ContainsFunc(branches, func(i worktree.Info) bool { return !i.Merged() }):
		return Waits
	case len(branches) > 0, err == nil && has:
		return MergedSince
	case err == nil:
		return GivenUp
	}
	return Waits
}

// NoteMerged records that what a run left is merged, if its repository shows that somebody
// has merged it. It reports whether that is new.
func NoteMerged(ctx context.Context, j *journal.Journal, left journal.Left) (bool, error) {
	if left.Command == "" || j.IsElsewhere() { // its branches may not have come here yet
		return false, nil
	}
	var places []int
	names := map[string]bool{}
	for res, err := range j.Results(ctx) {
		if err != nil {
			return false, err
		}
		if branch := BranchOf(res); res.Status == event.Succeeded && branch != "" {
			places, names[branch] = append(places, res.Index), true
		}
	}
	if FateOf(ctx, j.Header().Dir, j.Run(), left.Work, func(branch string) bool { return names[branch] }) != MergedSince {
		return false, nil
	}
	return true, errors.Join(j.Append(MergedNote("what was left is merged already", event.MergedItems{Items: places})), j.Sync(ctx))
}

// MergedNote is the note that what a run left is merged.
func MergedNote(what string, items event.MergedItems) event.Event {
	data, err := json.Marshal(items)
	if err != nil {
		panic(err) // cannot happen: it has only numbers
	}
	return event.Event{Type: event.Note, Class: event.Merged, Message: what, Data: data}
}

// waiting gives the commits of the run, and of items that succeeded, that are in branches,
// and where they are to be merged.
func (g *Work) waiting(ctx context.Context) (w event.LeftWork, err error) {
	w.Into = g.Tree.Target
	tips, err := g.Repo.Tips(ctx, g.x.Run)
	if err != nil {
		return w, err
	}
	if tip := tips[g.Tree.Branch]; tip != "" {
		w.Commits = append(w.Commits, tip)
	}
	if g.Results == nil || len(tips) <= len(w.Commits) {
		return w, nil
	}
	for res, err := range g.Results(ctx) {
		if err != nil {
			return w, err
		}
		if tip := tips[BranchOf(res)]; res.Status == event.Succeeded && tip != "" {
			w.Commits = append(w.Commits, tip)
		}
	}
	return w, nil
}
