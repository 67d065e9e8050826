package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// opened gives the changes of state of a run's breakers.
func opened(r *ran) (changes []string) {
	for _, e := range r.of(event.BreakerChanged) {
		if e.From != e.To {
			changes = append(changes, e.From+">"+e.To)
		}
	}
	return changes
}

// TestSlowCallsOpenBreakers: slow_call and slow_rate open the breaker of a step and that of
// a map, although every attempt succeeds.
func TestSlowCallsOpenBreakers(t *testing.T) {
	t.Parallel()
	const breaker = "{slow_call: 2s, slow_rate: 0.5, window: 4, min_calls: 3, timeout: 30s, half_open_requests: 1}"
	step := func(breaker string) string {
		return `
commands:
  - foreach: [1, 2, 3, 4, 5, 6]
    continue_on_error: true
    do:
      - http: "http://example.test/x"
        retry: {attempts: 1, circuit_breaker: ` + breaker + `}
`
	}
	t.Run("step", func(t *testing.T) {
		v := &virtual{took: 3 * time.Second}
		inTime(t, v, func(b *bench) {
			if r := b.run(step(breaker)); v.count["x"] != 3 || !slices.Equal(opened(r), []string{"closed>open"}) {
				t.Errorf("%d requests, want 3; changes %v", v.count["x"], opened(r))
			}
		})
	})
	t.Run("step, quick", func(t *testing.T) {
		v := &virtual{took: time.Second}
		inTime(t, v, func(b *bench) {
			if r := b.run(step(breaker)); v.count["x"] != 6 || opened(r) != nil {
				t.Errorf("%d requests, want 6; changes %v", v.count["x"], opened(r))
			}
		})
	})
	t.Run("map", func(t *testing.T) {
		v := &virtual{took: 3 * time.Second}
		inTime(t, v, func(b *bench) {
			r := b.run(list(5, "error_policy:\n  circuit_breaker: "+breaker, "  max_parallel: 1"))
			r.status(event.Succeeded)
			// The third success opens it at 9 s, and a slow probe opens it again. The last
			// request comes from the step after the map.
			wantTimes(t, "starts", v.times(""), []float64{0, 3, 6, 39, 72, 75})
		})
	})
}

// TestRateWindowsGoOn: after a resume, a breaker still has what it counted towards a rate,
// in a step and in a map.
func TestRateWindowsGoOn(t *testing.T) {
	t.Parallel()
	t.Run("step", func(t *testing.T) {
		v := &virtual{took: time.Second, fails: broken("x")}
		inTime(t, v, func(b *bench) {
			b.interrupt(2500 * time.Millisecond) // three have failed when the run ends
			b.run(`
commands:
  - foreach: [1, 2, 3, 4, 5, 6]
    continue_on_error: true
    do:
      - http: "http://example.test/x"
        retry: {attempts: 1, circuit_breaker: {failure_rate: 0.5, window: 10, min_calls: 4, timeout: 1h}}
`).status(event.Interrupted)
			b.resume(context.Background())
			if v.count["x"] != 4 {
				t.Errorf("%d requests, want 4: the fourth failure is the fourth call of the window", v.count["x"])
			}
		})
	})
	t.Run("map", func(t *testing.T) {
		v := &virtual{took: time.Second, fails: func(_ string, _ int, at time.Duration) bool { return at < 20*time.Second }}
		inTime(t, v, func(b *bench) {
			b.interrupt(2500 * time.Millisecond)
			b.run(list(6, "error_policy:\n  circuit_breaker: {failure_rate: 0.5, window: 10, min_calls: 4, timeout: 30s, success_threshold: 1}", "  max_parallel: 1")).status(event.Interrupted)
			b.resume(context.Background())
			wantTimes(t, "starts", v.times(""), []float64{0, 1, 2, 3, 34, 35, 36})
		})
	})
}
