package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/retry"
)

// script is a module that does what a test says, attempt by attempt, and
// remembers when each attempt was. It is used inside a synctest bubble, where
// time is exact.
type script struct {
	name string
	do   func(ctx context.Context, n int, arg any) (any, error) // n counts from 1

	mu     sync.Mutex
	begun  []time.Duration // since the bubble's beginning
	active int
	most   int // attempts at once
	args   []any
}

var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when synctest begins

func (s *script) Name() string          { return s.name }
func (s *script) Version() string       { return "1" }
func (s *script) Params() []types.Param { return []types.Param{{Name: "x", Type: types.String}} }
func (s *script) Result() *types.Type   { return types.String }

func (s *script) Call(ctx context.Context, args []any) (any, error) {
	s.mu.Lock()
	s.begun = append(s.begun, time.Since(bubble))
	s.args = append(s.args, args[0])
	n := len(s.begun)
	s.active++
	s.most = max(s.most, s.active)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.active--
		s.mu.Unlock()
	}()
	return s.do(ctx, n, args[0])
}

func (s *script) waits() (ws []time.Duration) {
	for i := 1; i < len(s.begun); i++ {
		ws = append(ws, s.begun[i]-s.begun[i-1])
	}
	return ws
}

var errDown = errors.New("down")

// failing fails its first n attempts.
func failing(n int) func(context.Context, int, any) (any, error) {
	return func(_ context.Context, attempt int, arg any) (any, error) {
		if attempt <= n {
			return nil, errDown
		}
		return fmt.Sprint("ok ", arg), nil
	}
}

const always = 1 << 30

// taking takes so long, unless its context ends before.
func taking(d time.Duration) func(context.Context, int, any) (any, error) {
	return func(ctx context.Context, _ int, arg any) (any, error) { return arg, pass(ctx, d) }
}

func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flowOf compiles a source that calls scripts.
func flowOf(t *testing.T, src string, scripts ...*script) (*flow.Flow, *plan.Plan) {
	t.Helper()
	modules := make([]module.Module, len(scripts))
	for i, s := range scripts {
		modules[i] = s
	}
	p := compile(t, environment(t, modules...), src)
	f, err := flow.New(p, flow.NewShared(flow.SharedOptions{CacheDir: t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

// once runs a source that has no inputs.
func once(t *testing.T, opt flow.Options, src string, scripts ...*script) (map[string]any, error) {
	t.Helper()
	f, _ := flowOf(t, src, scripts...)
	return f.Run(t.Context(), nil, nil, opt)
}

func seconds(list ...float64) (ds []time.Duration) {
	for _, s := range list {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

// TestGolden is the table of appendix A: attempts and the waits between them,
// from the source to the call, in virtual time.
func TestGolden(t *testing.T) {
	cases := []struct {
		with     string
		do       func(context.Context, int, any) (any, error)
		attempts int
		waits    []time.Duration // from the beginning of an attempt to that of the next
		out      any             // nil: it fails
		took     time.Duration
	}{
		{with: "retry: 3", do: failing(always), attempts: 4, waits: seconds(0, 0, 0)},
		{with: "retry: 3, delay: 1s", do: failing(always), attempts: 4, waits: seconds(1, 1, 1), took: 3 * time.Second},
		{with: "retry: 4, delay: 1s, backoff: linear", do: failing(always), attempts: 5, waits: seconds(1, 2, 3, 4), took: 10 * time.Second},
		{with: "retry: 5, delay: 1s, backoff: exponential", do: failing(always), attempts: 6, waits: seconds(1, 2, 4, 8, 16), took: 31 * time.Second},
		{with: "retry: 10, delay: 1s, backoff: exponential", do: failing(always), attempts: 11, waits: seconds(1, 2, 4, 8, 16, 30, 30, 30, 30, 30), took: 181 * time.Second},
		{with: "retry: 5, delay: 500ms, backoff: exponential", do: failing(always), attempts: 6, waits: seconds(.5, 1, 2, 4, 8), took: 15500 * time.Millisecond},
		{with: "retry: 5, delay: 2s, backoff: linear", do: failing(always), attempts: 6, waits: seconds(2, 4, 6, 8, 10), took: 30 * time.Second},
		{with: "retry: 2, delay: 1min", do: failing(always), attempts: 3, waits: seconds(60, 60), took: 2 * time.Minute},
		{with: "retry: 40, delay: 1s, backoff: exponential", do: failing(always), attempts: 41,
			waits: append(seconds(1, 2, 4, 8, 16), slices.Repeat(seconds(30), 35)...), took: 1081 * time.Second},
		{with: "retry: 6, delay: 1s, backoff: fibonacci", do: failing(always), attempts: 7, waits: seconds(1, 1, 2, 3, 5, 8), took: 20 * time.Second},
		{with: "retry: 5, delay: 1s, backoff: exponential, max_delay: 3s", do: failing(always), attempts: 6, waits: seconds(1, 2, 3, 3, 3), took: 12 * time.Second},
		{with: "retry: 5, delay: 1s, backoff: exponential, budget: 7s", do: failing(always), attempts: 4, waits: seconds(1, 2, 4), took: 7 * time.Second},
		{with: "timeout: 10s, retry: 3", do: taking(time.Hour), attempts: 4, waits: seconds(10, 10, 10), took: 40 * time.Second},
		{with: "timeout: 5s, retry: 3, delay: 1s, backoff: exponential", do: taking(time.Hour), attempts: 4, waits: seconds(6, 7, 9), took: 27 * time.Second},
		{with: "backoff: exponential, retry: 3", do: failing(always), attempts: 4, waits: seconds(0, 0, 0)},
		{with: "delay: 1s", do: failing(always), attempts: 1},
		{with: "retry: 0, delay: 1s", do: failing(always), attempts: 1},
		{with: "retry: 3, delay: 100ms, backoff: exponential", do: failing(2), attempts: 3, waits: seconds(.1, .2), out: "ok q", took: 300 * time.Millisecond},
		{with: "timeout: 500ms, retry: 2, delay: 50ms", attempts: 2, waits: seconds(.55), out: "q", took: 650 * time.Millisecond,
			do: func(ctx context.Context, n int, arg any) (any, error) {
				if n == 1 {
					return arg, pass(ctx, 3*time.Second)
				}
				return arg, pass(ctx, 100*time.Millisecond)
			}},
		{with: `retry: 2, fallback: "f"`, do: failing(always), attempts: 3, waits: seconds(0, 0), out: "f"},
		{with: "retry: 3, on_error: skip", do: failing(always), attempts: 4, waits: seconds(0, 0, 0), out: ""},
		{with: "retry: 3, on_error: log", do: failing(always), attempts: 4, waits: seconds(0, 0, 0), out: ""},
		{with: `retry: 1, delay: 1s, fallback: "f", on_error: skip, timeout: 2s`, do: taking(time.Hour), attempts: 2, waits: seconds(3), out: "f", took: 5 * time.Second},
		{with: "retry: 9, delay: 1s, deadline: 3500ms", do: failing(always), attempts: 4, waits: seconds(1, 1, 1), took: 3 * time.Second},
		{with: "retry: 9, deadline: 3s", do: taking(time.Hour), attempts: 1, took: 3 * time.Second},
		{with: `retry: 9, deadline: 3s, fallback: "f"`, do: taking(time.Hour), attempts: 1, out: "f", took: 3 * time.Second},
		{with: "retry: 9, abort_on: [timeout], timeout: 1s", do: taking(time.Hour), attempts: 1, took: time.Second},
		{with: "retry: 9, delay: 1s, retry_on: [timeout]", do: failing(always), attempts: 1},
		{with: `retry: 9, delay: 1s, retry_on: [pattern("dow")]`, do: failing(3), attempts: 4, waits: seconds(1, 1, 1), out: "ok q", took: 3 * time.Second},
		{with: "retry: 3, delay: 1s", attempts: 1, do: func(context.Context, int, any) (any, error) { return nil, retry.Permanent(errDown) }},
		{with: "retry: 2, delay: 1s", attempts: 2, waits: seconds(7), out: "late", took: 7 * time.Second,
			do: func(_ context.Context, n int, _ any) (any, error) {
				if n == 1 {
					return nil, askLater(7 * time.Second)
				}
				return "late", nil
			}},
		{with: "retry: 2", attempts: 2, waits: seconds(0), out: "ok", do: func(_ context.Context, n int, _ any) (any, error) {
			if n == 1 {
				panic("a bug")
			}
			return "ok", nil
		}},
	}
	for _, c := range cases {
		t.Run(c.with, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Do", do: c.do}
				out, err := once(t, flow.Options{}, "x = Do(\"q\") with "+c.with+"\nout x", s)
				if len(s.begun) != c.attempts {
					t.Errorf("%d attempts, want %d", len(s.begun), c.attempts)
				}
				if !slices.Equal(s.waits(), c.waits) {
					t.Errorf("waits %v, want %v", s.waits(), c.waits)
				}
				if took := time.Since(bubble); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				var failed *flow.CallError
				switch {
				case c.out != nil && (err != nil || out["x"] != c.out):
					t.Errorf("got %v, %v; want %v", out["x"], err, c.out)
				case c.out == nil && !errors.As(err, &failed):
					t.Errorf("error %v", err)
				case c.out == nil && failed.Attempts != c.attempts:
					t.Errorf("the error tells of %d attempts", failed.Attempts)
				}
			})
		})
	}
}

// askLater is an error that asks for a wait, as a server does with Retry-After.
type askLater time.Duration

func (e askLater) Error() string                     { return "busy" }
func (e askLater) RetryAfter() (time.Duration, bool) { return time.Duration(e), true }

// TestWrap checks what on_error: wrap gives, in either case.
func TestWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := &script{name: "Good", do: failing(0)}, &script{name: "Bad", do: failing(always)}
		out, err := once(t, flow.Options{}, `
a = Good("q") with on_error: wrap
b = Bad("q") with retry: 2, on_error: wrap
c = Bad("q") with fallback: "f", on_error: wrap
x = if (a.ok) a.value ?? "?" else "failed"
y = if (b.ok) b.value ?? "?" else b.error
z = c.value ?? "?"
out x
out y
out z
`, good, bad)
		if err != nil || out["x"] != "ok q" || out["z"] != "f" {
			t.Errorf("%v %v", out, err)
		}
		want := map[string]any{"message": "down", "class": "error", "module": "Bad", "attempts": int64(3)}
		if fmt.Sprint(out["y"]) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", out["y"], want)
		}
	})
}

// TestLimits checks throttle and concurrency: per module, per attempt, never
// held while a call waits for its next attempt.
func TestLimits(t *testing.T) {
	const five = `xs = map(["a", "b", "c", "d", "e"], (x) => Do(x) with %s)` + "\nout xs"
	cases := []struct {
		name, src string
		do        func(context.Context, int, any) (any, error)
		begun     []time.Duration
		most      int
	}{
		{"a full bucket lets a burst through", strings.Replace(five, "%s", "throttle: 5/1s", 1), failing(0), seconds(0, 0, 0, 0, 0), 0},
		{"then it is refilled evenly", strings.Replace(five, "%s", "throttle: 2/100ms", 1), failing(0), seconds(0, 0, .05, .1, .15), 0},
		{"each attempt takes a token", `x = Do("q") with throttle: 2/1s, retry: 4` + "\nout x", failing(4), seconds(0, 0, .5, 1, 1.5), 1},
		{"calls of one module share it", "a = Do(\"1\") with throttle: 1/1s\nb = Do(\"2\") with throttle: 1/1s\nout a\nout b", failing(0), seconds(0, 1), 1},
		{"slots", strings.Replace(five, "%s", "concurrency: 2", 1), taking(time.Second), seconds(0, 0, 1, 1, 2), 2},
		{"a slot is free during a wait", strings.Replace(five, "%s", "concurrency: 1, retry: 1, delay: 10s", 1),
			func(ctx context.Context, n int, arg any) (any, error) {
				if err := pass(ctx, time.Second); err != nil || n > 5 {
					return arg, err
				}
				return nil, errDown
			}, seconds(0, 1, 2, 3, 4, 11, 12, 13, 14, 15), 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Do", do: c.do}
				if _, err := once(t, flow.Options{}, c.src, s); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(s.begun, c.begun) {
					t.Errorf("begun at %v, want %v", s.begun, c.begun)
				}
				if c.most > 0 && s.most != c.most {
					t.Errorf("%d at once, want %d", s.most, c.most)
				}
			})
		})
	}
}

// TestPriority checks that those who wait for a slot or a token go in the order
// of their priorities, equals in the order in which they came, and that nobody
// waits for ever.
func TestPriority(t *testing.T) {
	for _, limit := range []string{"concurrency: 1", "throttle: 1/1s"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Do", do: taking(time.Second)}
				gate := &script{name: "Gate", do: taking(100 * time.Millisecond)}
				src := "first = Do(\"first\") with " + limit + "\ng = Gate(\"g\")\n"
				for i, p := range []string{"low", "normal", "critical", "background", "90"} {
					src += fmt.Sprintf("v%d = Do(\"${g}%s\") with %s, priority: %s\nout v%d\n", i, p, limit, p, i)
				}
				if _, err := once(t, flow.Options{}, src, s, gate); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(s.args); got != "[first gcritical g90 gnormal glow gbackground]" {
					t.Errorf("order %s", got)
				}
			})
		})
	}
}
