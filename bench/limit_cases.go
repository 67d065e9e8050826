package main

import (
	"context"
	"testing"
	"time"

	"github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"golang.org/x/time/rate"

	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
)

func joined(b *testing.B, limits ...*limit.Limit) limit.Set {
	b.Helper()
	s, err := limit.Join(limits...)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// repeat is a case that does one thing again and again; false ends it.
func repeat(f func() bool) func(b *testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !f() {
				b.Fatal("refused")
			}
		}
	}
}

// slotGroup takes a free slot, and gives it back.
func slotGroup() group {
	return group{name: "slot, free", limit: 25, contenders: []contender{
		{"bide", func(b *testing.B) {
			s := joined(b, limit.Concurrency(8))
			repeat(func() bool {
				ok := s.Try()
				s.Release(limit.Result{})
				return ok
			})(b)
		}},
		{"failsafe-go bulkhead", func(b *testing.B) {
			k := bulkhead.New[any](8)
			repeat(func() bool {
				ok := k.TryAcquirePermit()
				k.ReleasePermit()
				return ok
			})(b)
		}},
		{"eapache semaphore", func(b *testing.B) {
			k := semaphore.New(8, time.Second)
			repeat(func() bool {
				ok := k.Acquire() == nil
				k.Release()
				return ok
			})(b)
		}},
	}}
}

// tokenGroup takes a token of a rate that has some.
func tokenGroup() group {
	return group{name: "token, there", limit: 45, contenders: []contender{
		{"bide", func(b *testing.B) { repeat(joined(b, limit.Rate(1<<30, time.Second)).Try)(b) }},
		{"failsafe-go, bursty", func(b *testing.B) { repeat(ratelimiter.NewBursty[any](1<<30, time.Second).TryAcquirePermit)(b) }},
		{"x/time/rate", func(b *testing.B) { repeat(rate.NewLimiter(1<<30, 1<<30).Allow)(b) }},
	}}
}

// hedgeGroup is a call that succeeds before it is hedged.
func hedgeGroup() group {
	return group{name: "hedge, not needed", limit: 900, allocs: true, contenders: []contender{
		{"bide", func(b *testing.B) {
			h, err := hedge.New(hedge.Config{Delay: time.Second})
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			repeat(func() bool { _, err := hedge.Get(ctx, h, succeed); return err == nil })(b)
		}},
		{"failsafe-go", func(b *testing.B) {
			executor := failsafe.With(hedgepolicy.NewWithDelay[int](time.Second))
			repeat(func() bool { _, err := executor.Get(sonyCall); return err == nil })(b)
		}},
	}}
}
