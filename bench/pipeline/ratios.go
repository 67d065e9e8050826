package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/pipeline"
)

// ratios are the figures that are compared with others of the same run.
func ratios() ([]row, error) {
	bare, err := chain(100)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, c := range []struct {
		with  string
		ratio float64
	}{{" with retry: 3", 1.5}, {" with retry: 3, delay: 1s, timeout: 5s", 3}} {
		p, err := prepareWith(100, c.with)
		if err != nil {
			return nil, err
		}
		got, err := runs(200, p, inputs)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{what: "a chain of 100" + c.with + ", to the bare one", got: got, base: bare, ratio: c.ratio})
	}
	fan, err := fanned()
	if err != nil {
		return nil, err
	}
	each, err := lambda(10_000)
	if err != nil {
		return nil, err
	}
	shell, err := shells()
	if err != nil {
		return nil, err
	}
	return append(rows, fan, each, shell), nil
}

func runs(n int, p *pipeline.Pipeline, in map[string]any) (time.Duration, error) {
	return median(n, func() error {
		_, err := p.Run(context.Background(), in)
		return err
	})
}

// fanned is 1,000 calls at once, beside as many goroutines that call a function.
func fanned() (row, error) {
	r, err := registry()
	if err != nil {
		return row{}, err
	}
	var src strings.Builder
	src.WriteString("in v0: Int\n")
	for i := range 1000 {
		fmt.Fprintf(&src, "v%d = Noop(v0)\n", i+1)
	}
	src.WriteString("out v1\n")
	p, err := pipeline.Compile("fan.cst", []byte(src.String()), pipeline.Modules(r))
	if err != nil {
		return row{}, err
	}
	got, err := runs(20, p, inputs)
	if err != nil {
		return row{}, err
	}
	bare, err := median(20, func() error {
		var wait sync.WaitGroup
		for range 1000 {
			wait.Go(func() {})
		}
		wait.Wait()
		return nil
	})
	return row{what: "a fan of 1,000 calls, to bare goroutines", got: got, base: bare, ratio: 1.5}, err
}

// lambda is an element of a map over a list by a function without calls: a run
// with the map less one without it, which reads the same list.
func lambda(n int) (row, error) {
	xs := make([]any, n)
	for i := range xs {
		xs[i] = int64(i)
	}
	var took [2]time.Duration
	for i, list := range []string{"xs", "map(xs, (x) => x * 2 + y)"} {
		src := "in xs: List<Int>\nin y: Int\nout n = list-length(" + list + ") + y\n"
		p, err := pipeline.Compile("lambda.cst", []byte(src))
		if err != nil {
			return row{}, err
		}
		if took[i], err = runs(20, p, map[string]any{"xs": xs, "y": int64(7)}); err != nil {
			return row{}, err
		}
	}
	return row{what: "an element of map(xs, (x) => x * 2 + y)", got: (took[1] - took[0]) / time.Duration(n), promise: 100 * time.Nanosecond}, nil
}
