package cluster

import (
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// Refused says what of a workflow file cannot be kept to by many machines, or not
// yet: as problems of the file. isolation is that of the command line.
func Refused(f *workflow.File, isolation string) (list diag.List) {
	refuse := func(pos diag.Pos, message, suggestion string) {
		if pos.File == "" {
			pos.File = f.Path
		}
		list = append(list, diag.Problem{Pos: pos, Code: "not-on-temporal", Message: message, Suggestion: suggestion})
	}
	if isolation == "" {
		isolation = f.Isolation
	}
	switch {
	case isolation == "worktree":
		refuse(f.Pos, "worktrees of agents are not there yet for a run on Temporal", "write isolation: none, or --isolation none: all workers then work in the one directory that they share")
	case isolation != "none" && workflow.NeedsIsolation(f):
		refuse(f.Pos, "the file has agents or commits, which work in worktrees of their own on one machine; those are not there yet for a run on Temporal", "write isolation: none, or --isolation none: all workers then work in the one directory that they share")
	}
	if f.Merge != nil {
		refuse(f.Merge.Pos, "merge: there is nothing to merge in a run on Temporal, where no item has a worktree yet", "leave it out")
	}
	if f.MaxCost > 0 || f.MaxTokens > 0 {
		refuse(f.Pos, "max_cost and max_tokens: a budget that all workers share is not there yet for a run on Temporal", "leave it out, or run the file on one machine")
	}
	if f.Map != nil {
		refuseMap(f, refuse)
	}
	return list
}

func refuseMap(f *workflow.File, refuse func(diag.Pos, string, string)) {
	m, p := f.Map, f.Policy
	if f.Timeout.Set {
		refuse(f.Pos, "timeout of the whole workflow: a time that all workers share is not there yet for a map on Temporal", "write agent_timeout, or a timeout at the steps")
	}
	if m.TimeoutAction == "fail" {
		refuse(m.Pos, "timeout_action: fail ends the map at once, which lanes cannot do yet on Temporal", "write dlq with max_failures: 1")
	}
	if p.OnItemFailure == "custom" {
		refuse(p.Pos, "on_item_failure with a handler is not there yet for a run on Temporal", "write dlq, and look at the dead letters with bide dlq")
	}
	if p.Collection == "immediate" || p.Collection == "batched" {
		refuse(p.Pos, "error_collection: a run on Temporal shows the errors at its end", "write aggregate")
	}
}
