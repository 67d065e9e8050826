package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/policy"
)

// TestCanaries: what starts before the first items are judged, and what becomes of the
// map then.
func TestCanaries(t *testing.T) {
	t.Parallel()
	const items = 50
	type outcome struct {
		attempts, succeeded, pending int
		stop                         policy.StopReason
	}
	bad := func(failing ...int) func(int, time.Duration) policy.Outcome {
		return func(item int, _ time.Duration) policy.Outcome {
			if slices.Contains(failing, item) {
				return fails("no key")
			}
			return ok
		}
	}
	for name, c := range map[string]struct {
		canary policy.Canary
		retry  bool
		answer func(int, time.Duration) policy.Outcome
		want   outcome
	}{
		"all succeed":                {policy.Canary{Items: 3}, false, bad(), outcome{items, items, 0, ""}},
		"one fails":                  {policy.Canary{Items: 3}, false, bad(2), outcome{3, 2, items - 3, policy.ByCanary}},
		"one fails, two are needed":  {policy.Canary{Items: 3, Need: 2}, false, bad(2), outcome{items, items - 1, 0, ""}},
		"two fail, two are needed":   {policy.Canary{Items: 3, Need: 2}, false, bad(1, 3), outcome{3, 1, items - 3, policy.ByCanary}},
		"each fails all three times": {policy.Canary{Items: 2}, true, bad(1, 2), outcome{6, 0, items - 2, policy.ByCanary}},
		"more canaries than items":   {policy.Canary{Items: 100, Need: 60}, false, bad(2), outcome{items, items - 1, 0, ""}},
	} {
		cfg := policy.Config{MaxParallel: 8, Canary: &c.canary}
		if c.retry {
			cfg.Retry = threeAttempts()
		}
		n := run(t, cfg, items, c.answer)
		counts := n.m.Counts()
		if got := (outcome{n.attempts, counts.Succeeded, counts.Pending, n.m.Stopped()}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestCanariesHold: with same_error a map whose canaries fail is held, whatever they
// failed of; once probes succeed, all items run, and none is lost.
func TestCanariesHold(t *testing.T) {
	t.Parallel()
	const items = 50
	mended := 10 * time.Minute
	cfg := policy.Config{MaxParallel: 8, Canary: &policy.Canary{Items: 3}, SameError: &policy.SameError{Probe: backoff.Schedule{Strategy: backoff.Fixed{}, Initial: time.Minute, Max: time.Minute}}}
	failed := 0
	n := run(t, cfg, items, func(item int, at time.Duration) policy.Outcome {
		if at < mended {
			failed++
			return fails([]string{"no key", "no route", "no disk"}[failed%3])
		}
		return ok
	})
	if c := n.m.Counts(); c.Succeeded != items || n.m.Stopped() != policy.NotStopped {
		t.Errorf("%+v, stopped by %q", c, n.m.Stopped())
	}
	if most := 3 + 10; failed > most {
		t.Errorf("%d attempts failed, at most %d were to be made", failed, most)
	}
	if n.most > 1 {
		t.Errorf("%d agents at once while the map was held", n.most)
	}
	first, last := n.changes[0], n.changes[len(n.changes)-1]
	if first.Kind != policy.HoldStarted || !first.State.Canary || len(first.Given) != 1 || last.Kind != policy.HoldEnded || last.Why != "probes" {
		t.Errorf("it began with %+v and ended with %+v", first, last)
	}
}

// TestCanariesResumed: a canary that has ended is not run again; where the map had
// stopped by them, as many others run first.
func TestCanariesResumed(t *testing.T) {
	t.Parallel()
	cfg := policy.Config{MaxParallel: 8, Canary: &policy.Canary{Items: 3}}
	began := time.Unix(1000, 0)
	start := func(t *testing.T, fates []policy.Fate, goOn, passed bool) (starts []int, m *policy.Machine) {
		t.Helper()
		m, err := policy.New(cfg, 50)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range fates {
			if _, err := m.Restore(i+1, policy.ItemState{Standing: policy.WasFinished, Fate: f, Attempts: 1}, began); err != nil {
				t.Fatal(err)
			}
		}
		if passed {
			if err := m.RestoreCanary(); err != nil {
				t.Fatal(err)
			}
		}
		m.Resume(goOn)
		for d := m.Next(began); d.Kind == policy.Start; d = m.Next(began) {
			if _, err := m.Started(d.Item, began); err != nil {
				t.Fatal(err)
			}
			starts = append(starts, d.Item)
		}
		return starts, m
	}
	good, dead := policy.ItemSucceeded, policy.ItemDeadLettered
	for name, c := range map[string]struct {
		fates        []policy.Fate
		goOn, passed bool
		want         []int
		stop         policy.StopReason
	}{
		"killed before the third ended":   {[]policy.Fate{good, good}, false, false, []int{3}, ""},
		"killed after the third ended":    {[]policy.Fate{good, good, good}, false, false, []int{4, 5, 6, 7, 8, 9, 10, 11}, ""},
		"killed when it had to stop":      {[]policy.Fate{good, dead}, false, false, nil, policy.ByCanary},
		"stopped, and somebody goes on":   {[]policy.Fate{good, dead, good}, true, false, []int{4, 5, 6}, ""},
		"passed, and killed much later":   {[]policy.Fate{good, dead, dead, dead}, false, true, []int{5, 6, 7, 8, 9, 10, 11, 12}, ""},
		"unchanged items are no canaries": {[]policy.Fate{policy.ItemUnchanged, policy.ItemUnchanged}, false, false, []int{3, 4, 5}, ""},
	} {
		got, m := start(t, c.fates, c.goOn, c.passed)
		if !slices.Equal(got, c.want) || m.Stopped() != c.stop {
			t.Errorf("%s: it starts %v and stops for %q, want %v and %q", name, got, m.Stopped(), c.want, c.stop)
		}
	}
}

// TestCanaryRefused: what no map can do is refused.
func TestCanaryRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []policy.Canary{{}, {Items: -1}, {Items: policy.MaxCanaries + 1}, {Items: 3, Need: 4}, {Items: 3, Need: -1}} {
		if err := (policy.Config{Canary: &c}).Validate(); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if err := (policy.Config{OnItemFailure: policy.Stop, Canary: &policy.Canary{Items: 3, Need: 2}}).Validate(); err == nil {
		t.Error("with on_item_failure: stop, a failed canary has no effect on the others")
	}
}
