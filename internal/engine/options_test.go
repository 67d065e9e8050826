package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/option"
)

// waited is evidence of the waits between the attempts, in milliseconds.
func waited(list ...float64) func(*ran) bool {
	return func(r *ran) bool { return slices.Equal(r.delays(), ms(list...)) }
}

// noted is a step that records each of its attempts in n and fails. Keys are added to its
// policy.
const noted = `
- shell: echo a >> @EV@/n; exit 1
  retry_config:
    initial_delay: 10ms
`

// optionCells are the evidence that an option of retry_config has an effect, in the form of
// the table of the steps' fields.
var optionCells = []cell{
	{field: "attempts", want: evidence{"n": "a\na"}, steps: noted + `
    attempts: 2 #F`},
	{field: "attempts", want: evidence{"n": "a\na\na\na\na"}, steps: `
- shell: echo a >> @EV@/n; test $(wc -l < @EV@/n) -ge 5
  retry_config:
    initial_delay: 1ms
    deadline: 1m
    attempts: unlimited #F`},
	{field: "backoff", event: waited(10, 10), steps: noted + `
    backoff: fixed #F`},
	{field: "initial_delay", event: waited(4, 8), steps: `
- shell: exit 1
  retry_config:
    max_delay: 9ms
    initial_delay: 4ms #F`},
	{field: "max_delay", event: waited(10, 12), steps: noted + `
    max_delay: 12ms #F`},
	{field: "increment", event: waited(10, 12), steps: noted + `
    backoff: linear
    increment: 2ms #F`},
	{field: "base", event: waited(10, 30), steps: noted + `
    base: 3 #F`},
	{field: "delays", event: waited(3, 5), steps: noted + `
    backoff: custom
    max_delay: 1ms #B
    max_delay: 20ms #F
    delays: [3ms, 5ms] #F`},
	{field: "jitter", event: func(r *ran) bool { return !slices.Equal(r.delays(), ms(10, 20)) }, steps: noted + `
    jitter: full #F`},
	{field: "jitter_factor", event: waited(10, 20), steps: noted + `
    jitter: true
    jitter_factor: 0 #F`},
	{field: "retry_on", want: evidence{"n": "a"}, steps: noted + `
    retry_on: [{exit_code: 2}] #F`},
	{field: "abort_on", want: evidence{"n": "a"}, steps: noted + `
    abort_on: [{exit_code: 1}] #F`},
	{field: "retry_budget", event: waited(10), steps: noted + `
    retry_budget: 15ms #F`},
	{field: "retry_after_max", want: evidence{"x": "gave up"}, steps: `
- http: {url: "@URL@/later"}
  retry_config:
    initial_delay: 10ms
    retry_after_max: 100ms #F
  on_failure: {shell: echo gave up > @EV@/x}`},
	{field: "deadline", event: func(r *ran) bool { return len(r.delays()) < 25 }, steps: noted + `
    attempts: 26
    backoff: fixed
    deadline: 100ms #F`},
	{field: "until", want: evidence{"n": "a\na\na", "y": "done"}, steps: `
- shell: echo a >> @EV@/n; echo "{\"n\":" $(wc -l < @EV@/n) "}"
  id: count
  retry_config:
    attempts: 5
    initial_delay: 1ms
    until: result.n >= 3 && exit_code == 0 #F
- shell: echo done > @EV@/y`},
	{field: "rules", want: evidence{"n": "a\na\na\na"}, event: waited(2, 2, 2), steps: `
- shell: echo a >> @EV@/n; exit 75
  retry_config:
    attempts: 2 #B
    initial_delay: 10ms
    rules: [{on: {exit_code: 3}, attempts: 9}, {on: {exit_code: [75]}, attempts: 4, backoff: fixed, initial_delay: 2ms}] #F`},
	{field: "circuit_breaker", want: evidence{"n": "a\na"}, steps: noted + `
    attempts: 4
    circuit_breaker: {failure_threshold: 2} #F`},
	{field: "circuit_breaker", want: evidence{"n": "a\na\na"}, steps: noted + `
    attempts: 5
    backoff: fixed
    circuit_breaker: {failure_rate: 0.5, window: 10, min_calls: 3} #F`},
	{field: "timeout", want: evidence{"x": "-"}, event: func(r *ran) bool { return len(r.of(event.AttemptFailed)) == 3 }, steps: `
- shell: echo late > @EV@/x #B
- shell: sleep 300; echo late > @EV@/x #F
  retry_config:
    initial_delay: 1ms
    timeout: 100ms #F`},
	{field: "on_failure", want: evidence{"y": "a"}, steps: noted + `
    on_failure: continue #F
- shell: echo a > @EV@/y`},
	{field: "on_failure", want: evidence{"y": "fallback"}, steps: noted + `
    on_failure: {fallback: {command: echo fallback > @EV@/y}} #F`},
	{field: "quota", want: evidence{"n": "a\na"}, steps: noted + `
    quota: {name: q, ratio: 0.01, initial: 1} #F`},
}

// optionsElsewhere are those with a test of their own.
var optionsElsewhere = map[string]string{"retry_budget_expires": "TestRenotedAndBudgetGoOn"}

// TestOptionsTakeEffect runs a file for each option of a policy, with the option and
// without it: the evidence must be there with it, and must not be there without it.
func TestOptionsTakeEffect(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, c := range optionCells {
		rows[c.field] = true
		t.Run(c.field, func(t *testing.T) {
			t.Parallel()
			if wrong := c.try(t, "commands", true); wrong != "" {
				t.Error(wrong)
			}
			if c.try(t, "commands", false) == "" {
				t.Error("the evidence is there without the option, too")
			}
		})
	}
	for _, r := range option.For(option.File) {
		if !rows[r.Name] && optionsElsewhere[r.Name] == "" {
			t.Errorf("nothing shows that the option %s takes effect", r.Name)
		}
	}
}

const failingModules = `
- name: Fails
  params: {code: Int}
  result: String
  shell: echo a >> $EV/n; exit "$INPUT_CODE"
- name: Counts
  params: {from: Int}
  result: Int
  shell: echo a >> $EV/n; expr "$INPUT_FROM" + $(wc -l < $EV/n)
- name: Sleeps
  params: {code: Int}
  result: String
  shell: echo a >> $EV/n; sleep 15; echo slept
`

// callCells are the evidence that an option of a call has an effect: how often the module
// ran, and the waits in milliseconds.
var callCells = []struct {
	option, call, flag, n string
	waits                 []float64
}{
	{"retry", "Fails(7) with delay: 1ms", "retry: 1", "a\na", []float64{1}},
	{"retry", "Counts(0) with delay: 1ms, deadline: 1m, until: result == 4", "retry: unlimited", "a\na\na\na", []float64{1, 1, 1}},
	{"delay", "Fails(7) with retry: 1", "delay: 2ms", "a\na", []float64{2}},
	{"backoff", "Fails(7) with retry: 2, delay: 1ms", "backoff: exponential", "a\na\na", []float64{1, 2}},
	{"max_delay", "Fails(7) with retry: 2, delay: 2ms, backoff: linear", "max_delay: 3ms", "a\na\na", []float64{2, 3}},
	{"jitter", "Fails(7) with retry: 1, delay: 80ms", "jitter: full", "a\na", nil},
	{"retry_on", "Fails(7) with retry: 1, delay: 1ms", "retry_on: exit_code(8)", "a", []float64{}},
	{"abort_on", "Fails(7) with retry: 1, delay: 1ms", "abort_on: exit_code(7)", "a", []float64{}},
	{"budget", "Fails(7) with retry: 5, delay: 2ms", "budget: 5ms", "a\na\na", []float64{2, 2}},
	{"deadline", "Fails(7) with retry: 10, delay: 20ms", "deadline: 60ms", "", nil},
	{"timeout", "Sleeps(0) with retry: 1, delay: 1ms", "timeout: 300ms", "", []float64{1}},
	{"until", "Counts(1) with retry: 5, delay: 1ms", "until: result > 3", "a\na\na", []float64{1, 1}},
	{"until", "Counts(1) with retry: 5, delay: 1ms", "until: (n) => n >= 3", "a\na", []float64{1}},
	{"rules", "Fails(7) with retry: 9, delay: 80ms", "rules: [{on: network, retry: 9}, {on: exit_code(7), retry: 2, delay: 1ms, backoff: linear}]", "a\na\na", []float64{1, 2}},
	{"breaker", "Fails(7) with retry: 4, delay: 1ms", "breaker: 0.5/3/1min", "a\na\na", []float64{1, 1, 1}},
	{"breaker", "Fails(7) with retry: 3, delay: 1ms", "breaker: 2/1min", "a\na", []float64{1, 1}},
}

// callsElsewhere are the options of calls with tests of their own.
var callsElsewhere = map[string]string{
	"budget_expires": "TestWaitsOfCallsGoOn", "fallback": "flow", "on_error": "flow", "cache": "flow", "cache_backend": "flow", "throttle": "flow",
	"concurrency": "flow", "priority": "flow", "lazy": "flow", "policy": "check", "limits": "pipelinelimits, a script",
}

// TestCallOptionsTakeEffect runs a pipeline with and without each option of a
// policy.
func TestCallOptionsTakeEffect(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, c := range callCells {
		rows[c.option] = true
		t.Run(c.option, func(t *testing.T) {
			t.Parallel()
			story := func(options string) (string, []time.Duration) {
				b := newBench(t)
				b.modules(failingModules)
				r := b.pipeline("x = "+c.call+options+"\nout x\n", nil)
				return r.file("n"), r.delays()
			}
			with := ", "
			if !strings.Contains(c.call, " with ") {
				with = " with "
			}
			n, waits := story(with + c.flag)
			bare, bareWaits := story("")
			if n != c.n && c.n != "" || c.waits != nil && !slices.Equal(waits, ms(c.waits...)) {
				t.Errorf("%s: %q, waits %v; want %q, %v", c.flag, n, waits, c.n, c.waits)
			}
			if bare == n && slices.Equal(waits, bareWaits) {
				t.Errorf("without %s it is the same: %q, waits %v", c.flag, bare, bareWaits)
			}
		})
	}
	for _, r := range option.Calls() {
		if !r.Stream && !rows[r.CallName()] && callsElsewhere[r.CallName()] == "" {
			t.Errorf("nothing shows that the option %s of a call takes effect", r.CallName())
		}
	}
}
