package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// What the zero value of each configuration means, as docs/library.md and the comments
// of the fields say it, seen from what is done.
func TestDefaults(t *testing.T) {
	fail := func(context.Context) error { return errFlaky }
	t.Run("retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			_ = retry.Do(t.Context(), retry.Must(retry.New(retry.Policy{})), func(context.Context) error { calls++; return errFlaky })
			if calls != 3 || time.Since(began) != 0 {
				t.Errorf("%d attempts in %v", calls, time.Since(began))
			}
			asks := retry.Must(retry.New(retry.Policy{}))
			for after, want := range map[time.Duration]int{5 * time.Minute: 3, 5*time.Minute + 1: 1} {
				calls = 0
				_ = retry.Do(t.Context(), asks, func(context.Context) error { calls++; return retry.After(after, errFlaky) })
				if calls != want {
					t.Errorf("a server that asks for %v is asked %d times, want %d", after, calls, want)
				}
			}
		})
	})
	t.Run("circuit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := circuit.Must(circuit.New(circuit.Config{}))
			for n := range 5 {
				if b.State() != circuit.Closed {
					t.Fatalf("open after %d failures", n)
				}
				_ = circuit.Do(t.Context(), b, fail)
			}
			if time.Sleep(30*time.Second - 1); b.State() != circuit.Open {
				t.Fatalf("%v before 30 s", b.State())
			}
			time.Sleep(time.Nanosecond)
			var permits [4]circuit.Permit
			for i := range permits {
				var err error
				if permits[i], err = b.Acquire(); (err == nil) != (i < 3) {
					t.Fatalf("call %d beside others: %v", i+1, err)
				}
			}
			for i := range 3 {
				if b.State() != circuit.HalfOpen {
					t.Fatalf("%v after %d successes", b.State(), i)
				}
				permits[i].Done(circuit.Success)
			}
			if b.State() != circuit.Closed {
				t.Errorf("%v after 3 successes", b.State())
			}
			rated := circuit.Must(circuit.New(circuit.Config{FailureRate: 0.5}))
			for n := range 10 { // the fewest calls
				if rated.State() != circuit.Closed {
					t.Fatalf("open after %d calls", n)
				}
				_ = circuit.Do(t.Context(), rated, fail)
			}
			if rated.State() != circuit.Open {
				t.Error("not open after 10 failures")
			}
		})
	})
	t.Run("limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := limit.Join(limit.Must(limit.New(limit.Config{Rate: 5})))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []int{5, 1} { // the burst, and what a fifth of a second brings
				got := 0
				for s.Try() {
					got++
				}
				if got != want {
					t.Errorf("%d at once, want %d", got, want)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if l := limit.Adaptive(); l.Max() != 10 {
				t.Errorf("an adaptive limit begins with %d", l.Max())
			}
		})
	})
	t.Run("hedge", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hedged := 0
			h := hedge.Must(hedge.New(hedge.Config{Observer: func(retry.Event) { hedged++ }}))
			call := func(took time.Duration) {
				_ = hedge.Do(t.Context(), h, func(ctx context.Context) error { return sleep(ctx, took) })
			}
			for range 95 {
				call(time.Second)
			}
			for range 5 {
				call(time.Minute)
			}
			if d := h.Delay(); d != time.Second {
				t.Errorf("the delay is %v", d)
			}
			before := hedged
			for range 200 {
				call(time.Hour)
			}
			if n := hedged - before; n < 9 || n > 20 { // a twentieth, and what was saved up
				t.Errorf("%d of 200 slow calls were hedged", n)
			}
		})
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
