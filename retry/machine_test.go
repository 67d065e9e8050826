package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hint is an error of a server that says when to come back.
type hint time.Duration

func (h hint) Error() string                     { return "busy" }
func (h hint) RetryAfter() (time.Duration, bool) { return time.Duration(h), true }

func TestMachineDecides(t *testing.T) {
	quota, err := retry.NewQuota(retry.QuotaConfig{Ratio: -1, Initial: -1})
	if err != nil {
		t.Fatal(err)
	}
	second := retry.Policy{Backoff: doubling(sec)}
	tests := []struct {
		name     string
		p        retry.Policy
		deadline time.Duration
		err      error
		want     driver.Decision
	}{
		{"success", second, 0, nil, driver.Decision{Action: driver.ActionDone}},
		{"failure", second, 0, errFlaky, driver.Decision{Action: driver.ActionRetry, Delay: sec}},
		{"permanent", second, 0, retry.Permanent(errFlaky), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonNotRetryable}},
		{"a cancellation of somebody else", second, 0, context.Canceled, driver.Decision{Action: driver.ActionRetry, Delay: sec}},
		{"attempt timed out", second, 0, context.DeadlineExceeded, driver.Decision{Action: driver.ActionRetry, Delay: sec}},
		{"refused", second, 0, &circuit.OpenError{RetryAfter: 5 * sec, State: circuit.Open}, driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonCircuitOpen, RetryAfter: 5 * sec}},
		{"hint raises the delay", second, 0, hint(5 * sec), driver.Decision{Action: driver.ActionRetry, Delay: 5 * sec, Source: driver.SourceRetryAfter, RetryAfter: 5 * sec}},
		{"hint below the delay", second, 0, hint(sec / 2), driver.Decision{Action: driver.ActionRetry, Delay: sec, RetryAfter: sec / 2}},
		{"hint beyond max_delay", second, 0, hint(4 * time.Minute), driver.Decision{Action: driver.ActionRetry, Delay: 4 * time.Minute, Source: driver.SourceRetryAfter, RetryAfter: 4 * time.Minute}},
		{"hint at the limit", second, 0, hint(5 * time.Minute), driver.Decision{Action: driver.ActionRetry, Delay: 5 * time.Minute, Source: driver.SourceRetryAfter, RetryAfter: 5 * time.Minute}},
		{"hint beyond the limit", second, 0, hint(5*time.Minute + 1), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonRetryAfter, RetryAfter: 5*time.Minute + 1}},
		{"limit of one's own", retry.Policy{RetryAfterMax: sec}, 0, hint(2 * sec), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonRetryAfter, RetryAfter: 2 * sec}},
		{"hint not to retry", second, 0, hint(-1), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonRetryAfter, RetryAfter: -1}},
		{"hint past the budget", retry.Policy{Backoff: doubling(sec), Budget: 3 * sec}, 0, hint(5 * sec), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonBudget, RetryAfter: 5 * sec}},
		{"hint past the deadline", second, 5 * sec, hint(5 * sec), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonCallerDeadline, RetryAfter: 5 * sec}},
		{"hint on the last attempt", retry.Policy{Attempts: 1}, 0, hint(sec), driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonAttempts, RetryAfter: sec}},
		{"deadline now", retry.Policy{}, time.Nanosecond * 0, errFlaky, driver.Decision{Action: driver.ActionRetry}},
		{"deadline later", second, sec + 1, errFlaky, driver.Decision{Action: driver.ActionRetry, Delay: sec}},
		{"deadline met", second, sec, errFlaky, driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonCallerDeadline}},
		{"quota empty", retry.Policy{Quota: quota}, 0, errFlaky, driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonQuota}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := driver.NewMachine(&test.p, noon)
			if test.deadline > 0 {
				m.SetDeadline(noon.Add(test.deadline))
			}
			if got := m.Next(test.err, noon); got != test.want {
				t.Errorf("the decision is %+v, want %+v", got, test.want)
			}
		})
	}
}

// A hint is compared as it was given, before jitter, and obeyed within
// the limit only.
func TestHintWithJitterStaysWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Policy{
			Backoff: backoff.Schedule{Initial: sec, Jitter: backoff.Jitter(rapid.IntRange(0, 4).Draw(t, "jitter"))},
			Rand:    backoff.NewRand(rapid.Uint64().Draw(t, "seed")),
		}
		asked := time.Duration(rapid.Int64Range(1, int64(6*time.Minute)).Draw(t, "hint"))
		m := driver.NewMachine(&p, noon)
		d := m.Next(hint(asked), noon)
		if asked > 5*time.Minute {
			if d.Reason != driver.ReasonRetryAfter {
				t.Fatalf("%v: %+v", asked, d)
			}
			return
		}
		if d.Action != driver.ActionRetry || d.Delay < asked || d.Delay > max(5*time.Minute, asked) {
			t.Fatalf("%v: %+v", asked, d)
		}
	})
}

// The sum of delays never exceeds the budget, the number of attempts never the
// bound, and the machine does the same for the same seed, also if it is
// stopped and resumed from JSON after every attempt.
func TestMachineBoundsAndResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		policy := func() *retry.Policy {
			return &retry.Policy{
				Attempts: rapid.IntRange(1, 30).Draw(t, "attempts"),
				Backoff: backoff.Schedule{
					Initial: time.Duration(rapid.Int64Range(0, int64(10*sec)).Draw(t, "initial")),
					Jitter:  backoff.Jitter(rapid.IntRange(0, 4).Draw(t, "jitter")),
				},
				Budget: time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, int64(time.Minute))).Draw(t, "budget")),
			}
		}
		p := *policy()
		q := p
		p.Rand, q.Rand = backoff.NewRand(seed), backoff.NewRand(seed)
		straight, resumed := driver.NewMachine(&p, noon), driver.NewMachine(&q, noon)
		now, slept := noon, time.Duration(0)
		for n := 1; ; n++ {
			d := straight.Next(errFlaky, now)
			if e := resumed.Next(errFlaky, now); d != e {
				t.Fatalf("attempt %d: %+v, resumed %+v", n, d, e)
			}
			if straight.State().Attempt != n || n > p.Attempts {
				t.Fatalf("attempt %d of %d: %+v", n, p.Attempts, straight.State())
			}
			if d.Action == driver.ActionStop {
				if d.Reason == driver.ReasonAttempts != (n == p.Attempts) {
					t.Fatalf("attempt %d of %d: %+v", n, p.Attempts, d)
				}
				return
			}
			slept += d.Delay
			if p.Budget > 0 && slept > p.Budget || straight.State().Slept != slept {
				t.Fatalf("slept %v of %v, by its own account %v", slept, p.Budget, straight.State().Slept)
			}
			text, err := json.Marshal(resumed.State())
			if err != nil {
				t.Fatal(err)
			}
			var s driver.State
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			pause := time.Duration(rapid.Int64Range(0, int64(d.Delay)).Draw(t, "pause"))
			var left driver.Decision
			if resumed, left = driver.ResumeMachine(&q, s, now.Add(pause)); left.Action != driver.ActionRetry || left.Delay != d.Delay-pause {
				t.Fatalf("resumed %v into a wait of %v: %+v", pause, d.Delay, left)
			}
			now = now.Add(d.Delay)
		}
	})
}

// TestResumeAfterTheClockWasSetBack: a deadline is no longer for it, nor a budget.
func TestResumeAfterTheClockWasSetBack(t *testing.T) {
	state := driver.State{Attempt: 1, Slept: 2 * sec, Began: noon, FirstFailure: noon.Add(sec), Due: noon.Add(3 * sec)}
	for name, p := range map[string]retry.Policy{
		"deadline": {Attempts: 9, Backoff: doubling(sec), Deadline: 10 * sec},
		"budget":   {Attempts: 9, Backoff: doubling(sec), Budget: 10 * sec, BudgetExpires: true},
	} {
		for _, back := range []time.Duration{2 * sec, time.Hour} {
			now := noon.Add(-back)
			m, d := driver.ResumeMachine(&p, state, now)
			if d.Action != driver.ActionRetry {
				t.Errorf("%s, set back by %s: %+v", name, back, d)
			}
			if _, d := driver.ResumeMachine(&p, m.State(), now.Add(11*sec)); d.Action != driver.ActionStop {
				t.Errorf("%s, set back by %s: 11s later %+v", name, back, d)
			}
		}
	}
}

func TestResume(t *testing.T) {
	p := retry.Policy{Attempts: 5, Backoff: doubling(sec), Budget: 10 * sec, BudgetExpires: true}
	state := driver.State{Attempt: 2, Slept: 3 * sec, Prev: 2 * sec, FirstFailure: noon, Due: noon.Add(3 * sec)}
	tests := []struct {
		name  string
		s     driver.State
		after time.Duration
		want  driver.Decision
	}{
		{"nothing done", driver.State{}, 0, driver.Decision{Action: driver.ActionRetry}},
		{"within the wait", state, sec, driver.Decision{Action: driver.ActionRetry, Delay: 2 * sec}},
		{"after the wait", state, 9 * sec, driver.Decision{Action: driver.ActionRetry}},
		{"just before the expiry", state, 10*sec - 1, driver.Decision{Action: driver.ActionRetry}},
		{"at the expiry", state, 10 * sec, driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonExpired}},
		{"attempts used up", driver.State{Attempt: 5}, 0, driver.Decision{Action: driver.ActionStop, Reason: driver.ReasonAttempts}},
		{"clock set back a year", state, -365 * 24 * time.Hour, driver.Decision{Action: driver.ActionRetry, Delay: 3 * sec}},
		{"nonsense", driver.State{Attempt: -5, Slept: -5}, 0, driver.Decision{Action: driver.ActionRetry}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, d := driver.ResumeMachine(&p, test.s, noon.Add(test.after))
			if d != test.want {
				t.Errorf("the decision is %+v, want %+v", d, test.want)
			}
			if got := m.State(); got.Attempt < 0 || got.Slept < 0 {
				t.Errorf("the state is %+v", got)
			}
		})
	}
	// The sum continues where it was: 3s, and 4s more are 7, but not 8s more.
	m, _ := driver.ResumeMachine(&p, state, noon.Add(3*sec))
	if d := m.Next(errFlaky, noon.Add(3*sec)); d.Action != driver.ActionRetry || d.Delay != 4*sec {
		t.Fatalf("the decision is %+v", d)
	}
	if d := m.Next(errFlaky, noon.Add(7*sec)); d.Reason != driver.ReasonBudget {
		t.Fatalf("the decision is %+v", d)
	}
	// Without BudgetExpires time that nobody ran does not count.
	patient := p
	patient.BudgetExpires = false
	if _, d := driver.ResumeMachine(&patient, state, noon.Add(time.Hour)); d.Action != driver.ActionRetry {
		t.Fatalf("after an hour in which nobody ran the decision is %+v", d)
	}
	// The expiry is a matter of the resume alone.
	m, _ = driver.ResumeMachine(&p, state, noon.Add(3*sec))
	if d := m.Next(errFlaky, noon.Add(time.Hour)); d.Action != driver.ActionRetry {
		t.Fatalf("after a long attempt the decision is %+v", d)
	}
}

func TestStateAsJSON(t *testing.T) {
	p := retry.Policy{Backoff: doubling(sec)}
	m := driver.NewMachine(&p, noon)
	m.Next(errFlaky, noon)
	text, err := json.Marshal(m.State())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"attempt":1,"slept":1000000000,"prev":1000000000,"began":"2026-01-01T12:00:00Z","first_failure":"2026-01-01T12:00:00Z","due":"2026-01-01T12:00:01Z"}`
	if string(text) != want {
		t.Errorf("the state is %s, want %s", text, want)
	}
}

// However many attempts, nothing overflows and no delay is out of range.
func TestMachineGoesOnForEver(t *testing.T) {
	p := retry.Policy{Attempts: math.MaxInt, Backoff: backoff.Schedule{Initial: sec, Max: backoff.Unlimited}}
	m, _ := driver.ResumeMachine(&p, driver.State{Attempt: math.MaxInt32 - 1, Slept: math.MaxInt64 - 1}, noon)
	for range 100 {
		if d := m.Next(errFlaky, noon); d.Action != driver.ActionRetry || d.Delay != math.MaxInt64 {
			t.Fatalf("the decision is %+v", d)
		}
	}
	if got := m.State(); got.Attempt != math.MaxInt32+99 || got.Slept != math.MaxInt64 {
		t.Errorf("the state is %+v", got)
	}
}

// Do makes the decisions of the machine: for the same policy and errors both
// do the same at the same times.
func TestDoFollowsTheMachine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 12).Draw(rt, "errors")
		seed := rapid.Uint64().Draw(rt, "seed")
		base := retry.Policy{
			Attempts: rapid.IntRange(1, 10).Draw(rt, "attempts"),
			Backoff:  backoff.Schedule{Initial: time.Duration(rapid.IntRange(0, 2).Draw(rt, "initial")) * sec, Jitter: backoff.Jitter(rapid.IntRange(0, 4).Draw(rt, "jitter"))},
			Budget:   time.Duration(rapid.IntRange(0, 1).Draw(rt, "budget")) * 20 * sec,
			Timed:    rapid.Bool().Draw(rt, "timed"),
		}
		outcome := func(n int) error {
			if n > len(kinds) {
				return nil
			}
			return []error{errFlaky, hint(3 * sec), retry.Permanent(errFlaky), nil}[kinds[n-1]]
		}
		p := base
		p.Rand = backoff.NewRand(seed)
		m := driver.NewMachine(&p, noon)
		var starts []time.Duration
		var last driver.Decision
		for at, n := time.Duration(0), 1; ; n++ {
			starts = append(starts, at)
			if last = m.Next(outcome(n), noon.Add(at)); last.Action != driver.ActionRetry {
				break
			}
			at += last.Delay
		}
		synctest.Test(t, func(t *testing.T) {
			p := base
			p.Rand = backoff.NewRand(seed)
			s := plan()
			_, err := get(t.Context(), p, func(ctx context.Context) (int, error) {
				s.starts = append(s.starts, time.Since(s.began))
				return 1, outcome(len(s.starts))
			})
			s.check(t, starts...)
			var e *retry.Error
			if (err == nil) != (last.Action == driver.ActionDone) || errors.As(err, &e) && e.Reason != last.Reason {
				t.Errorf("Do ended with %v, the machine with %+v", err, last)
			}
		})
	})
}
