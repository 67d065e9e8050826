package limit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/limit"
)

// serve runs 1,000 clients on a server that works on so many requests at once,
// 20 ms each, and shares its time among more. It returns how many requests a
// second were done and the 99th percentile of the time in the server.
func serve(l *limit.Limit, capacity int) (perSecond float64, p99 time.Duration) {
	s, err := limit.Join(l)
	if err != nil {
		panic(err)
	}
	const clients, each = 1000, 20
	var mu sync.Mutex
	var times []time.Duration
	running := 0
	began := time.Now()
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() {
			for range each {
				if err := s.Acquire(context.Background(), limit.Request{}); err != nil {
					panic(err)
				}
				start := time.Now()
				mu.Lock()
				running++
				load := max(running, capacity)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond * time.Duration(load) / time.Duration(capacity))
				took := time.Since(start)
				mu.Lock()
				running--
				times = append(times, took)
				mu.Unlock()
				s.Release(limit.Result{Took: took})
			}
		})
	}
	wait.Wait()
	slices.Sort(times)
	return clients * each / time.Since(began).Seconds(), times[len(times)*99/100]
}

func TestAdaptiveFindsTheCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		best, fastest := serve(limit.Concurrency(20), 20)
		got, p99 := serve(limit.Adaptive(), 20)
		t.Logf("fixed at 20: %.0f/s, p99 %v; adaptive: %.0f/s, p99 %v", best, fastest, got, p99)
		if got < 0.9*best || p99 > fastest*3/2 {
			t.Errorf("fixed at 20: %.0f/s, p99 %v; adaptive: %.0f/s, p99 %v", best, fastest, got, p99)
		}
	})
}

func TestAdaptiveGoesDownWhenRefused(t *testing.T) {
	l := limitOf(limit.Config{Adaptive: &limit.AdaptiveConfig{Initial: 50}})
	s := join(t, l)
	for range 1000 {
		acquire(t, s)
		s.Release(limit.Result{Took: time.Millisecond, Err: tooMany{}})
	}
	if l.Max() > 5 {
		t.Errorf("after 1000 refusals it is %d", l.Max())
	}
	for range 1000 {
		acquire(t, s)
		s.Release(limit.Result{Ignore: true})
	}
	before := l.Max()
	for range 1000 {
		acquire(t, s)
		s.Release(limit.Result{Took: time.Millisecond})
	}
	if l.Max() > before+5 { // one at a time does not show that more are good
		t.Errorf("unused it went from %d to %d", before, l.Max())
	}
}
