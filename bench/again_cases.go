package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

//go:noinline
func fail(context.Context) (int, error) { return 0, errFlaky }

var errWrapped = fmt.Errorf("load the page: %w", fmt.Errorf("get: %w", errFlaky))

// wrapped fails each first time of two with a wrapped error.
type wrapped struct{ calls int }

//go:noinline
func (f *wrapped) next(context.Context) (int, error) {
	f.calls++
	if f.calls&1 == 1 {
		return 0, errWrapped
	}
	return 1, nil
}

// ends measures calls that all fail, or all succeed.
func ends(failing bool, call func() error) func(b *testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := call(); (err != nil) != failing {
				b.Fatal(err)
			}
		}
	}
}

func avastNow(options ...avast.Option) *avast.Retrier {
	return avast.New(append([]avast.Option{avast.Attempts(4), avast.Delay(0), avast.DelayType(avast.FixedDelay)}, options...)...)
}

func sethvargoNow() sethvargo.Backoff {
	return sethvargo.WithMaxRetries(3, sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false }))
}

// exhaustedGroup is four attempts without delay that all fail. Ours keeps a
// record of each for the error, with its time and class, where avast keeps the
// errors alone and the others the last one.
func exhaustedGroup() group {
	ctx := context.Background()
	r := retry.Must(retry.New(immediate()))
	f := failsafe.With(retrypolicy.NewBuilder[int]().WithMaxRetries(3).Build())
	a := avastNow()
	e := eapache.New(eapache.ConstantBackoff(3, 0), nil)
	again := sethvargo.RetryableError(errFlaky)
	return group{name: "four failures, no delay", limit: 900, allocs: true, contenders: []contender{
		{"bide", ends(true, func() error { _, err := retry.Get(ctx, r, fail); return err })},
		{"failsafe-go", ends(true, func() error { _, err := f.Get(func() (int, error) { return fail(ctx) }); return err })},
		{"cenkalti v7", ends(true, func() error {
			_, err := cenkalti.Retry(ctx, func() (int, error) { return fail(ctx) }, cenkalti.WithBackOff(&cenkalti.ConstantBackOff{}), cenkalti.WithMaxTries(4))
			return err
		})},
		{"avast v5", ends(true, func() error { return a.Do(func() error { _, err := fail(ctx); return err }) })},
		{"sethvargo", ends(true, func() error {
			return sethvargo.Do(ctx, sethvargoNow(), func(ctx context.Context) error { _, _ = fail(ctx); return again })
		})},
		{"eapache", ends(true, func() error {
			return e.RunCtx(ctx, func(ctx context.Context) error { _, err := fail(ctx); return err })
		})},
	}}
}

// wrappedGroup is one failure without delay, of an error that is to be found
// below two others, and an attempt that succeeds.
func wrappedGroup() group {
	ctx := context.Background()
	p := immediate()
	p.If = retry.Is(errFlaky)
	r := retry.Must(retry.New(p))
	f := failsafe.With(retrypolicy.NewBuilder[int]().WithMaxRetries(3).HandleErrors(errFlaky).Build())
	a := avastNow(avast.RetryIf(func(err error) bool { return errors.Is(err, errFlaky) }))
	e := eapache.New(eapache.ConstantBackoff(3, 0), eapache.WhitelistClassifier{errFlaky})
	w := new(wrapped)
	return group{name: "one failure, a wrapped error", limit: 100, contenders: []contender{
		{"bide", ends(false, func() error { _, err := retry.Get(ctx, r, w.next); return err })},
		{"failsafe-go", ends(false, func() error { _, err := f.Get(func() (int, error) { return w.next(ctx) }); return err })},
		{"avast v5", ends(false, func() error { return a.Do(func() error { _, err := w.next(ctx); return err }) })},
		{"eapache", ends(false, func() error {
			return e.RunCtx(ctx, func(ctx context.Context) error { _, err := w.next(ctx); return err })
		})},
	}}
}

// layersGroup is a call that succeeds through retry, breaker, slots and a rate.
func layersGroup() group {
	return group{name: "four layers", limit: 60, contenders: []contender{
		{"bide", func(b *testing.B) {
			g := guard.Must(guard.New(policy(), breaker(b), limit.Concurrency(8), limit.Rate(1<<30, time.Second)))
			ctx := context.Background()
			ends(false, func() error { _, err := guard.Get(ctx, g, succeed); return err })(b)
		}},
		{"bide, a closure", func(b *testing.B) {
			g := guard.Must(guard.New(policy(), breaker(b), limit.Concurrency(8), limit.Rate(1<<30, time.Second)))
			ctx := context.Background()
			ends(false, func() error {
				v := 0
				err := guard.Do(ctx, g, func(ctx context.Context) (err error) { v, err = succeed(ctx); return err })
				if v != 1 {
					return errors.New("it was not called")
				}
				return err
			})(b)
		}},
		{"bide, and a timeout", func(b *testing.B) {
			g := guard.Must(guard.New(policy(), breaker(b), limit.Concurrency(8), limit.Rate(1<<30, time.Second), guard.Timeout(time.Hour)))
			ctx := context.Background()
			ends(false, func() error { _, err := guard.Get(ctx, g, succeed); return err })(b)
		}},
		{"failsafe-go", func(b *testing.B) {
			retries := retrypolicy.NewBuilder[int]().WithMaxRetries(3).WithBackoff(100*time.Millisecond, 10*time.Second).Build()
			executor := failsafe.With(retries, failsafeBreaker(), bulkhead.New[int](8), ratelimiter.NewBursty[int](1<<30, time.Second))
			ctx := context.Background()
			ends(false, func() error { _, err := executor.Get(func() (int, error) { return succeed(ctx) }); return err })(b)
		}},
	}}
}
