package limit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/limit"
)

// On a virtual clock limits wait in virtual time alone, in the order that the
// real one gives: there is no timer of the machine, and no goroutine.
func TestLimitsOnAVirtualClock(t *testing.T) {
	start := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC) // long before the program began
	for _, c := range []struct {
		name   string
		limits []limit.Config
		took   time.Duration
		want   string
	}{
		{"a rate", []limit.Config{{Rate: 1, Burst: 2}}, 0, "0@0s 1@0s 4@1s 2@2s 3@3s 5@4s"},
		{"slots", []limit.Config{{Concurrency: 2}}, 3 * sec, "0@0s 1@0s 4@3s 2@3s 3@6s 5@6s"},
		{"both", []limit.Config{{Rate: 1, Per: 2 * sec}, {Concurrency: 1}}, 3 * sec, "0@0s 4@3s 1@6s 2@9s 3@12s 5@15s"},
		{"a longest wait", []limit.Config{{Concurrency: 1, MaxWait: 4 * sec}}, 3 * sec, "0@0s 4@3s 1@refused 2@refused 3@refused 5@refused"},
		{"a queue that does not drain", []limit.Config{{Concurrency: 1, ShedAfter: 4 * sec}}, 3 * sec, "0@0s 4@3s 1@refused 2@refused 3@refused 5@refused"},
		{"a longest wait at a rate", []limit.Config{{Rate: 1, MaxWait: 2 * sec}}, 0, "0@0s 3@refused 5@refused 4@1s 2@refused 1@2s"},
	} {
		clock := virtual.NewClock(start)
		var limits []*limit.Limit
		for _, config := range c.limits {
			config.Clock = clock
			limits = append(limits, limitOf(config))
		}
		s := join(t, limits...)
		var got []string
		clock.Run(func() {
			clock.Together(6, func(i int) {
				priority := 0
				if i == 4 {
					priority = 50
				}
				if err := s.Acquire(t.Context(), limit.Request{Priority: priority}); err != nil {
					if !errors.Is(err, limit.ErrRefused) {
						t.Error(err)
					}
					got = append(got, fmt.Sprintf("%d@refused", i))
					return
				}
				got = append(got, fmt.Sprintf("%d@%v", i, clock.Now().Sub(start)))
				if c.took > 0 {
					if err := clock.Wait(t.Context(), c.took, nil); err != nil {
						t.Error(err)
					}
				}
				s.Release(limit.Result{})
			})
		})
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Who is first and goes away leaves its turn to the next, on any clock.
func TestTheNextTakesTheTurnOfWhoLeaves(t *testing.T) {
	start := time.Now()
	clock := virtual.NewClock(start)
	s := join(t, limitOf(limit.Config{Rate: 1, Per: 10 * sec, Clock: clock}))
	clock.Run(func() {
		short, leave := context.WithCancel(context.Background())
		clock.Together(4, func(i int) {
			ctx := context.Background()
			switch i {
			case 1:
				ctx = short
			case 3:
				if err := clock.Wait(ctx, sec, nil); err != nil {
					t.Error(err)
				}
				leave()
				return
			}
			err := s.Acquire(ctx, limit.Request{})
			if at := clock.Now().Sub(start); (err != nil) != (i == 1) || at != []time.Duration{0, sec, 10 * sec}[i] {
				t.Errorf("%d: after %v: %v", i, at, err)
			}
		})
	})
}

func TestASetHasOneClock(t *testing.T) {
	clock := virtual.NewClock(time.Now())
	if _, err := limit.Join(limitOf(limit.Config{Name: "a", Concurrency: 1, Clock: clock}), limitOf(limit.Config{Name: "b", Rate: 1})); err == nil ||
		!strings.Contains(err.Error(), `limit "a" and limit "b" are on different clocks`) {
		t.Error(err)
	}
}
