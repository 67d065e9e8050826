package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
)

// What limiters and hedges are for shows in time, and here in virtual time, so
// that the figures are the same on any machine under any load:
//
//	go test -v -run 'TestCapacity|TestTail' .

// begin lets a request begin and gives what ends it.
type begin func(ctx context.Context) (end func(took time.Duration), err error)

func slots(t *testing.T, l *limit.Limit) begin {
	t.Helper()
	s, err := limit.Join(l)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (func(time.Duration), error) {
		return func(took time.Duration) { s.Release(limit.Result{Took: took}) }, s.Acquire(ctx, limit.Request{})
	}
}

func failsafeSlots(l adaptivelimiter.AdaptiveLimiter[any]) begin {
	return func(ctx context.Context) (func(time.Duration), error) {
		p, err := l.AcquirePermit(ctx)
		return func(time.Duration) { p.Record() }, err
	}
}

// serve has 1,000 clients ask a server that works on 20 requests at once, 20 ms
// each, and shares its time among more.
func serve(t *testing.T, b begin) (perSecond float64, p99 time.Duration) {
	const clients, each, capacity = 1000, 20, 20
	var mu sync.Mutex
	var times []time.Duration
	running, began := 0, time.Now()
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() {
			for range each {
				end, err := b(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				start := time.Now()
				mu.Lock()
				running++
				load := max(running, capacity)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond * time.Duration(load) / capacity)
				took := time.Since(start)
				mu.Lock()
				running--
				times = append(times, took)
				mu.Unlock()
				end(took)
			}
		})
	}
	wait.Wait()
	slices.Sort(times)
	return clients * each / time.Since(began).Seconds(), times[len(times)*99/100]
}

// TestCapacity has adaptive limits find the capacity of the server: within 10 %
// of the throughput of the best fixed limit, and a p99 within 1.5 of its.
func TestCapacity(t *testing.T) {
	type figures struct {
		rate float64
		p99  time.Duration
	}
	run := func(name string, make func() begin) (f figures) {
		synctest.Test(t, func(t *testing.T) { f.rate, f.p99 = serve(t, make()) })
		t.Logf("%-28s %5.0f requests/s, p99 %v", name, f.rate, f.p99)
		return f
	}
	best := run("fixed at 20", func() begin { return slots(t, limit.Concurrency(20)) })
	ours := run("bide, adaptive", func() begin { return slots(t, limit.Adaptive()) })
	run("failsafe-go, adaptive", func() begin { return failsafeSlots(adaptivelimiter.NewWithDefaults[any]()) })
	run("none", func() begin {
		return func(context.Context) (func(time.Duration), error) { return func(time.Duration) {}, nil }
	})
	if ours.rate < 0.9*best.rate || ours.p99 > best.p99*3/2 {
		t.Errorf("ours is %+v, the best %+v", ours, best)
	}
}

// TestTail hedges at the 95th percentile of a lognormal latency: p99 at least
// halved for at most 6 % more calls.
func TestTail(t *testing.T) {
	const n = 20000
	run := func(name string, make func(t *testing.T) func(func(context.Context) (int, error)) error) (p99 time.Duration, more float64) {
		synctest.Test(t, func(t *testing.T) {
			random, calls := rand.New(rand.NewPCG(1, 2)), 0
			var mu sync.Mutex
			fetch := func(ctx context.Context) (int, error) {
				mu.Lock()
				calls++
				takes := time.Duration(math.Exp(1.5*random.NormFloat64()) * float64(20*time.Millisecond))
				mu.Unlock()
				select {
				case <-time.After(takes):
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
			do, times := make(t), []time.Duration(nil)
			for range n {
				began := time.Now()
				if err := do(fetch); err != nil {
					t.Fatal(err)
				}
				times = append(times, time.Since(began))
			}
			time.Sleep(time.Hour) // what was left behind ends
			slices.Sort(times)
			p99, more = times[n*99/100], float64(calls-n)/n
		})
		t.Logf("%-28s p99 %v, %.1f %% more calls", name, p99.Round(time.Millisecond), 100*more)
		return p99, more
	}
	plain, _ := run("not hedged", func(t *testing.T) func(func(context.Context) (int, error)) error {
		return func(f func(context.Context) (int, error)) error { _, err := f(t.Context()); return err }
	})
	ours, more := run("bide", func(t *testing.T) func(func(context.Context) (int, error)) error {
		h, err := hedge.New(hedge.Config{Ratio: 0.06})
		if err != nil {
			t.Fatal(err)
		}
		return func(f func(context.Context) (int, error)) error { _, err := hedge.Get(t.Context(), h, f); return err }
	})
	run("failsafe-go, quantile", func(t *testing.T) func(func(context.Context) (int, error)) error {
		executor := failsafe.With(hedgepolicy.NewWithDelayQuantile[int](0.95, 100, 20))
		return func(f func(context.Context) (int, error)) error {
			_, err := executor.GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return f(e.Context()) })
			return err
		}
	})
	if ours > plain/2 || more > 0.06 {
		t.Errorf("p99 %v of %v, %.1f %% more calls", ours, plain, 100*more)
	}
}
