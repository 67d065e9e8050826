package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

const sec = time.Second

var errFlaky = errors.New("flaky")

func newGuard(t testing.TB, layers ...guard.Layer) *guard.Guard {
	t.Helper()
	g, err := guard.New(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newBreaker(t testing.TB, c circuit.Config) *circuit.Breaker {
	t.Helper()
	b, err := circuit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// limitOf is limit.New of settings that are possible.
func limitOf(c limit.Config) *limit.Limit {
	l, err := limit.New(c)
	if err != nil {
		panic(err)
	}
	return l
}

// flaky fails so often, and notes when it was called.
type flaky struct {
	fails int
	calls []time.Duration
	began time.Time
}

func failing(n int) *flaky { return &flaky{fails: n, began: time.Now()} }

func (f *flaky) call(context.Context) (string, error) {
	f.calls = append(f.calls, time.Since(f.began))
	if len(f.calls) <= f.fails {
		return "", errFlaky
	}
	return "done", nil
}

func fixed(attempts int, d time.Duration) retry.Policy {
	return retry.Policy{Attempts: attempts, Backoff: backoff.Schedule{Initial: d, Strategy: backoff.Fixed{}}}
}

func TestLayersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, circuit.Config{FailureThreshold: 3})
		g := newGuard(t, fixed(9, sec), b, limit.Concurrency(1), limit.Rate(1, 3*sec), guard.Timeout(time.Minute))
		f := failing(2)
		v, err := guard.Get(t.Context(), g, f.call)
		if v != "done" || err != nil || !reflect.DeepEqual(f.calls, []time.Duration{0, 3 * sec, 6 * sec}) {
			t.Errorf("%q, %v, called at %v", v, err, f.calls)
		}
		f = failing(9)
		_, err = guard.Get(t.Context(), g, f.call)
		var e *retry.Error
		if !errors.As(err, &e) || e.Reason != driver.ReasonCircuitOpen || e.Attempts != 3 || e.Last != errFlaky {
			t.Errorf("the error is %v", err)
		}
	})
}

// A timeout outside of the retry bounds all of it, one inside each attempt.
func TestTimeoutWhereItStands(t *testing.T) {
	hang := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := guard.Get(t.Context(), newGuard(t, guard.Timeout(10*sec), retry.Policy{Attempts: 9}, guard.Timeout(4*sec)), hang)
		var timeout *retry.TimeoutError
		if !errors.As(err, &timeout) || timeout.Limit != 10*sec || time.Since(began) != 10*sec {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		_, err = guard.Get(t.Context(), newGuard(t, retry.Policy{Attempts: 2}, guard.Timeout(4*sec)), hang)
		if !errors.Is(err, retry.ErrAttempts) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 8*sec {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Without a retry the error is the function's own.
func TestErrorsWithoutRetry(t *testing.T) {
	b := newBreaker(t, circuit.Config{FailureThreshold: 1})
	g := newGuard(t, b, limit.Concurrency(1))
	if _, err := guard.Get(t.Context(), g, failing(1).call); err != errFlaky {
		t.Errorf("the error is %v", err)
	}
	_, err := guard.Get(t.Context(), g, failing(0).call)
	var open *circuit.OpenError
	if _, plain := err.(*circuit.OpenError); !plain || !errors.As(err, &open) {
		t.Errorf("the error is %T %v", err, err)
	}
	full := newGuard(t, limitOf(limit.Config{Concurrency: 1, Queue: limit.NoQueue}))
	if _, err = guard.Get(t.Context(), full, func(ctx context.Context) (int, error) {
		return guard.Get(ctx, full, func(context.Context) (int, error) { return 0, nil })
	}); !errors.Is(err, limit.ErrRefused) {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = guard.Get(ctx, newGuard(t), failing(0).call); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// impostor says that it is a layer.
type impostor struct{}

func (impostor) GuardLayer() {}

func TestNilAndImpossible(t *testing.T) {
	_, err := guard.New(nil, (*circuit.Breaker)(nil), (*limit.Limit)(nil), impostor{}, guard.Timeout(0), guard.Log(nil), guard.Observe(nil),
		guard.FallbackIf(nil), retry.Policy{Attempts: -5}, new(limit.Limit))
	for i := range 10 {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("layer %d:", i+1)) {
			t.Errorf("layer %d is taken: %v", i+1, err)
		}
	}
	g := newGuard(t)
	if _, err := guard.Get[int](t.Context(), g, nil); err == nil {
		t.Error("a nil function is called")
	}
	if err := guard.Do(t.Context(), g, nil); err == nil {
		t.Error("a nil function is called")
	}
	if _, err := guard.Or(t.Context(), g, failing(0).call, nil); err == nil {
		t.Error("a nil fallback is taken")
	}
	defer func() {
		if recover() == nil {
			t.Error("Must takes an error")
		}
	}()
	guard.Must(guard.New(nil))
}

func TestOr(t *testing.T) {
	instead := func(context.Context, error) (string, error) { return "instead", nil }
	g := newGuard(t, retry.Policy{Attempts: 2})
	for want, f := range map[string]*flaky{"done": failing(1), "instead": failing(2)} {
		if v, err := guard.Or(t.Context(), g, f.call, instead); v != want || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	broken := errors.New("broken")
	_, err := guard.Or(t.Context(), g, failing(9).call, func(context.Context, error) (string, error) { return "", broken })
	if !errors.Is(err, broken) || !errors.Is(err, errFlaky) || !strings.HasSuffix(err.Error(), "\nbroken") {
		t.Errorf("the error is %v", err)
	}
	if _, err = guard.Or(t.Context(), g, failing(9).call, func(context.Context, error) (string, error) { panic("boom") }); !errors.As(err, new(*retry.PanicError)) {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := guard.Or(ctx, g, failing(0).call, instead); v != "" || err == nil {
		t.Errorf("after a cancellation: %q, %v", v, err)
	}
	// On values too, and not on what the caller does not call a failure.
	empty := newGuard(t, guard.FallbackIf(retry.As[*retry.UnmetError]()))
	if v, _ := guard.Or(t.Context(), empty, retry.Until(func(context.Context) (string, error) { return "", nil }, func(v string) bool { return v != "" }), instead); v != "instead" {
		t.Errorf("%q", v)
	}
	if _, err := guard.Or(t.Context(), empty, failing(1).call, instead); err != errFlaky {
		t.Error(err)
	}
}

// What the breaker takes for a failure is its own matter, on values too, and in
// the quick path as in the driven one.
func TestBreakersOwnFailures(t *testing.T) {
	noRows := errors.New("no rows")
	for _, extra := range []guard.Layer{retry.Policy{Attempts: 1}, guard.Observe(func(retry.Event) {})} {
		b := newBreaker(t, circuit.Config{FailureThreshold: 2, FailureIf: func(err error) bool { return err != noRows }})
		g := newGuard(t, extra, b)
		for range 6 {
			guard.Do(t.Context(), g, func(context.Context) error { return noRows })
		}
		if b.State() != circuit.Closed {
			t.Error("no rows open it")
		}
		for range 2 {
			guard.Get(t.Context(), g, retry.Until(func(context.Context) (int, error) { return 13, nil }, func(v int) bool { return v != 13 }))
		}
		if b.State() != circuit.Open {
			t.Error("it is not open")
		}
		plain := newBreaker(t, circuit.Config{FailureThreshold: 1})
		ctx, cancel := context.WithCancel(t.Context())
		guard.Do(t.Context(), newGuard(t, extra, plain), func(context.Context) error { return retry.Permanent(noRows) })
		guard.Do(ctx, newGuard(t, extra, plain), func(context.Context) error { cancel(); return noRows })
		if plain.State() != circuit.Closed {
			t.Error("permanent or cancelled opens it")
		}
		guard.Do(t.Context(), newGuard(t, extra, plain), func(context.Context) error { panic("boom") })
		if plain.State() != circuit.Open {
			t.Error("a panic is no failure")
		}
	}
}

// A target that hangs until the caller's deadline opens the breaker.
func TestAHangingTargetOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, circuit.Config{})
		g := newGuard(t, retry.Policy{Attempts: 3, Backoff: backoff.Default()}, b, limit.Concurrency(2))
		refused := 0
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), sec)
			err := guard.Do(ctx, g, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			cancel()
			if errors.Is(err, circuit.ErrOpen) {
				refused++
			}
		}
		if refused != 45 {
			t.Errorf("%d of 50 were refused", refused)
		}
	})
}

func TestSlotsComeBackAfterGoexit(t *testing.T) {
	l, b := limit.Concurrency(1), newBreaker(t, circuit.Config{FailureThreshold: 1})
	for _, extra := range []guard.Layer{limit.Concurrency(1), guard.Timeout(time.Minute)} {
		b.Close()
		var wait sync.WaitGroup
		wait.Go(func() {
			guard.Do(t.Context(), newGuard(t, b, l, extra), func(context.Context) error { runtime.Goexit(); return nil })
		})
		wait.Wait()
		if l.InUse() != 0 || b.State() != circuit.Open {
			t.Errorf("%d slots are in use, the breaker is %v", l.InUse(), b.State())
		}
	}
}

func TestHedgeAmongTheLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := hedge.New(hedge.Config{Delay: sec, Ratio: 1})
		if err != nil {
			t.Fatal(err)
		}
		b := newBreaker(t, circuit.Config{})
		g, within := newGuard(t, retry.Policy{Attempts: 2}, b), newGuard(t, guard.Timeout(5*sec))
		var calls atomic.Int32
		began := time.Now()
		v, err := guard.Get(t.Context(), g, hedge.Func(h, func(ctx context.Context) (int32, error) {
			return guard.Get(ctx, within, func(ctx context.Context) (int32, error) {
				n := calls.Add(1)
				if n == 1 {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return n, nil
			})
		}))
		if v != 2 || err != nil || time.Since(began) != sec || b.Counts().Successes != 1 || b.Counts().Failures != 0 {
			t.Errorf("%v, %v after %v, %+v", v, err, time.Since(began), b.Counts())
		}
	})
}

func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, limit.Concurrency(1))
		release := make(chan struct{})
		var order []int
		var wait sync.WaitGroup
		for i, priority := range []int{0, 0, 9} {
			wait.Go(func() {
				guard.Do(limit.WithPriority(t.Context(), priority), g, func(context.Context) error {
					order = append(order, i)
					<-release
					return nil
				})
			})
			synctest.Wait()
		}
		close(release)
		wait.Wait()
		if !reflect.DeepEqual(order, []int{0, 2, 1}) {
			t.Errorf("let through as %v", order)
		}
	})
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		guard.Get(t.Context(), newGuard(t, fixed(2, sec), guard.Log(logger)), failing(9).call)
		guard.Get(t.Context(), newGuard(t, guard.Log(logger)), failing(0).call)
		want := `level=INFO msg="attempt failed" attempt=1 took=0s class=error error=flaky
level=DEBUG msg="next attempt scheduled" attempt=1 delay=1s source=policy
level=INFO msg="attempt failed" attempt=2 took=0s class=error error=flaky
level=WARN msg="call failed" attempt=2 reason=attempts took=1s error="attempts used up after 2 attempts: flaky"
`
		if text.String() != want {
			t.Errorf("logged was\n%s", text.String())
		}
	})
}

// A call that succeeds allocates nothing, whatever is in the guard but a timeout,
// which needs a context, and an observer of what waits; and whatever the closure
// captures that is made for it.
func TestAllocatesNothing(t *testing.T) {
	four := []guard.Layer{retry.Policy{Attempts: 4, Backoff: backoff.Default()}, newBreaker(t, circuit.Config{}), limit.Concurrency(8), limit.Rate(1<<30, sec)}
	never := func(error) bool { return false }
	for _, c := range []struct {
		name   string
		layers []guard.Layer
		fails  int // attempts, before the one that succeeds
	}{
		{"nothing", nil, 0},
		{"four layers", four, 0},
		{"a layer of each kind twice", append(four, retry.Policy{}, newBreaker(t, circuit.Config{}), limit.Concurrency(8)), 0},
		{"an observer", []guard.Layer{four[0], guard.Observe(func(retry.Event) {})}, 0},
		{"an adaptive limit", []guard.Layer{retry.Policy{}, limit.Adaptive()}, 0},
		{"a throttle", []guard.Layer{retry.Policy{}, limit.Throttle()}, 0},
		{"slow calls", []guard.Layer{newBreaker(t, circuit.Config{SlowCall: time.Hour, SlowRate: 1})}, 0},
		{"failures by a rule", append(four[:1:1], newBreaker(t, circuit.Config{FailureIf: never})), 0},
		{"the second attempt", []guard.Layer{retry.Policy{Attempts: 2}, newBreaker(t, circuit.Config{}), limit.Concurrency(8)}, 1},
		{"the second attempt, failures by a rule", []guard.Layer{retry.Policy{Attempts: 2}, newBreaker(t, circuit.Config{FailureIf: never})}, 1},
	} {
		g, ctx, sum := newGuard(t, c.layers...), t.Context(), 0
		if n := testing.AllocsPerRun(1000, func() {
			calls, one := 0, 1
			v, err := guard.Get(ctx, g, func(context.Context) (int, error) {
				if calls++; calls <= c.fails {
					return 0, errFlaky
				}
				return one, nil
			})
			if err != nil {
				t.Error(err)
			}
			calls = 0
			if err := guard.Do(ctx, g, func(context.Context) error {
				if calls++; calls <= c.fails {
					return errFlaky
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			sum += v + calls
		}); n != 0 && !raced {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// TestThrottle: a guard tells a throttle how its attempts end, whatever path they
// take, and a refusal ends the call without a further attempt.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := limitOf(limit.Config{Throttle: &limit.ThrottleConfig{MinCalls: 1}})
		g := newGuard(t, fixed(3, sec), throttle)
		made := 0
		var err error
		for range 200 {
			err = guard.Do(t.Context(), g, func(context.Context) error { made++; return syscall.ECONNREFUSED })
		}
		if made > 60 || !errors.Is(err, limit.ErrRefused) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("200 calls made %d attempts; the last error is %v", made, err)
		}
		before := throttle.Refusing()
		for range 2000 {
			_ = guard.Do(t.Context(), g, func(context.Context) error { return nil })
			time.Sleep(sec / 20)
		}
		if after := throttle.Refusing(); before < 0.8 || after != 0 {
			t.Errorf("it refused %v, and %v once the target had recovered", before, after)
		}
	})
}

// A limit within the policy is free while the next attempt is waited for; one before it
// is held for the whole call.
func TestWhatAWaitHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := limit.Concurrency(1), limit.Concurrency(1)
		g := newGuard(t, outer, fixed(2, sec), inner)
		go guard.Do(t.Context(), g, func(context.Context) error { return errFlaky })
		synctest.Wait() // it waits for its second attempt
		if outer.InUse() != 1 || inner.InUse() != 0 {
			t.Errorf("in the wait %d and %d are in use", outer.InUse(), inner.InUse())
		}
		time.Sleep(2 * sec)
		if outer.InUse() != 0 || inner.InUse() != 0 {
			t.Errorf("after the call %d and %d are in use", outer.InUse(), inner.InUse())
		}
	})
}
