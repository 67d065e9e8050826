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
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bide-dev/bide/bench/rows"
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
	file := flag.String("rows", "", "write the figures to this file as well")
	check := flag.Bool("check", false, "fail if a promise is not met")
	flag.Parse()
	if flag.Arg(0) == "floor" {
		if err := floorMain(); err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		return
	}
	list, err := measure()
	met := false
	if err == nil {
		met, err = report(list, *file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	if *check && !met {
		os.Exit(1)
	}
}

// report prints the figures, and then those that have a goal, which it writes to a file as
// well. It says whether all goals are met.
func report(list []row, file string) (met bool, err error) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmedian\tratio")
	var goals []rows.Row
	for _, r := range list {
		ratio := ""
		switch {
		case r.base > 0:
			got := cmp.Or(r.had, float64(r.got)/float64(r.base))
			ratio = fmt.Sprintf("%.2f", got)
			goals = append(goals, rows.Row{What: r.what + ", ratio", Got: got, Goal: r.ratio})
		case r.promise > 0:
			goals = append(goals, rows.Row{What: r.what + ", µs", Got: float64(r.got) / 1e3, Goal: float64(r.promise) / 1e3})
		}
		fmt.Fprintf(w, "%s\t%v\t%s\n", r.what, r.got, ratio)
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return false, err
	}
	if met, err = rows.Print(os.Stdout, goals); err != nil {
		return false, err
	}
	return met, rows.Save(file, "pipeline", goals)
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
		r := row{what: fmt.Sprintf("compiling a pipeline of %d nodes of all kinds", n), promise: 10 * time.Millisecond}
		if n == 60 {
			r.promise = 500 * time.Microsecond
		}
		if r.got, err = compile(n); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	for _, c := range []struct {
		nodes         int
		options, what string
		promise       time.Duration
	}{
		{60, "", "60 plain nodes", 110 * time.Microsecond},
		{1000, " with retry: 3, delay: 1s, backoff: exponential, timeout: 5s, fallback: 0", "1,000 nodes with five options each", 2400 * time.Microsecond},
	} {
		r, err := registry()
		if err != nil {
			return nil, err
		}
		src := written(c.nodes, c.options)
		took, err := median(5, func() error {
			_, err := pipeline.Compile("chain.cst", src, pipeline.Modules(r))
			return err
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{what: "compiling " + c.what, got: took, promise: c.promise})
	}
	for _, of := range []struct{ what, call string }{{"a builtin", "add(x, 1)"}, {"a Go module", "Noop(x)"}} {
		took, err := mapped(10_000, of.call)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{what: "map over 10,000 elements by " + of.what, got: took, promise: 770 * time.Microsecond})
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
	return pipeline.Compile("chain.cst", written(n, with), pipeline.Modules(r))
}

// written is its source.
func written(n int, with string) []byte {
	src := []byte("in v0: Int\n")
	for i := range n {
		src = fmt.Appendf(src, "v%d = Noop(v%d)%s\n", i+1, i, with)
	}
	return fmt.Appendf(src, "out v%d\n", n)
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

// mapped is a run of a map over so many elements by a call.
func mapped(n int, call string) (time.Duration, error) {
	r, err := registry()
	if err != nil {
		return 0, err
	}
	p, err := pipeline.Compile("map.cst", []byte("in xs: List<Int>\nys = map(xs, (x) => "+call+")\nout ys\n"), pipeline.Modules(r))
	if err != nil {
		return 0, err
	}
	xs := make([]any, n)
	for i := range xs {
		xs[i] = int64(i)
	}
	return runs(5, p, map[string]any{"xs": xs})
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
