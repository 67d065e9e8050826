package pipeline_test

import (
	"context"
	"testing"

	"github.com/bide-dev/bide/pipeline"
)

// TestAllocationsOfAMap: an element of a map takes memory for its result and for nothing else.
func TestAllocationsOfAMap(t *testing.T) {
	var reg pipeline.Registry
	if err := pipeline.Add(&reg, "Noop", func(_ context.Context, s string) (bool, error) { return s != "", nil }); err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.Compile("map.cst", []byte("in xs: List<String>\nys = map(xs, (x) => Noop(x))\nout ys\n"), pipeline.Modules(&reg))
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	xs := make([]any, n)
	for i := range xs {
		xs[i] = "x"
	}
	allocs := testing.AllocsPerRun(5, func() {
		if _, err := p.Run(t.Context(), map[string]any{"xs": xs}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > n/10 { // true and false take none
		t.Errorf("%.0f allocations for %d elements", allocs, n)
	}
}
