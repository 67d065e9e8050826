package limit_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/limit"
)

// hand is a clock that stands where it is put, and in whose time nobody waits.
type hand struct{ now time.Time }

func (h *hand) Now() time.Time { return h.now }

func (h *hand) Wait(ctx context.Context, d time.Duration, _ <-chan struct{}) error {
	return errors.New("it was waited for")
}

// TestRatesOfAllKinds: whatever a rate is that New accepts, no more begins in any time
// than its burst and what comes in that time, and after the time of one token there is
// one. The bound is counted in rational numbers.
func TestRatesOfAllKinds(t *testing.T) {
	random := rand.New(rand.NewPCG(29, 2))
	counts := []int{1, 2, 3, 7, 1000, 1 << 31, math.MaxInt}
	spans := []time.Duration{1, 2, 999, time.Microsecond, time.Second, time.Hour, 365 * 24 * time.Hour, math.MaxInt64 / 5, math.MaxInt64}
	made := 0
	for range 300 {
		h := &hand{time.Now()}
		c := limit.Config{Rate: counts[random.IntN(len(counts))], Per: spans[random.IntN(len(spans))], Burst: counts[random.IntN(4)], Clock: h}
		l, err := limit.New(c)
		if err != nil {
			continue
		}
		made++
		s, err := limit.Join(l)
		if err != nil {
			t.Fatal(err)
		}
		began, taken := h.now, 0
		for range 60 {
			if s.Try() {
				taken++
			}
			if random.IntN(10) == 0 { // one that did not begin gives its token back
				s.Cancel()
				taken--
				if taken < 0 { // it had none
					s.Try()
					taken = 0
				}
			}
			most := new(big.Rat).SetFrac(big.NewInt(int64(h.now.Sub(began))), big.NewInt(int64(c.Per)))
			most.Mul(most, big.NewRat(int64(c.Rate), 1)).Add(most, big.NewRat(int64(c.Burst), 1))
			if new(big.Rat).SetInt64(int64(taken)).Cmp(most) > 0 {
				t.Fatalf("%d in %v with a burst of %d: %d began within %v", c.Rate, c.Per, c.Burst, taken, h.now.Sub(began))
			}
			if h.now.Sub(began) < 50*365*24*time.Hour {
				h.now = h.now.Add(time.Duration(random.Int64N(max(int64(c.Per)/4, 2))))
			}
		}
		if token := (c.Per-1)/time.Duration(c.Rate) + 1; token < 20*365*24*time.Hour {
			for s.Try() && random.IntN(200) > 0 {
			}
			h.now = h.now.Add(token)
			if !s.Try() {
				t.Fatalf("%d in %v: no token after %v", c.Rate, c.Per, token)
			}
		}
		// A queue of any length has a turn that is no sooner for those behind.
		err = s.Acquire(t.Context(), limit.Request{Queued: func(_ *limit.Limit, d time.Duration) {
			if d < 0 {
				t.Errorf("%+v: the turn is in %v", c, d)
			}
		}})
		if err != nil && l.Waiting() != 0 {
			t.Fatalf("%+v: %d are waiting after %v", c, l.Waiting(), err)
		}
	}
	if made < 100 {
		t.Errorf("only %d rates were possible", made)
	}
}

// Priorities may be any numbers; who has the greater one goes first.
func TestPrioritiesOfAnySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Concurrency(1)
		holder, err := limit.Join(l)
		if err != nil || !holder.Try() {
			t.Fatal("no slot")
		}
		var order []int
		for _, priority := range []int{math.MinInt, 0, math.MaxInt} {
			go limit.Do(limit.WithPriority(context.Background(), priority), l, func(context.Context) error { order = append(order, priority); return nil })
			synctest.Wait()
		}
		holder.Release(limit.Result{})
		synctest.Wait()
		if want := []int{math.MaxInt, 0, math.MinInt}; !slices.Equal(order, want) {
			t.Errorf("the order is %v", order)
		}
	})
}
