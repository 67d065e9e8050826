package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/limit"
	"pgregory.net/rapid"
)

const sec = time.Second

func join(t testing.TB, limits ...*limit.Limit) limit.Set {
	t.Helper()
	s, err := limit.Join(limits...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// limitOf is limit.New of settings that are possible.
func limitOf(c limit.Config) *limit.Limit {
	l, err := limit.New(c)
	if err != nil {
		panic(err)
	}
	return l
}

func acquire(t testing.TB, s limit.Set) {
	t.Helper()
	if err := s.Acquire(t.Context(), limit.Request{}); err != nil {
		t.Error(err)
	}
}

// Tokens are taken when the attempt can begin: those who waited for the slot do
// not come out together (22 began at one instant).
func TestARateIsKeptByThoseWhoWaitedForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := join(t, limit.Rate(2, sec), limit.Concurrency(1))
		began := time.Now()
		var starts []time.Duration
		var wait sync.WaitGroup
		for i := range 22 {
			wait.Go(func() {
				acquire(t, s)
				starts = append(starts, time.Since(began)) // one at a time
				if i == 0 || len(starts) == 1 {
					time.Sleep(10 * sec)
				}
				s.Release(limit.Result{})
			})
			synctest.Wait()
		}
		wait.Wait()
		want := []time.Duration{0, 10 * sec, 10 * sec}
		for i := range 19 {
			want = append(want, 10*sec+time.Duration(i+1)*sec/2)
		}
		if !reflect.DeepEqual(starts, want) {
			t.Errorf("began at %v, want %v", starts, want)
		}
	})
}

func TestOrderIsPriorityThenArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, l := range map[string]*limit.Limit{"slots": limit.Concurrency(1), "rate": limit.Rate(1, sec)} {
			s := join(t, l)
			acquire(t, s)
			var order []string
			var mu sync.Mutex
			var wait sync.WaitGroup
			for i, priority := range []int{0, 0, 50, 0, 50, -50} {
				wait.Go(func() {
					if err := s.Acquire(t.Context(), limit.Request{Priority: priority}); err != nil {
						t.Error(err)
					}
					mu.Lock()
					order = append(order, fmt.Sprint(i))
					mu.Unlock()
					s.Release(limit.Result{})
				})
				synctest.Wait()
			}
			if l.Waiting() != 6 {
				t.Errorf("%s: %d wait", name, l.Waiting())
			}
			s.Release(limit.Result{})
			wait.Wait()
			if got := strings.Join(order, ""); got != "240135" {
				t.Errorf("%s: let through as %s", name, got)
			}
		}
	})
}

// Waiting gains priority: nobody waits for ever.
func TestWaitingGainsPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := join(t, limit.Concurrency(1))
		acquire(t, s)
		done := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			acquire(t, s)
			done <- time.Since(began)
			s.Release(limit.Result{})
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for ctx.Err() == nil {
			wait.Go(func() {
				if s.Acquire(ctx, limit.Request{Priority: 20}) == nil {
					time.Sleep(sec)
					s.Release(limit.Result{})
				}
			})
			synctest.Wait()
			if s[0].InUse() == 1 && time.Since(began) == 0 {
				s.Release(limit.Result{})
			}
			time.Sleep(sec / 2)
			select {
			case at := <-done:
				if at > 21*sec {
					t.Errorf("it waited %v", at)
				}
				cancel()
			default:
			}
			if time.Since(began) > time.Minute {
				t.Error("it waits for ever")
				cancel()
			}
		}
		cancel()
		wait.Wait()
	})
}

// A wait that is given up takes nothing, also if its turn came just then.
func TestAWaitGivenUpTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, rate := limit.Concurrency(1), limitOf(limit.Config{Rate: 1, Per: 10 * sec, Burst: 2})
		s := join(t, rate, slots)
		acquire(t, s) // one token is left
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(sec, func() { cancel(cause) })
		if err := s.Acquire(ctx, limit.Request{}); err != cause || slots.Waiting() != 0 {
			t.Errorf("%v, %d wait", err, slots.Waiting())
		}
		s.Release(limit.Result{})
		if slots.InUse() != 0 || !s.Try() {
			t.Error("a slot or a token is gone")
		}
		s.Cancel()
		if !s.Try() {
			t.Error("Cancel keeps a token")
		}
		if s.Cancel(); s.Try() {
			s.Release(limit.Result{})
		}
		if s.Try() {
			t.Error("Release gives a token back")
		}
		if slots.InUse() != 0 {
			t.Error("a refusal keeps a slot")
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := limitOf(limit.Config{Name: "db", Concurrency: 1, Queue: 1})
		s := join(t, full)
		acquire(t, s)
		go func() { acquire(t, s); s.Release(limit.Result{}) }()
		synctest.Wait()
		err := s.Acquire(t.Context(), limit.Request{})
		if !errors.Is(err, limit.ErrRefused) || !strings.Contains(err.Error(), `limit "db": refused: 1 are waiting already`) {
			t.Errorf("the error is %v", err)
		}
		s.Release(limit.Result{})
		synctest.Wait()

		slow := join(t, limitOf(limit.Config{Rate: 1, Per: 10 * sec, MaxWait: 15 * sec}))
		acquire(t, slow)
		go func() { acquire(t, slow) }()
		synctest.Wait()
		began := time.Now()
		var refusal *limit.Error
		if err = slow.Acquire(t.Context(), limit.Request{}); !errors.As(err, &refusal) || refusal.After != 20*sec || time.Since(began) != 0 {
			t.Errorf("the error is %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*sec)
		defer cancel()
		if err = join(t, slow[0], limit.Concurrency(1)).Acquire(ctx, limit.Request{}); !errors.Is(err, limit.ErrRefused) || time.Since(began) != 0 {
			t.Errorf("a wait until the deadline: %v", err)
		}
		held := join(t, limitOf(limit.Config{Concurrency: 1, MaxWait: sec}))
		acquire(t, held)
		if err = held.Acquire(t.Context(), limit.Request{}); !errors.Is(err, limit.ErrRefused) || time.Since(began) != sec {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
	})
}

func TestImpossibleLimits(t *testing.T) {
	for _, c := range []struct {
		config limit.Config
		words  []string
	}{
		{limit.Config{}, []string{"0 of Concurrency, Rate, Adaptive and Throttle"}},
		{limit.Config{Concurrency: 1, Rate: 1}, []string{"2 of Concurrency, Rate, Adaptive and Throttle"}},
		{limit.Config{Concurrency: 1, Per: sec}, []string{"belong to a Rate"}},
		{limit.Config{Concurrency: 1, Burst: 1}, []string{"belong to a Rate"}},
		{limit.Config{Concurrency: -1, Queue: -2, MaxWait: -1}, []string{"Concurrency is -1", "Queue is -2", "MaxWait is -1ns"}},
		{limit.Config{Rate: -1, Queue: -2, ShedAfter: -1}, []string{"Rate is -1", "Queue is -2", "ShedAfter is -1ns"}},
		{limit.Config{Rate: 1, Per: -sec}, []string{"Per is -1s"}},
		{limit.Config{Rate: 1, Burst: -1}, []string{"Burst is -1"}},
		{limit.Config{Rate: 1, Per: 1 << 62, Burst: 3}, []string{"counted"}},
		{limit.Config{Adaptive: &limit.AdaptiveConfig{Min: 5, Max: 3, Tolerance: 0.5, Backoff: 2}}, []string{"Min", "Tolerance", "Backoff"}},
		{limit.Config{Throttle: &limit.ThrottleConfig{Multiple: 0.5, Max: 2, MinCalls: -1, Window: -1}, Queue: 1}, []string{"Multiple is 0.5", "Max is 2", "MinCalls is -1", "Window is -1ns", "nobody waits at a Throttle"}},
	} {
		l, err := limit.New(c.config)
		for _, word := range c.words {
			if l != nil || err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%+v: %q is not in %v", c.config, word, err)
			}
		}
	}
	for name, l := range map[string]*limit.Limit{
		"Concurrency is 0; it must be from 1 to":  limit.Concurrency(0),
		"Concurrency is -1; it must be from 1 to": limit.Concurrency(-1),
		"Rate is 0; it must be positive":          limit.Rate(0, sec),
		"Rate is -2; it must be positive":         limit.Rate(-2, sec),
		"Per is 0s; it must be positive":          limit.Rate(1, 0),
		"Per is -1s; it must be positive":         limit.Rate(1, -sec),
	} {
		_, joined := limit.Join(limit.Concurrency(1), l)
		called := limit.Do(t.Context(), l, func(context.Context) error {
			t.Errorf("%s: it lets a call through", name)
			return nil
		})
		for _, err := range []error{joined, called} {
			if err == nil || !strings.Contains(err.Error(), "limit: "+name) {
				t.Errorf("%q is not in the error %v", name, err)
			}
		}
		if l.Max() != 0 || l.InUse() != 0 || l.Waiting() != 0 {
			t.Errorf("%s: it has slots", name)
		}
	}
	for _, l := range []*limit.Limit{nil, new(limit.Limit)} {
		if _, err := limit.Join(l); err == nil || !strings.Contains(err.Error(), "make it with New") {
			t.Errorf("%v: %v", l, err)
		}
	}
	l := limit.Concurrency(1)
	if s := join(t, l, l); len(s) != 1 {
		t.Errorf("a limit that is named twice is taken %d times", len(s))
	}
}

// Of two limits that others take one at a time, and so keep busy for ever, who
// needs both gets both.
func TestNobodyStarvesOverSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := limit.Concurrency(1), limit.Concurrency(1)
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for _, one := range []*limit.Limit{a, b} {
			s := join(t, one)
			for i := range 3 {
				wait.Go(func() {
					for ctx.Err() == nil {
						if s.Acquire(ctx, limit.Request{}) == nil {
							time.Sleep(time.Duration(i+2) * 7 * time.Millisecond)
							s.Release(limit.Result{})
						}
					}
				})
			}
		}
		time.Sleep(sec)
		both := join(t, a, b)
		for range 10 {
			began := time.Now()
			acquire(t, both)
			both.Release(limit.Result{})
			if d := time.Since(began); d > sec {
				t.Errorf("it waited %v", d)
			}
		}
		cancel()
		wait.Wait()
	})
}

// Whatever comes together: never more slots than there are, never more tokens
// in any time than the rate gives, everybody comes to an end, and nothing is
// left taken.
func TestManyLimitsAtOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		n, tokens, burst := rapid.IntRange(1, 3).Draw(rt, "slots"), rapid.IntRange(1, 5).Draw(rt, "tokens"), rapid.IntRange(1, 3).Draw(rt, "burst")
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			a, b, r := limit.Concurrency(n), limit.Concurrency(2), limitOf(limit.Config{Rate: tokens, Per: sec, Burst: burst})
			var inA, inB atomic.Int32
			var mu sync.Mutex
			var starts []time.Duration
			began := time.Now()
			var wait sync.WaitGroup
			for range 30 {
				pick := random.IntN(7) + 1
				at, takes, patience, priority := time.Duration(random.IntN(3000)), time.Duration(random.IntN(800)), time.Duration(random.IntN(9000)), random.IntN(3)*10
				wait.Go(func() {
					var limits []*limit.Limit
					for i, l := range []*limit.Limit{a, b, r} {
						if pick&(1<<i) != 0 {
							limits = append(limits, l)
						}
					}
					s := join(t, limits...)
					time.Sleep(at * time.Millisecond)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if patience < 2000 {
						time.AfterFunc(patience*time.Millisecond, cancel)
					}
					if s.Acquire(ctx, limit.Request{Priority: priority}) != nil {
						return
					}
					if slices.Contains(limits, a) && inA.Add(1) > int32(n) || slices.Contains(limits, b) && inB.Add(1) > 2 {
						t.Error("more run than there are slots")
					}
					if slices.Contains(limits, r) {
						mu.Lock()
						starts = append(starts, time.Since(began))
						mu.Unlock()
					}
					time.Sleep(takes * time.Millisecond)
					if slices.Contains(limits, a) {
						inA.Add(-1)
					}
					if slices.Contains(limits, b) {
						inB.Add(-1)
					}
					s.Release(limit.Result{})
				})
			}
			wait.Wait()
			interval := (sec + time.Duration(tokens) - 1) / time.Duration(tokens)
			for i := burst; i < len(starts); i++ {
				if starts[i]-starts[i-burst] < interval {
					t.Errorf("%d began within %v: %v", burst+1, starts[i]-starts[i-burst], starts)
				}
			}
			if a.InUse()+b.InUse()+a.Waiting()+b.Waiting()+r.Waiting() != 0 {
				t.Error("something is left taken")
			}
		})
	})
}

func TestAllocatesNothing(t *testing.T) {
	s := join(t, limit.Concurrency(3), limit.Rate(1<<30, sec))
	if n := testing.AllocsPerRun(1000, func() {
		acquire(t, s)
		s.Release(limit.Result{})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMaxWaitOfASet: a waiter that goes from queue to queue waits no longer in all
// than each limit allows.
func TestMaxWaitOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := limitOf(limit.Config{Concurrency: 1, MaxWait: time.Second})
		rate := limitOf(limit.Config{Rate: 1, Per: 900 * time.Millisecond, MaxWait: time.Second})
		both, err := limit.Join(slots, rate)
		if err != nil {
			t.Fatal(err)
		}
		held, err := limit.Join(slots)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := limit.Join(rate)
		if err != nil {
			t.Fatal(err)
		}
		if !held.Try() || !tokens.Try() {
			t.Fatal("they are not free at first")
		}
		go func() { // the slot is free at 800 ms, when there is no token, and then token and slot by turns
			for range 20 {
				time.Sleep(800 * time.Millisecond)
				held.Release(limit.Result{})
				time.Sleep(50 * time.Millisecond)
				if held.Acquire(context.Background(), limit.Request{Priority: 1000}) != nil {
					return
				}
				tokens.Try()
			}
		}()
		began := time.Now()
		err = both.Acquire(t.Context(), limit.Request{})
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("waited %v in all, with a longest wait of 1s; then %v", waited, err)
		}
		time.Sleep(time.Minute)
	})
}
