package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// The share that is refused, after so many attempts of which the target accepted
// so many. The figures are those of failsafe-go's tests, with our names.
func TestThrottleShares(t *testing.T) {
	for _, c := range []struct {
		name               string
		attempts, accepted int
		config             limit.ThrottleConfig
		want               float64
	}{
		{"no attempt", 0, 0, limit.ThrottleConfig{MinCalls: 1}, 0},
		{"one failure", 1, 0, limit.ThrottleConfig{MinCalls: 1}, 0.5},
		{"better than it must be", 100, 95, limit.ThrottleConfig{Multiple: 1 / 0.9}, 0},
		{"just good enough", 100, 90, limit.ThrottleConfig{Multiple: 1 / 0.9}, 0},
		{"a bit too much", 120, 90, limit.ThrottleConfig{Multiple: 1 / 0.9}, 20.0 / 121},
		{"much too much", 200, 50, limit.ThrottleConfig{Multiple: 1 / 0.9, Max: 0.8}, (200 - 50/0.9) / 201},
		{"the greatest share", 1000, 10, limit.ThrottleConfig{Multiple: 1 / 0.9, Max: 0.8}, 0.8},
		{"nothing accepted", 100, 0, limit.ThrottleConfig{Multiple: 1 / 0.9, Max: 0.8}, 0.8},
		{"half accepted, as it comes", 100, 50, limit.ThrottleConfig{}, 0},
		{"a quarter accepted, as it comes", 100, 25, limit.ThrottleConfig{}, 50.0 / 101},
		{"nothing accepted, as it comes", 1000, 0, limit.ThrottleConfig{}, 0.9},
		{"too few to say", 9, 0, limit.ThrottleConfig{}, 0},
		{"enough to say", 10, 0, limit.ThrottleConfig{}, 10.0 / 11},
	} {
		l := limitOf(limit.Config{Throttle: &c.config})
		s := join(t, l)
		for i := range c.attempts { // they were made before the throttle knew of one
			if i < c.accepted {
				s.Release(limit.Result{})
			} else {
				s.Release(limit.Result{Err: tooMany{}})
			}
		}
		most := c.config.Max
		if most == 0 {
			most = 0.9
		}
		if got, want := l.Refusing(), min(c.want, most); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: the share is %v, not %v", c.name, got, want)
		}
	}
	if limit.Concurrency(1).Refusing() != 0 {
		t.Error("slots refuse a share")
	}
}

// What is refused is a limit's refusal, in proportion and with nothing taken.
func TestThrottleRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := limitOf(limit.Config{Name: "api", Throttle: &limit.ThrottleConfig{MinCalls: 1, Max: 0.75}})
		slots := limit.Concurrency(1)
		s := join(t, slots, throttle)
		for range 1000 {
			join(t, throttle).Release(limit.Result{Err: tooMany{}})
		}
		made := 0
		for range 100 {
			err := s.Acquire(t.Context(), limit.Request{})
			switch {
			case err == nil:
				made++
				s.Release(limit.Result{Err: tooMany{}})
			case !errors.Is(err, limit.ErrRefused) || !strings.Contains(err.Error(), `limit "api": refused: the target refuses so many that 75 of 100`):
				t.Fatal(err)
			}
			if slots.InUse() != 0 {
				t.Fatal("a refusal holds a slot")
			}
		}
		if made != 25 {
			t.Errorf("%d of 100 attempts were made, not 25", made)
		}
		time.Sleep(31 * sec) // the window is over
		if throttle.Refusing() != 0 || !s.Try() {
			t.Error("what was long ago is not forgotten")
		}
	})
}

// What counts as a refusal of the target.
func TestWhatAThrottleCounts(t *testing.T) {
	for _, c := range []struct {
		name     string
		config   limit.ThrottleConfig
		result   limit.Result
		refusing bool
	}{
		{"success", limit.ThrottleConfig{}, limit.Result{}, false},
		{"too many", limit.ThrottleConfig{}, limit.Result{Err: fmt.Errorf("get: %w", tooMany{})}, true},
		{"a timeout", limit.ThrottleConfig{}, limit.Result{Err: context.DeadlineExceeded}, true},
		{"an answer that is an error", limit.ThrottleConfig{}, limit.Result{Err: errors.New("no such row")}, false},
		{"by its own rule", limit.ThrottleConfig{RefusedIf: retry.Is(errors.ErrUnsupported)}, limit.Result{Err: errors.ErrUnsupported}, true},
		{"not by its own rule", limit.ThrottleConfig{RefusedIf: retry.Is(errors.ErrUnsupported)}, limit.Result{Err: tooMany{}}, false},
		{"nothing said", limit.ThrottleConfig{}, limit.Result{Err: tooMany{}, Ignore: true}, false},
	} {
		l := limitOf(limit.Config{Throttle: &c.config})
		s := join(t, l)
		for range 100 {
			s.Release(c.result)
		}
		if got := l.Refusing() > 0; got != c.refusing {
			t.Errorf("%s: it refuses: %v", c.name, got)
		}
	}
}

// A target that can do 100 attempts a second is asked 1,000 times a second. Without
// a throttle it spends its time on refusing; with one it is asked twice as often as
// it accepts, as soon as the first window is full, and as before once it can do all.
func TestThrottleInTime(t *testing.T) {
	const demand, capacity = 1000, 100
	run := func(t *testing.T, l *limit.Limit, seconds int, capacity int) (sent, accepted []int) {
		var served, inSecond atomic.Int64
		for range seconds {
			served.Store(0)
			inSecond.Store(0)
			var wait sync.WaitGroup
			for range demand {
				wait.Go(func() {
					_ = limit.Do(t.Context(), l, func(context.Context) error {
						served.Add(1)
						time.Sleep(time.Microsecond)
						if inSecond.Add(1) > int64(capacity) {
							return tooMany{}
						}
						return nil
					})
				})
				time.Sleep(sec / demand)
			}
			wait.Wait()
			sent = append(sent, int(served.Load()))
			accepted = append(accepted, min(int(inSecond.Load()), capacity))
		}
		return sent, accepted
	}
	synctest.Test(t, func(t *testing.T) {
		l := limit.Throttle()
		sent, accepted := run(t, l, 60, capacity)
		for i := 40; i < 60; i++ {
			if sent[i] > 2*capacity+capacity/4 || accepted[i] < capacity {
				t.Errorf("in second %d it is asked %d times and accepts %d", i, sent[i], accepted[i])
			}
		}
		sent, _ = run(t, l, 60, demand)
		if last := sent[len(sent)-1]; last != demand {
			t.Errorf("a minute after the target has recovered it is asked %d times of %d: %v", last, demand, sent)
		}
	})
}
