package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/retry"
)

// night drives a machine in virtual time: each attempt takes a second, and answer says
// how it ends.
type night struct {
	m        *policy.Machine
	now      time.Time
	began    time.Time
	answer   func(item int, at time.Duration) policy.Outcome
	attempts int
	most     int // agents at once while the map is held
	changes  []policy.HoldChange
	fates    map[int]policy.Fate
	probed   []int
}

type ends struct {
	item int
	at   time.Time
}

func run(t *testing.T, cfg policy.Config, items int, answer func(int, time.Duration) policy.Outcome) *night {
	t.Helper()
	m, err := policy.New(cfg, items)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1000, 0)
	n := &night{m: m, now: began, began: began, answer: answer, fates: map[int]policy.Fate{}}
	n.drive(t)
	return n
}

func (n *night) drive(t *testing.T) {
	t.Helper()
	var running []ends
	end := func() {
		e := running[0]
		running = running[1:]
		n.now = e.at
		v, err := n.m.Finished(e.item, n.answer(e.item, e.at.Sub(n.began)), e.at)
		if err != nil {
			t.Fatal(err)
		}
		n.changes = append(n.changes, v.Holds...)
		n.fates[e.item] = v.Fate
		for _, c := range v.Holds {
			for _, g := range c.Given {
				n.fates[g.Item] = policy.ItemHeld
			}
		}
	}
	for range 1_000_000 {
		d := n.m.Next(n.now)
		switch d.Kind {
		case policy.Start:
			if _, err := n.m.Started(d.Item, n.now); err != nil {
				t.Fatal(err)
			}
			n.attempts++
			running = append(running, ends{d.Item, n.now.Add(time.Second)})
			if d.Probe {
				n.probed = append(n.probed, d.Item)
			}
			if _, held := n.m.Held(); held && d.Probe {
				n.most = max(n.most, len(running))
			}
		case policy.Wait:
			if len(running) > 0 && !running[0].at.After(d.Until) {
				end()
			} else {
				n.now = d.Until
			}
		case policy.Idle:
			end()
		case policy.Finished:
			return
		}
	}
	t.Fatal("the map does not come to its end")
}

func fails(message string) policy.Outcome {
	return policy.Outcome{Err: errors.New(message), Signature: failure.Sign("exit", "map.agent_template[0]", message)}
}

var ok = policy.Outcome{OK: true}

func threeAttempts() *retry.Policy {
	return &retry.Policy{Attempts: 3, Backoff: backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 5 * time.Second}}
}

// TestHoldOnOneCause: 500 items that all fail of an expired key cost a handful of
// attempts, and all succeed once it is renewed, with nobody touching the run.
func TestHoldOnOneCause(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 3} {
		const items, parallel = 500, 20
		cfg := policy.Config{MaxParallel: parallel, SameError: &policy.SameError{}}
		if attempts > 1 {
			cfg.Retry = threeAttempts()
		}
		mended := 20 * time.Minute
		failed := 0
		n := run(t, cfg, items, func(item int, at time.Duration) policy.Outcome {
			if at < mended {
				failed++
				return fails(fmt.Sprintf("exit status 1: item %d: invalid x-api-key", item))
			}
			return ok
		})
		probes := len(n.probed)
		if failed > policy.DefaultSameErrorCount+parallel+probes {
			t.Errorf("%d attempts: %d failed, with %d probes", attempts, failed, probes)
		}
		if c := n.m.Counts(); c.Succeeded != items || c.FailedForGood != 0 {
			t.Errorf("%d attempts: it ends with %+v", attempts, c)
		}
		if n.attempts != items+failed {
			t.Errorf("%d attempts: %d attempts for %d items of which %d failed once", attempts, n.attempts, items, failed)
		}
		first, last := n.changes[0], n.changes[len(n.changes)-1]
		if first.Kind != policy.HoldStarted || first.State.Items != 10 || last.Kind != policy.HoldEnded || last.Why != "probes" {
			t.Errorf("%d attempts: %+v … %+v", attempts, first, last)
		}
		// 30s, 1m, 2m, 4m, 8m, 10m: no probe before its time.
		if probes > 12 {
			t.Errorf("%d attempts: %d probes in 20 minutes", attempts, probes)
		}
		if n.probed[0] != 1 {
			t.Errorf("%d attempts: the first probe is item %d, want the one that failed first", attempts, n.probed[0])
		}
	}
}

func TestHoldNeedsOneCause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(item int, at time.Duration) policy.Outcome
		held   bool
	}{
		"40 of 100 fail alike": {func(i int, _ time.Duration) policy.Outcome {
			if i%5 < 2 {
				return fails("exit status 1: no")
			}
			return ok
		}, false},
		"the numbers differ":   {func(i int, _ time.Duration) policy.Outcome { return fails(fmt.Sprintf("exit status 1: no %d", i)) }, true},
		"nothing but a status": {func(int, time.Duration) policy.Outcome { return fails("exit status 1") }, false},
		"ten causes": {func(i int, _ time.Duration) policy.Outcome {
			return fails("exit status 1: cause " + string(rune('a'+i%10)))
		}, false},
		"a rate limit": {func(_ int, at time.Duration) policy.Outcome {
			o := fails("too many requests")
			o.RateLimited, o.RetryAfter = true, time.Second
			if at > time.Minute {
				return ok
			}
			return o
		}, false},
		"nine of ten": {func(i int, _ time.Duration) policy.Outcome {
			if i%10 == 9 {
				return ok
			}
			return fails("exit status 1: no")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := run(t, policy.Config{SameError: &policy.SameError{MaxHold: time.Hour}}, 200, c.answer)
			if held := len(n.changes) > 0; held != c.held {
				t.Errorf("held: %v, want %v", held, c.held)
			}
			if c.held && n.m.Stopped() != policy.BySameError {
				t.Errorf("it stops by %q", n.m.Stopped())
			}
		})
	}
}

// TestAnOutageInTheMiddle: an outage of 40 s in the middle of a run of 60 s holds it once. The
// hold ends itself, no item is lost, and all takes no longer than a run that knew of the
// outage, the wait before a probe, and the three probes that run alone.
func TestAnOutageInTheMiddle(t *testing.T) {
	t.Parallel()
	const items, parallel = 600, 10
	for begins := 1 * time.Second; begins < 60*time.Second; begins += 7 * time.Second {
		cfg := policy.Config{MaxParallel: parallel, SameError: &policy.SameError{}, Retry: threeAttempts()}
		n := run(t, cfg, items, func(_ int, at time.Duration) policy.Outcome {
			if at > begins && at <= begins+40*time.Second {
				return fails("exit status 7: connection refused")
			}
			return ok
		})
		started, longest := 0, time.Duration(0)
		for _, c := range n.changes {
			if c.Kind == policy.HoldStarted {
				started++
			}
			if c.Kind == policy.HoldStarted || c.Kind == policy.HoldProbed && c.State.Good == 0 {
				longest = max(longest, c.State.Next.Sub(n.began)-begins-40*time.Second)
			}
		}
		if c := n.m.Counts(); started != 1 || c.Succeeded != items || c.FailedForGood != 0 {
			t.Errorf("an outage after %v: %d holds, %+v", begins, started, c)
		}
		// The probe that ends the wait comes so long after the end of the outage: less than
		// the wait before it, which is a minute then.
		if longest > time.Minute {
			t.Errorf("an outage after %v: the first probe that can succeed is %v after its end", begins, longest)
		}
		took, best := n.now.Sub(n.began), 100*time.Second
		if most := best + time.Minute + 4*time.Second; took > most {
			t.Errorf("an outage after %v: %v in all, of which %v are needed", begins, took, best)
		}
	}
}

// TestRetriesOfOneItemAreOneWitness: nine items that fail three times each hold nothing.
func TestRetriesOfOneItemAreOneWitness(t *testing.T) {
	t.Parallel()
	n := run(t, policy.Config{MaxParallel: 20, Retry: threeAttempts(), SameError: &policy.SameError{}}, 9, func(int, time.Duration) policy.Outcome { return fails("exit status 1: no") })
	if len(n.changes) > 0 || n.m.Counts().DeadLettered != 9 || n.attempts != 27 {
		t.Errorf("%d changes, %+v, %d attempts", len(n.changes), n.m.Counts(), n.attempts)
	}
}

// TestHoldStops: action stop, and max_hold. Nothing has failed for good, and all that is
// not finished is pending.
func TestHoldStops(t *testing.T) {
	t.Parallel()
	for _, cfg := range []policy.SameError{{Stop: true}, {MaxHold: 5 * time.Minute}} {
		n := run(t, policy.Config{MaxParallel: 4, MaxFailures: 50, SameError: &cfg}, 100, func(int, time.Duration) policy.Outcome { return fails("exit status 1: no") })
		c := n.m.Counts()
		if n.m.Stopped() != policy.BySameError || c.FailedForGood != 0 || c.Pending+c.Retrying != 100 {
			t.Errorf("%+v: stopped by %q with %+v", cfg, n.m.Stopped(), c)
		}
		if cfg.Stop {
			continue
		}
		if took := n.now.Sub(n.began); took < cfg.MaxHold || took > cfg.MaxHold+10*time.Second {
			t.Errorf("%+v: it lasted %v", cfg, took)
		}
	}
}

// TestProbeFailsOtherwise: the cause has changed; what fails then counts as always.
func TestProbeFailsOtherwise(t *testing.T) {
	t.Parallel()
	n := run(t, policy.Config{MaxParallel: 4, SameError: &policy.SameError{}}, 40, func(item int, at time.Duration) policy.Outcome {
		switch {
		case at < 15*time.Second:
			return fails("exit status 1: no")
		case item%2 == 0:
			return fails("exit status 2: item is odd: " + string(rune('a'+item%26)))
		}
		return ok
	})
	if last := n.changes[len(n.changes)-1]; last.Why != "another" || n.most != 1 {
		t.Errorf("the hold ends by %q, %d at once", last.Why, n.most)
	}
	if c := n.m.Counts(); c.DeadLettered != 20 || c.Succeeded != 20 {
		t.Errorf("it ends with %+v", c)
	}
}

// TestHeldAttemptsCostNothing: an item that had failed once before, of something else,
// has the two attempts after the hold that it had before it.
func TestHeldAttemptsCostNothing(t *testing.T) {
	t.Parallel()
	tries := map[int]int{}
	n := run(t, policy.Config{MaxParallel: 12, Retry: threeAttempts(), SameError: &policy.SameError{Count: 5}}, 12, func(item int, at time.Duration) policy.Outcome {
		switch {
		case at == time.Second:
			return fails("exit status 1: " + string(rune('a'+item)))
		case at < 30*time.Second:
			return fails("exit status 1: the key has expired")
		}
		tries[item]++
		return fails("exit status 1: " + string(rune('a'+item)))
	})
	if n.changes[0].Kind != policy.HoldStarted {
		t.Fatalf("it begins with %+v", n.changes[0])
	}
	for item, k := range tries {
		if k != 2 {
			t.Errorf("item %d has %d attempts after the hold, want the 2 that it had left", item, k)
		}
	}
}

// TestHoldSurvives: a machine that is made again in each state goes the same way.
func TestHoldSurvives(t *testing.T) {
	t.Parallel()
	m, err := policy.New(policy.Config{MaxParallel: 2, SameError: &policy.SameError{}}, 30)
	if err != nil {
		t.Fatal(err)
	}
	next := time.Unix(5000, 0)
	order := []int{7, 3, 5}
	for _, i := range order {
		if _, err := m.Restore(i, policy.ItemState{Standing: policy.WasWaiting}, next); err != nil {
			t.Fatal(err)
		}
	}
	m.Resume(true)
	h := policy.HoldState{Signature: failure.Sign("exit", "s", "exit status 1: no"), Items: 10, Since: next.Add(-time.Hour), Probes: 3, Next: next, First: order}
	if err := m.RestoreHold(h, next.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if d := m.Next(next.Add(-time.Second)); d.Kind != policy.Wait || !d.Until.Equal(next) || d.Hold != policy.HoldSameError {
		t.Fatalf("before the probe: %+v", d)
	}
	var probed []int
	for len(probed) < 3 {
		d := m.Next(next)
		if d.Kind != policy.Start || !d.Probe {
			t.Fatalf("at the probe: %+v", d)
		}
		if _, err := m.Started(d.Item, next); err != nil {
			t.Fatal(err)
		}
		if d := m.Next(next); d.Kind != policy.Idle || d.Hold != policy.HoldSameError {
			t.Fatalf("beside the probe: %+v", d)
		}
		probed = append(probed, d.Item)
		v, err := m.Finished(d.Item, ok, next)
		if err != nil || len(v.Holds) != 1 {
			t.Fatalf("the probe: %+v, %v", v.Holds, err)
		}
	}
	if !slices.Equal(probed, order) {
		t.Errorf("probed are %v, want %v", probed, order)
	}
	if _, held := m.Held(); held {
		t.Error("three probes succeeded, and it is held still")
	}
}

func TestHoldIsLifted(t *testing.T) {
	t.Parallel()
	m, err := policy.New(policy.Config{MaxParallel: 1, SameError: &policy.SameError{Count: 2}}, 9)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	for range 2 {
		d := m.Next(now)
		if _, err := m.Started(d.Item, now); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Finished(d.Item, fails("exit status 1: no"), now); err != nil {
			t.Fatal(err)
		}
	}
	if d := m.Next(now); d.Kind != policy.Wait || d.Hold != policy.HoldSameError {
		t.Fatalf("it is not held: %+v", d)
	}
	if len(m.Probe(now)) != 1 {
		t.Fatal("there is no hold to probe")
	}
	if d := m.Next(now); d.Kind != policy.Start || !d.Probe || d.Item != 1 {
		t.Fatalf("a probe is asked for: %+v", d)
	}
	if len(m.EndHold()) != 1 {
		t.Fatal("there is no hold to end")
	}
	if d := m.Next(now); d.Kind != policy.Start || d.Probe {
		t.Fatalf("the hold is ended: %+v", d)
	}
	if list := m.EndHold(); len(list) > 0 {
		t.Errorf("it is ended twice: %v", list)
	}
}

func TestSameErrorIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []policy.SameError{{Count: -1}, {Count: 1001}, {Share: 1.1}, {Share: -0.1}, {Close: -1}, {MaxHold: -1}, {Count: 1000, Share: 0.01},
		{Probe: backoff.Schedule{Initial: time.Second, Jitter: backoff.Full}}, {Probe: backoff.Schedule{Initial: -5}}} {
		if err := (policy.Config{SameError: &c}).Validate(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := (policy.Config{SameError: &policy.SameError{}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestHoldAfterTheClockWasSetBack: the next probe is no later than what was decided.
func TestHoldAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	then := time.Unix(500_000, 0)
	wait := func(back time.Duration) time.Duration {
		t.Helper()
		m, err := policy.New(policy.Config{MaxParallel: 2, SameError: &policy.SameError{}}, 3)
		if err != nil {
			t.Fatal(err)
		}
		now := then.Add(-back)
		if _, err := m.Restore(1, policy.ItemState{Standing: policy.WasWaiting}, now); err != nil {
			t.Fatal(err)
		}
		h := policy.HoldState{Signature: failure.Sign("exit", "s", "exit status 1: no"), Items: 10, Since: then.Add(-time.Minute), Probes: 2, Next: then.Add(30 * time.Second), First: []int{1}}
		if err := m.RestoreHold(h, now); err != nil {
			t.Fatal(err)
		}
		m.Resume(true)
		d := m.Next(now)
		if d.Kind != policy.Wait {
			t.Fatalf("set back by %s: %+v", back, d)
		}
		return d.Until.Sub(now)
	}
	if got := wait(0); got != 30*time.Second {
		t.Errorf("it waits %s, want 30s", got)
	}
	if got := wait(6 * time.Hour); got > 10*time.Minute {
		t.Errorf("set back by 6h: it waits %s", got)
	}
}

// TestLateFailureCostsNothing: an attempt that began before a hold ended, and fails of the
// hold's cause after its end, is given back like those that were running when it began.
// One that began after the end counts as always.
func TestLateFailureCostsNothing(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{"the probes succeed": "probes", "somebody asks for it": "continue"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0)
			m, err := policy.New(policy.Config{MaxParallel: 5, SameError: &policy.SameError{Count: 2, Close: 1}}, 10)
			if err != nil {
				t.Fatal(err)
			}
			start := func() int {
				d := m.Next(now)
				if _, err := m.Started(d.Item, now); err != nil {
					t.Fatal(err)
				}
				return d.Item
			}
			end := func(item int, o policy.Outcome) policy.Verdict {
				v, err := m.Finished(item, o, now)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			for range 5 {
				start()
			}
			end(1, fails("no key"))
			end(2, fails("no key"))
			if _, held := m.Held(); !held {
				t.Fatal("two failures of one cause do not hold the map")
			}
			if why == "continue" {
				m.EndHold()
			} else {
				end(3, ok)
				now = m.Next(now).Until
				if p := start(); p != 1 {
					t.Fatalf("item %d is probed, not the first that failed", p)
				}
				end(1, ok)
				m.Next(now)
			}
			if s, held := m.Held(); held {
				t.Fatal("still held:", s)
			}
			if v := end(4, fails("no key")); v.Fate != policy.ItemHeld || len(v.Holds) > 0 {
				t.Errorf("an attempt that began before the hold ended is %v with %v, and should be given back", v.Fate, v.Holds)
			}
			if v := end(5, fails("another thing")); v.Fate != policy.ItemDeadLettered {
				t.Errorf("one that fails otherwise is %v", v.Fate)
			}
			again := start()
			if v := end(again, fails("no key")); v.Fate != policy.ItemDeadLettered {
				t.Errorf("an attempt at item %d that began after the hold is %v", again, v.Fate)
			}
		})
	}
}

// What on_item_failure: skip left out before the map was held is given back like a dead
// letter, in this life of the run and after a resume.
func TestHoldGivesBackWhatWasSkipped(t *testing.T) {
	t.Parallel()
	cfg := policy.Config{MaxParallel: 1, OnItemFailure: policy.Skip, SameError: &policy.SameError{Count: 3}}
	n := run(t, cfg, 6, func(_ int, at time.Duration) policy.Outcome {
		if at < time.Minute {
			return fails("exit status 1: connection refused")
		}
		return ok
	})
	want := policy.Counts{Total: 6, Succeeded: 6}
	if got := n.m.Counts(); got != want {
		t.Errorf("the map ends with %+v", got)
	}
	given := n.changes[0].Given
	if len(given) != 2 || given[0].Was != policy.ItemSkipped || given[0].Taken != 1 {
		t.Errorf("given back are %+v", given)
	}

	m, err := policy.New(cfg, 6)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	sign := fails("exit status 1: connection refused").Signature
	for item := 1; item <= 2; item++ {
		if _, err := m.Restore(item, policy.ItemState{Standing: policy.WasFinished, Fate: policy.ItemSkipped}, now); err != nil {
			t.Fatal(err)
		}
	}
	m.Resume(false)
	m.RestoreEnds([]policy.Ended{{Item: 1, Signature: sign, Fate: policy.ItemSkipped, Attempts: 1}, {Item: 2, Signature: sign, Fate: policy.ItemSkipped, Attempts: 1}})
	if _, err := m.Started(3, now); err != nil {
		t.Fatal(err)
	}
	v, err := m.Finished(3, fails("exit status 1: connection refused"), now)
	if err != nil || len(v.Holds) != 1 || len(v.Holds[0].Given) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if c := m.Counts(); c.Skipped != 0 || c.FailedForGood != 0 || c.Retrying != 3 {
		t.Errorf("after a resume, %+v", c)
	}
}

// TestStopCostsAHeldItemNothing: a map is stopped while a probe runs, and an attempt that began
// before the hold. What they meet is what they would have met without the stop.
func TestStopCostsAHeldItemNothing(t *testing.T) {
	t.Parallel()
	stopped := func(t *testing.T, before func(m *policy.Machine)) (m *policy.Machine, end func(int, policy.Outcome) policy.Verdict) {
		now := time.Unix(1000, 0)
		m, err := policy.New(policy.Config{MaxParallel: 4, SameError: &policy.SameError{Count: 2, Close: 2}}, 10)
		if err != nil {
			t.Fatal(err)
		}
		start := func() {
			d := m.Next(now)
			if _, err := m.Started(d.Item, now); err != nil {
				t.Fatal(err)
			}
		}
		end = func(item int, o policy.Outcome) policy.Verdict {
			v, err := m.Finished(item, o, now)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for range 3 {
			start()
		}
		end(1, fails("no key"))
		end(2, fails("no key"))
		now = m.Next(now).Until
		start() // the probe, item 1
		if before != nil {
			before(m)
		}
		m.Halt("stopping")
		return m, end
	}
	t.Run("fail", func(t *testing.T) {
		t.Parallel()
		m, end := stopped(t, nil)
		for _, item := range []int{1, 3} {
			if v := end(item, fails("no key")); v.Fate != policy.ItemHeld || v.Retry.Attempt != 0 || len(v.Holds) > 0 {
				t.Errorf("item %d: %+v", item, v)
			}
		}
		if s, held := m.Held(); !held || s.Items != 3 {
			t.Errorf("held: %v, %+v", held, s)
		}
	})
	t.Run("another", func(t *testing.T) {
		t.Parallel()
		_, end := stopped(t, nil)
		if v := end(1, fails("no disk")); v.Fate != policy.ItemDeadLettered {
			t.Errorf("%+v", v)
		}
	})
	t.Run("succeed", func(t *testing.T) {
		t.Parallel()
		m, end := stopped(t, nil)
		if v := end(1, ok); v.Fate != policy.ItemSucceeded || len(v.Holds) != 1 || v.Holds[0].Kind != policy.HoldProbed {
			t.Errorf("%+v", v)
		}
		if s, held := m.Held(); !held || s.Good != 1 {
			t.Errorf("held: %v, %+v", held, s)
		}
	})
	t.Run("over", func(t *testing.T) {
		t.Parallel()
		_, end := stopped(t, func(m *policy.Machine) { m.EndHold() })
		if v := end(3, fails("no key")); v.Fate != policy.ItemHeld {
			t.Errorf("%+v", v)
		}
	})
}
