package guard_test

import (
	"context"
	"testing"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

//go:noinline
func one(context.Context) (int, error) { return 1, nil }

// BenchmarkStack is a call that succeeds through layer upon layer. bench/ has it
// beside peers.
func BenchmarkStack(b *testing.B) {
	policy := retry.Policy{Attempts: 4, Backoff: backoff.Default()}
	for _, c := range []struct {
		name   string
		layers []guard.Layer
	}{
		{"retry", []guard.Layer{policy}},
		{"breaker", []guard.Layer{policy, newBreaker(b, circuit.Config{})}},
		{"slots", []guard.Layer{policy, limit.Concurrency(8)}},
		{"rate", []guard.Layer{policy, limit.Rate(1<<30, sec)}},
		{"all", []guard.Layer{policy, newBreaker(b, circuit.Config{}), limit.Concurrency(8), limit.Rate(1<<30, sec)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			g, ctx := newGuard(b, c.layers...), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := guard.Get(ctx, g, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
