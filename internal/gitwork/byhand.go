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

// BranchOf is the branch in which an item's work was left; "" for none.
func BranchOf(res journal.Result) string {
	var d mapper.Result
	if json.Unmarshal(res.Data, &d) != nil {
		return ""
	}
	return d.Branch
}

// Fate is what has become of the work that a run left in branches.
type Fate int

// What may have become of it. MergedSince: who merged it by hand has not told the run, nor
// has a bide that was killed behind its merge. GivenUp: no branch of it is left, and it is in
// no merge. Where the repository cannot be read, it waits as far as is known.
const (
	Waits Fate = iota
	MergedSince
	GivenUp
)

// FateOf looks in the repository of a directory what has become of the work of a run. What
// counts is the branch of the run itself, and those for which ours is true; where none is
// left, the commits that the run has told of.
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

// NoteMerged records that what a run left is merged, where its repository shows that somebody
// has merged it, and reports whether that is new.
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

// MergedNote is the note that what was left of a run is merged.
func MergedNote(what string, items event.MergedItems) event.Event {
	data, err := json.Marshal(items)
	if err != nil {
		panic(err) // numbers
	}
	return event.Event{Type: event.Note, Class: event.Merged, Message: what, Data: data}
}

// waiting are the commits of the run, and of items that succeeded, that are in branches, and
// where they belong.
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
