package circuit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
)

func breaker(t testing.TB, c circuit.Config) *circuit.Breaker {
	t.Helper()
	b, err := circuit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var errDown = errors.New("down")

func fail(t testing.TB, b *circuit.Breaker, times int) {
	t.Helper()
	for range times {
		if err := circuit.Do(context.Background(), b, func(context.Context) error { return errDown }); err != errDown {
			t.Fatalf("the answer is %v", err)
		}
	}
}

func TestBreakerOnTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{Name: "db"})
		fail(t, b, 5)
		err := circuit.Do(context.Background(), b, func(context.Context) error { t.Error("called"); return nil })
		var refusal *circuit.OpenError
		if !errors.As(err, &refusal) || *refusal != (circuit.OpenError{Name: "db", State: circuit.Open, RetryAfter: 30 * time.Second}) {
			t.Fatalf("the answer is %#v", err)
		}
		time.Sleep(10 * time.Second)
		if _, err = b.Acquire(); !errors.As(err, &refusal) || refusal.RetryAfter != 20*time.Second {
			t.Fatalf("after 10s the answer is %v", err)
		}
		if got := b.State(); got != circuit.Open {
			t.Fatalf("state is %v", got)
		}
		time.Sleep(20 * time.Second)
		if got := b.State(); got != circuit.HalfOpen {
			t.Fatalf("after the timeout the state is %v", got)
		}
		for range 3 {
			if err := circuit.Do(context.Background(), b, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.State(); got != circuit.Closed {
			t.Fatalf("state is %v", got)
		}
		if got := b.Counts(); got != (circuit.Counts{Successes: 3, Failures: 5}) {
			t.Errorf("counts are %+v", got)
		}
		if b.Name() != "db" {
			t.Errorf("name is %q", b.Name())
		}
	})
}

// Done answers once, from however many goroutines.
func TestDoneIsIdempotent(t *testing.T) {
	b := breaker(t, circuit.Config{FailureThreshold: 2})
	p, err := b.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { p.Done(circuit.Failure) })
	}
	wait.Wait()
	p.Done(circuit.Success)
	if got := b.Snapshot(); got.State != circuit.Closed || got.Failures != 1 {
		t.Errorf("after one failure, answered nine times: %+v", got)
	}
	var none circuit.Permit
	none.Done(circuit.Failure) // the permit of a refusal
}

// A panic and runtime.Goexit give the permit back, as failures.
func TestPanicAndGoexitGiveThePermitBack(t *testing.T) {
	endings := map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": func() { runtime.Goexit() },
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := breaker(t, circuit.Config{FailureThreshold: 1, HalfOpenRequests: 1, SuccessThreshold: 1})
				for range 3 { // closed, then half-open twice
					var wait sync.WaitGroup
					wait.Go(func() {
						defer func() { recover() }()
						_ = circuit.Do(context.Background(), b, func(context.Context) error { end(); return nil }) // it does not return
					})
					wait.Wait()
					if got := b.Snapshot(); got.State != circuit.Open {
						t.Fatalf("state is %+v, want open", got)
					}
					time.Sleep(30 * time.Second)
				}
				if err := circuit.Do(context.Background(), b, func(context.Context) error { return nil }); err != nil || b.State() != circuit.Closed {
					t.Errorf("the breaker is stuck: %v, %v", err, b.State())
				}
			})
		})
	}
}

// A call that its caller cancels says nothing about the target, nor does an error that
// is marked as permanent. An error of somebody else's cancellation is one like any other.
func TestWhatIsNeutral(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		config circuit.Config
		want   circuit.State
	}{
		"cancelled by its caller":              {context.Canceled, circuit.Config{}, circuit.Closed},
		"cancelled by its caller, with a rule": {errDown, circuit.Config{FailureIf: func(error) bool { return true }}, circuit.Closed},
		"cancelled by another":                 {fmt.Errorf("query: %w", context.Canceled), circuit.Config{}, circuit.Open},
		"permanent":                            {fmt.Errorf("query: %w", retry.Permanent(errDown)), circuit.Config{}, circuit.Closed},
		"permanent, joined":                    {errors.Join(errDown, retry.Permanent(errDown)), circuit.Config{}, circuit.Closed},
		"permanent, with a rule":               {retry.Permanent(errDown), circuit.Config{FailureIf: func(error) bool { return true }}, circuit.Open},
		"a failure":                            {errDown, circuit.Config{}, circuit.Open},
	} {
		c.config.FailureThreshold = 1
		b := breaker(t, c.config)
		ctx, cancel := context.WithCancel(t.Context())
		err := circuit.Do(ctx, b, func(context.Context) error {
			if strings.HasPrefix(name, "cancelled by its caller") {
				cancel()
			}
			return c.err
		})
		cancel()
		if err != c.err || b.State() != c.want {
			t.Errorf("%s: %v, and the breaker is %v", name, err, b.State())
		}
	}
}

// Listeners are called outside the lock, in order, and may use the
// breaker.
func TestListenerMayUseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *circuit.Breaker
		var told []circuit.Change
		began := time.Now()
		b = breaker(t, circuit.Config{Name: "x", FailureThreshold: 1, SuccessThreshold: 1, OnChange: func(c circuit.Change) {
			told = append(told, c)
			if c.To == circuit.HalfOpen { // a change from within: told after this one
				fail := b.Snapshot()
				if fail.State != circuit.HalfOpen {
					t.Errorf("told of half-open while %v", fail.State)
				}
				if p, err := b.Acquire(); err != nil {
					t.Error(err)
				} else {
					p.Done(circuit.Failure)
				}
			}
		}})
		fail(t, b, 1)
		time.Sleep(30 * time.Second)
		p, err := b.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		p.Done(circuit.Success) // stale by now
		half := began.Add(30 * time.Second)
		want := []circuit.Change{
			{Name: "x", From: circuit.Closed, To: circuit.Open, Time: began},
			{Name: "x", From: circuit.Open, To: circuit.HalfOpen, Time: half},
			{Name: "x", From: circuit.HalfOpen, To: circuit.Open, Time: half},
		}
		if len(told) != len(want) {
			t.Fatalf("told %v", told)
		}
		for i, c := range told {
			if c.Name != want[i].Name || c.From != want[i].From || c.To != want[i].To || !c.Time.Equal(want[i].Time) {
				t.Errorf("change %d is %+v, want %+v", i, c, want[i])
			}
		}
	})
}

// A listener that panics does so in its caller, and harms nobody else.
func TestListenerPanics(t *testing.T) {
	calls := 0
	b := breaker(t, circuit.Config{FailureThreshold: 1, Timeout: time.Nanosecond, OnChange: func(circuit.Change) {
		if calls++; calls == 1 {
			panic("listener")
		}
	}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		fail(t, b, 1)
	}()
	for b.State() != circuit.HalfOpen { // a nanosecond later
		runtime.Gosched()
	}
	p, err := b.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	p.Done(circuit.Failure)
	if calls != 3 {
		t.Errorf("the listener was told %d changes, want 3", calls)
	}
}

// Half-open lets in so many and no more, however many ask at once.
func TestHalfOpenIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{})
		fail(t, b, 5)
		time.Sleep(30 * time.Second)
		var admitted atomic.Int32
		release := make(chan struct{})
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() {
				err := circuit.Do(context.Background(), b, func(context.Context) error { admitted.Add(1); <-release; return nil })
				if err != nil && !errors.Is(err, circuit.ErrOpen) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := admitted.Load(); got != 3 {
			t.Errorf("%d of 50 callers were let in, want 3", got)
		}
		close(release)
		wait.Wait()
		if got := b.State(); got != circuit.Closed {
			t.Errorf("after 3 successes it is %v", got)
		}
	})
}

// On the clock: hung probes, then a day.
func TestBreakerRecoversFromHungProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{Lease: 5 * time.Minute})
		fail(t, b, 5)
		time.Sleep(30 * time.Second)
		var hung [3]circuit.Permit
		for i := range hung {
			var err error
			if hung[i], err = b.Acquire(); err != nil {
				t.Fatal(err)
			}
		}
		var refusal *circuit.OpenError
		if _, err := b.Acquire(); !errors.As(err, &refusal) || refusal.State != circuit.HalfOpen || refusal.RetryAfter != 5*time.Minute {
			t.Fatalf("the answer is %v", err)
		}
		time.Sleep(24 * time.Hour)
		if err := circuit.Do(context.Background(), b, func(context.Context) error { return nil }); err != nil {
			t.Fatalf("a day later: %v", err)
		}
	})
}

// A breaker has no goroutine, no timer and no state to reset.
func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 1000 {
		b := breaker(t, circuit.Config{FailureThreshold: 1})
		fail(t, b, 1)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("1000 breakers, %d goroutines more", after-before)
	}
}

func TestBreakerAllocatesNothing(t *testing.T) {
	b := breaker(t, circuit.Config{Timeout: time.Hour})
	succeed := func(context.Context) error { return nil }
	if n := testing.AllocsPerRun(1000, func() {
		if p, err := b.Acquire(); err == nil {
			p.Done(circuit.Success)
		}
		if err := circuit.Do(context.Background(), b, succeed); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("closed: %v allocations", n)
	}
	fail(t, b, 5)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := b.Acquire(); err == nil {
			t.Error("not refused")
		}
	}); n != 0 {
		t.Errorf("open: %v allocations", n)
	}
}

func ExampleDo() {
	b, err := circuit.New(circuit.Config{
		Name:             "search",
		FailureThreshold: 2,
		Timeout:          10 * time.Second,
		OnChange:         func(c circuit.Change) { fmt.Println(c.Name, c.From, "→", c.To) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		err := circuit.Do(context.Background(), b, func(context.Context) error { return errors.New("connection refused") })
		if open, ok := errors.AsType[*circuit.OpenError](err); ok {
			fmt.Println("refused; try again in", open.RetryAfter.Round(time.Second))
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// connection refused
	// search closed → open
	// connection refused
	// refused; try again in 10s
}

// A breaker that stays open for as long as a duration can be says so from the first
// moment on, and nothing overflows.
func TestOpenForEver(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]circuit.Config{
		"the machine's clock": {FailureThreshold: 1, Timeout: math.MaxInt64, Lease: math.MaxInt64},
		"a clock":             {FailureThreshold: 1, Timeout: math.MaxInt64, Now: func() time.Time { return now }},
		"a schedule":          {FailureThreshold: 1, OpenFor: func(int) time.Duration { return math.MaxInt64 }},
	} {
		b := breaker(t, c)
		fail(t, b, 1)
		for range 3 {
			_, err := b.Acquire()
			var open *circuit.OpenError
			if !errors.As(err, &open) || open.RetryAfter < math.MaxInt64/2 || open.Error() == "" {
				t.Errorf("%s: refused with %#v", name, err)
			}
		}
	}
}
