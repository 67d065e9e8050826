package workflow_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/workflow"
)

// delays are the delays after the first n failed attempts, as "1s 2s 4s".
func delays(s backoff.Schedule, n int) string {
	var out []string
	for i := 1; i <= n; i++ {
		out = append(out, duration.Format(s.Base(i)))
	}
	return strings.Join(out, " ")
}

func onlyStep(t *testing.T, src string) *workflow.Step {
	t.Helper()
	f, problems := parse(t, src)
	for _, p := range problems {
		if p.Code != "bare-delay" {
			t.Fatalf("%v in\n%s", problems, src)
		}
	}
	if len(f.Steps) != 1 {
		t.Fatalf("%d steps in\n%s", len(f.Steps), src)
	}
	return f.Steps[0]
}

// TestBackoffSpellings has every spelling of a backoff that people have
// written, and what it means.
func TestBackoffSpellings(t *testing.T) {
	for _, c := range []struct{ spelling, want string }{
		{"{}", "1s 2s 4s 8s 16s 30s 30s"},
		{"{backoff: fixed}", "1s 1s 1s"},
		{"{backoff: linear}", "1s 2s 3s 4s"},
		{"{backoff: exponential}", "1s 2s 4s 8s"},
		{"{backoff: fibonacci}", "1s 1s 2s 3s 5s 8s"},
		{"{backoff: custom}", "30s 30s"},
		{"{backoff: {fixed: null}}", "1s 1s"},
		{"{backoff: {fixed: {delay: 2s}}}", "2s 2s"},
		{"{backoff: {fixed: 2s}}", "2s 2s"},
		{"{backoff: {fibonacci: {initial: 2s}}}", "2s 2s 4s 6s"},
		{"{backoff: {linear: {increment: 2s}}}", "1s 3s 5s 7s"},
		{"{backoff: {linear: {increment: '2s'}}, initial_delay: 3s}", "3s 5s 7s"},
		{"{backoff: {linear: {initial: 5s, increment: 2s}}}", "5s 7s 9s"},
		{"{backoff: {linear: {increment: 0s}}}", "1s 1s 1s"},
		{"{backoff: linear, increment: 2s}", "1s 3s 5s"},
		{"{backoff: {exponential: {}}}", "1s 2s 4s"},
		{"{backoff: {exponential: {base: 3.0}}, max_delay: 60s}", "1s 3s 9s 27s 1m"},
		{"{backoff: {exponential: {initial: 2s, multiplier: 1.5}}}", "2s 3s 4.5s"},
		{"{backoff: exponential, multiplier: 3}", "1s 3s 9s"},
		{"{backoff: {type: exponential, base: 3}}", "1s 3s 9s"},
		{"{backoff: {type: linear, increment: 2s}}", "1s 3s 5s"},
		{"{backoff: {type: custom, delays: ['1s', '3s', '7s']}}", "1s 3s 7s 30s"},
		{"{backoff: {type: Fibonacci}}", "1s 1s 2s"},
		{"{backoff: {custom: {delays: [{secs: 1, nanos: 0}, {secs: 0, nanos: 500000000}, 2, 2.5, 1m30s]}}, max_delay: 2m}", "1s 500ms 2s 2.5s 1m30s 2m"},
		{"{backoff: {custom: [500ms, 1s]}}", "500ms 1s 30s"},
		{"{backoff: {custom: {delays: []}}}", "30s 30s 30s"},
		{"{backoff: custom, delays: [1s, 3s]}", "1s 3s 30s"},
		{"{backoff: !exponential {initial: {secs: 2, nanos: 0}, multiplier: 3}}", "2s 6s 18s 30s"},
		{"{backoff: !fixed {delay: {secs: 4, nanos: 0}}}", "4s 4s"},
		{"{backoff: !fibonacci }", "1s 1s 2s"},
		{"{backoff: {Exponential: {base: 3}}}", "1s 3s 9s"},
		{"{initial_delay: 500ms}", "500ms 1s 2s"},
		{"{initial_delay: 2}", "2s 4s"},
		{"{initial_delay: 0.5}", "500ms 1s"},
		{"{initial_delay_ms: 250}", "250ms 500ms"},
		{"{initial_delay: 1s, max_delay_ms: 1500}", "1s 1.5s 1.5s"},
		{"{initial_delay: 1h30m, max_delay: 1d}", "1h30m 3h 6h 12h 1d"},
		{"{initial_delay: 0}", "0s 0s 0s"},
		{"{backoff: {custom: [0s]}, max_delay: 0}", "0s 0s"},
		{"3", "1s 2s 4s"},
		{"true", "1s 2s 4s"},
	} {
		for _, key := range []string{"retry", "retry_config"} {
			s := onlyStep(t, fmt.Sprintf("commands: [{shell: x, %s: %s}]", key, c.spelling))
			n := len(strings.Fields(c.want))
			if got := delays(s.Retry.Backoff, n); got != c.want {
				t.Errorf("%s: %s: delays %s; want %s", key, c.spelling, got, c.want)
			}
			if err := s.Retry.Backoff.Validate(); err != nil {
				t.Errorf("%s: %v", c.spelling, err)
			}
		}
	}
}

func TestRetryFields(t *testing.T) {
	s := onlyStep(t, `commands: [{shell: x, retry: {attempts: 7, jitter: true, jitter_factor: 0, retry_on: [network, Timeout, server_error, rate_limit, circuit_open, {pattern: 'a|b'}, {exit_code: 75}],
  abort_on: [{exit_code: [2, 3]}], retry_budget: 5m, retry_after_max: 10m, timeout: 30, on_failure: {fallback: {command: 'echo ${x.y:-z}'}},
  circuit_breaker: {failure_threshold: 2}, quota: {name: api, ratio: 0.5}}}]`)
	r := s.Retry
	if r.Attempts != 7 || r.Budget != 5*time.Minute || r.RetryAfterMax != 10*time.Minute || r.Timeout != 30*time.Second {
		t.Errorf("%+v", r)
	}
	if r.Backoff.Jitter != backoff.Factor || r.Backoff.JitterFactor >= 0 {
		t.Errorf("jitter %v %v; want factor with a real zero", r.Backoff.Jitter, r.Backoff.JitterFactor)
	}
	var names []string
	for _, m := range append(r.RetryOn, r.AbortOn...) {
		names = append(names, m.Name)
		if m.Match == nil {
			t.Errorf("%s matches nothing", m.Name)
		}
	}
	if got, want := strings.Join(names, "; "), "network; timeout; server_error; rate_limit; circuit_open; pattern: a|b; exit_code: [75]; exit_code: [2, 3]"; got != want {
		t.Errorf("matchers %s; want %s", got, want)
	}
	if r.OnFailure != "fallback" || r.Fallback.String() != "echo ${x.y:-z}" {
		t.Errorf("on_failure %q %v", r.OnFailure, r.Fallback)
	}
	if b := r.Breaker; b.FailureThreshold != 2 || b.SuccessThreshold != 3 || b.Timeout != 30*time.Second || b.HalfOpenRequests != 3 {
		t.Errorf("breaker %+v", b)
	}
	if *r.Quota != (workflow.Quota{Name: "api", Ratio: 0.5, Initial: 10}) {
		t.Errorf("quota %+v", r.Quota)
	}
}

func TestRetryDefaults(t *testing.T) {
	s := onlyStep(t, "commands: [{shell: x, retry: {}}]")
	r := s.Retry
	if r.Attempts != 3 || r.Backoff.Initial != time.Second || r.Backoff.Max != 30*time.Second || r.Backoff.Strategy != (backoff.Exponential{Base: 2}) ||
		r.Backoff.Jitter != backoff.None || math.Abs(r.Backoff.JitterFactor-0.3) > 1e-9 || r.OnFailure != "stop" || r.RetryAfterMax != 5*time.Minute {
		t.Errorf("%+v", r)
	}
	if s := onlyStep(t, "commands: [{shell: x}]"); s.Retry != nil {
		t.Errorf("a step without retry has %+v", s.Retry)
	}
	for spelling, want := range map[string]int{"retry: 5": 5, "retry: {max_attempts: 4}": 4, "metadata: {retries: 2}": 3, "retry: {attempts: 1}": 1} {
		if s := onlyStep(t, "commands: [{shell: x, "+spelling+"}]"); s.Retry.Attempts != want {
			t.Errorf("%s: %d attempts; want %d", spelling, s.Retry.Attempts, want)
		}
	}
	for spelling, want := range map[string]string{"continue": "continue", "stop": "stop", "{fallback: echo x}": "fallback", "!fallback {command: echo x}": "fallback"} {
		if s := onlyStep(t, "commands: [{shell: x, retry: {on_failure: "+spelling+"}}]"); s.Retry.OnFailure != want {
			t.Errorf("on_failure %s: %q; want %q", spelling, s.Retry.OnFailure, want)
		}
	}
	for spelling, want := range map[string]backoff.Jitter{"true": backoff.Factor, "false": backoff.None, "full": backoff.Full, "equal": backoff.Equal, "decorrelated": backoff.Decorrelated, "factor": backoff.Factor, "none": backoff.None} {
		if s := onlyStep(t, "commands: [{shell: x, retry: {jitter: "+spelling+"}}]"); s.Retry.Backoff.Jitter != want {
			t.Errorf("jitter %s: %v; want %v", spelling, s.Retry.Backoff.Jitter, want)
		}
	}
}

// TestRetryDefaultsAreLaidUnder has a file's defaults under the steps' own
// policies, field by field; handlers and checks take them only under their own.
func TestRetryDefaultsAreLaidUnder(t *testing.T) {
	for _, key := range []string{"retry_defaults", "retry_config", "retry"} {
		f, problems := parse(t, key+`: {attempts: 6, backoff: {linear: {increment: 2s}}, initial_delay: 4s, jitter: full, retry_on: [network]}
commands:
  - shell: a
    on_failure: {commands: [{shell: h}, {shell: i, retry: {attempts: 2}}]}
  - {shell: b, retry: {attempts: 9}}
  - {shell: c, retry: {backoff: exponential, retry_on: []}}
  - {shell: d, retry: false}
  - {foreach: {items: [x], do: [{shell: e}]}}
  - /review
`)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := map[string]*workflow.Retry{}
		workflow.Walk(f, func(s *workflow.Step) {
			if sh, ok := s.Action.(*workflow.Shell); ok {
				got[sh.Text.String()] = s.Retry
			} else {
				got[s.Action.Kind()] = s.Retry
			}
		})
		if got["a"].Attempts != 6 || delays(got["a"].Backoff, 3) != "4s 6s 8s" || got["a"].Backoff.Jitter != backoff.Full || len(got["a"].RetryOn) != 1 {
			t.Errorf("a: %+v", got["a"])
		}
		if got["b"].Attempts != 9 || delays(got["b"].Backoff, 2) != "4s 6s" {
			t.Errorf("b: %+v", got["b"])
		}
		if got["c"].Attempts != 6 || delays(got["c"].Backoff, 2) != "4s 8s" || len(got["c"].RetryOn) != 0 {
			t.Errorf("c: %+v", got["c"])
		}
		if got["d"] != nil || got["h"] != nil || got["foreach"] != nil {
			t.Errorf("d %v, h %v, foreach %v; want none", got["d"], got["h"], got["foreach"])
		}
		if got["i"].Attempts != 2 || delays(got["i"].Backoff, 2) != "4s 6s" {
			t.Errorf("i: %+v", got["i"])
		}
		if got["e"].Attempts != 6 || got["claude"].Attempts != 6 {
			t.Errorf("e %v, claude %v", got["e"], got["claude"])
		}
	}
}

func TestItemRetry(t *testing.T) {
	const m = "map: {input: [1], agent_template: [{shell: a}]"
	for src, want := range map[string]int{
		m + "}":                              0,
		m + "}\non_item_failure: retry":      3,
		m + "}\nretry_config: {attempts: 5}": 5,
		m + "}\nerror_policy: {retry_config: {max_attempts: 4}}":                   4,
		m + ", retry_on_failure: 1}":                                               2,
		m + ", retry_on_failure: true}":                                            3,
		m + ", retry_on_failure: false}":                                           0,
		m + ", error_policy: {retry_config: {attempts: 7, backoff: exponential}}}": 7,
	} {
		f, problems := parse(t, src)
		if len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, src)
			continue
		}
		got := 0
		if f.Policy.Retry != nil {
			got = f.Policy.Retry.Attempts
		}
		if got != want {
			t.Errorf("%d attempts; want %d in\n%s", got, want, src)
		}
		if f.Map.Template.Steps[0].Retry != nil {
			t.Errorf("the policy of items became the step's in\n%s", src)
		}
	}
}

// What contradicts itself in a breaker is told in the keys of the file.
func TestContradictionsOfABreakerAreToldInKeys(t *testing.T) {
	for src, want := range map[string]string{
		"{window: 20}": "set failure_rate or slow_rate",
		"{failure_rate: 0.5, min_calls: 30, window: 20}":   "min_calls is 30, but the window holds 20",
		"{failure_rate: 0.5, window: 20, window_time: 1m}": "there is a window of 20 calls and a window_time of 1m0s",
		"{failure_rate: 0.5, min_calls: 101}":              "min_calls is 101, but the window holds 100",
		"{failure_rate: 0.5, failure_threshold: 3}":        "there is a failure_rate and a failure_threshold",
		"{slow_call: 1s}": "slow_call is 1s and slow_rate 0",
	} {
		_, problems := parse(t, "steps: [{shell: a, retry: {attempts: 2, circuit_breaker: "+src+"}}]")
		if len(problems) != 1 || problems[0].Code != "contradiction" || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %q", src, problems, want)
		}
	}
}

// TestTheBoundOfAttempts: every way to write how often something is tried has the bound
// of the option's row, and nothing is cut down to it without a word.
func TestTheBoundOfAttempts(t *testing.T) {
	for spelling, key := range map[string]string{
		"commands: [{shell: x, retry: %d}]":                                                                 "",
		"commands: [{shell: x, retry: {max_attempts: %d}}]":                                                 "",
		"commands: [{shell: x, metadata: {retries: %d}}]":                                                   "retries",
		"mode: mapreduce\nmap: {input: a.json, agent_template: [{shell: x}], retry_on_failure: %d}":         "retries",
		"mode: mapreduce\nmap: {input: a.json, agent_template: [{shell: x}], retry_config: {attempts: %d}}": "",
	} {
		most := option.MaxAttempts
		if key == "retries" {
			most--
		}
		for n, refused := range map[int]bool{most: false, most + 1: true} {
			_, problems := workflow.Parse("flow.yml", fmt.Appendf(nil, spelling, n), workflow.Options{})
			if got := problems.HasErrors(); got != refused || refused && !strings.Contains(fmt.Sprint(problems), fmt.Sprintf("it can be at most %d", most)) {
				t.Errorf(spelling+": %v", n, problems)
			}
		}
	}
}
