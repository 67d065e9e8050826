package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/pipeline"
	"github.com/bide-dev/bide/retry"
)

// A pipeline composes flaky functions; each call has its own retries, timeout
// and fallback.
func Example() {
	var modules pipeline.Registry
	calls := 0
	err := pipeline.Add(&modules, "Search", func(_ context.Context, query string) ([]string, error) {
		if calls++; calls < 3 {
			return nil, errors.New("try again")
		}
		return []string{query + " one", query + " two"}, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := pipeline.Compile("search.cst", []byte(`
in query: String
hits = Search(query) with retry: 5, delay: 1ms, backoff: exponential
best = list-first(hits)
out best
`), pipeline.Modules(&modules))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := p.Run(context.Background(), map[string]any{"query": "gophers"})
	fmt.Println(out["best"], err, calls)
	// Output: gophers one <nil> 3
}

type hit struct {
	ID    int
	Title string
}

func registry(t *testing.T) *pipeline.Registry {
	t.Helper()
	r := &pipeline.Registry{}
	for _, err := range []error{
		pipeline.Add(r, "Titles", func(_ context.Context, in struct{ Hits []hit }) ([]string, error) {
			out := make([]string, len(in.Hits))
			for i, h := range in.Hits {
				out[i] = fmt.Sprint(h.ID, h.Title)
			}
			return out, nil
		}),
		pipeline.Add(r, "Fail", func(context.Context, string) (string, error) { return "", errBoom }),
		pipeline.Add(r, "Slow", func(ctx context.Context, s string) (string, error) {
			select {
			case <-time.After(time.Minute):
				return s, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

var errBoom = errors.New("boom")

func TestValues(t *testing.T) {
	p, err := pipeline.Compile("v.cst", []byte("in hits: List<{id: Int, title: String}>\nin factor: Float\ntitles = Titles(hits)\nn = factor * 2\nrec = {all: titles, best: titles[0]}\nout titles\nout n\n"), pipeline.Modules(registry(t)))
	var bad *pipeline.SourceError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "v.cst:5:") {
		t.Fatalf("got %v, %v", p, err)
	}
	p, err = pipeline.Compile("v.cst", []byte("in hits: List<{id: Int, title: String}>\nin factor: Float\ntitles = Titles(hits) with delay: 1s\nn = factor * 2\nout titles\nout n\nout hits\n"), pipeline.Modules(registry(t)))
	if err != nil {
		t.Fatal(err)
	}
	if w := p.Warnings(); len(w) != 1 || w[0].Line != 3 || !strings.Contains(w[0].Message, "'delay' without 'retry'") {
		t.Errorf("warnings %v", w)
	}
	in := map[string]any{"hits": []hit{{1, "a"}, {2, "b"}}, "factor": float32(1.5)}
	out, err := p.Run(t.Context(), in)
	if err != nil || fmt.Sprint(out["titles"]) != "[1a 2b]" || out["n"] != 3.0 {
		t.Errorf("%v %v", out, err)
	}
	if _, changed := in["factor"].(float32); !changed {
		t.Error("the inputs were changed")
	}
	hits, err := pipeline.Output[[]hit](out, "hits")
	if err != nil || len(hits) != 2 || hits[1] != (hit{2, "b"}) {
		t.Errorf("%v %v", hits, err)
	}
	if _, err := pipeline.Output[int](out, "titles"); err == nil || !strings.Contains(err.Error(), "output titles") {
		t.Errorf("as an int: %v", err)
	}
	if _, err := pipeline.Output[int](out, "none"); err == nil {
		t.Error("an output that is not there")
	}
	if _, err := p.Run(t.Context(), map[string]any{"hits": 3, "factr": 1.0}); err == nil || !strings.Contains(err.Error(), "input factor is missing") ||
		!strings.Contains(err.Error(), `did you mean "factor"`) || !strings.Contains(err.Error(), "input hits") {
		t.Errorf("bad inputs: %v", err)
	}
	if _, err := p.Run(t.Context(), map[string]any{"hits": make(chan int)}); err == nil || !strings.Contains(err.Error(), "input hits") {
		t.Errorf("a channel: %v", err)
	}
}

func TestRunError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := pipeline.Compile("e.cst", []byte("a = Fail(\"x\") with retry: 2, delay: 1s\nb = \"${a}!\"\nc = Slow(\"c\")\nd = 1 / 0\nout b\nout c\nout d\n"), pipeline.Modules(registry(t)))
		if err != nil {
			t.Fatal(err)
		}
		events := make(chan pipeline.Event, 100)
		out, err := p.Run(t.Context(), nil, pipeline.Observe(func(e pipeline.Event) { events <- e }))
		var failed *pipeline.RunError
		if !errors.As(err, &failed) || len(failed.Failures) != 2 || !errors.Is(err, errBoom) {
			t.Fatalf("error %v", err)
		}
		f := failed.Failures[0]
		var re *retry.Error
		if f.Line != 1 || f.Column != 5 || f.Name != "a" || f.Module != "Fail" || f.Attempts != 3 || !errors.As(&f, &re) || len(re.History) != 3 {
			t.Errorf("%+v", f)
		}
		if failed.Failures[1].Line != 4 || out["c"] != "c" || len(out) != 1 {
			t.Errorf("%v %v", failed.Failures[1], out)
		}
		close(events)
		count := map[pipeline.EventType]int{}
		for e := range events {
			count[e.Type]++
			if e.Type == pipeline.RetryScheduled && (e.Delay != time.Second || e.Path != "a") {
				t.Errorf("%+v", e)
			}
		}
		want := map[pipeline.EventType]int{pipeline.CallStarted: 2, pipeline.AttemptStarted: 4, pipeline.AttemptFailed: 3, pipeline.RetryScheduled: 2, pipeline.CallFinished: 2}
		if fmt.Sprint(count) != fmt.Sprint(want) {
			t.Errorf("events %v, want %v", count, want)
		}
		began := time.Now()
		if _, err := p.Run(t.Context(), nil, pipeline.FailFast()); err == nil || time.Since(began) != 0 {
			t.Errorf("fail fast: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
		defer cancel()
		p, err = pipeline.Compile("s.cst", []byte("c = Slow(\"c\") with fallback: \"f\"\nout c"), pipeline.Modules(registry(t)), pipeline.MaxParallel(1))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := p.Run(ctx, nil); !errors.Is(err, errBoom) || errors.As(err, &failed) || len(out) != 0 {
			t.Errorf("interrupted: %v %v", out, err)
		}
	})
}

// BenchmarkPipeline measures what a run adds to modules that do nothing.
func BenchmarkPipeline(b *testing.B) {
	for _, n := range []int{1, 3, 10, 50, 100} {
		b.Run(fmt.Sprintf("chain%d", n), func(b *testing.B) {
			var r pipeline.Registry
			if err := pipeline.Add(&r, "Noop", func(_ context.Context, x int64) (int64, error) { return x, nil }); err != nil {
				b.Fatal(err)
			}
			src := "in v0: Int\n"
			for i := range n {
				src += fmt.Sprintf("v%d = Noop(v%d)\n", i+1, i)
			}
			p, err := pipeline.Compile("chain.cst", []byte(src+fmt.Sprintf("out v%d\n", n)), pipeline.Modules(&r))
			if err != nil {
				b.Fatal(err)
			}
			in := map[string]any{"v0": int64(7)}
			b.ReportAllocs()
			for b.Loop() {
				out, err := p.Run(b.Context(), in)
				if err != nil || len(out) != 1 {
					b.Fatal(out, err)
				}
			}
		})
	}
}

// BenchmarkMapped is a map over 10,000 elements by a builtin and by a Go module.
func BenchmarkMapped(b *testing.B) {
	reg := &pipeline.Registry{}
	if err := pipeline.Add(reg, "Noop", func(_ context.Context, x int64) (int64, error) { return x, nil }); err != nil {
		b.Fatal(err)
	}
	xs := make([]any, 10_000)
	for i := range xs {
		xs[i] = int64(i)
	}
	for name, call := range map[string]string{"builtin": "add(x, 1)", "module": "Noop(x)"} {
		p, err := pipeline.Compile("map.cst", []byte("in xs: List<Int>\nys = map(xs, (x) => "+call+")\nout ys\n"), pipeline.Modules(reg))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(b.Context(), map[string]any{"xs": xs}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNamedLimitsAreRefused: they are those of a machine that bide runs on, and a Go program
// has none.
func TestNamedLimitsAreRefused(t *testing.T) {
	var modules pipeline.Registry
	if err := pipeline.Add(&modules, "Twice", func(_ context.Context, n int) (int, error) { return 2 * n, nil }); err != nil {
		t.Fatal(err)
	}
	_, err := pipeline.Compile("a.cst", []byte("out a = Twice(2) with limits: \"gpu\"\n"), pipeline.Modules(&modules))
	if err == nil || !strings.Contains(err.Error(), "a.cst:1:23") || !strings.Contains(err.Error(), "use concurrency or throttle") {
		t.Errorf("%v", err)
	}
}

// What was not made, and what is nil, is an error that says so.
func TestWhatIsNil(t *testing.T) {
	var reg pipeline.Registry
	p, err := pipeline.Compile("a.cst", []byte("a = trim(\" x \")\nout a\n"), pipeline.Modules(&reg))
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	if _, err := p.Run(none, nil); err == nil || err.Error() != "pipeline: the context is nil" {
		t.Errorf("a nil context: %v", err)
	}
	if out, err := p.Run(t.Context(), nil, pipeline.Observe(nil)); err != nil || out["a"] != "x" {
		t.Errorf("a nil observer: %v, %v", out, err)
	}
	for name, p := range map[string]*pipeline.Pipeline{"nil": nil, "zero": {}} {
		if _, err := p.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "make it with Compile") {
			t.Errorf("the %s pipeline: %v", name, err)
		}
		if p.Hash() != "" || p.Warnings() != nil {
			t.Errorf("the %s pipeline has the hash %q and the warnings %v", name, p.Hash(), p.Warnings())
		}
	}
	if _, err := pipeline.Compile("a.cst", nil, pipeline.Modules(nil)); err == nil || err.Error() != "pipeline: the registry is nil" {
		t.Errorf("Compile with a nil registry: %v", err)
	}
	if err := pipeline.Add[string, string](nil, "A", nil); err == nil || !strings.Contains(err.Error(), "the registry is nil") || !strings.Contains(err.Error(), "the function is nil") {
		t.Errorf("Add to a nil registry: %v", err)
	}
	for _, n := range []int{0, -1} {
		if _, err := pipeline.Compile("a.cst", []byte("out a = 1"), pipeline.MaxParallel(n)); err == nil || err.Error() != fmt.Sprintf("pipeline: MaxParallel is %d; it must be positive", n) {
			t.Errorf("MaxParallel(%d): %v", n, err)
		}
	}
}

// A source that cannot be run is a *SourceError with all that is wrong, and what a Go
// program does not have is among it.
func TestAllThatIsWrong(t *testing.T) {
	var reg pipeline.Registry
	if err := pipeline.Add(&reg, "Do", func(_ context.Context, s string) (string, error) { return s, nil }); err != nil {
		t.Fatal(err)
	}
	const src = `a = Do("x") with limits: "gpu, cpu"
b = Do("y") with cache: 1h, cache_backend: "disk"
c = Nope(1)
out a
out b
`
	for _, c := range []struct {
		src  string
		want []string
		opt  []pipeline.CompileOption
	}{
		{src, []string{"1:18 no-machine", "2:29 no-disk", "3:5 E002"}, nil},
		{src, []string{"1:18 no-machine", "3:5 E002"}, []pipeline.CompileOption{pipeline.CacheDir(t.TempDir())}},
		{"a = Do(\"x\") with until: (x) => Do(x) == \"y\", retry: 1\nout a\n", []string{"1:5 until-calls"}, nil},
	} {
		_, err := pipeline.Compile("a.cst", []byte(c.src), append(c.opt, pipeline.Modules(&reg))...)
		var source *pipeline.SourceError
		if !errors.As(err, &source) {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		var got []string
		for _, p := range source.Problems {
			got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Code))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.src, got, c.want)
		}
	}
}
