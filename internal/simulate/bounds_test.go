package simulate

import (
	"fmt"
	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/worst"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// What explain tells beforehand, beside what the executor does when somebody has
// it do its worst: each attempt takes all of its time, and an adversary looks for
// the ends of attempts that make the run as long as can be.

// bounded are files of which explain gives a bound. Of each the worst run that is
// found takes at least a share of the bound, 1 where there is a run that takes all
// of it; less says what the bound does not know.
var bounded = []struct {
	name, text string
	least      float64
}{
	{"attempts", `[{shell: x, timeout: 2s, retry: {attempts: 4, initial_delay: 1s, backoff: exponential}}]`, 1},
	{"jitter", `[{shell: x, timeout: 1s, retry: {attempts: 3, initial_delay: 500ms, jitter: full}}, {shell: y, timeout: 3s, retry: {attempts: 2, initial_delay: 1s, jitter: decorrelated}}]`, 1},
	{"rules", `[{shell: x, timeout: 1s, retry: {attempts: 5, initial_delay: 1s, backoff: fixed, rules: [{on: [timeout], attempts: 3, initial_delay: 10s, backoff: fixed}]}}]`, 0.7},
	{"budget", `[{shell: x, timeout: 1s, retry: {attempts: 9, initial_delay: 1s, retry_budget: 10s}}]`, 1},
	{"deadline", `[{shell: x, timeout: 1s, retry: {attempts: 9, initial_delay: 3s, backoff: fixed, deadline: 10s}}]`, 0.8},
	{"retry timeout", `[{shell: x, retry: {attempts: 2, timeout: 3s, initial_delay: 1s}}]`, 1},
	{"timeout_by_attempt", `[{shell: x, timeout_by_attempt: [1s, 4s], retry: {attempts: 2, initial_delay: 1s}}]`, 0.6},
	{"until", `[{shell: x, timeout: 2s, retry: {attempts: 3, initial_delay: 1s, until: "result == 'never'"}}]`, 1},
	{"breaker", `[{shell: x, timeout: 2s, retry: {attempts: 4, initial_delay: 1s, backoff: fixed, circuit_breaker: {failure_threshold: 9}}}]`, 1},
	{"breaker that opens", `[{shell: x, timeout: 2s, retry: {attempts: 4, initial_delay: 1s, backoff: fixed, retry_on: [circuit_open, {exit_code: [1, 2, 3]}], circuit_breaker: {failure_threshold: 2, timeout: 20s}}}]`, 0.3},
	{"fallback", `[{shell: x, timeout: 5s, retry: {attempts: 2, initial_delay: 1s, on_failure: {fallback: {command: y}}}}, {shell: z, timeout: 1s}]`, 1},
	{"continue", `[{shell: x, timeout: 5s, retry: {attempts: 2, initial_delay: 1s, on_failure: continue}}, {shell: z, timeout: 1s}]`, 1},
	{"agent", `[{claude: x, timeout: 5s, retry: {attempts: 2, initial_delay: 1s}}]`, 1},
	{"http", `[{http: "http://example.test", timeout: 5s, retry: {attempts: 2, initial_delay: 1s}}]`, 1},
	{"write_file", `[{write_file: {path: a, content: b}}, {shell: x, timeout: 1s}]`, 1},
	{"analyze", `[{analyze: {}}, {shell: x, timeout: 1s}]`, 1},
	{"when", `[{shell: x, timeout: 1s}, {shell: y, timeout: 2s, when: "shell.success"}]`, 1},
	{"handler", `[{shell: x, timeout: 1s, retry: {attempts: 3, initial_delay: 1s, backoff: fixed}, on_failure: {commands: [{shell: y, timeout: 4s}]}}, {shell: z, timeout: 2s}]`, 1},
	{"handler that repairs", `[{shell: x, timeout: 5s, retry: {attempts: 3}, on_failure: {commands: [{shell: y, timeout: 2s}], max_attempts: 3}}]`, 1},
	{"handler within a timeout", `[{shell: x, timeout: 5s, on_failure: {timeout: 3s, commands: [{shell: y, timeout: 2s}, {shell: z, timeout: 2s}]}}]`, 1},
	{"handler with strategies", `[{shell: x, timeout: 5s, on_failure: {strategy: cleanup, commands: [{shell: y, timeout: 2s}]}}]`, 1},
	{"handler that ignores", `[{shell: x, timeout: 5s, on_failure: true}, {shell: y, timeout: 2s}]`, 1},
	{"may fail", `[{shell: x, timeout: 5s, continue_on_error: true}, {shell: y, timeout: 2s}]`, 1},
	{"on_success", `[{shell: x, timeout: 5s, retry: {attempts: 2, initial_delay: 1s}, on_success: [{shell: y, timeout: 1s}]}]`, 1},
	{"on_success and on_failure", `[{shell: x, timeout: 5s, on_failure: [{shell: y, timeout: 2s}], on_success: [{shell: z, timeout: 1s}]}]`, 1},
	{"on_exit_code", `[{shell: x, timeout: 5s, on_exit_code: {0: [{shell: a, timeout: 9s}], 2: [{shell: y, timeout: 1s}], 3: [{shell: z, timeout: 4s}]}}]`, 1},
	{"on_exit_code and a handler", `[{shell: x, timeout: 5s, on_exit_code: {2: [{shell: y, timeout: 1s}]}, on_failure: {commands: [{shell: z, timeout: 2s}], max_attempts: 2}}]`, 1},
	{"foreach", `[{foreach: [1, 2, 3], continue_on_error: true, do: [{shell: x, timeout: 1s, retry: {attempts: 2, initial_delay: 1s, backoff: fixed}}]}]`, 1},
	{"foreach in parallel", `[{foreach: [1, 2, 3, 4, 5], parallel: 2, do: [{shell: x, timeout: 1s}, {shell: y, timeout: 2s}]}]`, 1},
	{"foreach within a timeout", `[{foreach: [1, 2, 3], timeout: 5s, do: [{shell: x, timeout: 2s}]}]`, 1},
	{"foreach of a command", `[{foreach: "seq ${n}", max_items: 3, timeout: 1m, do: [{shell: x, timeout: 2s}]}]`, 0},
	{"foreach with attempts", `[{foreach: [a, b], timeout: 10s, retry: {attempts: 2, initial_delay: 3s}, do: [{shell: x, timeout: 2s}]}]`, 0.8},
	{"loops in loops", `[{foreach: [1, 2], do: [{foreach: [1, 2, 3], parallel: 2, do: [{shell: x, timeout: 1s, on_failure: [{shell: y, timeout: 2s}]}]}]}]`, 1},
	{"validate", `[{validate: {commands: [{shell: v, timeout: 40s}, {shell: w, timeout: 40s}], timeout: 1m, on_incomplete: {commands: [{shell: y, timeout: 10s}], max_attempts: 2, retry_delay: 5s}}}]`, 0.8},
	{"validate with completions", `[{validate: {commands: [{shell: v, timeout: 4s}], threshold: 90, on_incomplete: {commands: [{shell: y, timeout: 10s}], max_attempts: 3, retry_delay: 5s}}}]`, 1},
	{"validate without completion", `[{validate: {commands: [{shell: v, timeout: 4s}], threshold: 90}}]`, 1},
	{"validate that nothing completes", `[{validate: {commands: [{shell: v, timeout: 4s}], threshold: 90, on_incomplete: {max_attempts: 3, fail_workflow: false}}}, {shell: x, timeout: 1s}]`, 1},
	{"validate beside an action", `[{shell: x, timeout: 5s, validate: {commands: [{shell: v, timeout: 3s}], threshold: 90, on_incomplete: {commands: [{shell: y, timeout: 1s}], max_attempts: 2}}}]`, 1},
	{"step_validate", `[{shell: x, timeout: 5s, retry: {attempts: 2, initial_delay: 1s}, step_validate: {commands: [{shell: y}, {shell: z}], max_attempts: 3, retry_delay: 2s, timeout: 20s}}]`, 0.9},
	{"step_validate within a timeout", `[{shell: x, timeout: 5s, step_validate: {commands: [{shell: y}], max_attempts: 3, retry_delay: 2, timeout: 10s}}]`, 0},
	{"goal_seek", `[{goal_seek: {goal: g, shell: x, validate: {shell: v}, threshold: 90, max_attempts: 3, timeout: 30s}}]`, 0.9},
	{"goal_seek within a timeout", `[{goal_seek: {goal: g, shell: x, validate: {shell: v}, threshold: 90, max_attempts: 3, timeout: 11s}}]`, 1},
	{"iterations", `{max_iterations: 3, commands: [{shell: x, timeout: 5s, retry: {attempts: 2, initial_delay: 1s}}]}`, 1},
	{"workflow within a timeout", `{timeout: 7s, commands: [{shell: x, timeout: 5s}, {shell: y, timeout: 5s}]}`, 1},
	{"finally", `{timeout: 7s, commands: [{shell: x, timeout: 5s}, {shell: y, timeout: 5s}], finally: {commands: [{shell: z, timeout: 20s}]}}`, 1},
	{"finally within a timeout", `{commands: [{shell: x, timeout: 5s}], finally: {timeout: 3s, commands: [{shell: z, timeout: 20s}]}}`, 1},
	{"merge", `{timeout: 7s, isolation: worktree, commands: [{shell: x, timeout: 5s}], merge: {commands: [{shell: z, timeout: 20s}]}}`, 1},
	{"merge within a timeout", `{isolation: worktree, commands: [{shell: x, timeout: 5s}], merge: {timeout: 4s, commands: [{shell: z, timeout: 20s}]}}`, 1},
	{"call", `{commands: [{workflow: sub, retry: {attempts: 2, initial_delay: 1s}}], imports: [{path: sub.yml, alias: sub}]}`, 1},
	{"call within a timeout", `{commands: [{workflow: late, timeout: 30s}], imports: [{path: late.yml, alias: late}]}`, 1},
	{"workflows", `{workflows: {one: {source: sub.yml, timeout: 5s}, two: {source: late.yml}}, commands: [{shell: x, timeout: 1s}]}`, 0.9},
	{"workflows in parallel", `{workflows: {one: {source: sub.yml, parallel: true}, two: {source: late.yml, parallel: true}}, commands: [{shell: x, timeout: 1s}]}`, 0.5},

	{"map", `{map: {input: [1, 2, 3, 4], max_parallel: 2, agent_template: [{shell: x, timeout: 1s, retry: {attempts: 3, initial_delay: 1s, backoff: fixed}}]}}`, 0.8},
	{"map with attempts", `{map: {input: [1, 2, 3, 4, 5], max_parallel: 2, agent_template: [{shell: x, timeout: 1s, retry: {attempts: 3, initial_delay: 1s, backoff: fixed}}]}, error_policy: {on_item_failure: retry, retry_config: {attempts: 2, initial_delay: 5s, backoff: fixed}}}`, 0.8},
	{"map with attempts by default", `{map: {input: [1, 2, 3], max_parallel: 1, agent_template: [{shell: x, timeout: 10s}]}, error_policy: {on_item_failure: retry}}`, 0.8},
	{"map one by one", `{map: {input: [1, 2, 3], max_parallel: 1, agent_template: [{shell: x, timeout: 2s}, {foreach: [a, b], do: [{shell: y, timeout: 1s}]}]}}`, 1},
	{"map that begins slowly", `{start_delay: 30s, map: {input: [1, 2, 3, 4, 5, 6], max_parallel: 4, agent_template: [{shell: x, timeout: 2s}]}}`, 0.5},
	{"map whose agents have a time", `{map: {input: [1, 2], max_parallel: 1, agent_timeout: 5s, agent_template: [{shell: x, timeout: 4s}, {shell: y, timeout: 4s}]}}`, 1},
	{"map whose template has a time", `{map: {input: [1, 2], max_parallel: 1, agent_template: {timeout: 6s, commands: [{shell: x, timeout: 4s}, {shell: y, timeout: 4s}]}}}`, 1},
	{"map whose commands have a time", `{map: {input: [1, 2], max_parallel: 1, agent_timeout: 5s, timeout_config: {timeout_policy: per_command}, agent_template: [{shell: x}, {http: "http://example.test"}, {claude: z}, {foreach: [1], do: [{shell: y}]}]}}`, 1},
	{"map whose commands and agents have a time", `{map: {input: [1, 2], max_parallel: 1, agent_timeout: 5s, timeout_config: {timeout_policy: hybrid, command_timeouts: {shell: 3s}}, agent_template: [{shell: x}, {shell: y}]}}`, 1},
	{"map with a time of a command by its name", `{map: {input: [1, 2], max_parallel: 1, timeout_config: {command_timeouts: {shell: 3s, far: 30s, near: 1s}}, agent_template: [{shell: x, id: far}, {shell: y, name: near}, {shell: z, name: far, id: near}]}}`, 1},
	{"map with a handler", `{handlers: {mend: [{shell: h, timeout: 10s}]}, map: {input: [1, 2, 3, 4, 5, 6], max_parallel: 2, agent_template: [{shell: x, timeout: 1s}]}, error_policy: {on_item_failure: {custom: mend}}}`, 0.8},
	{"map with a breaker", `{map: {input: [1, 2, 3, 4, 5, 6], max_parallel: 2, agent_template: [{shell: x, timeout: 1s}]}, error_policy: {circuit_breaker: {failure_threshold: 2, timeout: 20s, half_open_requests: 1}}}`, 0.2},
	{"map with canaries", `{map: {input: [1, 2, 3, 4, 5, 6], max_parallel: 6, canary: 2, agent_template: [{shell: x, timeout: 1s}]}}`, 0.5},
	{"map with canaries that fail", `{map: {input: [1, 2, 3, 4, 5, 6], max_parallel: 6, canary: {items: 3, need: 1}, agent_template: [{shell: x, timeout: 1s, retry: {attempts: 2, initial_delay: 1s}}]}}`, 0.3},
	{"map that stops", `{map: {input: [1, 2, 3, 4], max_parallel: 1, agent_template: [{shell: x, timeout: 2s}]}, error_policy: {continue_on_failure: false}}`, 1},
	{"phases without a merge", `{setup: {timeout: 11s, commands: [{shell: s, timeout: 5s}, {shell: t, timeout: 5s}]}, map: {input: [1, 2], max_parallel: 1, agent_template: [{shell: x, timeout: 2s}]}, reduce: {timeout: 4s, commands: [{shell: r, timeout: 5s}]}}`, 0.85},
	{"phases", `{setup: {timeout: 11s, commands: [{shell: s, timeout: 5s}, {shell: t, timeout: 5s}]}, map: {input: [1, 2], max_parallel: 1, agent_template: [{shell: x, timeout: 2s}]}, reduce: {timeout: 4s, commands: [{shell: r, timeout: 5s}]}, merge: [{shell: m, timeout: 6s}]}`, 0.55}, // no conflict of an item is simulated, and two of the three merges are those
}

var others = map[string]string{
	"sub.yml":  "commands: [{shell: a, timeout: 4s}, {shell: b, timeout: 3s}]\n",
	"late.yml": "timeout: 8s\ncommands: [{shell: a, timeout: 6s}, {shell: b, timeout: 6s}]\n",
}

// TestExplainBounds: no run that an adversary finds takes longer than explain
// tells, executes an action more often or knows a variable that explain does not;
// and one comes up to the bound.
func TestExplainBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range bounded {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := parsed(t, "w.yml", tc.text)
			plan := worst.Explain(f)
			bound := plan.Worst.Time
			if bound.Open {
				t.Fatalf("the worst case of %s is not bounded", tc.text)
			}
			a := &adversary{t: t, file: f, luck: luck(mix(hash(tc.name))), most: map[string]int{}}
			least := tc.least * bound.D.Seconds()
			worst := a.search(tries(), least)
			figure(t, fmt.Sprintf("%s, the worst run of %s, s", tc.name, bound.D), worst.Seconds(), least, bound.D.Seconds()+1e-6)
			a.executions(plan)
			a.variables(plan)
		})
	}
}

// TestExplainBoundsAsked: no run takes longer than explain tells where servers ask
// for waits, and one comes up to it.
func TestExplainBoundsAsked(t *testing.T) {
	t.Parallel()
	for _, tc := range bounded {
		f := parsed(t, "w.yml", tc.text)
		plan := worst.Explain(f)
		bound, least := plan.Worst.Time, 0.0
		if plan.Asked != nil {
			bound = plan.Asked.Time
		}
		if tc.name == "attempts" || tc.name == "foreach" {
			least = 1
		}
		tries := 60
		if long {
			tries = 1000
		}
		a := &adversary{t: t, file: f, luck: luck(mix(hash(tc.name))), most: map[string]int{}, asks: true}
		worst := a.search(tries, 0)
		figure(t, fmt.Sprintf("%s, asked, the worst run of %s, s", tc.name, bound.D), worst.Seconds(), least*bound.D.Seconds(), bound.D.Seconds()+1e-6)
	}
}

// TestExplainBoundsKilled: no run takes longer than explain tells where commands continue
// until they are killed, and one comes up to it.
func TestExplainBoundsKilled(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{"attempts": true, "workflow within a timeout": true, "map whose agents have a time": true, "call within a timeout": true, "finally within a timeout": true}
	for _, tc := range bounded {
		f := parsed(t, "w.yml", tc.text)
		plan := worst.Explain(f)
		bound, least := plan.Worst.Time, 0.0
		if plan.Killed != nil {
			bound = plan.Killed.Time
		}
		if reached[tc.name] {
			least = 1
		}
		tries := 60
		if long {
			tries = 1000
		}
		a := &adversary{t: t, file: f, luck: luck(mix(hash(tc.name))), most: map[string]int{}, stubborn: true}
		worst := a.search(tries, 0)
		figure(t, fmt.Sprintf("%s, killed, the worst run of %s, s", tc.name, bound.D), worst.Seconds(), least*bound.D.Seconds(), bound.D.Seconds()+1e-6)
	}
}

// TestExplainKilled: a command that ignores SIGTERM continues for ten seconds after each
// timeout, and a request does not.
func TestExplainKilled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want time.Duration // 0: as the worst case
	}{
		{"[{shell: x, timeout: 300ms, retry: {attempts: 2, initial_delay: 100ms}}]", 20700 * time.Millisecond},
		{"[{claude: x, timeout: 300ms}]", 10300 * time.Millisecond},
		{"[{http: 'http://example.test', timeout: 300ms}]", 0},
		{"[{foreach: [1, 2, 3], timeout: 5s, do: [{shell: x, timeout: 2s}]}]", 15 * time.Second},
		{"{timeout: 1s, commands: [{http: 'http://example.test', timeout: 300ms}, {shell: x}]}", 11 * time.Second},
		{"map: {input: [1, 2], max_parallel: 1, agent_timeout: 5s, timeout_config: {cleanup_grace_period: 3s}, agent_template: [{shell: x}]}", 16 * time.Second},
	} {
		p := worst.Explain(parsed(t, "w.yml", tc.text))
		var got time.Duration
		if p.Killed != nil {
			got = p.Killed.Time.D
		}
		if got != tc.want {
			t.Errorf("%s: %v, and it is %v", tc.text, got, tc.want)
		}
	}
}

// TestExplainBoundsEveryKind: each kind of action and each key of a step that has
// steps or a time is in a file whose bound is checked.
func TestExplainBoundsEveryKind(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, tc := range bounded {
		f := parsed(t, "w.yml", tc.text)
		workflow.WalkAll(f, func(s *workflow.Step) {
			seen[s.Action.Kind()] = true
			v := reflect.ValueOf(*s)
			for i := range v.NumField() {
				if !v.Field(i).IsZero() {
					seen["step."+v.Type().Field(i).Name] = true
				}
			}
		})
	}
	for _, kind := range []string{"shell", "claude", "http", "write_file", "foreach", "validate", "goal_seek", "workflow", "analyze",
		"step.When", "step.Timeout", "step.Timeouts", "step.Retry", "step.OnFailure", "step.OnSuccess", "step.OnExitCode", "step.Validate", "step.Check", "step.MayFail"} {
		if !seen[kind] {
			t.Errorf("no file has %s", kind)
		}
	}
}

// adversary looks for the longest run of a file.
type adversary struct {
	t    *testing.T
	file *workflow.File
	pipe *dataflow.Pipeline // in place of file
	luck luck
	most map[string]int // executions in a run or for an item, by path
	data bool           // steps are given their variables
	vars map[string]map[string]bool
	asks bool // servers ask for waits
	// stubborn: commands ignore SIGTERM, and end by SIGKILL.
	stubborn bool
}

// rounds are those of the loops around a step, in its path.
var rounds = regexp.MustCompile(`[@#%][0-9a-z]+`)

// play is how the attempts of a run end, by the path of their step.
type play struct {
	ends map[string]end
	rand uint64 // what each draw of jitter gives
}

// end is how the attempts of one step end: so many of them fail, in this way, and
// so many that succeed have no full score.
type end struct {
	fails, misses int
	how           string
	exit, then    int           // the status of the first that fails, and of the others
	takes         time.Duration // where nothing bounds the attempt
	early         bool          // it does not take all of its time
	period        int           // after so many all begins again; 0: never
	hint          time.Duration // the wait that a failure asks for
}

func (a *adversary) pick(list ...int) int { return list[int(a.luck.unit()*float64(len(list)))] }

func (a *adversary) end() end {
	const all = 1 << 20
	tenths := a.pick(0, 1, 2, 5, 10, 20, 30, 40, 60, 100, 1<<20)
	e := end{takes: time.Duration(tenths) * 99 * time.Millisecond, fails: a.pick(0, 0, 1, 2, 3, 4, 5, 8, all, all), misses: a.pick(0, 1, 2, 3, all), how: "exit", exit: a.pick(1, 2, 3), then: a.pick(1, 2, 3), early: a.pick(0, 0, 0, 1) == 1, period: a.pick(0, 0, 2, 3, 4)}
	if a.pick(0, 1) == 0 {
		e.how, e.exit = "timeout", 0
	}
	if a.asks {
		e.hint = time.Duration(a.pick(0, 1, 59, 299, 300, 300, 300, 301)) * time.Second
	}
	return e
}

func (a *adversary) draw() uint64 {
	if a.pick(0, 1, 2) == 0 {
		return a.luck.Uint64()
	}
	return math.MaxUint64
}

// tries is how long an adversary looks. That it comes up to the bound is checked, so
// that those of the short form are enough.
func tries() int {
	if long {
		return 3000
	}
	return 300
}

// soon is after how many plays an adversary that found what it has to find looks no
// further. The race detector makes each play take ten times as long; all plays are
// those of the tests without it, which are among the checks.
func soon() int {
	if raceEnabled && !long {
		return 90
	}
	return math.MaxInt
}

// search plays at random at first, and then changes the best play in one place.
// enough is what it has to find.
func (a *adversary) search(tries int, enough float64) (worst time.Duration) {
	best := &play{}
	for i := range tries {
		if i >= soon() && worst.Seconds() >= enough {
			break
		}
		p := &play{ends: map[string]end{}, rand: a.draw()}
		if i >= tries/4 {
			paths := slices.Sorted(keysOf(best.ends))
			change := int(a.luck.unit() * float64(len(paths)+1))
			if p.rand = best.rand; change == len(paths) {
				p.rand = a.draw()
			}
			for k, path := range paths {
				if p.ends[path] = best.ends[path]; k == change {
					p.ends[path] = a.end()
				}
			}
		}
		if took := a.run(p); took >= worst {
			worst, best = took, p
		}
	}
	return worst
}

func keysOf(m map[string]end) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

type fixed uint64

func (f fixed) Uint64() uint64 { return uint64(f) }

// run plays, fills in what the play does not say, and gives how long it took.
func (a *adversary) run(p *play) time.Duration {
	count := map[string]int{}
	o := Options{File: a.file, Pipeline: a.pipe, Model: &Model{Steps: map[string]*Target{}}, Seeds: 1, data: a.data,
		rand: func(step.Address, string) backoff.Rand { return fixed(p.rand) },
		actions: func(w *world, drawn step.Actions) step.Actions {
			acts := drawn.(*virtual.Actions)
			if a.stubborn {
				acts.Ends = ends
			}
			acts.Model = func(c *step.Call) virtual.Answer {
				path := c.Path
				if strings.ContainsAny(path, "@#%") {
					path = rounds.ReplaceAllString(path, "")
				}
				if a.pipe != nil {
					path = w.names.static(c.Path)
				}
				e, ok := p.ends[path]
				if !ok {
					e = a.end()
					p.ends[path] = e
				}
				at := fmt.Sprint(path, " ", c.Index)
				n := count[at]
				count[at]++
				a.most[path] = max(a.most[path], count[at])
				if n == 0 { // later ones also have what those before them left
					a.see(path, c)
				}
				return e.answer(n, c)
			}
			return acts
		}}
	return samples(a.t, o)[0].Makespan
}

// ends is how long a command continues that is told to end.
func ends(c *step.Call) time.Duration {
	switch c.Action.(type) {
	case *workflow.Shell, *workflow.Claude:
		return workflow.DefaultGrace
	}
	return 0
}

// answer is how the nth attempt ends, from 0. It takes all of its time.
func (e end) answer(n int, c *step.Call) virtual.Answer {
	got := virtual.Answer{Takes: c.Timeout}
	if c.Timeout == 0 || e.early {
		got.Takes = e.takes
	}
	switch c.Action.(type) {
	case *workflow.WriteFile, *workflow.Analyze:
		return virtual.Answer{} // the work of bide itself
	}
	if e.period > 0 {
		n %= e.period
	}
	switch {
	case strings.HasSuffix(c.Path, ".items"):
		got.Result.Output = strings.Repeat("line\n", 9)
	case n >= e.fails:
		score := 100
		if n < e.fails+e.misses {
			score = 0
		}
		got.Result = action.Result{Output: fmt.Sprintf(`{"score": %d}`, score), Status: 200}
		if c.Module != nil {
			got.Result.Output = "ok"
			got.Takes = max(0, got.Takes-time.Microsecond) // who ends with the time is too late
		}
	case e.how == "timeout":
		got.Takes++
		got.Failure = &failure.Failure{Class: "timeout", Timeout: true, Message: "timed out"}
	default:
		if n > 0 {
			e.exit = e.then
		}
		got.Failure = &failure.Failure{Class: "exit", Exit: e.exit, Message: "failed"}
		got.Result.ExitCode = e.exit
	}
	if got.Failure != nil {
		got.Failure.RetryAfter = e.hint
	}
	return got
}

// executions checks that no action was executed more often than was told.
func (a *adversary) executions(plan *worst.Plan) {
	told := map[string]bound.Count{}
	var walk func(list []*worst.Step)
	walk = func(list []*worst.Step) {
		for _, s := range list {
			n := told[s.Path] // of a workflow that is called in several places
			told[s.Path] = bound.Count{N: n.N + s.Executions.N, Open: n.Open || s.Executions.Open}
			for _, g := range s.Groups {
				walk(g.Steps)
			}
		}
	}
	for _, ph := range plan.Phases {
		walk(ph.Steps)
	}
	for path, n := range a.most {
		want, ok := told[path]
		if strings.HasSuffix(path, ".fallback") || strings.HasSuffix(path, ".items") || strings.Contains(path, "/") {
			continue
		}
		if !ok || !want.Open && int64(n) > want.N {
			a.t.Errorf("%s was executed %d times; told were %v", path, n, want)
		}
	}
}

// see notes which variables an attempt has.
func (a *adversary) see(path string, c *step.Call) {
	if a.vars == nil {
		return
	}
	if a.vars[path] == nil {
		a.vars[path] = map[string]bool{}
	}
	for _, name := range c.Scope.Names() {
		name, _, _ = strings.Cut(name, ".")
		a.vars[path][name] = true
	}
}

// variables checks that steps have no variable that was not told.
func (a *adversary) variables(plan *worst.Plan) {
	a.data, a.vars = true, map[string]map[string]bool{}
	a.search(30, 0)
	told := map[string]map[string]bool{}
	var walk func(list []*worst.Step)
	walk = func(list []*worst.Step) {
		for _, s := range list {
			told[s.Path] = map[string]bool{}
			for _, name := range s.Variables {
				name, _, _ = strings.Cut(strings.TrimSuffix(name, "?"), ".")
				told[s.Path][name] = true
			}
			for _, g := range s.Groups {
				walk(g.Steps)
			}
		}
	}
	for _, ph := range plan.Phases {
		walk(ph.Steps)
	}
	for path, seen := range a.vars {
		for name := range seen {
			if known, ok := told[path]; ok && !known[name] {
				a.t.Errorf("%s has the variable %s, which was not told", path, name)
			}
		}
	}
}

// boundedCalls are pipelines as bounded are files. Waits for throttles and slots are
// in no bound, so that there are none.
var boundedCalls = []struct {
	name, text string
	least      float64
}{
	{"attempts", `out x = Fetch("a") with retry: 3, delay: 1s, backoff: exponential, timeout: 2s`, 1},
	{"jitter", `out x = Fetch("a") with retry: 3, delay: 1s, backoff: exponential, jitter: full, timeout: 2s`, 1},
	{"decorrelated", `out x = Fetch("a") with retry: 4, delay: 1s, backoff: exponential, jitter: decorrelated, timeout: 2s`, 0.9},
	{"budget", `out x = Fetch("a") with retry: 9, delay: 1s, backoff: exponential, timeout: 2s, budget: 7s`, 0.4},
	{"deadline", `out x = Fetch("a") with retry: 9, delay: 3s, timeout: 2s, deadline: 10s`, 0.8},
	{"deadline alone", `out x = Fetch("a") with deadline: 10s`, 0.9},
	{"rules", `out x = Fetch("a") with retry: 3, delay: 1s, timeout: 2s, rules: [{on: timeout, retry: 2, delay: 5s}]`, 0.6},
	{"breaker", `out x = Fetch("a") with retry: 3, delay: 1s, timeout: 2s, breaker: 9/1m`, 1},
	{"breaker that opens", `out x = Fetch("a") with retry: 3, delay: 1s, timeout: 2s, retry_on: [timeout, exit_code(1), circuit_open], breaker: 2/20s`, 0.3},
	{"breaker of another call", "x = Fetch(\"a\") with retry: 1, delay: 1s, timeout: 2s, breaker: 2/1m, retry_on: circuit_open, on_error: skip\nout y = Fetch(x) with retry: 3, delay: 1s, timeout: 2s, retry_on: circuit_open, breaker: 2/1m", 0},
	{"until", `out x = Fetch("a") with retry: 3, delay: 1s, timeout: 2s, until: result == "never"`, 1},
	{"fallback", `out x = Fetch("a") with retry: 1, delay: 1s, timeout: 2s, fallback: Fetch("b") with timeout: 5s`, 1},
	{"on_error", "x = Fetch(\"a\") with timeout: 2s, on_error: skip\nout y = Fetch(\"b\") with timeout: 3s", 0.5},
	{"chain", "x = Fetch(\"a\") with timeout: 2s\ny = Fetch(x) with timeout: 3s, retry: 1, delay: 1s\nout z = Fetch(y) with timeout: 4s", 1},
	{"side by side", "x = Fetch(\"a\") with timeout: 2s\ny = Fetch(\"b\") with timeout: 3s, retry: 1, delay: 1s\nout z = Both(x, y) with timeout: 4s", 1},
	{"elements", "xs = map([\"a\", \"b\", \"c\"], (i) => Fetch(i) with timeout: 2s, retry: 2, delay: 1s)\nout xs", 1},
	{"elements whose calls follow one another", "xs = map([\"a\", \"b\"], (i) => Fetch(Fetch(i) with timeout: 2s) with timeout: 3s)\nout xs", 1},
	{"choice", "x = Fetch(\"a\") with timeout: 2s\nout y = if (x == \"ok\") Fetch(\"b\") with timeout: 9s else Fetch(\"c\") with timeout: 3s", 1},
	{"lazy", "x = Fetch(\"a\") with timeout: 2s, lazy: true\nb = Fetch(\"b\") with timeout: 3s\nout y = if (b == \"ok\") x else b", 1},
	{"cache", "x = Fetch(\"a\") with cache: 1m, timeout: 2s\nout y = Both(x, Fetch(\"a\") with cache: 1m, timeout: 2s) with timeout: 3s", 0.5},
}

// TestExplainBoundsOfPipelines: no run of a pipeline takes longer than the worst
// case that explain tells, and one comes up to it.
func TestExplainBoundsOfPipelines(t *testing.T) {
	t.Parallel()
	const modules = "  - {name: Fetch, params: {url: String}, result: String, shell: [fetch], output: text}\n  - {name: Both, params: {a: String, b: String}, result: String, shell: [both], output: text}\n"
	for _, tc := range boundedCalls {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &adversary{t: t, pipe: planned(t, t.TempDir(), modules, tc.text+"\n"), luck: luck(mix(hash(tc.name))), most: map[string]int{}}
			est := worst.Calls(a.pipe.Plan).Worst.Time
			if est.Open {
				t.Fatalf("the worst case of %s is not bounded", tc.text)
			}
			least := 0.95 * tc.least * est.D.Seconds()
			figure(t, fmt.Sprintf("%s, the worst run of %s, s", tc.name, est.D), a.search(tries(), least).Seconds(), least, est.D.Seconds()+1e-6)
		})
	}
}
