package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

var errBusy = errors.New("busy")

func ExampleNew() {
	_, err := guard.New(retry.Policy{Attempts: 3}, guard.Timeout(-time.Second))
	fmt.Println(err)
	// Output: guard: layer 2: the timeout is -1s; it must be positive
}

// For a variable of a package.
func ExampleMust() {
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}))
	fmt.Println(guard.Do(context.Background(), g, func(context.Context) error { return nil }))
	// Output: <nil>
}

func ExampleGet() {
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}, limit.Concurrency(8), guard.Timeout(time.Second)))
	calls := 0
	page, err := guard.Get(context.Background(), g, func(context.Context) (string, error) {
		if calls++; calls < 3 {
			return "", errBusy
		}
		return "hello", nil
	})
	fmt.Println(page, err, calls)
	// Output: hello <nil> 3
}

// Inside of the retry it bounds an attempt, outside of it the whole.
func ExampleTimeout() {
	g := guard.Must(guard.New(guard.Timeout(20*time.Millisecond), retry.Policy{Attempts: 1000}))
	err := guard.Do(context.Background(), g, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleObserve() {
	waits := 0
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}, guard.Observe(func(e retry.Event) {
		if e.Type == retry.AttemptFailed {
			waits++
		}
	})))
	_ = guard.Do(context.Background(), g, func(context.Context) error { return errBusy })
	fmt.Println(waits)
	// Output: 3
}

func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}}))
	g := guard.Must(guard.New(retry.Policy{Attempts: 2}, guard.Log(logger)))
	_ = guard.Do(context.Background(), g, func(context.Context) error { return errBusy })
	// Output: level=WARN msg="call failed" attempt=2 reason=attempts error="attempts used up after 2 attempts: busy"
}

// A fallback for one error alone.
func ExampleFallbackIf() {
	g := guard.Must(guard.New(guard.FallbackIf(func(err error) bool { return errors.Is(err, errBusy) })))
	price, err := guard.Or(context.Background(), g,
		func(context.Context) (int, error) { return 0, errBusy },
		func(context.Context, error) (int, error) { return 42, nil })
	fmt.Println(price, err)
	// Output: 42 <nil>
}

// stopped is a clock on which a wait is over at once.
type stopped struct{ now time.Time }

func (c *stopped) Now() time.Time { return c.now }
func (c *stopped) Wait(_ context.Context, d time.Duration, _ <-chan struct{}) error {
	c.now = c.now.Add(d)
	return nil
}

// A test waits a day in no time.
func ExampleClock() {
	c := &stopped{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	p := retry.Policy{Attempts: 2}
	p.Backoff.Initial, p.Backoff.Max = 24*time.Hour, 24*time.Hour
	g := guard.Must(guard.New(p, guard.Clock(c)))
	_ = guard.Do(context.Background(), g, func(context.Context) error { return errBusy })
	fmt.Println(c.now.Format(time.DateOnly))
	// Output: 2026-01-02
}
