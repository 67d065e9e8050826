package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// Refused says what of a workflow file cannot be kept to by many machines, or not
// yet, as errors of the file; and as warnings what each of them keeps to by itself.
// isolation is that of the command line.
func Refused(f *workflow.File, isolation string) (list diag.List) {
	refuse := func(pos diag.Pos, message, suggestion string) {
		pos.File = cmp.Or(pos.File, f.Path)
		list = append(list, diag.Problem{Pos: pos, Code: "not-on-temporal", Message: message, Suggestion: suggestion})
	}
	isolation = cmp.Or(isolation, f.Isolation)
	switch {
	case isolation == "worktree":
		refuse(f.Pos, "worktrees of agents are not there yet for a run on Temporal", "write isolation: none, or --isolation none: all workers then work in the one directory that they share")
	case isolation != "none" && workflow.NeedsIsolation(f):
		refuse(f.Pos, "the file has agents or commits, which work in worktrees of their own on one machine; those are not there yet for a run on Temporal", "write isolation: none, or --isolation none: all workers then work in the one directory that they share")
	}
	if f.Merge != nil {
		refuse(f.Merge.Pos, "merge: there is nothing to merge in a run on Temporal, where no item has a worktree yet", "leave it out")
	}
	if f.Map != nil && f.Map.Unchanged != nil {
		refuse(f.Map.Unchanged.Pos, "map.skip_unchanged: a run on Temporal does not know what earlier runs have ended", "leave it out: every item runs")
	}
	if f.Map != nil && f.Map.Adaptive != nil {
		refuse(f.Map.Pos, "map.max_parallel: in a run on Temporal it is not found out how many items run at once", "write a number, or run the file on one machine")
	}
	if f.Map != nil && f.Map.Canary != nil {
		refuse(f.Map.Pos, "map.canary: in a run on Temporal all items may start at once", "leave it out, or run the file on one machine")
	}
	if f.Map != nil && f.Map.Budget != nil {
		refuse(f.Map.Budget.Pos, "map.item_budget: what an item has used is known on each machine alone, and a run on Temporal has many", "leave it out, or run the file on one machine; max_cost and max_tokens bound the run")
	}
	if f.Map != nil && f.Map.Evidence != nil {
		refuse(f.Map.Evidence.Pos, "map.evidence: items are checked in worktrees of their own; those are not there yet for a run on Temporal", "leave it out, or run the file on one machine")
	}
	if f.Queue != nil {
		refuse(f.Queue.Pos, "merge_queue: there is nothing to merge in a run on Temporal, where no item has a worktree yet", "leave it out, or run the file on one machine")
	}
	if refs := workflow.Limits(f); len(refs) > 0 {
		refuse(refs[0].Pos, "limits: the named limits are those of one machine, and a run on Temporal has many", "leave it out, or run the file on one machine; max_parallel bounds the items of the run")
	}
	agents := workflow.AllAgents(f)
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if a := agents[name]; len(a.FirstOf) > 0 {
			refuse(a.Pos, fmt.Sprintf("agents.%s.first_of: which agent is paused is known on each machine alone, and a run on Temporal has many", name), "name one agent, or run the file on one machine")
		}
	}
	if f.Policy.SameError != nil {
		refuse(f.Policy.Pos, "same_error: a run on Temporal is not held yet", "leave it out, or run the file on one machine")
	}
	if f.Map != nil && f.Policy.Breaker != nil && f.Policy.Breaker.SlowCall > 0 {
		refuse(f.Policy.Pos, "error_policy.circuit_breaker.slow_call: a run on Temporal does not know how long each agent took", "leave slow_call and slow_rate out; failures open the breaker")
	}
	workflow.WalkAll(f, func(s *workflow.Step) {
		v := s.Validate
		if a, is := s.Action.(*workflow.Validate); is {
			v = a
		}
		if v != nil && v.OnIncomplete != nil && v.OnIncomplete.Prompt != nil {
			list = append(list, diag.Problem{Pos: s.Pos, Severity: diag.Warning, Code: "nobody-asked",
				Message: "prompt: nobody is asked in a run on Temporal, which continues as without a terminal", Suggestion: "leave it out"})
		}
	})
	if f.Map != nil {
		workflow.WalkAll(&workflow.File{Steps: f.Map.Template.Steps}, func(s *workflow.Step) {
			if s.Retry == nil || s.Retry.Breaker == nil && s.Retry.Quota == nil {
				return
			}
			list = append(list, diag.Problem{Pos: s.Pos, Severity: diag.Warning, Code: "by-worker",
				Message:    "the circuit breaker or quota of this step is one for each worker on Temporal, and not one for the whole run",
				Suggestion: "the map's own circuit_breaker, in error_policy, is the run's"})
		})
	}
	return list
}
