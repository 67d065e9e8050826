package flow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/flow"
)

// chain is a pipeline of n calls, one after another.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("in x: Int\nv0 = Double(x)\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "v%d = Double(v%d)\n", i, i-1)
	}
	fmt.Fprintf(&b, "out v%d\n", n-1)
	return b.String()
}

func BenchmarkRun(b *testing.B) {
	wide := "in x: Int\n"
	for i := range 50 {
		wide += fmt.Sprintf("v%d = Double(x)\nout v%d\n", i, i)
	}
	for _, c := range []struct{ name, src string }{
		{"one", chain(1)}, {"chain100", chain(100)}, {"wide50", wide},
		{"options", "in x: Int\ny = Double(x) with retry: 3, delay: 1s, concurrency: 5\nout y"},
		{"map1000", "in x: Int\ny = map(Range(0, 999), (i) => Double(i + x))\nout y"},
		{"pure1000", "in x: Int\ny = map(Range(0, 999), (i) => i * 2 + x)\nout y"},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := compile(b, environment(b, noop()), strings.ReplaceAll(c.src, "Double", "Noop"))
			f, err := flow.New(p, flow.NewShared(flow.SharedOptions{}))
			if err != nil {
				b.Fatal(err)
			}
			values, given, err := p.Decode(map[string]any{"x": int64(0)})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Run(b.Context(), values, given, flow.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
