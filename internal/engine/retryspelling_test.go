package engine_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// delays gives the waits that the run reported, in order.
func (r *ran) delays() []time.Duration {
	r.t.Helper()
	var list []time.Duration
	for _, e := range r.of(event.RetryScheduled) {
		var d struct {
			NS int64 `json:"delay_ns"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, time.Duration(d.NS))
	}
	return list
}

func ms(list ...float64) []time.Duration {
	var out []time.Duration
	for _, f := range list {
		out = append(out, time.Duration(f*float64(time.Millisecond)))
	}
	return out
}

// failing is a step that always fails and leaves the times of its attempts.
const failing = "- shell: date +%s%N >> @EV@/at; exit 1\n"

// gaps checks from outside that there were as many attempts as the waits imply, and that
// none came before its wait was over.
func (r *ran) gaps(waits []time.Duration) {
	r.t.Helper()
	var last int64
	lines := strings.Split(r.file("at"), "\n")
	if len(lines) != len(waits)+1 {
		r.t.Fatalf("%d attempts were made, want %d%s", len(lines), len(waits)+1, r.story())
	}
	for i, line := range lines {
		at, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		if i > 0 && time.Duration(at-last) < waits[i-1] {
			r.t.Errorf("attempt %d came %v after the one before, want at least %v", i+1, time.Duration(at-last), waits[i-1])
		}
		last = at
	}
}

// TestRetrySpellings runs every spelling of the waits that people have written, a hundred
// times faster than in spec/retry.md.
func TestRetrySpellings(t *testing.T) {
	for _, row := range []struct {
		policy string
		want   []time.Duration
	}{
		{`{attempts: 4, backoff: fixed, initial_delay: 20ms}`, ms(20, 20, 20)},
		{`{attempts: 5, backoff: linear, initial_delay: 10ms, increment: 20ms}`, ms(10, 30, 50, 70)},
		{`{attempts: 4, backoff: linear, initial_delay: 10ms}`, ms(10, 20, 30)},
		{`{attempts: 8, backoff: exponential, initial_delay: 10ms, max_delay: 300ms}`, ms(10, 20, 40, 80, 160, 300, 300)},
		{`{attempts: 6, backoff: {exponential: {base: 3.0}}, initial_delay: 10ms, max_delay: 600ms}`, ms(10, 30, 90, 270, 600)},
		{`{attempts: 7, backoff: fibonacci, initial_delay: 10ms}`, ms(10, 10, 20, 30, 50, 80)},
		{`{attempts: 6, backoff: {custom: {delays: [10ms, 30ms, 70ms, 150ms]}}, max_delay: 600ms}`, ms(10, 30, 70, 150, 600)},
		{`{attempts: 7, backoff: {custom: {delays: [5ms, 10ms, 20ms, 50ms, 100ms]}}, max_delay: 300ms}`, ms(5, 10, 20, 50, 100, 300)},
		{`{attempts: 4, backoff: {custom: {delays: []}}, max_delay: 30ms}`, ms(30, 30, 30)},
		{`{attempts: 3, initial_delay: 10ms}`, ms(10, 20)},
		{`{max_attempts: 3, initial_delay: 10ms}`, ms(10, 20)},
		{`{initial_delay: 10ms}`, ms(10, 20)},
		{`{attempts: 1, initial_delay: 10ms}`, nil},
		{`{attempts: 3, backoff: {fixed: null}, initial_delay: 20ms}`, ms(20, 20)},
		{`{attempts: 3, backoff: {fixed: {delay: 20ms}}}`, ms(20, 20)},
		{`{attempts: 4, backoff: {fibonacci: {initial: 10ms}}}`, ms(10, 10, 20)},
		{`{attempts: 4, backoff: {linear: {increment: 20ms}}, initial_delay: 10ms}`, ms(10, 30, 50)},
		{`{attempts: 4, backoff: {linear: {initial: 10ms, increment: 20ms}}}`, ms(10, 30, 50)},
		{`{attempts: 4, backoff: {exponential: {initial: 10ms, multiplier: 2.0}}}`, ms(10, 20, 40)},
		{`{attempts: 4, backoff: {exponential: {}}, initial_delay: 10ms}`, ms(10, 20, 40)},
		{`{attempts: 4, backoff: {type: exponential, base: 2.0}, initial_delay: 10ms}`, ms(10, 20, 40)},
		{`{attempts: 4, backoff: {type: linear, increment: 20ms}, initial_delay: 10ms}`, ms(10, 30, 50)},
		{`{attempts: 3, backoff: {type: custom, delays: ["10ms", "30ms"]}}`, ms(10, 30)},
		{`{attempts: 3, backoff: custom, delays: [10ms, 30ms]}`, ms(10, 30)},
		{`{attempts: 3, backoff: {custom: {delays: [{secs: 0, nanos: 20000000}, 0.03]}}}`, ms(20, 30)},
		{`{attempts: 3, backoff: exponential, multiplier: 3, initial_delay: 10ms}`, ms(10, 30)},
		{`{attempts: 3, backoff: fixed, initial_delay: 0.02}`, ms(20, 20)},
		{`{attempts: 3, backoff: fixed, initial_delay: {secs: 0, nanos: 20000000}}`, ms(20, 20)},
		{`{attempts: 3, backoff: fixed, initial_delay_ms: 20}`, ms(20, 20)},
		{`{attempts: 3, backoff: fixed, initial_delay_secs: 0.02}`, ms(20, 20)},
		{`{attempts: 3, backoff: fixed, initial_delay: "0h0m0.02s"}`, ms(20, 20)},
		{`{attempts: 3, initial_delay: 20ms, max_delay_ms: 30}`, ms(20, 30)},
		{`{attempts: 3, initial_delay: 0}`, ms(0, 0)},
		{`{attempts: 9, initial_delay: 10ms, retry_budget: 50ms}`, ms(10, 20)},
		{`{attempts: 9, initial_delay: 10ms, retry_budget_ms: 70}`, ms(10, 20, 40)},
		{`{attempts: 4, initial_delay: 10ms, jitter: none}`, ms(10, 20, 40)},
		{`{attempts: 4, initial_delay: 10ms, jitter: true, jitter_factor: 0}`, ms(10, 20, 40)},
		{`{attempts: 3, initial_delay: 10ms, retry_on: [{exit_code: 1}]}`, ms(10, 20)},
		{`{attempts: 3, initial_delay: 10ms, retry_on: [{exit_code: [2, 3]}]}`, nil},
		{`{attempts: 3, initial_delay: 10ms, abort_on: [{exit_code: 1}]}`, nil},
	} {
		for _, key := range []string{"retry", "retry_config"} {
			t.Run(key+" "+row.policy, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				r := b.run("commands:\n" + failing + "  " + key + ": " + row.policy + "\n")
				r.status(event.Failed)
				if got := r.delays(); !slices.Equal(got, row.want) {
					t.Errorf("waits %v, want %v", got, row.want)
				}
				r.gaps(row.want)
			})
		}
	}
}

// TestRetryJitter checks that waits are in the range of each kind of jitter.
func TestRetryJitter(t *testing.T) {
	for _, row := range []struct {
		jitter string
		lo, hi func(n int, base, prev float64) float64 // in milliseconds
	}{
		{"jitter: true", func(_ int, d, _ float64) float64 { return 0.7 * d }, func(_ int, d, _ float64) float64 { return min(1.3*d, 40) }},
		{"jitter: factor, jitter_factor: 0.1", func(_ int, d, _ float64) float64 { return 0.9 * d }, func(_ int, d, _ float64) float64 { return min(1.1*d, 40) }},
		{"jitter: full", func(int, float64, float64) float64 { return 0 }, func(_ int, d, _ float64) float64 { return d }},
		{"jitter: equal", func(_ int, d, _ float64) float64 { return d / 2 }, func(_ int, d, _ float64) float64 { return d }},
		{"jitter: decorrelated", func(int, float64, float64) float64 { return 10 }, func(_ int, _, prev float64) float64 { return min(40, 3*prev) }},
	} {
		t.Run(row.jitter, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.run("commands:\n" + failing + "  retry: {attempts: 6, initial_delay: 10ms, max_delay: 40ms, " + row.jitter + "}\n")
			got := r.delays()
			r.gaps(got)
			prev, plain := 10.0, 0
			for i, base := range []float64{10, 20, 40, 40, 40} {
				d := float64(got[i]) / 1e6
				if d < row.lo(i, base, prev) || d > row.hi(i, base, prev) {
					t.Errorf("wait %d is %v ms, want %v to %v", i+1, d, row.lo(i, base, prev), row.hi(i, base, prev))
				}
				if d == base {
					plain++
				}
				prev = d
			}
			if plain == 5 {
				t.Error("there is no jitter in the waits")
			}
		})
	}
}

// TestRetryMatchers counts the attempts that each matcher allows.
func TestRetryMatchers(t *testing.T) {
	for _, row := range []struct {
		shell, on string
		want      int
	}{
		{"echo connection refused >&2; exit 1", "[network]", 2},
		{"echo CONNECTION lost; exit 1", "[network]", 2},
		{"echo nothing >&2; exit 1", "[network, timeout, server_error, rate_limit]", 1},
		{"echo operation timed out >&2; exit 1", "[timeout]", 2},
		{"echo HTTP/1.1 503 >&2; exit 1", "[server_error]", 2},
		{"echo line 1500 of 5032 >&2; exit 1", "[server_error]", 1},
		{"echo Too Many Requests; exit 1", "[rate_limit]", 2},
		{"echo E4290 >&2; exit 1", "[rate_limit]", 1},
		{"echo please Try Later >&2; exit 1", "[{pattern: 'Try L'}]", 2},
		{"echo please try later >&2; exit 1", "[{pattern: 'Try L'}]", 1},
		{"exit 75", "[{exit_code: [75, 111]}]", 2},
		{"exit 76", "[{exit_code: [75, 111]}]", 1},
		{"head -c 200000 /dev/zero | tr '\\\\0' x; echo status 502 >&2; exit 1", "[server_error]", 2},
	} {
		t.Run(row.shell+" "+row.on, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.run("commands:\n- shell: \"echo a >> @EV@/n; " + row.shell + "\"\n  retry: {attempts: 2, initial_delay: 1ms, retry_on: " + row.on + "}\n")
			r.want("n", strings.Repeat("a\n", row.want-1)+"a")
		})
	}
}

// TestRetryTimeout limits each attempt by the policy's own timeout.
func TestRetryTimeout(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: echo a >> @EV@/n; test $(wc -l < @EV@/n) -gt 1 || sleep 60
    retry: {attempts: 99, initial_delay: 1ms, backoff: fixed, timeout: 1s, retry_on: [timeout]}
`)
	r.status(event.Succeeded) // another attempt follows a later attempt that is too slow
	got := r.of(event.AttemptFailed)
	if len(got) == 0 || slices.ContainsFunc(got, func(e event.Event) bool { return e.Class != "timeout" }) {
		t.Errorf("the failed attempts are %+v, want those of class timeout", got)
	}
}

// TestRetryExhausted: the fallback comes first, then continue, then stop, and then the
// step's own handler.
func TestRetryExhausted(t *testing.T) {
	for _, row := range []struct {
		name, onFailure, handler string
		status                   string
		want                     evidence
	}{
		{"fallback", "{fallback: {command: echo plan B}}", "{shell: echo handled > @EV@/handler}",
			event.Succeeded, evidence{"handler": "-", "last": "plan B", "next": "a"}},
		{"fallback as a text", "{fallback: echo plan B}", "",
			event.Succeeded, evidence{"last": "plan B", "next": "a"}},
		{"a fallback that fails", "{fallback: {command: exit 4}}", "",
			event.Failed, evidence{"next": "-"}},
		{"a fallback that fails, and a handler", "{fallback: {command: exit 4}}", "{shell: echo handled > @EV@/handler}",
			event.Succeeded, evidence{"handler": "handled", "next": "a"}},
		{"continue", "continue", "{shell: echo handled > @EV@/handler}",
			event.Succeeded, evidence{"handler": "-", "next": "a"}},
		{"stop", "stop", "", event.Failed, evidence{"next": "-"}},
		{"stop and a handler", "stop", "{shell: echo handled > @EV@/handler}", event.Succeeded, evidence{"handler": "handled", "next": "a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			text := "commands:\n- shell: echo a >> @EV@/n; exit 1\n  id: s\n  retry: {attempts: 2, initial_delay: 1ms, on_failure: " + row.onFailure + "}\n"
			if row.handler != "" {
				text += "  on_failure: " + row.handler + "\n"
			}
			r := newBench(t).run(text + "- shell: echo a > @EV@/next; echo \"${s.output}\" > @EV@/last\n")
			r.status(row.status)
			r.want("n", "a\na")
			for name, want := range row.want {
				r.want(name, want)
			}
			degraded := slices.ContainsFunc(r.of(event.StepFinished), func(e event.Event) bool { return e.Status == event.Degraded })
			if want := row.want["last"] == "plan B"; degraded != want {
				t.Errorf("degraded is %v, want %v", degraded, want)
			}
			if row.onFailure == "continue" && r.sum.Steps.Tolerated != 1 {
				t.Errorf("%d failed steps were tolerated, want the one", r.sum.Steps.Tolerated)
			}
		})
	}
}

// TestRetryDefaults merges a step's policy into the file's, field by field.
func TestRetryDefaults(t *testing.T) {
	for _, key := range []string{"retry_defaults", "retry_config", "retry"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run(key + `: {attempts: 3, backoff: fixed, initial_delay: 5ms}
commands:
  - shell: echo a >> @EV@/own; exit 1
    retry: {attempts: 2}
    continue_on_error: true
  - shell: echo a >> @EV@/file; exit 1
`)
			r.want("own", "a\na")
			r.want("file", "a\na\na")
			if got := r.delays(); !slices.Equal(got, ms(5, 5, 5)) {
				t.Errorf("waits %v, want 5 ms each", got)
			}
		})
	}
}

// TestRetryAfter: the wait that a server asks for makes the wait longer. If it is longer
// than the policy allows, the operation ends.
func TestRetryAfter(t *testing.T) {
	for _, row := range []struct {
		after, policy string
		status        string
		wait          time.Duration
		calls         int32
	}{
		{"1", "{attempts: 3, initial_delay: 1ms}", event.Succeeded, time.Second, 2},
		{"1", "{attempts: 3, initial_delay: 1ms, max_delay: 5ms}", event.Succeeded, time.Second, 2},
		{"100", "{attempts: 3, initial_delay: 1ms, retry_after_max: 50s}", event.Failed, 0, 1},
		{"100", "{attempts: 3, initial_delay: 1ms, retry_budget: 10s}", event.Failed, 0, 1},
	} {
		t.Run(fmt.Sprint(row.after, row.policy), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) == 1 {
					w.Header().Set("Retry-After", row.after)
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}))
			defer srv.Close()
			b := newBench(t)
			b.url = srv.URL
			r := b.run("commands:\n- http: '@URL@'\n  retry: " + row.policy + "\n")
			r.status(row.status)
			if calls.Load() != row.calls {
				t.Errorf("%d calls, want %d", calls.Load(), row.calls)
			}
			if got := r.delays(); row.wait > 0 && (len(got) != 1 || got[0] < row.wait) {
				t.Errorf("waits %v, want one of at least %v", got, row.wait)
			}
		})
	}
}

// TestRetryBreaker: an open breaker refuses an attempt immediately, and also the attempts
// of steps that share the breaker.
func TestRetryBreaker(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - foreach: [1, 2, 3, 4]
    continue_on_error: true
    do:
      - shell: echo ${item} >> @EV@/n; exit 1
        retry: {attempts: 1, circuit_breaker: {failure_threshold: 2, timeout: 1h}}
`)
	r.want("n", "1\n2")
	var changes []string
	for _, e := range r.of(event.BreakerChanged) {
		if e.From != e.To {
			changes = append(changes, e.From+" to "+e.To)
		}
	}
	if !slices.Equal(changes, []string{"closed to open"}) {
		t.Errorf("the changes of the breaker are %q", changes)
	}
}

// TestRetryQuota: a shared budget of retries ends them.
func TestRetryQuota(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: echo a >> @EV@/a; exit 1
    continue_on_error: true
    retry: {attempts: 10, initial_delay: 1ms, quota: {name: api, ratio: 0.1, floor: 3}}
  - shell: echo a >> @EV@/b; exit 1
    retry: {attempts: 10, initial_delay: 1ms, quota: {name: api, ratio: 0.1, floor: 3}}
`)
	n := strings.Count(r.file("a"), "a") + strings.Count(r.file("b"), "a")
	if n >= 20 || n < 4 {
		t.Errorf("%d attempts in all, want the quota to leave about 3 retries", n)
	}
}

// TestQuotaOfZero: a quota that begins with no retry and earns none allows none, and not as
// many as one of which nothing is said.
func TestQuotaOfZero(t *testing.T) {
	t.Parallel()
	for quota, want := range map[string]int{"ratio: 0, initial: 0": 1, "ratio: 0, initial: 2": 3, "ratio: 1, initial: 0": 2, "initial: 0, ratio: 0.5": 1} {
		r := newBench(t).run("commands: [{shell: 'echo a >> @EV@/a; exit 1', retry: {attempts: 6, initial_delay: 1ms, quota: {name: api, " + quota + "}}}]\n")
		if n := strings.Count(r.file("a"), "a"); n != want {
			t.Errorf("%s: %d attempts, want %d", quota, n, want)
		}
	}
}
