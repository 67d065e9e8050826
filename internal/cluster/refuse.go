package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// RefusedLimits gives errors for the named limits of a file or a pipeline: many machines
// together do not keep to them.
func RefusedLimits(refs []workflow.LimitRef) (list diag.List) {
	if len(refs) > 0 {
		list.Errorf(refs[0].Pos, "not-on-temporal", "limits: the named limits are those of one machine, and a run on Temporal has many").
			Suggest("leave it out, or run the file on one machine; max_parallel bounds the items of the run")
	}
	return list
}

// Refused reports what a workflow file asks for that many machines cannot do, or not yet,
// as errors of the file; and as warnings what each machine does only for itself. isolation
// is the value from the command line. dir is the directory in which the run would be
// started here; "" means the current one.
func Refused(f *workflow.File, isolation, dir string) (list diag.List) {
	refuse := func(pos diag.Pos, message, suggestion string) {
		pos.File = cmp.Or(pos.File, f.Path)
		list = append(list, diag.Problem{Pos: pos, Code: "not-on-temporal", Message: message, Suggestion: suggestion})
	}
	if workflow.Isolates(f, cmp.Or(isolation, f.Isolation, "auto")) {
		if w := f.Worktree; w != nil {
			refuse(w.Pos, "worktree: worktrees are not prepared yet in a run on Temporal, where each worker has a clone of its own", "let the first step of the template prepare its worktree")
		}
		if a := f.Agents["merge"]; a != nil {
			refuse(a.Pos, "agents.merge: conflicts are not resolved yet in a run on Temporal: the attempt at the item fails", "leave it out; retry_config tries the item again on top of what is merged by then")
		}
		if !f.CommitsLeft() {
			refuse(f.Pos, "auto_commit: false: what steps outside of the map leave uncommitted has no worktree in which it could stay when a run on Temporal ends", "write it at the steps of the map only, or run the file on one machine")
		}
	}
	if f.Merge != nil {
		refuse(f.Merge.Pos, "merge: no worker of a run on Temporal has the branch that is merged into", "leave it out: bide run -y, or bide worktree merge, merges the run where it was started")
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
	if f.Queue != nil {
		refuse(f.Queue.Pos, "merge_queue: items of a run on Temporal are merged one after another when they end, and not verified as merged", "leave it out, or run the file on one machine")
	}
	for _, p := range RefusedLimits(dataflow.LoadSteps(f, dir).Limits(f)) {
		refuse(p.Pos, p.Message, p.Suggestion)
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
