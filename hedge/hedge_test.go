package hedge_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/retry"
)

func newHedge(t testing.TB, c hedge.Config) *hedge.Hedge {
	t.Helper()
	h, err := hedge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// sleep is a call that takes so long unless its context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// On a lognormal latency with a long tail (σ 1.5), hedging at the 95th percentile halves the 99th at
// least, for at most 6 of 100 more calls.
func TestTheTailIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		calls := 0
		fetch := func(ctx context.Context) (int, error) {
			mu.Lock()
			calls++
			takes := math.Exp(1.5 * random.NormFloat64())
			mu.Unlock()
			return 1, sleep(ctx, time.Duration(takes*float64(20*time.Millisecond)))
		}
		p99 := func(call func(context.Context) (int, error)) time.Duration {
			var times []time.Duration
			for range 20000 {
				began := time.Now()
				if _, err := call(t.Context()); err != nil {
					t.Fatal(err)
				}
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			return times[len(times)*99/100]
		}
		before := p99(fetch)
		calls = 0
		h := newHedge(t, hedge.Config{Ratio: 0.06})
		after := p99(func(ctx context.Context) (int, error) { return hedge.Get(ctx, h, fetch) })
		t.Logf("p99 %v, hedged %v, %.1f%% more calls", before, after, float64(calls-20000)/200)
		if after > before/2 || calls > 21200 {
			t.Errorf("p99 %v, hedged %v with %d calls for 20000", before, after, calls)
		}
	})
}

func TestTheFirstToSucceedWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedge(t, hedge.Config{Delay: time.Second, Ratio: 1})
		began := time.Now()
		var calls, lost atomic.Int32
		v, err := hedge.Get(t.Context(), h, func(ctx context.Context) (int32, error) {
			n := calls.Add(1)
			if n == 1 {
				if err := sleep(ctx, time.Minute); errors.Is(err, hedge.ErrLost) {
					lost.Add(1)
				}
				return 0, errors.New("too late")
			}
			return n, sleep(ctx, time.Second)
		})
		if v != 2 || err != nil || lost.Load() != 1 || time.Since(began) != 2*time.Second {
			t.Errorf("%v, %v, %d lost, after %v", v, err, lost.Load(), time.Since(began))
		}
	})
}

func TestEndings(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	tests := []struct {
		name   string
		config hedge.Config
		takes  []time.Duration
		errs   []error
		want   error
		calls  int32
		end    time.Duration
	}{
		{"an error before the delay is the result", hedge.Config{Delay: time.Second}, []time.Duration{0, 0}, []error{first, nil}, first, 1, 0},
		{"unless another attempt may answer it", hedge.Config{Delay: time.Second, HedgeIf: func(error) bool { return true }}, []time.Duration{0, 0}, []error{first, nil}, nil, 2, 0},
		{"the other is waited for", hedge.Config{Delay: time.Second}, []time.Duration{2 * time.Second, 3 * time.Second}, []error{first, nil}, nil, 2, 4 * time.Second},
		{"both fail", hedge.Config{Delay: time.Second}, []time.Duration{3 * time.Second, time.Second}, []error{first, second}, second, 2, 3 * time.Second},
		{"each that fails has the next begin", hedge.Config{Delay: time.Hour, Max: 3, HedgeIf: func(error) bool { return true }}, make([]time.Duration, 4), []error{first, second, first, nil}, nil, 4, 0},
		{"until one fails for good", hedge.Config{Delay: time.Hour, Max: 3, HedgeIf: func(err error) bool { return err == first }}, make([]time.Duration, 4), []error{first, second, nil, nil}, first, 2, 0},
		{"also while no delay is known", hedge.Config{HedgeIf: func(error) bool { return true }}, make([]time.Duration, 2), []error{first, nil}, nil, 2, 0},
		{"two further ones", hedge.Config{Delay: time.Second, Max: 2}, []time.Duration{time.Minute, time.Minute, time.Second}, []error{nil, nil, nil}, nil, 3, 3 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.config.Ratio = 1
				h := newHedge(t, test.config)
				hedge.Get(t.Context(), h, func(context.Context) (int, error) { return 0, nil }) // saves up
				began := time.Now()
				var calls atomic.Int32
				_, err := hedge.Get(t.Context(), h, func(ctx context.Context) (int, error) {
					n := calls.Add(1) - 1
					if err := sleep(ctx, test.takes[n]); err != nil {
						return 0, err
					}
					return 0, test.errs[n]
				})
				if err != test.want || calls.Load() != test.calls || time.Since(began) != test.end {
					t.Errorf("%v after %v and %d calls", err, time.Since(began), calls.Load())
				}
			})
		})
	}
}

// When everything is slow, the quota keeps the hedges from doubling the load.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedge(t, hedge.Config{Delay: time.Second})
		var calls atomic.Int32
		for range 200 {
			if _, err := hedge.Get(t.Context(), h, func(ctx context.Context) (int, error) { calls.Add(1); return 0, sleep(ctx, time.Minute) }); err != nil {
				t.Fatal(err)
			}
		}
		if n := calls.Load(); n < 205 || n > 211 {
			t.Errorf("%d calls for 200", n)
		}
	})
}

func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedge(t, hedge.Config{Delay: time.Second})
		var calls atomic.Int32
		v, err := hedge.Get(t.Context(), h, func(ctx context.Context) (int, error) {
			if calls.Add(1) == 2 {
				panic("boom")
			}
			return 7, sleep(ctx, time.Minute)
		})
		if v != 7 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		_, err = hedge.Get(t.Context(), h, func(context.Context) (int, error) { panic("boom") })
		var panicked *retry.PanicError
		if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "TestPanics") {
			t.Errorf("the error is %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := hedge.Get(ctx, h, func(ctx context.Context) (int, error) { return 0, sleep(ctx, time.Hour) }); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}

// HedgeIf is asked of errors alone, and its panic is the call's, in whatever
// goroutine it comes.
func TestHedgeIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		var asked []error
		h := newHedge(t, hedge.Config{Delay: time.Second, Ratio: 1, HedgeIf: func(err error) bool {
			asked = append(asked, err)
			return false
		}})
		if _, err := hedge.Get(t.Context(), h, func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Error(err)
		}
		if _, err := hedge.Get(t.Context(), h, func(context.Context) (int, error) { return 0, down }); err != down {
			t.Error(err)
		}
		if !slices.Equal(asked, []error{down}) {
			t.Errorf("asked of %v, want of the one failure", asked)
		}

		h = newHedge(t, hedge.Config{Delay: time.Second, Ratio: 1, HedgeIf: func(err error) bool { panic("in HedgeIf") }})
		var panicked *retry.PanicError
		if _, err := hedge.Get(t.Context(), h, func(context.Context) (int, error) { return 0, down }); !errors.As(err, &panicked) {
			t.Errorf("the error is %v", err)
		}
		// The second attempt fails in the goroutine of a timer, beside a first one
		// that comes to its end.
		var calls atomic.Int32
		v, err := hedge.Get(t.Context(), h, func(ctx context.Context) (int, error) {
			if calls.Add(1) == 2 {
				return 0, down
			}
			return 7, sleep(ctx, time.Minute)
		})
		if v != 7 || err != nil || calls.Load() != 2 {
			t.Errorf("%v, %v after %d calls", v, err, calls.Load())
		}
	})
}

func TestImpossible(t *testing.T) {
	_, err := hedge.New(hedge.Config{Delay: -1, Quantile: 1, Max: -1, Ratio: 2})
	for _, word := range []string{"Delay", "Quantile", "Max", "Ratio"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
}

// Do is Get without a value: the error of the call, or none.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		h := newHedge(t, hedge.Config{Delay: time.Second, Ratio: 1})
		var calls atomic.Int32
		err := hedge.Do(t.Context(), h, func(ctx context.Context) error {
			if calls.Add(1) == 1 {
				return sleep(ctx, time.Minute)
			}
			return nil
		})
		if err != nil || calls.Load() != 2 {
			t.Errorf("%v after %d calls", err, calls.Load())
		}
		if err := hedge.Do(t.Context(), h, func(context.Context) error { return down }); err != down {
			t.Error(err)
		}
	})
}

// An observer that panics, or ends its goroutine, fails the attempt that it was told of,
// and not the program: that attempt has a goroutine of its own.
func TestAnObserverThatPanics(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			h := hedge.Must(hedge.New(hedge.Config{Delay: time.Second, Ratio: 1, Observer: func(retry.Event) { end() }}))
			v, err := hedge.Get(t.Context(), h, func(context.Context) (int, error) { time.Sleep(2 * time.Second); return 1, nil })
			if v != 1 || err != nil {
				t.Errorf("%s: %v, %v", name, v, err)
			}
		})
	}
}

// How soon a target fails says nothing about how soon it answers: after an outage in
// which calls fail at once, a call is not hedged sooner than before.
func TestFailuresTeachNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Must(hedge.New(hedge.Config{}))
		call := func(err error, took time.Duration) {
			_ = hedge.Do(t.Context(), h, func(context.Context) error { time.Sleep(took); return err })
		}
		for range 50 {
			call(nil, time.Second)
		}
		if h.Delay() != time.Second {
			t.Fatalf("the delay is %v", h.Delay())
		}
		for range 1000 {
			call(errors.New("down"), time.Millisecond)
		}
		if h.Delay() != time.Second {
			t.Errorf("after an outage the delay is %v", h.Delay())
		}
	})
}
