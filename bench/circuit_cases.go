package main

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	failsafebreaker "github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
)

func breaker(b *testing.B) *circuit.Breaker {
	b.Helper()
	c, err := circuit.New(circuit.Config{Timeout: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func permit(b *testing.B, c *circuit.Breaker) {
	p, err := c.Acquire()
	if err != nil {
		b.Fatal(err)
	}
	p.Done(circuit.Success)
}

func sony() *gobreaker.CircuitBreaker[int] {
	return gobreaker.NewCircuitBreaker[int](gobreaker.Settings{Timeout: time.Hour})
}

func sonyCall() (int, error) { return 1, nil }

func failsafeBreaker() failsafebreaker.CircuitBreaker[int] {
	return failsafebreaker.NewBuilder[int]().WithFailureThreshold(5).WithDelay(time.Hour).Build()
}

// closedGroup is a call that succeeds through a closed breaker which counts.
func closedGroup() group {
	return group{name: "breaker, closed", limit: 35, contenders: []contender{
		{"bide", func(b *testing.B) {
			c := breaker(b)
			b.ReportAllocs()
			for b.Loop() {
				permit(b, c)
			}
		}},
		{"bide Do", func(b *testing.B) {
			c, ctx := breaker(b), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if err := circuit.Do(ctx, c, func(context.Context) error { return succeedBare() }); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"gobreaker", func(b *testing.B) {
			c := sony()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Execute(sonyCall); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"failsafe-go, standalone", func(b *testing.B) {
			c := failsafeBreaker()
			b.ReportAllocs()
			for b.Loop() {
				if !c.TryAcquirePermit() {
					b.Fatal("refused")
				}
				c.RecordSuccess()
			}
		}},
	}}
}

// contendedGroup is the same from two goroutines at once.
func contendedGroup() group {
	return group{name: "breaker, closed, contended", limit: 60, contenders: []contender{
		{"bide", func(b *testing.B) {
			c := breaker(b)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					permit(b, c)
				}
			})
		}},
		{"gobreaker", func(b *testing.B) {
			c := sony()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Execute(sonyCall); err != nil {
						b.Error(err)
					}
				}
			})
		}},
		{"failsafe-go, standalone", func(b *testing.B) {
			c := failsafeBreaker()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if !c.TryAcquirePermit() {
						b.Error("refused")
					}
					c.RecordSuccess()
				}
			})
		}},
	}}
}

// refusalGroup is a call that an open breaker refuses. That of eapache is left
// out: it reads no clock, having a goroutine asleep instead, and so cannot say
// when to come back.
func refusalGroup() group {
	return group{name: "breaker, open", limit: 35, contenders: []contender{
		{"bide", func(b *testing.B) {
			c := breaker(b)
			for range circuit.DefaultFailureThreshold {
				p, err := c.Acquire()
				if err != nil {
					b.Fatal(err)
				}
				p.Done(circuit.Failure)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Acquire(); err == nil {
					b.Fatal("not refused")
				}
			}
		}},
		{"gobreaker", func(b *testing.B) {
			c := sony()
			for c.State() != gobreaker.StateOpen {
				if _, err := c.Execute(func() (int, error) { return 0, errFlaky }); err == nil {
					b.Fatal("no error")
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Execute(sonyCall); err == nil {
					b.Fatal("not refused")
				}
			}
		}},
		{"failsafe-go, standalone", func(b *testing.B) {
			c := failsafeBreaker()
			c.Open()
			b.ReportAllocs()
			for b.Loop() {
				if c.TryAcquirePermit() {
					b.Fatal("not refused")
				}
			}
		}},
	}}
}

// stackGroup is a call that succeeds through a retry and a breaker, and ours
// through slots and a rate as well.
func stackGroup() group {
	return group{name: "retry and breaker", limit: 60, contenders: []contender{
		{"bide guard, with slots and a rate", func(b *testing.B) {
			g, err := guard.New(policy(), breaker(b), limit.Concurrency(8), limit.Rate(1<<30, time.Second))
			if err != nil {
				b.Fatal(err)
			}
			f, ctx := always(), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := guard.Get(ctx, g, f); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"bide retry, with a breaker", func(b *testing.B) {
			p := policy()
			p.Breaker = breaker(b)
			runOurs(p, always)(b)
		}},
		{"failsafe-go", func(b *testing.B) {
			retries := retrypolicy.NewBuilder[int]().WithMaxRetries(3).WithBackoff(100*time.Millisecond, 10*time.Second).Build()
			executor := failsafe.With(retries, failsafeBreaker())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := executor.Get(sonyCall); err != nil {
					b.Fatal(err)
				}
			}
		}},
	}}
}
