// Command bench compares the packages backoff, circuit and retry with their
// peers and prints one table.
//
//	go run .            a quarter of a minute, on a machine that is idle
//	go run . -check     fails if a figure that we promise is not met
//	go test -bench .    the same cases, in the form of go test
//
// Each case is measured many times for a short while, all cases of a group one
// after the other in each round, so that what else the machine does falls on
// all of them alike. The table shows the median of the rounds, the least, and
// the ratio of the medians to ours. On a busy machine the ratios count.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"
)

// contender is one library in a group of cases.
type contender struct {
	name string
	run  func(b *testing.B)
}

// group is one thing that all its contenders do. The first is ours.
type group struct {
	name       string
	contenders []contender
	limit      float64 // what ours may take, in nanoseconds
	level      bool    // ours need not be ahead of the others
}

func groups() []group {
	return []group{successGroup(), failureGroup(), delayGroup(), closedGroup(), contendedGroup(), refusalGroup(), stackGroup()}
}

type result struct {
	nanos  []float64
	allocs int64
	bytes  int64
}

func (r *result) add(b testing.BenchmarkResult) {
	r.nanos = append(r.nanos, float64(b.T.Nanoseconds())/float64(b.N))
	r.allocs, r.bytes = b.AllocsPerOp(), b.AllocedBytesPerOp()
}

func (r *result) median() float64 {
	slices.Sort(r.nanos)
	return r.nanos[len(r.nanos)/2]
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 101, "how often each case is measured")
	each := flag.Duration("each", 2*time.Millisecond, "how long each measurement takes")
	check := flag.Bool("check", false, "fail if ours is slower than promised or than a peer, or allocates; for an idle machine")
	flag.Parse()
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "case\tlibrary\tmedian ns\tleast ns\tratio\tB/op\tallocs/op")
	var misses []string
	for _, g := range groups() {
		results := measure(g, *rounds)
		print(out, g, results)
		misses = append(misses, judge(g, results)...)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if *check && len(misses) > 0 {
		for _, miss := range misses {
			fmt.Fprintln(os.Stderr, "bench:", miss)
		}
		os.Exit(1)
	}
}

func measure(g group, rounds int) []result {
	results := make([]result, len(g.contenders))
	for range max(rounds, 1) {
		for i, c := range g.contenders {
			results[i].add(testing.Benchmark(c.run))
		}
	}
	return results
}

func print(out *tabwriter.Writer, g group, results []result) {
	ours := results[0].median()
	for i, c := range g.contenders {
		r := &results[i]
		fmt.Fprintf(out, "%s\t%s\t%.1f\t%.1f\t%.1f\t%d\t%d\n", g.name, c.name, r.median(), slices.Min(r.nanos), r.median()/ours, r.bytes, r.allocs)
	}
	fmt.Fprintln(out, "\t\t\t\t\t\t")
}

// judge returns what of our promises the results break.
func judge(g group, results []result) []string {
	var misses []string
	ours := results[0].median()
	if ours > g.limit {
		misses = append(misses, fmt.Sprintf("%s: %.1f ns, promised are %.0f", g.name, ours, g.limit))
	}
	if results[0].allocs > 0 {
		misses = append(misses, fmt.Sprintf("%s: %d allocations, promised are none", g.name, results[0].allocs))
	}
	for i, c := range g.contenders[1:] {
		if theirs := results[i+1].median(); theirs < ours && !g.level && !isOurs(c.name) {
			misses = append(misses, fmt.Sprintf("%s: %s is faster: %.1f ns against %.1f", g.name, c.name, theirs, ours))
		}
	}
	return misses
}
