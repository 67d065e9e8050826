// Command bench compares the packages of the library with their peers and prints
// one table.
//
//	go run .            a quarter of a minute, on a machine that is idle
//	go run . -check     fails if a peer is faster, or ours allocates
//	go test -bench .    the same cases, in the form of go test
//
// Each case is measured many times for a short while, all cases of a group one
// after the other in each round, so that what else the machine does falls on
// all of them alike. The table shows the median of the rounds, the least, and
// the median of the ratios to ours, round by round. The ratios are what is
// checked: nanoseconds are those of one machine at one time.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/bide-dev/bide/bench/rows"
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
	limit      float64 // what ours takes on a quiet machine, in nanoseconds
	behind     float64 // how many times as long as the fastest peer it may take; 0 means 1
	allocs     bool    // ours may allocate
}

func groups() []group {
	return []group{successGroup(), failureGroup(), delayGroup(), closedGroup(), contendedGroup(), refusalGroup(), slotGroup(), tokenGroup(), hedgeGroup(), stackGroup(), exhaustedGroup(), wrappedGroup(), layersGroup()}
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

func (r *result) median() float64 { return median(slices.Clone(r.nanos)) }

func (r *result) least() float64 { return slices.Min(r.nanos) }

// over is how many times as long as o it takes: the median of the rounds.
func (r *result) over(o *result) float64 {
	ratios := make([]float64, len(r.nanos))
	for i := range ratios {
		ratios[i] = r.nanos[i] / o.nanos[i]
	}
	return median(ratios)
}

// median sorts its argument.
func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 101, "how often each case is measured")
	each := flag.Duration("each", 2*time.Millisecond, "how long each measurement takes")
	file := flag.String("rows", "", "write what has a goal to this file")
	check := flag.Bool("check", false, "fail if ours is slower than a peer, or allocates")
	flag.Parse()
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "case\tlibrary\tmedian ns\tleast ns\tratio\tB/op\tallocs/op")
	var misses, figures []string
	var goals []rows.Row
	for _, g := range groups() {
		results := measure(g, *rounds)
		print(out, g, results)
		misses = append(misses, judge(g, results)...)
		goals = append(goals, goalsOf(g, results)...)
		figures = append(figures, fmt.Sprintf("%s: %.1f ns at least, %.0f on a quiet machine", g.name, results[0].least(), g.limit))
	}
	if err := errors.Join(out.Flush(), rows.Save(*file, "library", goals)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	for _, figure := range figures {
		fmt.Println(figure)
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
	for i, c := range g.contenders {
		r := &results[i]
		fmt.Fprintf(out, "%s\t%s\t%.1f\t%.1f\t%.1f\t%d\t%d\n", g.name, c.name, r.median(), r.least(), r.over(&results[0]), r.bytes, r.allocs)
	}
	fmt.Fprintln(out, "\t\t\t\t\t\t")
}

// goalsOf gives what judge looks at as figures: ours beside the fastest peer, and its
// allocations.
func goalsOf(g group, results []result) (list []rows.Row) {
	beside := 0.0
	for i, c := range g.contenders[1:] {
		if !isOurs(c.name) {
			beside = max(beside, results[0].over(&results[i+1]))
		}
	}
	if beside > 0 {
		list = append(list, rows.Row{What: g.name + ", ours beside the fastest peer", Got: beside, Goal: cmp.Or(g.behind, 1)})
	}
	if !g.allocs {
		list = append(list, rows.Row{What: g.name + ", allocations", Got: float64(results[0].allocs)})
	}
	return list
}

// judge returns what of our promises the results break.
func judge(g group, results []result) []string {
	var misses []string
	ours, most := &results[0], g.behind
	if most == 0 {
		most = 1
	}
	if ours.allocs > 0 && !g.allocs {
		misses = append(misses, fmt.Sprintf("%s: %d allocations, promised are none", g.name, ours.allocs))
	}
	for i, c := range g.contenders[1:] {
		if ratio := ours.over(&results[i+1]); ratio > most && !isOurs(c.name) {
			misses = append(misses, fmt.Sprintf("%s: ours takes %.2f times as long as %s", g.name, ratio, c.name))
		}
	}
	return misses
}
