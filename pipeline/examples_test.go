package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/bide-dev/bide/pipeline"
)

// shout is a registry with one module.
func shout(options ...pipeline.Option) *pipeline.Registry {
	var r pipeline.Registry
	err := pipeline.Add(&r, "Shout", func(_ context.Context, s string) (string, error) {
		if s == "" {
			return "", errors.New("nothing to say")
		}
		return strings.ToUpper(s), nil
	}, options...)
	if err != nil {
		panic(err)
	}
	return &r
}

// compile compiles a source that is right.
func compile(source string, options ...pipeline.CompileOption) *pipeline.Pipeline {
	p, err := pipeline.Compile("example.cst", []byte(source), options...)
	if err != nil {
		panic(err)
	}
	return p
}

// What is wrong with a source is told at once, all of it.
func ExampleCompile() {
	_, err := pipeline.Compile("example.cst", []byte("in x: String\nout y\n"))
	var wrong *pipeline.SourceError
	fmt.Println(errors.As(err, &wrong), len(wrong.Problems) > 0)
	// Output: true true
}

func ExampleModules() {
	p := compile("in x: String\ny = Shout(x)\nout y\n", pipeline.Modules(shout()))
	out, err := p.Run(context.Background(), map[string]any{"x": "hello"})
	fmt.Println(out["y"], err)
	// Output: HELLO <nil>
}

// One attempt at a time, over all calls of all runs.
func ExampleMaxParallel() {
	p := compile("in x: String\na = Shout(x)\nb = Shout(a)\nout b\n", pipeline.Modules(shout()), pipeline.MaxParallel(1))
	out, err := p.Run(context.Background(), map[string]any{"x": "hello"})
	fmt.Println(out["b"], err)
	// Output: HELLO <nil>
}

// Results are kept on disk, under the version of the module.
func ExampleCacheDir() {
	dir, err := os.MkdirTemp("", "cache")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	p := compile("in x: String\ny = Shout(x) with cache: 1h, cache_backend: \"disk\"\nout y\n",
		pipeline.Modules(shout(pipeline.Version("1"))), pipeline.CacheDir(dir))
	out, err := p.Run(context.Background(), map[string]any{"x": "hello"})
	fmt.Println(out["y"], err)
	// Output: HELLO <nil>
}

// Pipelines of another version of a module are other pipelines.
func ExampleVersion() {
	source := "in x: String\ny = Shout(x)\nout y\n"
	one := compile(source, pipeline.Modules(shout(pipeline.Version("1"))))
	two := compile(source, pipeline.Modules(shout(pipeline.Version("2"))))
	fmt.Println(one.Hash() == two.Hash())
	// Output: false
}

// A module that every pipeline of the program can call.
func ExampleRegister() {
	err := pipeline.Register("Greet", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := compile("in x: String\ny = Greet(x)\nout y\n").Run(context.Background(), map[string]any{"x": "gopher"})
	fmt.Println(out["y"], err)
	// Output: hello gopher <nil>
}

func ExampleFailFast() {
	p := compile("in x: String\ny = Shout(x)\nout y\n", pipeline.Modules(shout()))
	_, err := p.Run(context.Background(), map[string]any{"x": ""}, pipeline.FailFast())
	var failed *pipeline.RunError
	fmt.Println(errors.As(err, &failed), len(failed.Failures))
	// Output: true 1
}

func ExampleObserve() {
	var attempts atomic.Int32
	p := compile("in x: String\ny = Shout(x)\nout y\n", pipeline.Modules(shout()))
	_, err := p.Run(context.Background(), map[string]any{"x": "hello"}, pipeline.Observe(func(e pipeline.Event) {
		if e.Type == pipeline.AttemptStarted {
			attempts.Add(1)
		}
	}))
	fmt.Println(attempts.Load(), err)
	// Output: 1 <nil>
}

func ExampleOutput() {
	p := compile("in xs: List<Int>\nout xs\n")
	out, err := p.Run(context.Background(), map[string]any{"xs": []int{1, 2, 3}})
	if err != nil {
		fmt.Println(err)
		return
	}
	xs, err := pipeline.Output[[]int](out, "xs")
	fmt.Println(xs, err)
	// Output: [1 2 3] <nil>
}
