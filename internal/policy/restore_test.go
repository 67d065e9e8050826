package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry/driver"
)

func restore(t *testing.T, m *Machine, item int, s ItemState, now time.Time) Verdict {
	t.Helper()
	v, err := m.Restore(item, s, now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestUnchangedIsNoPartOfTheRate: items that an earlier run has ended well count as
// finished, and neither make the rate of failures count nor lower it.
func TestUnchangedIsNoPartOfTheRate(t *testing.T) {
	half := 0.5
	m := machine(t, Config{MaxParallel: 1, FailureThreshold: &half}, 130)
	for i := range 100 {
		if v := restore(t, m, i+1, ItemState{Standing: WasFinished, Fate: ItemUnchanged}, t0); !v.Fate.Final() || v.Fate.FailedForGood() {
			t.Fatalf("%+v", v)
		}
	}
	m.Resume(false)
	for i := range 10 {
		if v := through(t, m, fails(errBoom), t0); (v.Stop == ByFailureThreshold) != (i == 9) {
			t.Fatalf("failure %d: %+v", i+1, v)
		}
	}
	if c := m.Counts(); c.Unchanged != 100 || c.Failed != 10 || c.Finished() != 110 || c.Pending != 20 {
		t.Errorf("%+v", c)
	}
	if b, err := FromState(Config{MaxParallel: 1, FailureThreshold: &half}, m.State()); err != nil || b.Counts() != m.Counts() {
		t.Errorf("from its state: %v", err)
	}
}

func TestRestoreGoesOnWhereItWas(t *testing.T) {
	cfg := Config{MaxParallel: 2, Retry: fixed(3, 20*time.Second)}
	a := machine(t, cfg, 200)
	for range 70 {
		through(t, a, ok, t0)
	}
	v := through(t, a, fails(errBoom), t0) // 71 waits
	start(t, a, t0)                        // 72 runs

	b := machine(t, cfg, 200)
	now := at(10 * time.Second)
	for i := 70; i >= 1; i-- { // in any order
		restore(t, b, i, ItemState{Standing: WasFinished, Fate: ItemSucceeded}, now)
	}
	r := restore(t, b, 71, ItemState{Attempts: 1, Retry: v.Retry, NotBefore: v.NotBefore}, now)
	if r.Fate != ItemRetry || r.Delay != 10*time.Second {
		t.Fatalf("%+v", r)
	}
	if r = restore(t, b, 72, ItemState{Standing: WasRunning}, now); r.Fate != ItemRetry || r.Recoveries != 1 {
		t.Fatalf("%+v", r)
	}
	if s := b.Resume(false); s != NotStopped {
		t.Fatal(s)
	}
	if d := b.Next(now); d.Kind != Start || d.Item != 72 || d.Attempt != 1 || d.Recoveries != 1 {
		t.Fatalf("%+v", d)
	}
	start(t, b, now)
	if got := start(t, b, now); got != 73 {
		t.Fatalf("item %d", got)
	}
	finish(t, b, 72, ok, now)
	if d := b.Next(at(20 * time.Second)); d.Kind != Start || d.Item != 71 || d.Attempt != 2 {
		t.Fatalf("%+v", d)
	}
	start(t, b, at(20*time.Second))
	if v := finish(t, b, 71, fails(errBoom), at(20*time.Second)); v.Fate != ItemRetry || v.Retry.Slept != 40*time.Second {
		t.Fatalf("%+v", v)
	}
	if c := b.Counts(); c.Succeeded != 71 || c.Pending != 200-73 || c.Retrying != 1 || c.Running != 1 {
		t.Fatalf("%+v", c)
	}
}

func TestRecoveries(t *testing.T) {
	m := machine(t, Config{OnItemFailure: Skip, ErrorCollection: ErrorCollection{When: Immediate}}, 3)
	if v := restore(t, m, 1, ItemState{Standing: WasRunning, Recoveries: 3}, t0); v.Fate != ItemRetry || v.Recoveries != 4 {
		t.Fatalf("%+v", v)
	}
	v := restore(t, m, 2, ItemState{Standing: WasRunning, Recoveries: 4}, t0)
	if v.Fate != ItemDeadLettered || !strings.Contains(v.GivenUp, "running 5 times") || v.Recoveries != 5 {
		t.Fatalf("the fifth time: %+v", v)
	}
	if v := restore(t, m, 3, ItemState{Standing: WasWaiting, Recoveries: 5}, t0); v.Fate != ItemRetry {
		t.Fatalf("it did not run this time: %+v", v)
	}
	if len(v.Show) != 1 || v.Show[0].Class != ClassRecovery || v.Show[0].Message != v.GivenUp {
		t.Fatalf("%+v", v.Show)
	}
	m = machine(t, Config{MaxRecoveries: -1}, 1)
	if v := restore(t, m, 1, ItemState{Standing: WasRunning, Recoveries: 1000}, t0); v.Fate != ItemRetry {
		t.Fatalf("%+v", v)
	}
}

func TestRestoreExpiredBudget(t *testing.T) {
	p := fixed(10, time.Second)
	p.Budget = time.Minute
	p.BudgetExpires = true
	st := driver.State{Attempt: 1, Slept: time.Second, FirstFailure: t0}
	for _, standing := range []Standing{WasWaiting, WasRunning} {
		m := machine(t, Config{Retry: p, MaxFailures: 1}, 5)
		s := ItemState{Standing: standing, Attempts: 1, Retry: st, NotBefore: at(time.Second)}
		if v := restore(t, m, 1, s, at(time.Minute-1)); v.Fate != ItemRetry {
			t.Fatalf("%+v", v)
		}
		v := restore(t, m, 2, s, at(time.Minute))
		if v.Fate != ItemDeadLettered || v.Reason != driver.ReasonExpired {
			t.Fatalf("%+v", v)
		}
		if got := m.Resume(true); got != ByMaxFailures {
			t.Fatalf("a new failure passes a bound: %q", got)
		}
	}
}

func TestResumeOfAStoppedRun(t *testing.T) {
	th := 0.2
	for _, cfg := range []Config{{MaxFailures: 3}, {FailureThreshold: &th}, {ContinueOnFailure: new(bool)}, {OnItemFailure: Stop}} {
		fate := ItemDeadLettered
		if cfg.OnItemFailure == Stop {
			fate = ItemFailed
		}
		restored := func(goOn bool) (*Machine, StopReason) {
			m := machine(t, cfg, 20)
			for i := range 10 {
				s := ItemState{Standing: WasFinished, Fate: ItemSucceeded}
				if i < 3 {
					s = ItemState{Standing: WasFinished, Fate: fate}
				}
				restore(t, m, i+1, s, t0)
			}
			return m, m.Resume(goOn)
		}
		// It went down between the failure and the record of the stop.
		m, stop := restored(false)
		if stop == NotStopped {
			t.Errorf("%+v: not stopped", cfg)
		}
		if d := m.Next(t0); d.Kind != Finished || d.Status != Stopped {
			t.Errorf("%+v", d)
		}
		// Somebody asks to continue.
		m, stop = restored(true)
		if stop != NotStopped {
			t.Errorf("%+v: stopped at once: %q", cfg, stop)
		}
		if v := through(t, m, ok, t0); v.Stop != NotStopped {
			t.Errorf("%+v: a success stops it: %+v", cfg, v)
		}
		if v := through(t, m, fails(errBoom), t0); v.Stop == NotStopped {
			t.Errorf("%+v: the next failure does not stop it", cfg)
		}
	}
}

func TestRestoreSnapshot(t *testing.T) {
	cfg := Config{MaxParallel: 2, Breaker: &circuit.Config{FailureThreshold: 2, HalfOpenRequests: 1}}
	a := machine(t, cfg, 10)
	through(t, a, fails(errBoom), t0)
	reload := func(now time.Time) *Machine {
		text, err := json.Marshal(a.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		var s Snapshot
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		b := machine(t, cfg, 10)
		if err := b.RestoreSnapshot(s, now); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := reload(t0)
	if v := through(t, b, fails(errBoom), t0); v.Breaker == nil {
		t.Fatal("the count of failures is lost")
	}
	through(t, a, fails(errBoom), t0)
	if d := reload(t0).Next(at(time.Second)); d.Kind != Wait || !d.Until.Equal(at(30*time.Second)) {
		t.Fatalf("%+v", d)
	}
	start(t, a, at(30*time.Second)) // a probe, which dies with the run
	b = reload(t0)
	if d := b.Next(at(31 * time.Second)); d.Kind != Start {
		t.Fatalf("the probe's permit is lost: %+v", d)
	}
	if err := b.RestoreSnapshot(Snapshot{Breaker: &circuit.Snapshot{State: 77}}, t0); err == nil {
		t.Fatal("an impossible snapshot is accepted")
	}
	// The rate-limit pause.
	a = machine(t, cfg, 10)
	through(t, a, Outcome{RateLimited: true, RetryAfter: time.Hour}, t0)
	b = reload(t0)
	if d := b.Next(at(time.Minute)); d.Kind != Wait || d.Hold != HoldRateLimit || !d.Until.Equal(at(time.Hour)) {
		t.Fatalf("%+v", d)
	}
	if v := through(t, b, Outcome{RateLimited: true, RetryAfter: DefaultRateLimitMaxWait - time.Hour + 1}, at(time.Hour)); v.Stop != ByRateLimit {
		t.Fatalf("max_wait begins anew: %+v", v)
	}
	// It has stopped the map; a resume keeps to its end: where that is longer than max_wait
	// it stops too, else it waits, and then has max_wait anew.
	a = b
	if d := reload(t0).Next(at(time.Second)); d.Kind != Finished {
		t.Fatalf("%+v", d)
	}
	b = reload(at(time.Hour))
	end := at(DefaultRateLimitMaxWait + 1)
	if d := b.Next(at(2 * time.Hour)); d.Kind != Wait || !d.Until.Equal(end) {
		t.Fatalf("%+v", d)
	}
	if v := through(t, b, Outcome{RateLimited: true, RetryAfter: DefaultRateLimitMaxWait}, end); v.Stop != NotStopped {
		t.Fatalf("%+v", v)
	}
}

func TestRestoreMisuse(t *testing.T) {
	m := machine(t, Config{}, 2)
	restore(t, m, 1, ItemState{}, t0)
	for name, f := range map[string]func() (Verdict, error){
		"twice":    func() (Verdict, error) { return m.Restore(1, ItemState{}, t0) },
		"2 items":  func() (Verdict, error) { return m.Restore(3, ItemState{}, t0) },
		"item 0":   func() (Verdict, error) { return m.Restore(0, ItemState{}, t0) },
		"makes no": func() (Verdict, error) { return m.Restore(2, ItemState{Standing: WasFinished, Fate: ItemRetry}, t0) },
		"no sense": func() (Verdict, error) { return m.Restore(2, ItemState{Attempts: -1}, t0) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	start(t, m, t0)
	if _, err := m.Restore(2, ItemState{}, t0); err == nil {
		t.Error("restored while it runs")
	}
	if err := m.RestoreSnapshot(Snapshot{}, t0); err == nil {
		t.Error("snapshot restored while it runs")
	}
}

// TestRestoreAfterTheClockWasSetBack: a wait between two lives is no longer than what was
// decided, whatever the clock says by then.
func TestRestoreAfterTheClockWasSetBack(t *testing.T) {
	cfg := Config{MaxParallel: 1, Retry: fixed(3, 20*time.Second)}
	a := machine(t, cfg, 1)
	v := through(t, a, fails(errBoom), t0)
	for _, back := range []time.Duration{0, time.Second, 6 * time.Hour} {
		b := machine(t, cfg, 1)
		now := at(-back)
		r := restore(t, b, 1, ItemState{Attempts: 1, Retry: v.Retry, NotBefore: v.NotBefore}, now)
		if want := 20 * time.Second; r.Delay != want || !r.NotBefore.Equal(now.Add(want)) {
			t.Errorf("set back by %v: it waits %v, until %v", back, r.Delay, r.NotBefore)
		}
		b.Resume(false)
		if d := b.Next(now.Add(20 * time.Second)); d.Kind != Start {
			t.Errorf("set back by %v: %+v after the wait", back, d)
		}
	}
}
