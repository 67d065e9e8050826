package guard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// costs reports the allocations of a call, by Get and by Do, whose closure captures what
// changes, under a context that can end.
func costs(ctx context.Context, get func(context.Context, int) (int, error), do func(context.Context, *int) error) float64 {
	sum := 0
	return testing.AllocsPerRun(200, func() {
		v, err := get(ctx, sum)
		if err != nil {
			panic(err)
		}
		sum += v
		if err := do(ctx, &sum); err != nil {
			panic(err)
		}
	})
}

// Every call that succeeds at once allocates nothing, in every package and with every
// set of layers that needs no context and no goroutine of its own.
func TestNoCallAllocates(t *testing.T) {
	if raced {
		t.Skip("the race detector has pools lose things")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	report := func(name string, n float64) {
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}

	for name, p := range map[string]retry.Policy{
		"retry": {}, "retry, delays": {Backoff: backoff.Default(), If: retry.Transient}, "retry, quota": {Quota: must(retry.NewQuota(retry.QuotaConfig{}))},
		"retry, breaker": {Breaker: circuit.Must(circuit.New(circuit.Config{}))}, "retry, budget and rules": {Budget: time.Hour, Rules: []retry.Rule{{On: retry.Network}}},
		"retry, observer": {Observer: func(retry.Event) {}}, "retry, timed": {Timed: true},
	} {
		r := retry.Must(retry.New(p))
		report(name, costs(ctx,
			func(ctx context.Context, n int) (int, error) {
				return retry.Get(ctx, r, func(context.Context) (int, error) { n++; return n, nil })
			},
			func(ctx context.Context, n *int) error {
				return retry.Do(ctx, r, func(context.Context) error { *n++; return nil })
			}))
	}
	for name, c := range map[string]circuit.Config{
		"circuit": {}, "circuit, rate": {FailureRate: 0.5}, "circuit, rate in time": {FailureRate: 0.5, WindowTime: time.Hour},
		"circuit, slow calls": {SlowCall: time.Hour, SlowRate: 0.5}, "circuit, own failures": {FailureIf: func(error) bool { return true }},
	} {
		b := circuit.Must(circuit.New(c))
		report(name, costs(ctx,
			func(ctx context.Context, n int) (int, error) {
				return circuit.Get(ctx, b, func(context.Context) (int, error) { n++; return n, nil })
			},
			func(ctx context.Context, n *int) error {
				return circuit.Do(ctx, b, func(context.Context) error { *n++; return nil })
			}))
	}
	for name, l := range map[string]*limit.Limit{
		"concurrency": limit.Concurrency(8), "rate": limit.Rate(1<<30, time.Second), "adaptive": limit.Adaptive(), "throttle": limit.Throttle(),
		"concurrency, queue": limit.Must(limit.New(limit.Config{Concurrency: 8, Queue: 1, MaxWait: time.Second, ShedAfter: time.Second})),
	} {
		report("limit, "+name, costs(ctx,
			func(ctx context.Context, n int) (int, error) {
				return limit.Get(ctx, l, func(context.Context) (int, error) { n++; return n, nil })
			},
			func(ctx context.Context, n *int) error {
				return limit.Do(ctx, l, func(context.Context) error { *n++; return nil })
			}))
	}

	// Every set of layers, in the order of a client.
	all := []struct {
		name string
		make func() guard.Layer
	}{
		{"retry", func() guard.Layer { return retry.Policy{Attempts: 4, Backoff: backoff.Default(), If: retry.Transient} }},
		{"breaker", func() guard.Layer { return circuit.Must(circuit.New(circuit.Config{})) }},
		{"concurrency", func() guard.Layer { return limit.Concurrency(8) }},
		{"rate", func() guard.Layer { return limit.Rate(1<<30, time.Second) }},
		{"adaptive", func() guard.Layer { return limit.Adaptive() }},
		{"throttle", func() guard.Layer { return limit.Throttle() }},
		{"fallback", func() guard.Layer { return guard.FallbackIf(func(error) bool { return true }) }},
	}
	for set := range 1 << len(all) {
		var names []string
		var layers []guard.Layer
		for i, l := range all {
			if set&(1<<i) != 0 {
				names, layers = append(names, l.name), append(layers, l.make())
			}
		}
		g := guard.Must(guard.New(layers...))
		report("guard: "+strings.Join(names, ", "), costs(ctx,
			func(ctx context.Context, n int) (int, error) {
				return guard.Or(ctx, g, func(context.Context) (int, error) { n++; return n, nil }, func(context.Context, error) (int, error) { return n, nil })
			},
			func(ctx context.Context, n *int) error {
				return guard.Do(ctx, g, func(context.Context) error { *n++; return nil })
			}))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
