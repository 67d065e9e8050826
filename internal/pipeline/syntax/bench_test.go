package syntax

import (
	"fmt"
	"strings"
	"testing"
)

// chainSource is a pipeline of n calls, one after another, with options.
func chainSource(n int) []byte {
	var b strings.Builder
	b.WriteString("in x0: String\n")
	for i := range n {
		fmt.Fprintf(&b, "x%d = Fetch(x%d, \"page %d\") with retry: 3, delay: 500ms, backoff: exponential\n", i+1, i, i)
	}
	fmt.Fprintf(&b, "out x%d\n", n)
	return []byte(b.String())
}

func BenchmarkParse1000(b *testing.B) {
	src := chainSource(1000)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, list := Parse("x.cst", src); len(list) > 0 {
			b.Fatal(list)
		}
	}
}

func BenchmarkFormat1000(b *testing.B) {
	f, _ := Parse("x.cst", chainSource(1000))
	b.ReportAllocs()
	for b.Loop() {
		Format(f)
	}
}
