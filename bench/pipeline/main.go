// Command pipeline measures what running and compiling pipelines takes, and
// prints one table.
//
//	go run ./pipeline           some seconds
//	go run ./pipeline -check    fails if a figure that we promise is not met
//
// The modules do nothing, so all that is measured is ours. What options and
// fans cost is measured as a ratio: to the chain without options, and to bare
// goroutines, in the same round.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bide-dev/bide/pipeline"
)

// row is one figure.
type row struct {
	what    string
	got     time.Duration
	promise time.Duration // 0: none
	base    time.Duration // what got is compared with; 0: nothing
	ratio   float64       // got/base that is promised
	had     float64       // got/base as the median of rounds; 0: that of the medians
}

func main() {
	check := flag.Bool("check", false, "fail if a promise is not met")
	flag.Parse()
	if flag.Arg(0) == "floor" {
		if err := floorMain(); err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		return
	}
	rows, err := measure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmedian\tpromised\tratio")
	missed := 0
	for _, r := range rows {
		promise := ""
		if r.promise > 0 {
			promise = "≤ " + r.promise.String()
			if r.got > r.promise {
				promise += " NOT MET"
				missed++
			}
		}
		ratio := ""
		if r.base > 0 {
			got := float64(r.got) / float64(r.base)
			if r.had > 0 {
				got = r.had
			}
			ratio, promise = fmt.Sprintf("%.2f", got), fmt.Sprintf("ratio ≤ %.3g", r.ratio)
			if got > r.ratio {
				promise += " NOT MET"
				missed++
			}
		}
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\n", r.what, r.got, promise, ratio)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	if *check && missed > 0 {
		os.Exit(1)
	}
}

func measure() ([]row, error) {
	var rows []row
	for _, n := range []int{1, 3, 10, 50, 100} {
		got, err := chain(n)
		if err != nil {
			return nil, err
		}
		r := row{what: fmt.Sprintf("a run of a chain of %d no-op modules", n), got: got}
		if n == 100 {
			r.promise = 300 * time.Microsecond
		}
		rows = append(rows, r)
	}
	each, err := sustained(10_000)
	if err != nil {
		return nil, err
	}
	rows = append(rows, row{what: "each of 10,000 runs of one module", got: each, promise: 5 * time.Microsecond})
	more, err := ratios()
	if err != nil {
		return nil, err
	}
	rows = append(rows, more...)
	for _, n := range []int{60, 1000} {
		r := row{what: fmt.Sprintf("compiling a pipeline of %d nodes", n), got: 0, promise: 10 * time.Millisecond}
		if n == 60 {
			r.promise = 500 * time.Microsecond
		}
		if r.got, err = compile(n); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func registry() (*pipeline.Registry, error) {
	r := &pipeline.Registry{}
	return r, pipeline.Add(r, "Noop", func(_ context.Context, x int64) (int64, error) { return x, nil })
}

func prepare(n int) (*pipeline.Pipeline, error) { return prepareWith(n, "") }

// prepareWith is a chain of which every call has a with clause.
func prepareWith(n int, with string) (*pipeline.Pipeline, error) {
	r, err := registry()
	if err != nil {
		return nil, err
	}
	var src strings.Builder
	src.WriteString("in v0: Int\n")
	for i := range n {
		fmt.Fprintf(&src, "v%d = Noop(v%d)%s\n", i+1, i, with)
	}
	fmt.Fprintf(&src, "out v%d\n", n)
	return pipeline.Compile("chain.cst", []byte(src.String()), pipeline.Modules(r))
}

const rounds = 25

// median is the median of the rounds' mean times of one of n executions.
func median(n int, f func() error) (time.Duration, error) {
	times := make([]time.Duration, rounds)
	for i := range times {
		began := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		times[i] = time.Since(began) / time.Duration(n)
	}
	slices.Sort(times)
	return times[rounds/2], nil
}

var inputs = map[string]any{"v0": int64(7)}

func chain(n int) (time.Duration, error) {
	p, err := prepare(n)
	if err != nil {
		return 0, err
	}
	return median(200, func() error {
		_, err := p.Run(context.Background(), inputs)
		return err
	})
}

// sustained is the mean of so many runs on end.
func sustained(n int) (time.Duration, error) {
	p, err := prepare(1)
	if err != nil {
		return 0, err
	}
	return median(n, func() error {
		_, err := p.Run(context.Background(), inputs)
		return err
	})
}

// compile is the time from a source to a pipeline that is ready to run, with
// what real sources have in them.
func compile(n int) (time.Duration, error) {
	r, err := registry()
	if err != nil {
		return 0, err
	}
	var src strings.Builder
	src.WriteString("in v0: Int\nin text: String\nin limit: Int\n")
	for i := 1; i <= n; i++ {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&src, "v%d = if (limit > %d) v%d else Noop(v%d) with retry: 3, delay: 1s, backoff: exponential, timeout: 5s\n", i, i, i-1, i-1)
		case 1:
			fmt.Fprintf(&src, "v%d = Noop(v%d) with retry: 2, fallback: 0\n", i, i-1)
		case 2:
			fmt.Fprintf(&src, "v%d = string-length(\"${v%d} and ${limit + %d}\")\n", i, i-1, i)
		default:
			fmt.Fprintf(&src, "v%d = Noop(v%d)\n", i, i-1)
		}
	}
	fmt.Fprintf(&src, "out v%d\n", n)
	return median(5, func() error {
		_, err := pipeline.Compile("compiled.cst", []byte(src.String()), pipeline.Modules(r))
		return err
	})
}
