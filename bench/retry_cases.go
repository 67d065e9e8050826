package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/retry"
)

// call is what is called.
type call = func(context.Context) (int, error)

var errFlaky = errors.New("flaky")

func isOurs(name string) bool { return strings.HasPrefix(name, "bide") }

//go:noinline
func succeed(context.Context) (int, error) { return 1, nil }

//go:noinline
func succeedBare() error { return nil }

// flaky fails each first time of two.
type flaky struct{ calls int }

//go:noinline
func (f *flaky) next(context.Context) (int, error) {
	f.calls++
	if f.calls&1 == 1 {
		return 0, errFlaky
	}
	return 1, nil
}

// policy is 4 attempts, 100ms to 10s, full jitter: what all peers are set to,
// as far as they can.
func policy() retry.Policy {
	return retry.Policy{
		Attempts: 4,
		Backoff:  backoff.Schedule{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: backoff.Full},
	}
}

func retrier(b *testing.B, p retry.Policy) *retry.Retrier {
	b.Helper()
	r, err := retry.New(p)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func runOurs(p retry.Policy, fn func() call) func(b *testing.B) {
	return func(b *testing.B) {
		r, f, ctx := retrier(b, p), fn(), context.Background()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := retry.Get(ctx, r, f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// captureOurs is the same through a closure that is made for each call and
// captures what it needs.
func captureOurs(p retry.Policy, fn func() call) func(b *testing.B) {
	return func(b *testing.B) {
		r, f, ctx := retrier(b, p), fn(), context.Background()
		b.ReportAllocs()
		for b.Loop() {
			var v int
			err := retry.Do(ctx, r, func(ctx context.Context) (err error) { v, err = f(ctx); return err })
			if err != nil || v != 1 {
				b.Fatal(v, err)
			}
		}
	}
}

func always() call { return succeed }
func everyOther() call {
	return new(flaky).next
}

func timed(p retry.Policy) retry.Policy {
	p.Timed = true
	return p
}

func immediate() retry.Policy { return retry.Policy{Attempts: 4} }

// successGroup is a call that succeeds at once.
func successGroup() group {
	return group{name: "call that succeeds", limit: 10, contenders: []contender{
		{"bide", runOurs(policy(), always)},
		{"bide, a closure", captureOurs(policy(), always)},
		{"bide, attempts timed", runOurs(timed(policy()), always)},
		{"failsafe-go", failsafeCase(100*time.Millisecond, 10*time.Second, always)},
		{"cenkalti v7", cenkaltiCase(func() cenkalti.BackOff { return cenkalti.NewExponentialBackOff() }, always)},
		{"avast v5", avastCase(100*time.Millisecond, func() func() error { return succeedBare })},
		{"sethvargo", sethvargoCase(func() sethvargo.Backoff {
			return sethvargo.WithMaxRetries(3, sethvargo.WithCappedDuration(10*time.Second, sethvargo.NewExponential(100*time.Millisecond)))
		}, always)},
		{"eapache", eapacheCase(eapache.ExponentialBackoff(3, 100*time.Millisecond), always)},
	}}
}

// failureGroup is a failed attempt, no delay, and an attempt that succeeds.
func failureGroup() group {
	return group{name: "one failure, no delay", limit: 40, contenders: []contender{
		{"bide", runOurs(immediate(), everyOther)},
		{"bide, a closure", captureOurs(immediate(), everyOther)},
		{"bide, attempts timed", runOurs(timed(immediate()), everyOther)},
		{"failsafe-go", failsafeCase(0, 0, everyOther)},
		{"cenkalti v7", cenkaltiCase(func() cenkalti.BackOff { return &cenkalti.ConstantBackOff{} }, everyOther)},
		{"avast v5", avastCase(0, func() func() error {
			f := new(flaky)
			return func() error { _, err := f.next(context.Background()); return err }
		})},
		{"sethvargo", sethvargoCase(func() sethvargo.Backoff {
			return sethvargo.WithMaxRetries(3, sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false }))
		}, func() call {
			f, retryable := new(flaky), sethvargo.RetryableError(errFlaky)
			return func(ctx context.Context) (int, error) {
				v, err := f.next(ctx)
				if err != nil {
					err = retryable
				}
				return v, err
			}
		})},
		{"eapache", eapacheCase(eapache.ConstantBackoff(3, 0), everyOther)},
	}}
}

func failsafeCase(initial, most time.Duration, fn func() call) func(b *testing.B) {
	return func(b *testing.B) {
		builder := retrypolicy.NewBuilder[int]().WithMaxRetries(3)
		if initial > 0 {
			builder = builder.WithBackoff(initial, most)
		}
		executor := failsafe.With(builder.Build())
		f, ctx := fn(), context.Background()
		call := func() (int, error) { return f(ctx) }
		b.ReportAllocs()
		for b.Loop() {
			if _, err := executor.Get(call); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// cenkaltiCase makes a new back-off for each call, as its documentation asks
// for: it is not to be shared.
func cenkaltiCase(backoff func() cenkalti.BackOff, fn func() call) func(b *testing.B) {
	return func(b *testing.B) {
		f, ctx := fn(), context.Background()
		call := func() (int, error) { return f(ctx) }
		b.ReportAllocs()
		for b.Loop() {
			if _, err := cenkalti.Retry(ctx, call, cenkalti.WithBackOff(backoff()), cenkalti.WithMaxTries(4)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func avastCase(delay time.Duration, fn func() func() error) func(b *testing.B) {
	return func(b *testing.B) {
		r := avast.New(avast.Attempts(4), avast.Delay(delay), avast.MaxDelay(10*time.Second),
			avast.MaxJitter(1), avast.DelayType(avast.BackOffDelay))
		if delay == 0 {
			r = avast.New(avast.Attempts(4), avast.Delay(0), avast.DelayType(avast.FixedDelay))
		}
		f := fn()
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Do(f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// sethvargoCase makes a new back-off for each call: it serves one call only.
func sethvargoCase(backoff func() sethvargo.Backoff, fn func() call) func(b *testing.B) {
	return func(b *testing.B) {
		f, ctx := fn(), context.Background()
		call := sethvargo.RetryFuncValue[int](f)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := sethvargo.DoValue(ctx, backoff(), call); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func eapacheCase(delays []time.Duration, fn func() call) func(b *testing.B) {
	return func(b *testing.B) {
		r := eapache.New(delays, nil)
		f, ctx := fn(), context.Background()
		call := func(ctx context.Context) error { _, err := f(ctx); return err }
		b.ReportAllocs()
		for b.Loop() {
			if err := r.RunCtx(ctx, call); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// delayGroup is the delay after the nth failure, n going from 1 to 16. The peers
// multiply the delay before by the factor; ours has no delay before, so that
// any number of operations can share it and a resumed one continues with it. It
// need not be ahead, but close.
func delayGroup() group {
	s := policy().Backoff
	return group{name: "nth delay, jittered", limit: 12, behind: 1.25, contenders: []contender{
		{"bide, full jitter", func(b *testing.B) {
			n, sum := 0, time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				n = n&15 + 1
				sum += s.Delay(n, 0, nil)
			}
			keep(b, sum)
		}},
		{"cenkalti v7, ±50%", func(b *testing.B) {
			e := cenkalti.NewExponentialBackOff()
			sum := time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				sum += e.NextBackOff()
			}
			keep(b, sum)
		}},
		{"sethvargo, full jitter", func(b *testing.B) {
			e := sethvargo.WithFullJitter(sethvargo.WithCappedDuration(10*time.Second, sethvargo.NewExponential(100*time.Millisecond)))
			sum := time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				d, _ := e.Next()
				sum += d
			}
			keep(b, sum)
		}},
	}}
}

// keep makes use of what was computed.
func keep(b *testing.B, sum time.Duration) {
	if sum < 0 && b.N < 1000 {
		b.Fatal("the sum of a few delays is negative")
	}
}
