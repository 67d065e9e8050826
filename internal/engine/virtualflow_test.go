package engine_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// one is a workflow with a step that requests a path under a retry policy, and a step that
// follows.
func one(path, policy string) string {
	return "commands:\n  - {http: 'http://example.test/" + path + "', retry: {" + policy + "}}\n  - http: http://example.test/next\n"
}

// each is a map that requests paths, and then what reduce requests.
func each(items, keys string) string {
	return "mode: mapreduce\nmap:\n  input: [" + items + "]\n  agent_template: [{http: 'http://example.test/${item}', id: got}, {http: 'http://example.test/then-${got.output}'}]\n" +
		keys + "reduce:\n  - http: http://example.test/reduce-${map.succeeded}-of-${map.total}-${map.results[0].steps[0].output}\n"
}

// virtualFlows are workflows in which an option of a retry policy has an effect, by the
// option's name, or by a key of another part of a file, with the part before it. Requests
// are answered as in TestCallsUnderVirtualPorts.
var virtualFlows = map[string][]string{
	"attempts":             {one("flaky", "attempts: 5"), one("down", "attempts: 2")},
	"backoff":              {one("late", "attempts: 9, backoff: exponential"), one("late", "attempts: 9, backoff: fibonacci"), one("late", "attempts: 9, backoff: linear")},
	"initial_delay":        {one("flaky", "attempts: 3, initial_delay: 700ms")},
	"max_delay":            {one("late", "attempts: 9, max_delay: 3s")},
	"increment":            {one("late", "attempts: 9, backoff: linear, increment: 2s")},
	"base":                 {one("late", "attempts: 9, base: 3")},
	"delays":               {one("late", "attempts: 9, delays: [1s, 4s]")},
	"jitter":               {one("late", "attempts: 9, jitter: full"), one("late", "attempts: 9, jitter: equal"), one("late", "attempts: 9, jitter: decorrelated"), one("late", "attempts: 9, jitter: true"), each("a, flaky, down", "  retry: {attempts: 3, jitter: full}\n")},
	"jitter_factor":        {one("late", "attempts: 9, jitter: true, jitter_factor: 0.5")},
	"retry_on":             {one("flaky", "attempts: 3, retry_on: [network]"), one("flaky", "attempts: 3, retry_on: [server_error]")},
	"abort_on":             {one("flaky", "attempts: 3, abort_on: [server_error]")},
	"retry_budget":         {one("late", "attempts: 9, retry_budget: 4s")},
	"retry_budget_expires": {one("late", "attempts: 9, retry_budget: 4s, retry_budget_expires: true")},
	"retry_after_max":      {one("limited", "attempts: 3, retry_after_max: 10s"), one("limited", "attempts: 3, retry_after_max: 2s")},
	"deadline":             {one("late", "attempts: 99, deadline: 10s"), one("slow", "attempts: 2, deadline: 5s"), each("late, slow", "  retry: {attempts: 99, deadline: 10s}\n  agent_timeout: 1m\n")},
	"until":                {one("fine", "attempts: 3, until: \"result.output != 'ok fine'\""), one("fine", "attempts: 3, until: result.status == 200")},
	"rules":                {one("late", "attempts: 9, rules: [{on: server_error, attempts: 3, backoff: fixed}]")},
	"circuit_breaker":      {one("down", "attempts: 9, circuit_breaker: {failure_threshold: 3, timeout: 30s}")},
	"timeout":              {one("slow", "attempts: 2, timeout: 3s")},
	"on_failure":           {one("down", "attempts: 2, on_failure: continue"), one("down", "attempts: 2, on_failure: {fallback: {command: 'echo none'}}"), one("down", "attempts: 2, on_failure: {fallback: {command: 'exit 3'}}")},
	"quota":                {"commands: [{foreach: [down1, down2, down3], continue_on_error: true, do: [{http: 'http://example.test/${item}', retry: {attempts: 5, quota: {name: q, ratio: 0.1, initial: 2}}}]}]\n"},

	"map sort_by":                     {each("{n: 2}, {n: 1}", "  sort_by: n\n")},
	"map filter":                      {each("1, 2, 3", "  filter: item > 1\n")},
	"map distinct":                    {each("{n: 2}, {n: 1}, {n: 2}", "  distinct: n\n")},
	"map offset":                      {each("1, 2, 3", "  offset: 1\n"), each("1, 2, 3", "  offset: 3\n")},
	"map max_items":                   {each("1, 2, 3", "  max_items: 2\n")},
	"map min_items":                   {each("1, 2, 3", "  min_items: 3\n")},
	"map max_parallel":                {each("a, flaky, b, down, c", "  max_parallel: 2\n"), each("a, flaky, b, down, c", "  max_parallel: 1\n"), each("a, b, c, d, e, f, g", "  max_parallel: {min: 1, max: 3}\n")},
	"map canary":                      {each("down1, a, b, c", "  max_parallel: 1\n  canary: 2\n"), each("a, down1, b, c", "  max_parallel: 1\n  canary: {items: 2, need: 1}\n")},
	"map item_budget":                 {each("a, slow", "  item_budget: {time: 1m}\n"), each("a, flaky, down", "  retry: {attempts: 9, initial_delay: 1s}\n  item_budget: {time: 3500ms, on_exceeded: skip}\n")},
	"map label":                       {each("a, down", "  label: item ${item}\n")},
	"map agent_timeout":               {each("a, slow", "  agent_timeout: 1m\n")},
	"map retry_on_failure":            {each("a, flaky, down", "  retry_on_failure: 2\n")},
	"map start_delay":                 {each("a, b, c", "  start_delay: 500ms\n")},
	"map json_path":                   {"mode: mapreduce\nmap: {input: items.json, json_path: '$.list[*]', agent_template: [{http: 'http://example.test/${item}'}]}\n"},
	"map input_type":                  {"mode: mapreduce\nmap: {input: items.json, input_type: lines, agent_template: [{http: 'http://example.test/fine'}]}\n"},
	"timeout_config timeout_policy":   {each("a, slow", "  timeout_config: {agent_timeout: 1m, timeout_policy: per_command}\n")},
	"timeout_config timeout_action":   {each("a, slow", "  timeout_config: {agent_timeout: 1m, timeout_action: skip}\n"), each("a, slow, b, c", "  max_parallel: 1\n  timeout_config: {agent_timeout: 1m, timeout_action: fail}\n")},
	"timeout_config command_timeouts": {each("a, slow", "  timeout_config: {agent_timeout: 9m, command_timeouts: {got: 3s}}\n")},
	"error_policy on_item_failure": {each("a, down, b", "  on_item_failure: skip\n"), each("a, down, b", "  on_item_failure: dlq\n"), each("a, down, b", "  max_parallel: 1\n  on_item_failure: stop\n"),
		each("a, down, b", "  on_item_failure: {custom: mend}\n") + "handlers: {mend: [{http: 'http://example.test/mended'}]}\n",
		each("a, down, b", "  on_item_failure: {custom: mend}\n") + "handlers: {mend: [{http: 'http://example.test/down'}]}\n"},
	"error_policy retry_config":        {each("a, flaky, down", "  on_item_failure: retry\n  retry_config: {attempts: 4, backoff: fixed, initial_delay: 3s}\n")},
	"error_policy continue_on_failure": {each("a, down, b", "  max_parallel: 1\n  continue_on_failure: false\n")},
	"error_policy max_failures":        {each("down1, down2, down3, b", "  max_parallel: 1\n  max_failures: 2\n")},
	"error_policy failure_threshold":   {each("down1, down2, down3, b", "  max_parallel: 1\n  failure_threshold: 0.5\n")},
	"error_policy error_collection":    {each("down1, down2, down3, b", "  max_parallel: 1\n  error_collection: immediate\n"), each("down1, down2, down3, b", "  max_parallel: 1\n  error_collection: {batched: {size: 2}}\n")},
	"error_policy same_error":          {each("down1, down2, down3, b, c", "  max_parallel: 1\n  same_error: {count: 2, share: 0.6, max_hold: 30s, probe: {initial_delay: 20s}}\n")},
	"error_policy circuit_breaker":     {each("down1, down2, down3, b, c", "  max_parallel: 1\n  circuit_breaker: {failure_threshold: 2, timeout: 20s}\n")},

	"block timeout":         {"mode: mapreduce\nsetup: {timeout: 3s, commands: [{http: 'http://example.test/slow'}]}\nmap: {input: [1], agent_template: [{http: 'http://example.test/a'}]}\n"},
	"block capture_outputs": {"mode: mapreduce\nsetup: {commands: [{http: 'http://example.test/a'}], capture_outputs: {x: {command: 0}}}\nmap: {input: [1], agent_template: [{http: 'http://example.test/${x}'}]}\n"},
	"workflow timeout": {"timeout: 5s\ncommands: [{http: 'http://example.test/fine'}, {http: 'http://example.test/slow'}]\n",
		"timeout: 5s\n" + one("down", "attempts: 3, initial_delay: 9s"), "timeout: 5s\n" + one("down", "attempts: 9, initial_delay: 1s")},
	"workflow retry_defaults": {"retry_defaults: {attempts: 3, initial_delay: 9s}\n" + each("a, down", "  agent_timeout: 5s\n")},
	"workflow finally": {"commands: [{http: 'http://example.test/down'}]\nfinally: [{http: 'http://example.test/after-${workflow.status}'}]\n",
		each("a, down", "") + "finally: [{http: 'http://example.test/after-${workflow.status}'}, {http: 'http://example.test/down'}]\n"},
	"workflow max_iterations": {"max_iterations: 3\ncommands: [{http: 'http://example.test/round-${ITERATION}'}]\n"},
	"workflow workflows": {"workflows: {x: {source: sub.yml, parallel: true, with: {n: flaky}}, y: {source: sub.yml, parallel: true, continue_on_error: true, with: {n: down}}, z: {source: sub.yml, depends_on: [x], with: {n: z}, outputs: [got]}}\n" +
		"commands: [{http: 'http://example.test/${z.got}'}]\n"},

	"on_failure max_attempts":   {"commands: [{http: 'http://example.test/flaky', on_failure: {http: 'http://example.test/mend', max_attempts: 3}}]\n"},
	"on_failure strategy":       {"commands: [{http: 'http://example.test/down', on_failure: {commands: [{http: 'http://example.test/mend'}], strategy: cleanup}}]\n"},
	"on_failure timeout":        {"commands: [{http: 'http://example.test/down', on_failure: {commands: [{http: 'http://example.test/slow'}], timeout: 2s}}]\n"},
	"step on_success":           {"commands: [{http: 'http://example.test/fine', on_success: {http: 'http://example.test/down'}}]\n"},
	"validate threshold":        {"commands: [{validate: {commands: [{http: 'http://example.test/fine'}], threshold: 50, on_incomplete: {commands: [{http: 'http://example.test/more'}], max_attempts: 2, retry_delay: 3s, fail_workflow: false}}}]\n"},
	"goal_seek timeout":         {"commands: [{goal_seek: {goal: x, do: [{http: 'http://example.test/fine'}], validate: 'score: 1', threshold: 50, max_attempts: 9, timeout: 2500ms}}]\n"},
	"foreach parallel":          {"commands: [{foreach: [a, b, c, d, e, f, g, h], parallel: {min: 1, max: 3}, do: [{http: 'http://example.test/${item}'}]}]\n"},
	"foreach continue_on_error": {"commands: [{foreach: [a, down, b], parallel: 2, continue_on_error: true, do: [{http: 'http://example.test/${item}'}]}, {http: 'http://example.test/${foreach.failed}'}]\n"},
}

// virtualParts are the parts of a file of which each key has a row, except for keys that
// say where files or processes are, and keys of other tables.
var virtualParts = map[string][]string{
	"error_policy":   {"max_recoveries", "retry"}, // of crashes; another spelling
	"timeout_config": {"agent_timeout", "agent_timeout_secs", "cleanup_grace_period", "cleanup_grace_period_secs"},
	"map": {"input", "agent_template", "agent_timeout_secs", "timeout_per_agent", "timeout_config", "retry", "retry_config", "error_policy", "on_item_failure",
		"continue_on_failure", "max_failures", "failure_threshold", "error_collection", "circuit_breaker", "max_recoveries", "same_error", "skip_unchanged", "evidence", "limits"}, // the last ones need earlier runs, git, or what a machine has
	"block": {"commands", "steps", "timeout_secs"},
}

// TestFlowsUnderVirtualPorts runs workflows with the ports of this machine and with virtual
// ones: the facts and their times are the same.
func TestFlowsUnderVirtualPorts(t *testing.T) {
	t.Parallel()
	for _, o := range option.For(option.File) {
		if len(virtualFlows[o.Name]) == 0 {
			t.Errorf("no workflow for the option %s", o.Name)
		}
	}
	for _, f := range workflow.Fields() {
		if other, ok := virtualParts[f.Object]; ok && f.Inert == "" && !slices.Contains(other, f.Key) && len(virtualFlows[f.Object+" "+f.Key]) == 0 {
			t.Errorf("no workflow for the key %s of %s", f.Key, f.Object)
		}
	}
	for name, list := range virtualFlows {
		for i, text := range list {
			t.Run(fmt.Sprintf("%s %d", name, i), func(t *testing.T) {
				t.Parallel()
				v := &virtual{took: time.Second, fails: func(path string, n int, at time.Duration) bool {
					switch strings.TrimRight(path, "0123456789") {
					case "down":
						return true
					case "flaky":
						return n <= 2
					case "late":
						return at < 20*time.Second
					}
					return false
				}, slow: "slow", limited: "limited"}
				inTime(t, v, func(b *bench) { b.sameFlow(text) })
			})
		}
	}
}

// luck gives the same random values at the same place each time.
func luck(p step.Address, path string) backoff.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, path, p.Rounds, p.Index)
	return rand.New(rand.NewPCG(h.Sum64(), uint64(p.Attempt)))
}

// sameFlow compares the facts of a workflow under both kinds of ports.
func (b *bench) sameFlow(text string) {
	b.t.Helper()
	b.write("items.json", `{"list": ["a", "b"]}`)
	b.write("sub.yml", "parameters: {optional: [{name: n, default: n}]}\ncommands: [{http: 'http://example.test/${n}', capture: got, retry: {attempts: 3, jitter: full}}]\n")
	tape := &Tape{}
	b.opt.Composed = func(x *step.Executor) { x.Actions, x.Rand = Taping{Actions: x.Actions, Tape: tape}, luck }
	began := time.Now()
	r := b.run(text)
	b.opt.Composed = nil

	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := ports.NewClock(begin)
	rec := &ports.Recorder{Clock: clock}
	opt := b.opt
	opt.File, opt.Dir = b.parse(text), b.dir
	var sum *engine.Summary
	clock.Run(func() {
		sum = engine.RunOn(context.Background(), opt, engine.Ports{Clock: clock, Recorder: rec, Actions: Player{Clock: clock, Tape: tape}, Rand: luck, Data: true, Run: r.sum.Run,
			Items: func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() }})
	})
	if left := tape.Left(); left != "" {
		b.t.Errorf("virtually nobody asked to %s", left)
	}
	sameEnd(b.t, sum, r.sum)
	sameTimes(b.t, timed(rec.Facts(), begin), timed(r.events, began))
}

// sameEnd compares how two runs ended.
func sameEnd(t *testing.T, virtually, here *engine.Summary) {
	t.Helper()
	text := func(s *engine.Summary) string {
		return fmt.Sprintf("%s %q %v %+v %+v %+v in %dms", s.Status, s.Message, s.Outputs, s.Steps, s.Items, s.Errors, s.DurationMS)
	}
	if a, b := text(virtually), text(here); a != b {
		t.Errorf("virtually\n%s\nhere\n%s", a, b)
	}
}

// sameTimes compares what timed gives of two runs.
func sameTimes(t *testing.T, have, want []string) {
	t.Helper()
	if len(want) < 3 {
		t.Fatalf("the run has said %q", want)
	}
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i] != want[i] {
			t.Fatalf("from fact %d on they differ: virtually\n%s\nhere\n%s", i, strings.Join(have[min(i, len(have)):], "\n"), strings.Join(want[min(i, len(want)):], "\n"))
		}
	}
}

// TestVirtualPortsRefuse: what virtual ports cannot answer is an error that says so.
// Nothing is left out silently.
func TestVirtualPortsRefuse(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"a command that computes a variable": {"env: {X: {command: echo x}}\ncommands: [{shell: 'true'}]\n", "no command runs here to compute a value"},
		"a secret out of a command":          {"secrets: {X: {provider: command, key: echo x}}\ncommands: [{shell: 'true'}]\n", "no command runs here to compute a value"},
		"items out of a command":             {"mode: mapreduce\nmap: {input: 'seq 3', agent_template: [{shell: 'true'}]}\n", "the work items are not known before the run"},
		"an attempt without an answer":       {"commands: [{shell: 'true'}]\n", "the tape has no answer to run commands[0]"},
		"an output that is a file":           {"map: {input: [1], agent_template: [{shell: x}, {shell: y}]}\n", "bytes and kept nowhere"},
		"a repository":                       {"commands: [{shell: 'true', commit_required: true}]\n", "is in no git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			clock := ports.NewClock(time.Now())
			opt := b.opt
			opt.File, opt.Dir = b.parse(row.text), b.dir
			var told strings.Builder
			rec := &ports.Recorder{Clock: clock, Kept: func(e *event.Event) { told.WriteString(e.Message + "\n") }}
			var acts step.Actions = Player{Clock: clock, Tape: &Tape{}}
			if strings.HasPrefix(name, "an output") {
				acts = &ports.Actions{Clock: clock, Model: func(*step.Call) ports.Answer {
					return ports.Answer{Result: action.Result{Output: strings.Repeat("x", step.Inline)}}
				}}
			}
			clock.Run(func() {
				engine.RunOn(t.Context(), opt, engine.Ports{Clock: clock, Recorder: rec, Actions: acts, Data: true,
					Items: func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() }})
			})
			if !strings.Contains(told.String(), row.want) {
				t.Errorf("it told %s", told.String())
			}
		})
	}
}

// TestPartsUnderVirtualPorts: what the table of fields lacks, on real processes: agents in
// a map that a rate limit rejects, and outputs that are too large for a record.
func TestPartsUnderVirtualPorts(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a limit that outlasts all patience": "max_wait: 1s\nmap:\n  input: [1, 2]\n  max_parallel: 1\n  agent_template: [{claude: '/limit @EV@/l 9999'}]\n",
		"a limit outside a map":              "max_wait: 1s\ncommands: [{claude: '/limit @EV@/l 9999'}]\n",
		"a program that is missing":          "map:\n  input: [1]\n  agent_template: [{shell: no-such-program, retry: {attempts: 3}}]\n",
		"a file outside":                     "commands: [{shell: echo ../x, capture: x}, {shell: echo y, output_file: '${x}', retry: {attempts: 3}}]\n",
		"secrets":                            "secrets: {S: '1234567'}\nmap:\n  input: ['a1234567b', '1234567']\n  max_parallel: 1\n  agent_template: [{shell: 'echo ${item} $S'}]\nreduce: [{shell: 'echo ${map.results[0].output}'}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tape := &Tape{}
			var local *step.Executor
			b.opt.Composed = func(x *step.Executor) { local, x.Actions = x, Taping{Actions: x.Actions, Tape: tape} }
			r := b.run(text)
			for _, w := range r.virtually(local, tape, b.dir, false) {
				t.Error(w)
			}
		})
	}
}

// TestCutShortByTimeout: a step that an outer timeout ended is not counted, and its message
// says so once.
func TestCutShortByTimeout(t *testing.T) {
	t.Parallel()
	inTime(t, &virtual{took: time.Second, slow: "slow"}, func(b *bench) {
		r := b.run("timeout: 5s\ncommands: [{http: 'http://example.test/fine'}, {http: 'http://example.test/slow'}]\n")
		r.status(event.Failed)
		if c := r.sum.Steps; c.Succeeded != 1 || c.Failed != 0 {
			t.Errorf("counted %+v", c)
		}
		if n := strings.Count(r.sum.Message, "the workflow timed out after 5s"); n != 1 {
			t.Errorf("it says %d times why: %s", n, r.sum.Message)
		}
	})
}
