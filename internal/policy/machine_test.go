package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

var t0 = time.Date(2026, 11, 21, 1, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func machine(t *testing.T, cfg Config, n int) *Machine {
	t.Helper()
	m, err := New(cfg, n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fixed(attempts int, delay time.Duration) *retry.Policy {
	return &retry.Policy{Attempts: attempts, Backoff: backoff.Schedule{Strategy: backoff.Fixed{}, Initial: delay}}
}

var errBoom = errors.New("boom")

// start starts what Next offers and gives its item.
func start(t *testing.T, m *Machine, now time.Time) int {
	t.Helper()
	d := m.Next(now)
	if d.Kind != Start {
		t.Fatalf("at %v: %+v, want a start", now.Sub(t0), d)
	}
	if _, err := m.Started(d.Item, now); err != nil {
		t.Fatal(err)
	}
	return d.Item
}

func finish(t *testing.T, m *Machine, item int, o Outcome, now time.Time) Verdict {
	t.Helper()
	v, err := m.Finished(item, o, now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// through starts the next item and ends it at once.
func through(t *testing.T, m *Machine, o Outcome, now time.Time) Verdict {
	t.Helper()
	return finish(t, m, start(t, m, now), o, now)
}

func fails(err error) Outcome { return Outcome{Err: err} }

var ok = Outcome{OK: true}

func TestNextChangesNothing(t *testing.T) {
	m := machine(t, Config{}, 3)
	if a, b := m.Next(t0), m.Next(t0); a != b || a.Kind != Start || a.Item != 1 || a.Attempt != 1 {
		t.Fatalf("%+v, then %+v", a, b)
	}
	if c := m.Counts(); c.Pending != 3 || c.Running != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestEmptyMap(t *testing.T) {
	if d := machine(t, Config{}, 0).Next(t0); d.Kind != Finished || d.Status != Succeeded {
		t.Fatalf("%+v", d)
	}
}

func TestMaxParallel(t *testing.T) {
	m := machine(t, Config{MaxParallel: 2}, 3)
	start(t, m, t0)
	start(t, m, t0)
	if d := m.Next(t0); d.Kind != Idle {
		t.Fatalf("third: %+v", d)
	}
	if _, err := m.Started(3, t0); !errors.Is(err, ErrNotOffered) {
		t.Fatalf("started beyond max_parallel: %v", err)
	}
	finish(t, m, 1, ok, t0)
	if got := start(t, m, t0); got != 3 {
		t.Fatalf("item %d", got)
	}
	m = machine(t, Config{}, 100)
	for range DefaultMaxParallel {
		start(t, m, t0)
	}
	if d := m.Next(t0); d.Kind != Idle {
		t.Fatalf("by default more than %d run: %+v", DefaultMaxParallel, d)
	}
}

func TestRetryWaitHoldsNoWorker(t *testing.T) {
	m := machine(t, Config{MaxParallel: 1, Retry: fixed(3, 10*time.Second)}, 2)
	v := through(t, m, fails(errBoom), t0)
	if v.Fate != ItemRetry || v.Delay != 10*time.Second || !v.NotBefore.Equal(at(10*time.Second)) || v.Attempt != 1 || v.Retry.Attempt != 1 {
		t.Fatalf("%+v", v)
	}
	if i := start(t, m, at(time.Second)); i != 2 {
		t.Fatalf("item %d runs while 1 waits", i)
	}
	finish(t, m, 2, ok, at(2*time.Second))
	if d := m.Next(at(2 * time.Second)); d.Kind != Wait || !d.Until.Equal(at(10*time.Second)) || d.Hold != HoldRetry {
		t.Fatalf("%+v", d)
	}
	if d := m.Next(at(10 * time.Second)); d.Kind != Start || d.Item != 1 || d.Attempt != 2 {
		t.Fatalf("%+v", d)
	}
	through(t, m, fails(errBoom), at(10*time.Second))
	v = through(t, m, fails(errBoom), at(20*time.Second))
	if v.Fate != ItemDeadLettered || v.Attempt != 3 || v.Reason != driver.ReasonAttempts {
		t.Fatalf("%+v", v)
	}
	if d := m.Next(at(20 * time.Second)); d.Kind != Finished || d.Status != CompletedWithFailures {
		t.Fatalf("%+v", d)
	}
}

func TestOnItemFailure(t *testing.T) {
	for _, c := range []struct {
		cfg    Config
		fates  []Fate
		status Status
		stop   StopReason
		counts Counts
	}{
		{Config{}, []Fate{ItemDeadLettered}, CompletedWithFailures, "", Counts{Total: 1, Failed: 1, DeadLettered: 1, FailedForGood: 1}},
		{Config{OnItemFailure: Retry}, []Fate{ItemRetry, ItemRetry, ItemDeadLettered}, CompletedWithFailures, "", Counts{Total: 1, Failed: 1, DeadLettered: 1, FailedForGood: 1}},
		{Config{OnItemFailure: Retry, Retry: fixed(2, 0)}, []Fate{ItemRetry, ItemDeadLettered}, CompletedWithFailures, "", Counts{Total: 1, Failed: 1, DeadLettered: 1, FailedForGood: 1}},
		{Config{OnItemFailure: Skip}, []Fate{ItemSkipped}, CompletedWithFailures, "", Counts{Total: 1, Skipped: 1, FailedForGood: 1}},
		{Config{OnItemFailure: Stop}, []Fate{ItemFailed}, Stopped, ByItemFailure, Counts{Total: 1, Failed: 1, FailedForGood: 1}},
		{Config{OnItemFailure: Custom, Handler: "clean"}, []Fate{ItemHandled}, CompletedWithFailures, "", Counts{Total: 1, Failed: 1, FailedForGood: 1}},
	} {
		m := machine(t, c.cfg, 1)
		now := t0
		for i, want := range c.fates {
			d := m.Next(now)
			if d.Kind == Wait {
				now = d.Until
			}
			v := through(t, m, fails(errBoom), now)
			if v.Fate != want {
				t.Errorf("%v: attempt %d: %v, want %v", c.cfg.OnItemFailure, i+1, v.Fate, want)
			}
			if v.Fate == ItemHandled && v.Handler != "clean" {
				t.Errorf("handler %q", v.Handler)
			}
		}
		if d := m.Next(now); d.Kind != Finished || d.Status != c.status || m.Stopped() != c.stop {
			t.Errorf("%v: %+v, %q", c.cfg.OnItemFailure, d, m.Stopped())
		}
		if m.Counts() != c.counts {
			t.Errorf("%v: %+v", c.cfg.OnItemFailure, m.Counts())
		}
	}
	// The default retry policy: 3 attempts, 1 s, then 2 s.
	m := machine(t, Config{OnItemFailure: Retry}, 1)
	if v := through(t, m, fails(errBoom), t0); v.Delay != time.Second {
		t.Errorf("first delay %v", v.Delay)
	}
	if v := through(t, m, fails(errBoom), at(time.Second)); v.Delay != 2*time.Second {
		t.Errorf("second delay %v", v.Delay)
	}
}

// TestLeftOut: what the file leaves out has failed, whatever becomes of others that fail: it
// gets no further attempt, counts for the bounds, and the map ends with failures, also
// after a resume.
func TestLeftOut(t *testing.T) {
	left := fails(errBoom)
	left.LeftOut = true
	counts := Counts{Total: 2, Skipped: 1, FailedForGood: 1}
	for _, cfg := range []Config{{}, {OnItemFailure: Skip}, {OnItemFailure: Stop}, {OnItemFailure: Custom, Handler: "clean"}, {OnItemFailure: Retry, Retry: fixed(3, 0)}} {
		m := machine(t, cfg, 2)
		v := through(t, m, left, t0)
		counts.Pending = 1
		if v.Fate != ItemSkipped || v.Handler != "" || m.Stopped() != NotStopped || m.Counts() != counts {
			t.Errorf("%v: %+v, %q, %+v", cfg.OnItemFailure, v, m.Stopped(), m.Counts())
		}
		again := machine(t, cfg, 2)
		if _, err := again.Restore(1, ItemState{Standing: WasFinished, Fate: v.Fate}, t0); err != nil {
			t.Fatal(err)
		}
		if stop := again.Resume(false); stop != NotStopped || again.Counts() != counts {
			t.Errorf("%v: resumed: %q, %+v", cfg.OnItemFailure, stop, again.Counts())
		}
		for _, m := range []*Machine{m, again} {
			through(t, m, ok, t0)
			if d := m.Next(t0); d.Kind != Finished || d.Status != CompletedWithFailures {
				t.Errorf("%v: %+v", cfg.OnItemFailure, d)
			}
		}
	}
	m := machine(t, Config{MaxFailures: 1}, 2)
	if v := through(t, m, left, t0); v.Stop != ByMaxFailures {
		t.Errorf("max_failures: %+v", v)
	}
}

func TestStops(t *testing.T) {
	no := false
	rate := func(f float64) *float64 { return &f }
	for _, c := range []struct {
		name     string
		cfg      Config
		outcomes string // o: succeeds, x: fails
		stopsAt  int    // after how many, 0: never
		reason   StopReason
	}{
		{"max_failures at the Nth", Config{MaxFailures: 3}, "xoxoxoo", 5, ByMaxFailures},
		{"max_failures not reached", Config{MaxFailures: 4}, "xoxoxoo", 0, ""},
		{"max_failures counts skipped failures", Config{MaxFailures: 2, OnItemFailure: Skip}, "xxo", 2, ByMaxFailures},
		{"continue_on_failure false", Config{ContinueOnFailure: &no}, "ooxo", 3, ByFirstFailure},
		{"stop", Config{OnItemFailure: Stop}, "oxo", 2, ByItemFailure},
		{"threshold not before ten", Config{FailureThreshold: rate(0.1)}, "xxxxxxxxx", 0, ""},
		{"threshold at the tenth, a success", Config{FailureThreshold: rate(0.1)}, "xxxxxxxxxo", 10, ByFailureThreshold},
		{"threshold exactly reached", Config{FailureThreshold: rate(0.3)}, "xxxooooooo", 10, ByFailureThreshold},
		{"threshold just missed", Config{FailureThreshold: rate(0.301)}, "xxxooooooo", 0, ""},
		{"threshold reached later", Config{FailureThreshold: rate(0.25)}, "xxooooooooox", 12, ByFailureThreshold},
		{"threshold half", Config{FailureThreshold: rate(0.5)}, "xoxoxoxoxo", 10, ByFailureThreshold},
		{"threshold .505", Config{FailureThreshold: rate(0.505)}, "xoxoxoxoxo", 0, ""},
		{"threshold zero", Config{FailureThreshold: rate(0)}, "oooooooooox", 11, ByFailureThreshold},
		{"threshold zero without a failure", Config{FailureThreshold: rate(0)}, "ooooooooooo", 0, ""},
		{"threshold one", Config{FailureThreshold: rate(1)}, "xxxxxxxxxxxx", 10, ByFailureThreshold},
		{"threshold one and a success", Config{FailureThreshold: rate(1)}, "oxxxxxxxxxxx", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(t, c.cfg, len(c.outcomes)+5)
			for i, o := range c.outcomes {
				outcome := ok
				if o == 'x' {
					outcome = fails(errBoom)
				}
				v := through(t, m, outcome, t0)
				if want := i+1 == c.stopsAt; (v.Stop != NotStopped) != want {
					t.Fatalf("after %d: stop %q", i+1, v.Stop)
				}
				if v.Stop != NotStopped {
					break
				}
			}
			if m.Stopped() != c.reason {
				t.Fatalf("%q, want %q", m.Stopped(), c.reason)
			}
			if d := m.Next(t0); c.stopsAt > 0 && (d.Kind != Finished || d.Status != Stopped) {
				t.Fatalf("%+v", d)
			}
			if c.stopsAt > 0 && m.Counts().Pending != len(c.outcomes)+5-c.stopsAt {
				t.Fatalf("%+v", m.Counts())
			}
		})
	}
}

// TestReached: where the driver has stopped the map and the last item fails, the policy's
// reason to stop is known.
func TestReached(t *testing.T) {
	m := machine(t, Config{OnItemFailure: Stop}, 1)
	if _, err := m.Started(m.Next(t0).Item, t0); err != nil {
		t.Fatal(err)
	}
	m.Halt("stopping")
	v, err := m.Finished(1, Outcome{Err: errors.New("broken")}, t0)
	if err != nil || v.Stop != NotStopped {
		t.Fatalf("the verdict is %+v: %v", v, err)
	}
	if m.Stopped() != "stopping" || m.Reached() != ByItemFailure {
		t.Errorf("the map stops for %q, and has reached %q", m.Stopped(), m.Reached())
	}
}

func TestStopLetsAgentsEnd(t *testing.T) {
	m := machine(t, Config{MaxFailures: 1, MaxParallel: 3, Retry: fixed(2, time.Second)}, 10)
	start(t, m, t0)
	start(t, m, t0)
	start(t, m, t0)
	m.Halt("interrupted")
	m.Halt("later")
	if d := m.Next(t0); d.Kind != Idle {
		t.Fatalf("%+v", d)
	}
	finish(t, m, 1, ok, t0)
	finish(t, m, 2, Outcome{Cancelled: true, Err: errBoom}, t0)
	if v := finish(t, m, 3, fails(errBoom), t0); v.Fate != ItemRetry {
		t.Fatalf("%+v", v)
	}
	if d := m.Next(t0); d.Kind != Finished || d.Status != Stopped || m.Stopped() != "interrupted" {
		t.Fatalf("%+v %q", d, m.Stopped())
	}
	if c := m.Counts(); c.Pending != 7 || c.Retrying != 2 || c.Succeeded != 1 {
		t.Fatalf("%+v", c)
	}
}

func TestCancelledUsesNoAttempt(t *testing.T) {
	m := machine(t, Config{}, 1)
	if v := through(t, m, Outcome{Cancelled: true}, t0); v.Fate != ItemReturned || v.Attempt != 1 {
		t.Fatalf("%+v", v)
	}
	if d := m.Next(t0); d.Kind != Start || d.Attempt != 1 {
		t.Fatalf("%+v", d)
	}
}

func TestRateLimit(t *testing.T) {
	m := machine(t, Config{MaxParallel: 3, RateLimitMaxWait: time.Hour}, 5)
	a, b, c := start(t, m, t0), start(t, m, t0), start(t, m, t0)
	limited := Outcome{RateLimited: true, RetryAfter: time.Minute, Err: errBoom}
	v := finish(t, m, a, limited, t0)
	if v.Fate != ItemPaused || !v.PausedUntil.Equal(at(time.Minute)) || v.Delay != time.Minute {
		t.Fatalf("%+v", v)
	}
	if d := m.Next(at(time.Second)); d.Kind != Wait || d.Hold != HoldRateLimit || !d.Until.Equal(at(time.Minute)) {
		t.Fatalf("%+v", d)
	}
	// A second answer of the same time does not count as a pause that failed.
	finish(t, m, b, Outcome{RateLimited: true}, at(time.Second))
	finish(t, m, c, ok, at(time.Second))
	if d := m.Next(at(time.Minute)); d.Kind != Start || d.Item != a || d.Attempt != 1 {
		t.Fatalf("%+v", d)
	}
	if got := []int{start(t, m, at(time.Minute)), start(t, m, at(time.Minute))}; !slices.Equal(got, []int{a, b}) {
		t.Fatalf("first the paused ones: %v", got)
	}
	// Without a hint the pause doubles with each that did not help.
	v = finish(t, m, a, Outcome{RateLimited: true}, at(time.Minute))
	if v.Delay != 2*DefaultRateLimitPause {
		t.Fatalf("second pause %v", v.Delay)
	}
	finish(t, m, b, ok, at(time.Minute)) // from before this pause: says nothing
	now := m.Next(at(time.Minute)).Until
	start(t, m, now)
	if v = finish(t, m, a, Outcome{RateLimited: true}, now); v.Delay != 4*DefaultRateLimitPause {
		t.Fatalf("third pause %v", v.Delay)
	}
	// max_wait counts from the first answer.
	now = m.Next(now).Until
	start(t, m, now)
	v = finish(t, m, a, Outcome{RateLimited: true, RetryAfter: 58 * time.Minute}, now)
	if v.Stop != ByRateLimit || v.Fate != ItemPaused || m.Counts().FailedForGood != 0 {
		t.Fatalf("%+v", v)
	}
	if d := m.Next(now); d.Kind != Finished || d.Status != Stopped {
		t.Fatalf("%+v", d)
	}
}

func TestRateLimitOff(t *testing.T) {
	m := machine(t, Config{RateLimitMaxWait: -1}, 1)
	if v := through(t, m, Outcome{RateLimited: true, Err: errBoom}, t0); v.Fate != ItemDeadLettered {
		t.Fatalf("%+v", v)
	}
}

func TestRateLimitResetsAfterSuccess(t *testing.T) {
	m := machine(t, Config{MaxParallel: 1}, 3)
	if v := through(t, m, Outcome{RateLimited: true}, t0); v.Delay != DefaultRateLimitPause {
		t.Fatalf("%v", v.Delay)
	}
	now := at(DefaultRateLimitPause)
	through(t, m, ok, now)
	if v := through(t, m, Outcome{RateLimited: true}, now); v.Delay != DefaultRateLimitPause {
		t.Fatalf("%v", v.Delay)
	}
}

func TestStartDelay(t *testing.T) {
	m := machine(t, Config{MaxParallel: 3, StartDelay: time.Second}, 9)
	start(t, m, t0)
	if d := m.Next(t0); d.Kind != Wait || d.Hold != HoldRamp || !d.Until.Equal(at(time.Second)) {
		t.Fatalf("%+v", d)
	}
	start(t, m, at(time.Second))
	start(t, m, at(2*time.Second))
	finish(t, m, 1, ok, at(2*time.Second))
	if d := m.Next(at(2 * time.Second)); d.Kind != Start {
		t.Fatalf("after the ramp: %+v", d)
	}
	// A rate limit begins the ramp anew.
	finish(t, m, 2, Outcome{RateLimited: true, RetryAfter: time.Minute}, at(2*time.Second))
	start(t, m, at(2*time.Minute))
	if d := m.Next(at(2 * time.Minute)); d.Kind != Wait || d.Hold != HoldRamp {
		t.Fatalf("%+v", d)
	}
}

func TestBreakerHoldsAndProbes(t *testing.T) {
	m := machine(t, Config{MaxParallel: 10, Breaker: &circuit.Config{}}, 100)
	for range 10 {
		start(t, m, t0)
	}
	for i := range 5 {
		v := finish(t, m, i+1, fails(errBoom), t0)
		if opened := v.Breaker != nil; opened != (i == 4) {
			t.Fatalf("after %d failures: %+v", i+1, v.Breaker)
		}
		if i == 4 && (v.Breaker.From != circuit.Closed || v.Breaker.To != circuit.Open) {
			t.Fatalf("%+v", *v.Breaker)
		}
	}
	for i := 5; i < 10; i++ { // from before it opened
		finish(t, m, i+1, ok, at(time.Second))
	}
	if d := m.Next(at(30*time.Second - 1)); d.Kind != Wait || d.Hold != HoldBreaker || !d.Until.Equal(at(30*time.Second)) {
		t.Fatalf("%+v", d)
	}
	if c := m.Counts(); c.Pending != 90 || c.Failed != 5 {
		t.Fatalf("held items are not pending: %+v", c)
	}
	now := at(30 * time.Second)
	for probe := range 3 {
		d := m.Next(now)
		if d.Kind != Start {
			t.Fatalf("probe %d: %+v", probe, d)
		}
		change, err := m.Started(d.Item, now)
		if err != nil || (change != nil) != (probe == 0) {
			t.Fatalf("probe %d: %v %v", probe, change, err)
		}
		if probe == 0 && (change.From != circuit.Open || change.To != circuit.HalfOpen) {
			t.Fatalf("%+v", *change)
		}
	}
	// Probes that take hours are not replaced.
	now = at(5 * time.Hour)
	if d := m.Next(now); d.Kind != Idle || d.Hold != HoldBreaker {
		t.Fatalf("fourth probe: %+v", d)
	}
	finish(t, m, 11, Outcome{Cancelled: true}, now) // gives its permit back
	if got := start(t, m, now); got != 11 {
		t.Fatalf("item %d", got)
	}
	finish(t, m, 11, ok, now)
	finish(t, m, 12, ok, now)
	v := finish(t, m, 13, ok, now)
	if v.Breaker == nil || v.Breaker.To != circuit.Closed {
		t.Fatalf("%+v", v.Breaker)
	}
}

func TestBreakerReopens(t *testing.T) {
	m := machine(t, Config{Breaker: &circuit.Config{FailureThreshold: 1, Timeout: time.Minute}}, 10)
	through(t, m, fails(errBoom), t0)
	if v := through(t, m, fails(errBoom), at(time.Minute)); v.Breaker == nil || v.Breaker.To != circuit.Open {
		t.Fatalf("%+v", v.Breaker)
	}
	if d := m.Next(at(time.Minute)); d.Kind != Wait || !d.Until.Equal(at(2*time.Minute)) {
		t.Fatalf("%+v", d)
	}
}

func TestErrorCollection(t *testing.T) {
	for _, c := range []struct {
		ec   ErrorCollection
		want string // how many are shown after each failure, then at the end
	}{
		{ErrorCollection{}, "00000|0"},
		{ErrorCollection{When: Immediate}, "11111|0"},
		{ErrorCollection{When: Batched, Size: 2}, "02020|1"},
	} {
		m := machine(t, Config{ErrorCollection: c.ec}, 5)
		got := ""
		for range 5 {
			got += fmt.Sprint(len(through(t, m, fails(errBoom), t0).Show))
		}
		got += fmt.Sprint("|", len(m.Unshown()))
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.ec, got, c.want)
		}
	}
	m := machine(t, Config{ErrorCollection: ErrorCollection{When: Immediate}, Retry: fixed(2, 0)}, 1)
	if v := through(t, m, fails(errBoom), t0); len(v.Show) != 0 {
		t.Errorf("an attempt that is retried is shown as an error: %+v", v.Show)
	}
	want := Report{Item: 1, Attempt: 2, Fate: ItemDeadLettered, Class: "error", Message: "boom"}
	if v := through(t, m, fails(errBoom), t0); len(v.Show) != 1 || v.Show[0] != want {
		t.Errorf("%+v", v.Show)
	}
}

func TestRetryMatchersAndHints(t *testing.T) {
	p := fixed(5, time.Second)
	p.If = retry.Timeout
	m := machine(t, Config{Retry: p}, 2)
	if v := through(t, m, fails(errBoom), t0); v.Fate != ItemDeadLettered || v.Reason != driver.ReasonNotRetryable {
		t.Fatalf("%+v", v)
	}
	v := through(t, m, Outcome{Err: fmt.Errorf("request: %w", context.DeadlineExceeded), RetryAfter: 7 * time.Second}, t0)
	if v.Fate != ItemRetry || v.Delay < 7*time.Second {
		t.Fatalf("hint not heeded: %+v", v)
	}
	// A refusal by the breaker of one of the agent's commands is a failed
	// agent like any other where no matcher says otherwise.
	m = machine(t, Config{Retry: fixed(2, 0)}, 1)
	if v := through(t, m, fails(&circuit.OpenError{Name: "curl"}), t0); v.Fate != ItemRetry {
		t.Fatalf("%+v", v)
	}
}

func TestBudgetHasNoExpiryWithinARun(t *testing.T) {
	p := fixed(10, 2*time.Second)
	p.Budget = 5 * time.Second
	m := machine(t, Config{Retry: p}, 1)
	through(t, m, fails(errBoom), t0)
	// The attempt takes an hour: only waits count.
	if v := through(t, m, fails(errBoom), at(time.Hour)); v.Fate != ItemRetry {
		t.Fatalf("%+v", v)
	}
	if v := through(t, m, fails(errBoom), at(2*time.Hour)); v.Fate != ItemDeadLettered || v.Reason != driver.ReasonBudget {
		t.Fatalf("%+v", v)
	}
}

func TestMisuse(t *testing.T) {
	m := machine(t, Config{}, 2)
	if _, err := m.Finished(1, ok, t0); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	for _, i := range []int{-1, 0, 2, 3, math.MaxInt} {
		if _, err := m.Started(i, t0); !errors.Is(err, ErrNotOffered) {
			t.Errorf("%d: %v", i, err)
		}
	}
	start(t, m, t0)
	if _, err := m.Started(1, t0); !errors.Is(err, ErrNotOffered) {
		t.Error(err)
	}
	finish(t, m, 1, ok, t0)
	if _, err := m.Finished(1, ok, t0); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	if c := m.Counts(); c.Succeeded != 1 || c.Running != 0 {
		t.Errorf("%+v", c)
	}
}

func TestValidate(t *testing.T) {
	nan, big := math.NaN(), 1.5
	err := Config{
		MaxParallel: -1, OnItemFailure: Custom, MaxFailures: -1, FailureThreshold: &nan,
		ErrorCollection: ErrorCollection{When: Batched}, StartDelay: -1,
		Retry: &retry.Policy{Attempts: -1, Timeout: time.Second}, Breaker: &circuit.Config{FailureThreshold: -1, Lease: 1},
	}.Validate()
	for _, want := range []string{"max_parallel", "needs the name of a handler", "max_failures", "failure_threshold", "batch size", "start_delay", "retry_config: retry", "timeout, breaker", "circuit_breaker: circuit", "no lease"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	for _, c := range []Config{{FailureThreshold: &big}, {OnItemFailure: 99}, {Handler: "x"}, {ErrorCollection: ErrorCollection{When: 9}}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for _, n := range []int{-1, MaxItems + 1} {
		if _, err := New(Config{}, n); err == nil {
			t.Errorf("a map over %d items is accepted", n)
		}
	}
}

func TestRateIsExact(t *testing.T) {
	for _, c := range []struct {
		t                float64
		failed, finished int
		want             bool
	}{
		{0.3, 3, 10, true}, {0.3, 300_000_000, 1_000_000_000, true}, {0.3, 299_999_999, 1_000_000_000, false},
		{0.1, 1, 10, true}, {0.7, 7, 10, true}, {0.7, 6, 10, false}, {0.495, 99, 200, true}, {0.495, 98, 200, false},
		{1e-300, 1, MaxItems, true}, {1e-300, 0, 10, false}, {0.9999999999999999, MaxItems, MaxItems, true}, {0.9999999999999999, MaxItems - 1, MaxItems, false},
		{1, 10, 10, true}, {1, 9, 10, false}, {0, 1, MaxItems, true}, {0, 0, MaxItems, false},
	} {
		if got := newRate(c.t).reachedBy(c.failed, c.finished); got != c.want {
			t.Errorf("%d of %d over %v: %v", c.failed, c.finished, c.t, got)
		}
	}
}

func TestExtremeTimes(t *testing.T) {
	for _, now := range []time.Time{{}, time.Unix(math.MaxInt32*100, 0), time.Unix(-1<<40, 0)} {
		m := machine(t, Config{Retry: fixed(2, time.Hour)}, 1)
		through(t, m, fails(errBoom), now)
		if d := m.Next(now.Add(2 * time.Hour)); d.Kind != Start && d.Kind != Wait {
			t.Errorf("%v: %+v", now, d)
		}
	}
}

// TestRateLimitBeyond: nobody waits for the end of a limit that lasts longer than max_wait:
// not who meets it first, nor who asks later, nor who was asked before and is told the same
// or less; until it is over, or lifted, or somebody resumes.
func TestRateLimitBeyond(t *testing.T) {
	t.Parallel()
	l := NewRateLimit(6 * time.Hour)
	round, _ := l.Ask(at(0))
	if l.Limited(round, 22*time.Hour, at(0)) {
		t.Fatal("22 hours are waited for")
	}
	for _, after := range []time.Duration{22 * time.Hour, time.Hour, 0, 23 * time.Hour} {
		if l.Limited(round, after, at(time.Minute)) {
			t.Errorf("who was asked before, and is to wait %v, does", after)
		}
	}
	if _, until := l.Ask(at(time.Hour)); !l.TooLong(at(time.Hour)) || !until.Equal(at(23*time.Hour+time.Minute)) {
		t.Errorf("who asks later waits until %v", until)
	}
	again := NewRateLimit(6 * time.Hour) // a resume
	again.Restore(l.Pause())
	if _, until := again.Ask(at(20 * time.Hour)); !again.TooLong(at(time.Hour)) || again.TooLong(at(20*time.Hour)) || !until.Equal(at(23*time.Hour+time.Minute)) {
		t.Errorf("a resume waits until %v: %v and %v", until, again.TooLong(at(time.Hour)), again.TooLong(at(20*time.Hour)))
	}
	over := at(24 * time.Hour)
	if round, until := again.Ask(over); !until.IsZero() || !again.Limited(round, 5*time.Hour, over) || again.TooLong(over) {
		t.Error("it does not have all of max_wait anew after it")
	}
	if l.Lift(at(2 * time.Hour)); l.TooLong(at(2 * time.Hour)) {
		t.Error("what was lifted is not waited for")
	}
}

// TestLiftedRateLimit: a pause that is lifted is over for all; who is turned away after
// that begins a new series, with all of max_wait.
func TestLiftedRateLimit(t *testing.T) {
	t.Parallel()
	l := NewRateLimit(5 * time.Hour)
	old, _ := l.Ask(at(0))
	if !l.Limited(old, 4*time.Hour, at(0)) {
		t.Fatal("a limit within max_wait is not waited for")
	}
	l.Lift(at(time.Minute))
	round, until := l.Ask(at(time.Minute))
	if !until.IsZero() || l.Pause().Streak != 0 {
		t.Fatalf("after the lift agents wait until %v, and %+v is recorded", until, l.Pause())
	}
	if !l.Limited(round, 4*time.Hour, at(2*time.Hour)) {
		t.Error("the time before the lift counts in max_wait")
	}
	if _, until := l.Ask(at(2 * time.Hour)); !until.Equal(at(6 * time.Hour)) {
		t.Errorf("the new pause ends at %v", until)
	}
	before := l.Pause()
	l.Lift(at(7 * time.Hour))
	if l.Pause() != before {
		t.Errorf("a lift after the end of a pause changes %+v to %+v", before, l.Pause())
	}
}
