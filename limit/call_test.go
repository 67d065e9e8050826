package limit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// tooMany is an error of a target that has too much to do.
type tooMany struct{}

func (tooMany) Error() string     { return "too many" }
func (tooMany) RateLimited() bool { return true }

func TestCallsOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitOf(limit.Config{Name: "db", Concurrency: 1, Queue: 1})
		cause, failure := errors.New("given up"), errors.New("down")
		began := time.Now()
		var got []string
		var mu sync.Mutex
		note := func(who string, err error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%s@%v %v", who, time.Since(began), err))
		}
		run := func(who string, ctx context.Context, after, took time.Duration, err error) {
			go func() {
				time.Sleep(after)
				v, got := limit.Get(ctx, l, func(context.Context) (string, error) { time.Sleep(took); return who, err })
				if got != nil && got != err && v != "" || (got == nil || got == err) && v != who {
					t.Errorf("%s: the value is %q", who, v)
				}
				note(who, got)
			}()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		run("first", t.Context(), 0, 5*sec, nil)
		run("second", t.Context(), sec, 5*sec, failure)
		run("refused", t.Context(), 2*sec, 0, nil)
		run("third", ctx, 6*sec, sec, nil)
		time.Sleep(7 * sec)
		cancel(cause)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{`refused@2s limit "db": refused: 1 are waiting already`, "first@5s <nil>", "third@7s given up", "second@10s down"}
		if !slices.Equal(got, want) || l.InUse() != 0 || l.Waiting() != 0 {
			t.Errorf("%d in use, %d wait:\n got %q\nwant %q", l.InUse(), l.Waiting(), got, want)
		}
	})
}

func TestPriorityOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Concurrency(1)
		var order []int
		for i := range 4 {
			go func() {
				_ = limit.Do(limit.WithPriority(t.Context(), 10*i), l, func(context.Context) error {
					order = append(order, i)
					time.Sleep(sec)
					return nil
				})
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []int{0, 3, 2, 1}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, not %v", order, want)
		}
	})
}

// However the function ends, what it held is given back.
func TestACallGivesBack(t *testing.T) {
	for name, l := range map[string]*limit.Limit{"slots": limit.Concurrency(1), "adaptive": limitOf(limit.Config{Adaptive: &limit.AdaptiveConfig{Max: 1}})} {
		for end, f := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_ = limit.Do(context.Background(), l, func(context.Context) error { f(); return nil })
			}()
			if value := <-done; (end == "panic") != (value == "x") || l.InUse() != 0 {
				t.Errorf("%s, %s: %v, %d in use", name, end, value, l.InUse())
			}
		}
		if limit.Do(context.Background(), l, nil) == nil {
			t.Errorf("%s: no function", name)
		}
		if _, err := limit.Get[int](context.Background(), l, nil); err == nil {
			t.Errorf("%s: no function", name)
		}
	}
	if err := limit.Do(context.Background(), new(limit.Limit), func(context.Context) error { return nil }); err == nil {
		t.Error("a limit that was not made lets a call through")
	}
}

// A call tells an adaptive limit what it came to: it goes down when the target has
// too much to do, and not when the caller went away or the request was wrong.
func TestAnAdaptiveLimitLearnsOfCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		gone bool
		err  error
		down bool
	}{
		{"too many", false, fmt.Errorf("get: %w", tooMany{}), true},
		{"a deadline", false, context.DeadlineExceeded, true},
		{"another error", false, errors.New("no such row"), false},
		{"a request that is wrong", false, retry.Permanent(tooMany{}), false},
		{"a caller who has gone", true, tooMany{}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := limitOf(limit.Config{Adaptive: &limit.AdaptiveConfig{Initial: 50}})
			for range 1000 {
				ctx, cancel := context.WithCancel(t.Context())
				if err := limit.Do(ctx, l, func(context.Context) error {
					if time.Sleep(sec); c.gone {
						cancel()
					}
					return c.err
				}); err != c.err {
					t.Fatal(err)
				}
				cancel()
			}
			if c.down != (l.Max() <= 5) || !c.down && l.Max() < 50 {
				t.Errorf("%s: it is %d", c.name, l.Max())
			}
		})
	}
}

func TestACallAllocatesNothing(t *testing.T) {
	for name, l := range map[string]*limit.Limit{"slots": limit.Concurrency(1), "rate": limit.Rate(1<<30, sec), "adaptive": limit.Adaptive(), "throttle": limit.Throttle()} {
		ctx := context.Background()
		if n := testing.AllocsPerRun(1000, func() {
			v := 0
			if err := limit.Do(ctx, l, func(context.Context) error { v++; return nil }); err != nil || v != 1 {
				t.Fatal(v, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
