package cli

import (
	"context"
	"slices"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/journal"
)

// unmerged is the state of a run's unmerged work, and what to do about it.
type unmerged struct {
	journal.Left
	// ended: nothing but the merge is or was missing, so that no resume is needed. byHand:
	// somebody has merged the work without bide. branchGone: the work is not merged, and its branch
	// is gone.
	ended, byHand, branchGone bool
}

// unmergedOf computes it for a run with a status.
func unmergedOf(status string, left journal.Left) unmerged {
	settled := left.Command == "" && left.Once != ""
	gone := settled && len(left.Work.Commits) > 0
	return unmerged{left, status == event.Failed && left.Once != "", settled && !gone, gone}
}

// commands are the commands that continue the run or merge its work. resumable says that the
// run can continue, letters that it has dead letters.
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

// notMerged is the status of a run that lacks only a merge.
const notMerged = "completed, not merged"

// title is a status in words: a run that lacks only a merge has not failed.
func (u unmerged) title(status string) string {
	switch {
	case status == event.Running:
	case u.byHand:
		return words(u.Once) + ", merged by hand"
	case u.branchGone:
		return words(u.Once) + ", not merged: its branch was removed"
	case status == event.CompletedWithFailures && u.OnlyMerge() && u.Once == event.Succeeded:
		return notMerged
	}
	return words(status)
}

// nowLeft is the work of a run that is still not merged now: somebody may have merged it by
// hand, or given it up, and the run does not know.
func nowLeft(ctx context.Context, r *journal.Reader, left journal.Left) journal.Left {
	if left.Command == "" || r.IsElsewhere() { // its branches may not have been fetched yet
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
