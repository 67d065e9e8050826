package cli

import (
	"context"
	"slices"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/journal"
)

// unmerged is how the work of a run stands that is in no merge, and what is to be done.
type unmerged struct {
	journal.Left
	// ended says that nothing but the merge is missing or was, so that no resume is needed;
	// byHand that somebody has merged it, and not told the run; given that it is in no merge,
	// and no branch has it.
	ended, byHand, given bool
}

// unmergedOf tells it of a run with a status.
func unmergedOf(status string, left journal.Left) unmerged {
	settled := left.Command == "" && left.Once != ""
	given := settled && len(left.Work.Commits) > 0
	return unmerged{left, status == event.Failed && left.Once != "", settled && !given, given}
}

// commands are those that continue the run or merge its work. resumable says that the run
// can continue, letters that it has dead letters.
func (u unmerged) commands(run string, resumable, letters bool) (list []string) {
	if resumable && !u.ended {
		list = append(list, "bide resume "+run)
	}
	if letters {
		list = append(list, "bide dlq retry "+run)
	}
	if u.Command != "" {
		list = append(list, u.Command)
	}
	return list
}

// notMerged is what a run has come to of which nothing but a merge is missing.
const notMerged = "completed, not merged"

// title is what a status is called: a run of which only a merge is missing has not failed.
func (u unmerged) title(status string) string {
	switch {
	case status == event.Running:
	case u.byHand:
		return words(u.Once) + ", merged by hand"
	case u.given:
		return words(u.Once) + ", not merged: its branch was removed"
	case status == event.CompletedWithFailures && u.OnlyMerge() && u.Once == event.Succeeded:
		return notMerged
	}
	return words(status)
}

// nowLeft is what a run left that is not merged now: who merged it by hand, or gave it up,
// has not told the run.
func nowLeft(ctx context.Context, r *journal.Reader, left journal.Left) journal.Left {
	if left.Command == "" || r.IsElsewhere() { // its branches may not have come here yet
		return left
	}
	items, _, err := unmergedItems(ctx, r)
	if err != nil {
		return left
	}
	switch gitwork.FateOf(ctx, r.Header().Dir, r.Run(), left.Work, func(branch string) bool {
		return slices.ContainsFunc(items, func(res journal.Result) bool { return gitwork.BranchOf(res) == branch })
	}) {
	case gitwork.MergedSince:
		return journal.Left{Once: left.Once}
	case gitwork.GivenUp:
		return journal.Left{Once: left.Once, Work: left.Work}
	}
	return left
}
