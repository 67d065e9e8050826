package flow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// TestSingleFlight checks that of many calls with one key one is made, however
// they fall together: the value is there before the flight is over.
func TestSingleFlight(t *testing.T) {
	const keys, callers = 2000, 8
	var made [keys]atomic.Int32
	m := intModule("Do", func(x int64) (int64, error) {
		made[x].Add(1)
		return x, nil
	})
	src := "in k: Int\nx = Do(k) with cache: 1h\nout x"
	p := compile(t, environment(t, m), src)
	f, err := flow.New(p, flow.NewShared(flow.SharedOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		values, given, err := p.Decode(map[string]any{"k": int64(k)})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		for range callers {
			go func() {
				_, err := f.Run(t.Context(), values, given, flow.Options{})
				done <- err
			}()
		}
		for range callers {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
	twice := 0
	for k := range made {
		if made[k].Load() != 1 {
			twice++
		}
	}
	if twice > 0 {
		t.Errorf("%d of %d keys were called more than once", twice, keys)
	}
}

func intModule(name string, do func(int64) (int64, error)) module.Module {
	return contextModule(name, func(_ context.Context, x int64) (int64, error) { return do(x) })
}

// contextModule is an intModule that looks at its context.
func contextModule(name string, do func(context.Context, int64) (int64, error)) module.Module {
	sig := types.Signature{Params: []types.Param{{Name: "x", Type: types.Int}}, Result: types.Int}
	return module.Func(name, "1", sig, func(ctx context.Context, args []any) (any, error) { return do(ctx, args[0].(int64)) })
}

// TestCacheAge checks that a call gets no value that is older than it wants,
// whoever kept it and for how long.
func TestCacheAge(t *testing.T) {
	for _, backend := range []string{"memory", "disk"} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{name: "Do", do: func(_ context.Context, n int, _ any) (any, error) { return fmt.Sprint(n), nil }}
			shared := flow.NewShared(flow.SharedOptions{CacheDir: t.TempDir()})
			get := func(ttl string) string {
				p := compile(t, environment(t, s), fmt.Sprintf("x = Do(\"q\") with cache: %s, cache_backend: %q\nout x", ttl, backend))
				f, err := flow.New(p, shared)
				if err != nil {
					t.Fatal(err)
				}
				out, err := f.Run(t.Context(), nil, nil, flow.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return out["x"].(string)
			}
			got := get("1h")
			time.Sleep(50 * time.Millisecond)
			got += get("1h") + get("10ms") + get("1h") + get("10ms")
			time.Sleep(10 * time.Millisecond)
			got += get("10ms")
			if got != "112223" {
				t.Errorf("%s: values %s", backend, got)
			}
		})
	}
}

// TestCacheUnwritable checks that a result that cannot be written to the cache is
// a result, and that it is told.
func TestCacheUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no-directory")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &script{name: "Do", do: failing(0)}
	p := compile(t, environment(t, s), "x = Do(\"q\") with cache: 1h, cache_backend: \"disk\"\nout x")
	f, err := flow.New(p, flow.NewShared(flow.SharedOptions{CacheDir: file}))
	if err != nil {
		t.Fatal(err)
	}
	w := &unkept{}
	out, err := f.Run(t.Context(), nil, nil, flow.Options{Watcher: w})
	if err != nil || out["x"] != "ok q" || w.err == nil {
		t.Errorf("%v, %v, told %v", out, err, w.err)
	}
}

type unkept struct {
	diary
	err error
}

func (u *unkept) Finished(c *flow.Call, e flow.End) { u.err = e.Unkept }

// manifest is a module as a manifest in a folder has it.
func manifest(dir, name, text string, run module.Runner) module.Module {
	d := &module.Definition{Name: name, Params: []types.Param{{Name: "x", Type: types.String}}, Result: types.String, Dir: dir,
		Shell: &module.Shell{Text: text}}
	d.Pos.File = filepath.Join(dir, "modules.yml")
	return module.Bind(d, run)
}

// TestCachedApplication checks that a kept application is made again when what
// a module in it does has changed.
func TestCachedApplication(t *testing.T) {
	shared := flow.NewShared(flow.SharedOptions{})
	run := func(_ context.Context, d *module.Definition, args []any) (any, error) {
		return d.Shell.Text + args[0].(string), nil
	}
	get := func(text string) string {
		p := compile(t, environment(t, manifest("/m", "Do", text, run)),
			`xs = map(["a"], (x) => join(map(["b"], (y) => Do("${x}${y}")), "")) with cache: 1h`+"\nout xs")
		f, err := flow.New(p, shared)
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Run(t.Context(), nil, nil, flow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out["xs"])
	}
	if got := get("1") + get("2"); got != "[1ab][2ab]" {
		t.Errorf("got %s", got)
	}
}

// TestTargets checks that limits and breakers go by manifest and name: two
// modules of one name have each their own, and of one module two limits are an
// error.
func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func(ctx context.Context, d *module.Definition, args []any) (any, error) {
			if err := pass(ctx, time.Second); err != nil || d.Dir == "/bad" {
				return nil, errors.Join(err, errDown)
			}
			return args[0], nil
		}
		shared := flow.NewShared(flow.SharedOptions{})
		prepare := func(dir, with string) (*flow.Flow, error) {
			return flow.New(compile(t, environment(t, manifest(dir, "Fetch", "", down)), `x = Fetch("q") with `+with+"\nout x"), shared)
		}
		const with = "breaker: 1/1h, concurrency: 1, throttle: 1/1h"
		for _, dir := range []string{"/bad", "/good"} {
			f, err := prepare(dir, with)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Run(t.Context(), nil, nil, flow.Options{})
			if (err == nil) != (dir == "/good") {
				t.Errorf("%s: %v", dir, err)
			}
		}
		if took := time.Since(bubble); took != 2*time.Second {
			t.Errorf("it took %v: they share a limit", took)
		}
		_, err := prepare("/good", "concurrency: 2, throttle: 2/1h")
		for _, want := range []string{"test.cst:1:5: concurrency: 2: the module Fetch has 'concurrency: 1' at test.cst:1:5", "throttle: 2/1h"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
	})
}

// TestLargeConditions checks that preparing takes a time in proportion to the
// source, however often its values are referred to.
func TestLargeConditions(t *testing.T) {
	var b strings.Builder
	b.WriteString("in x: Int\nv0 = x\nv1 = x\n")
	for i := 2; i < 300; i++ {
		fmt.Fprintf(&b, "v%d = v%d + v%d\n", i, i-1, i-2)
	}
	b.WriteString("y = if (x > 1) v299 else 0\nout y\n")
	p := compile(t, environment(t), b.String())
	done := make(chan error, 1)
	go func() {
		_, err := flow.New(p, flow.NewShared(flow.SharedOptions{}))
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is still preparing") // 300 of them would take longer than the universe
	}
}

// TestTimeoutIsToldOnce checks that a module which returns why its context ended says
// nothing that the error of the timeout does not say, with retries and without.
func TestTimeoutIsToldOnce(t *testing.T) {
	for _, with := range []string{"timeout: 2s", "timeout: 2s, retry: 1"} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{name: "Slow", do: func(ctx context.Context, _ int, _ any) (any, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}
			d := &diary{}
			if out, err := once(t, flow.Options{Watcher: d}, "x = Slow(\"q\") with "+with+"\nout x", s); err == nil {
				t.Errorf("it gave %v", out)
			}
			d.has(t, "x failed 1: attempt timed out after 2s")
		})
	}
}

// TestNestedRun checks that what ends a pipeline which a module runs is a
// failure of that module like any other.
func TestNestedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &script{name: "Slow", do: func(ctx context.Context, n int, arg any) (any, error) {
			if n == 1 {
				return arg, pass(ctx, time.Hour)
			}
			return arg, nil
		}}
		inner, _ := flowOf(t, "x = Slow(\"q\")\nout x", slow)
		outer := &script{name: "Outer", do: func(ctx context.Context, _ int, _ any) (any, error) {
			out, err := inner.Run(ctx, nil, nil, flow.Options{})
			return out["x"], err
		}}
		d := &diary{}
		out, err := once(t, flow.Options{Watcher: d}, "x = Outer(\"q\") with timeout: 2s, retry: 2, delay: 1s\nout x", outer)
		if err != nil || out["x"] != "q" || len(outer.begun) != 2 || time.Since(bubble) != 3*time.Second {
			t.Errorf("%v, %v, %d calls, %v", out, err, len(outer.begun), time.Since(bubble))
		}
		d.has(t, "x failed 1: attempt timed out after 2s: interrupted: attempt timed out: context deadline exceeded", "x retry after 1 in 1s")
	})
	synctest.Test(t, func(t *testing.T) { // and so with an application that has a timeout
		slow := &script{name: "Slow", do: func(ctx context.Context, n int, arg any) (any, error) {
			if n <= 2 {
				return arg, pass(ctx, time.Hour)
			}
			return arg, nil
		}}
		out, err := once(t, flow.Options{}, `xs = map(["a", "b"], (x) => Slow(x)) with timeout: 2s, retry: 2`+"\nout xs", slow)
		if err != nil || fmt.Sprint(out["xs"]) != "[a b]" || time.Since(bubble) != 2*time.Second {
			t.Errorf("%v, %v after %v", out, err, time.Since(bubble))
		}
	})
}
