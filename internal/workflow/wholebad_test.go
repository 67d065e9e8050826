package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestWhatJudgesARunAsAWholeIsRefusedWhereItCannotBe: holds, canaries, limits, widths, chains and
// budgets that can do nothing, or not what they say, are errors, each with its place and what to
// write in its stead. What has no file (a machine that does not know a limit) is one too.
func TestWhatJudgesARunAsAWholeIsRefusedWhereItCannotBe(t *testing.T) {
	const (
		held = "map: {input: [1], agent_template: [{shell: a}]}\nerror_policy: {same_error: %s}\n"
		of   = "map: {input: [1], agent_template: [{shell: a}], %s}\n"
		each = "commands: [{foreach: [a], do: [{shell: a}], parallel: %s}]\n"
	)
	machine := &limits.Config{Path: "limits.yml", Limits: map[string]limits.Limit{"api": {Name: "api", Slots: 1}, "gpu": {Name: "gpu", Slots: 1}}}
	for _, c := range []struct{ file, value, want string }{
		// Holds.
		{held, "{count: 0}", `2:36: count is 0; it must be 1 or more`},
		{held, "{count: -1}", `2:36: count is -1; it must be 1 or more`},
		{held, "{count: many}", `2:36: count takes a whole number, not a text "many"`},
		{held, "{count: 2000}", `2:28: same_error: count: 2000: must be from 1 to 1000`},
		{held, "{share: 0}", `2:36: share is 0; it must be more than 0`},
		{held, "{share: 1.5}", `2:36: share is 1.5; it must be more than 0 and at most 1`},
		{held, "{share: -0.1}", `2:36: share is -0.1; it must be more than 0`},
		{held, "{share: 90%}", `2:36: share takes a number, not a text "90%"`},
		{held, "{share: 0.01, count: 1000}", `2:28: same_error: count: 1000 of a share of 0.01: the 100000 items that are looked at must not be more than 10000`},
		{held, "{close: 0}", `2:36: close is 0; it must be 1 or more`},
		{held, "{max_hold: 0s}", `2:39: max_hold is 0; it must be more than that`},
		{held, "{max_hold: -1h}", `2:39: max_hold: "-1h" is not a duration: a span of time cannot be negative`},
		{held, "{max_hold: long}", `2:39: max_hold: "long" is not a duration: it has no number where one is expected`},
		{held, "{action: wait}", `2:37: action cannot be "wait"`},
		{held, "[10]", `2:28: a same_error takes a map, not a list`},
		{held, "10", `2:28: a same_error takes a map, not a whole number "10"`},
		{held, "{probe: {initial_delay: 0s}}", `2:37: there is no wait before a probe`},
		{held, "{probe: {delays: []}}", `2:36: the waits before probes are those of delays (backoff: custom), and there is none`},
		{held, "{probe: {delays: [0s]}}", `2:37: there is no wait before a probe`},
		{held, "{probe: {backoff: custom}}", `2:36: the waits before probes are those of delays (backoff: custom), and there is none`},
		{held, "{probe: {backoff: sometimes}}", `2:46: there is no backoff "sometimes"`},
		{held, "{probe: 30s}", `2:36: a probe takes a map, not a text "30s"`},
		{held, "{on_hold: [{shel: a}]}", `2:40: this step does nothing: it has no action, and "shel" is no key of a step`},
		// Canaries.
		{of, "canary: 0", `1:57: canary is 0; it must be 1 or more`},
		{of, "canary: -3", `1:57: canary is -3; it must be 1 or more`},
		{of, "canary: some", `1:57: a canary takes a map, not a text "some"`},
		{of, "canary: 100000", `1:57: canary: items: 100000: must be from 1 to 1000`},
		{of, "canary: {items: 3, need: 4}", `1:57: canary: need: 4 of 3 items: must be from 1 to 3`},
		{of, "canary: {items: 3, need: 0}", `1:74: need is 0; it must be 1 or more`},
		{of, "canary: {need: 2}", `1:57: canary needs items: how many run alone first`},
		{of, "canary: {item: 2}", `1:57: canary needs items: how many run alone first`},
		// Widths.
		{of, "max_parallel: automatic", `1:63: max_parallel takes a whole number, not a text "automatic"`},
		{of, "max_parallel: {min: 5, max: 2}", `1:63: max_parallel: max is 2, and min is 5; max must not be less`},
		{of, "max_parallel: {min: 0}", `1:69: min is 0; it must be 1 or more`},
		{of, "max_parallel: {max: 1000000}", `1:63: max_parallel: max is 1000000; it must be from 1 to 10000`},
		{of, "max_parallel: {least: 2}", `1:63: max_parallel needs min or max`},
		{each, "often", `1:55: parallel takes a whole number, not a text "often"`},
		{each, "{min: 5, max: 2}", `1:55: parallel: max is 2, and min is 5; max must not be less`},
		{each, "{max: 0}", `1:61: max is 0; it must be 1 or more`},
		// Limits.
		{of, "limits: [apu]", `1:58: there is no limit "apu" in limits.yml`},
		{of, "limits: [9 lives]", `1:58: a limit cannot be called "9 lives"`},
		{of, "limits: {api: 1}", `1:57: limits takes a text or a list of texts, not a map`},
		{of, "limits: ''", `1:57: a limit cannot be called ""`},
		{"commands: [{shell: a, limits: %s}]\n", "[gpus]", `1:32: there is no limit "gpus" in limits.yml`},
		{"commands: [{shell: a, limits: %s}]\n", "[mail]", `1:32: there is no limit "mail" in limits.yml`},
		{"agents: {one: {command: [x], limits: %s}}\ncommands: [{one: a}]\n", "[apis]", `1:39: there is no limit "apis" in limits.yml`},
		{"agents: {one: {first_of: [claude, codex], limits: %s}}\ncommands: [{one: a}]\n", "[apis]", `1:52: there is no limit "apis" in limits.yml`},
		{"commands: [{foreach: [a], limits: [gpu], do: [{shell: a, limits: %s}]}]\n", "[api]", `1:67: step "a" takes the limit "api" while "gpu" is held around it`},
		// Chains.
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "[claude, codexx]", `1:35: first_of of the agent "one" names the agent "codexx", which there is not`},
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "[claude, nobody]", `1:35: first_of of the agent "one" names the agent "nobody", which there is not`},
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "[claude, claude]", `1:26: first_of of the agent "one" needs two agents at least`},
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "[claude, one]", `1:35: first_of of the agent "one" names "one", which is a chain itself`},
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "[claude]", `1:26: first_of of the agent "one" needs two agents at least`},
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "[]", `1:26: first_of of the agent "one" needs two agents at least`},
		{"agents: {one: {first_of: %s}}\ncommands: [{one: a}]\n", "claude", `1:26: first_of of the agent "one" needs two agents at least`},
		{"agents: {two: {first_of: [claude, codex]}, one: {first_of: %s}}\ncommands: [{one: a}]\n", "[codex, two]", `1:68: first_of of the agent "one" names "two", which is a chain itself`},
		{"agents: {one: {first_of: [claude, codex], command: %s}}\ncommands: [{one: a}]\n", "[x]", `1:43: the agent "one" is a chain (first_of), and has no command of its own`},
		{"agents: {one: {first_of: [claude, codex]}}\ncommands: [{one: a, continue_session: %s}]\n", "true", `2:21: continue_session: a session does not go from one agent to another, and "one" is a chain`},
		// Budgets.
		{of, "item_budget: {}", `1:62: item_budget bounds nothing: it needs cost, tokens or time`},
		{of, "item_budget: {on_exceeded: skip}", `1:62: item_budget bounds nothing: it needs cost, tokens or time`},
		{of, "item_budget: {cost: 0}", `1:69: cost is 0; it must be more than 0`},
		{of, "item_budget: {cost: -2}", `1:69: cost is -2; it must be more than 0`},
		{of, "item_budget: {tokens: 0}", `1:71: tokens is 0; it must be 1 or more`},
		{of, "item_budget: {tokens: many}", `1:71: tokens takes a whole number, not a text "many"`},
		{of, "item_budget: {tokens: 10q}", `1:71: tokens takes a whole number, not a text "10q"`},
		{of, "item_budget: {time: 0s}", `1:69: time is 0; it must be more than that`},
		{of, "item_budget: {time: 1m, on_exceeded: dlqq}", `1:86: on_exceeded cannot be "dlqq"`},
		{of, "item_budget: {costs: 1}", `1:62: item_budget bounds nothing: it needs cost, tokens or time`},
		{of, "item_budget: 0.5", `1:62: an item_budget takes a map, not a number "0.5"`},
	} {
		f, problems := workflow.Parse("a.yml", fmt.Appendf(nil, c.file, c.value), workflow.Options{})
		if f != nil && !problems.HasErrors() {
			problems = append(problems, workflow.LimitProblems(f, machine)...)
		}
		var got []string
		for _, p := range problems {
			if p.Severity != diag.Error {
				continue
			}
			if p.File != "a.yml" || p.Suggestion == "" {
				t.Errorf("%s: no place, or nothing to do about it: %+v", c.value, p)
			}
			got = append(got, fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Message))
		}
		if len(got) == 0 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s\ngot  %q\nwant %s", fmt.Sprintf(c.file, c.value), got, c.want)
		}
	}
}
