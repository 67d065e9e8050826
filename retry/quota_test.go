package retry_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

func quota(t testing.TB, c retry.QuotaConfig) *retry.Quota {
	t.Helper()
	q, err := retry.NewQuota(c)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQuotaSettings(t *testing.T) {
	if got := quota(t, retry.QuotaConfig{}).Balance(); got != 10 {
		t.Errorf("by default the balance is %v", got)
	}
	q := quota(t, retry.QuotaConfig{Ratio: .5, Initial: -1, Capacity: 2})
	for i, want := range []float64{.5, 1, 1.5, 2, 2} { // up to the capacity
		if _, err := get(t.Context(), retry.Policy{Quota: q}, failing(0).call); err != nil {
			t.Fatal(err)
		}
		if got := q.Balance(); got != want {
			t.Errorf("after %d operations the balance is %v, want %v", i+1, got, want)
		}
	}
	for _, c := range []retry.QuotaConfig{{Ratio: math.NaN()}, {Ratio: 1001}, {Initial: 5, Capacity: 4}, {Capacity: -1}, {Capacity: math.MaxInt}} {
		if _, err := retry.NewQuota(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// The token is taken before the wait, and the last error is not lost.
func TestQuotaIsAskedBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota(t, retry.QuotaConfig{Ratio: -1, Initial: 1})
		s := failing(9)
		_, err := get(t.Context(), retry.Policy{Attempts: 9, Backoff: doubling(10 * sec), Quota: q}, s.call)
		e := ended(t, err, driver.ReasonQuota, 2)
		s.check(t, 0, 10*sec)
		if e.Last != errFlaky || time.Since(s.began) != 10*sec {
			t.Errorf("after %v: %v", time.Since(s.began), err)
		}
	})
}

// With every attempt failing, and all at once, n operations make no more
// than n·ratio + floor retries.
func TestAmplificationIsBounded(t *testing.T) {
	const n, ratio, floor = 1000, .1, 5
	q := quota(t, retry.QuotaConfig{Ratio: ratio, Initial: floor, Capacity: n})
	var calls atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range n / 8 {
				_, err := get(t.Context(), retry.Policy{Attempts: 4, Quota: q}, func(context.Context) (int, error) {
					calls.Add(1)
					return 0, errFlaky
				})
				if err == nil {
					t.Error("no error")
				}
			}
		})
	}
	wait.Wait()
	if got := calls.Load(); got > n+n*ratio+floor || got < n+n*ratio {
		t.Errorf("%d operations made %d calls, want %v to %v", n, got, n+n*ratio, n+n*ratio+floor)
	}
	if b := q.Balance(); b < 0 || b >= 1 {
		t.Errorf("the balance is %v", b)
	}
}

// Lesson: what succeeds gives its token back, and deposits are made once for
// an operation, so that a quota that was used up fills again.
func TestQuotaRefunds(t *testing.T) {
	q := quota(t, retry.QuotaConfig{Ratio: .25, Initial: 2})
	if _, err := get(t.Context(), retry.Policy{Quota: q}, failing(1).call); err != nil {
		t.Fatal(err)
	}
	if got := q.Balance(); got != 2.25 { // the retry succeeded
		t.Errorf("after a retry that succeeded the balance is %v", got)
	}
	if _, err := get(t.Context(), retry.Policy{Quota: q}, failing(2).call); err != nil {
		t.Fatal(err)
	}
	if got := q.Balance(); got != 1.5 { // the first retry did not
		t.Errorf("after one of two that succeeded the balance is %v", got)
	}
}

// A retry that was paid for and not made is paid back: cancelled, or refused
// by a breaker.
func TestQuotaPaysBackWhatWasNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota(t, retry.QuotaConfig{Ratio: -1, Initial: 3})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(sec, cancel)
		_, err := get(ctx, retry.Policy{Backoff: doubling(10 * sec), Quota: q}, failing(9).call)
		ended(t, err, driver.ReasonCancelled, 1)
		if got := q.Balance(); got != 3 {
			t.Errorf("after the cancellation the balance is %v", got)
		}
		b := breaker(t, circuit.Config{FailureThreshold: 1})
		_, err = get(t.Context(), retry.Policy{Quota: q, Breaker: b}, failing(9).call)
		ended(t, err, driver.ReasonCircuitOpen, 1)
		if got := q.Balance(); got != 3 {
			t.Errorf("after the refusal the balance is %v", got)
		}
	})
}

// A budget that ends an operation takes no token.
func TestQuotaIsAskedLast(t *testing.T) {
	q := quota(t, retry.QuotaConfig{Ratio: -1, Initial: 3})
	_, err := get(t.Context(), retry.Policy{Quota: q, Budget: 1, Backoff: doubling(sec)}, failing(9).call)
	ended(t, err, driver.ReasonBudget, 1)
	if got := q.Balance(); got != 3 {
		t.Errorf("the balance is %v", got)
	}
}

// A bound within another does not make that greater: what is done under both is bounded
// by both.
func TestBoundsOfRetriesNest(t *testing.T) {
	r := retry.Must(retry.New(retry.Policy{Attempts: 10}))
	for _, c := range []struct{ outer, inner, calls, leftOuter, leftInner int }{
		{1, 5, 2, 0, 0},
		{5, 1, 2, 4, 0},
		{3, 3, 4, 0, 0},
		{0, 5, 1, 0, 0},
	} {
		outer := retry.WithRetries(t.Context(), c.outer)
		inner := retry.WithRetries(outer, c.inner)
		if n, bounded := retry.RetriesLeft(inner); n != min(c.outer, c.inner) || !bounded {
			t.Errorf("%d within %d: %d are left before", c.inner, c.outer, n)
		}
		calls := 0
		err := retry.Do(inner, r, func(context.Context) error { calls++; return errors.New("down") })
		if calls != c.calls || !errors.Is(err, retry.ErrQuota) {
			t.Errorf("%d within %d: %d calls, %v; want %d", c.inner, c.outer, calls, err, c.calls)
		}
		no, _ := retry.RetriesLeft(outer)
		ni, _ := retry.RetriesLeft(inner)
		if no != c.leftOuter || ni != c.leftInner {
			t.Errorf("%d within %d: %d and %d are left, want %d and %d", c.inner, c.outer, no, ni, c.leftOuter, c.leftInner)
		}
	}
}
