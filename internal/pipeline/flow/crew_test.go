package flow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/retry"
)

// TestIndependent checks that what does not need the failed value comes to its
// end, in a lambda too and in whatever order it stands.
func TestIndependent(t *testing.T) {
	for _, sum := range []string{"Slow(x) + Bad(x)", "Bad(x) + Slow(x)"} {
		for _, src := range []string{"in x: Int\ny = " + sum + "\nout y", "in x: Int\nys = map([x], (x) => " + sum + ")\nout ys"} {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Bool
				slow := contextModule("Slow", func(ctx context.Context, x int64) (int64, error) {
					err := pass(ctx, time.Hour)
					ended.Store(err == nil)
					return x, err
				})
				p := compile(t, environment(t, slow, intModule("Bad", func(int64) (int64, error) { return 0, errDown })), src)
				f, err := flow.New(p, flow.NewShared(flow.SharedOptions{}))
				if err != nil {
					t.Fatal(err)
				}
				values, given, err := p.Decode(map[string]any{"x": int64(1)})
				if err != nil {
					t.Fatal(err)
				}
				if _, err = f.Run(t.Context(), values, given, flow.Options{}); !errors.Is(err, errDown) || !ended.Load() {
					t.Errorf("%s: %v; the slow one came to its end: %v", src, err, ended.Load())
				}
			})
		}
	}
}

// TestOrder checks that calls get their slots in the order of their priorities
// and, within one, in that of the source: also the first of them, and also the
// elements of a list.
func TestOrder(t *testing.T) {
	cases := []struct{ src, want string }{
		{"a = Do(\"0\") with concurrency: 1\nb = Do(\"1\") with concurrency: 1\nc = Do(\"2\") with concurrency: 1\nd = Do(\"3\") with concurrency: 1\nout a", "0123"},
		{"a = Do(\"0\") with throttle: 1/1s\nb = Do(\"1\") with throttle: 1/1s\nc = Do(\"2\") with throttle: 1/1s\nout a", "012"},
		{"a = Do(\"0\") with concurrency: 1, priority: low\nb = Do(\"1\") with concurrency: 1\nc = Do(\"2\") with concurrency: 1, priority: critical\nd = Do(\"3\") with concurrency: 1, priority: critical\nout a", "2310"},
		{`xs = map(["0", "1", "2", "3", "4", "5", "6"], (x) => Do(x) with concurrency: 1)` + "\nout xs", "0123456"},
		{`xs = map(["0", "1", "2", "3", "4", "5", "6"], (x) => Do(if (x == "9") "?" else x) with concurrency: 1, retry: 2)` + "\nout xs", "0123456"},
		{`xs = map(["a", "b", "c"], (x) => map(["0", "1", "2"], (y) => Do(x + y) with concurrency: 1))` + "\nout xs", "a0a1a2b0b1b2c0c1c2"},
		{`xs = map(["a", "b", "c"], (x) => Do(x + "0") with concurrency: 1 + Do(x + "1") with concurrency: 1)` + "\nout xs", "a0a1b0b1c0c1"},
		{`xs = map(["a", "b"], (x) => map(["0", "1"], (y) => map(["p", "q"], (z) => Do(x + y + z) with concurrency: 1)))` + "\nout xs", "a0pa0qa1pa1qb0pb0qb1pb1q"},
		{`a = Same("a")
b = Same("b")
xs = map([a + b, b + a, a + a, b + b], (x) => Do(a + b + x) with concurrency: 1)` + "\nout xs", "abababbaabaaabbb"},
		// A map begins as early as what is most urgent in it.
		{`lo = map(["u", "v"], (p) => Do(p) with concurrency: 1, priority: background)
xs = map(["a", "b"], (p) => map(["0", "1"], (q) => Do(p + q) with concurrency: 1, priority: high))
cr = map(["c"], (p) => Do(p) with concurrency: 1, priority: critical)
out xs`, "ca0a1b0b1uv"},
		{`lo = map(["u"], (p) => Do(p) with concurrency: 1, priority: low)
no = Do("n") with concurrency: 1
out no`, "nu"},
	}
	for _, c := range cases {
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Do", do: taking(time.Second)}
				if _, err := once(t, flow.Options{}, c.src, s, &script{name: "Same", do: taking(0)}); err != nil {
					t.Fatal(err)
				}
				if got := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.args), " ", ""), "[]"); got != c.want {
					t.Errorf("%s\nthe order was %s, not %s", c.src, got, c.want)
				}
			})
		}
	}
	for range 20 { // the slots of all calls
		synctest.Test(t, func(t *testing.T) {
			s := &script{name: "Do", do: taking(time.Second)}
			p := compile(t, environment(t, s), "a = Do(\"0\")\nb = Do(\"1\")\nc = Do(\"2\") with priority: high\nd = Do(\"3\")\nout a")
			f, err := flow.New(p, flow.NewShared(flow.SharedOptions{MaxParallel: 1}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Run(t.Context(), nil, nil, flow.Options{}); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(s.args); got != "[2 0 1 3]" {
				t.Errorf("the order was %s", got)
			}
		})
	}
}

// TestNestedLists checks that lists in lists do not multiply what waits: so many
// elements are in work at once as the window is wide, over all lists.
func TestNestedLists(t *testing.T) {
	var most atomic.Int64
	m := intModule("Do", func(x int64) (int64, error) {
		for n := int64(runtime.NumGoroutine()); ; {
			if before := most.Load(); n <= before || most.CompareAndSwap(before, n) {
				return x, nil
			}
		}
	})
	slow := intModule("Wait", func(x int64) (int64, error) {
		time.Sleep(20 * time.Microsecond) // so that others are in line
		return x, nil
	})
	p := compile(t, environment(t, m, slow), "ys = map(Range(1, 120), (i) => list-sum(map(Range(1, 120), (j) => Do(Wait(i + j)))))\nout ys")
	f, err := flow.New(p, flow.NewShared(flow.SharedOptions{MaxParallel: 4}))
	if err != nil {
		t.Fatal(err)
	}
	before := int64(runtime.NumGoroutine())
	out, err := f.Run(t.Context(), nil, nil, flow.Options{})
	if err != nil || len(out["ys"].([]any)) != 120 {
		t.Fatal(out, err)
	}
	if held := most.Load() - before; held > 3*1024 {
		t.Errorf("%d goroutines for 14,400 elements", held)
	}
}

// TestGoexit checks that a module which ends its goroutine has failed an
// attempt, with the stack kept, wherever it is called, and that everything else
// continues.
func TestGoexit(t *testing.T) {
	cases := []struct {
		src  string
		fail bool
	}{
		{"x = Exit(\"q\")\nout x", true},
		{"x = Exit(\"q\") with retry: 1\nout x", false},
		{"x = Exit(\"q\") with retry: 1, timeout: 1s\nout x", false},
		{"x = Exit(\"q\") with retry: 1, concurrency: 1\nout x", false},
		{"x = Exit(\"q\") with fallback: \"f\"\nout x", false},
		{"x = if (Good(\"g\") == \"ok g\") Exit(\"q\") else \"n\"\nout x", true},
		{"x = if (Good(\"g\") == \"ok g\") Exit(\"q\") with retry: 1 else \"n\"\nout x", false},
		{"x = map([\"a\", \"b\", \"c\"], (x) => Exit(x) with retry: 3)\nout x", false},
		{"x = map([\"a\", \"b\", \"c\"], (x) => Exit(x))\nout x", true},
		{"x = any([\"a\", \"b\"], (x) => Exit(x) == \"ok a\")\nout x", true},
		{"x = Bad(\"b\") with fallback: Exit(\"q\") with retry: 1\nout x", false},
	}
	for _, c := range cases {
		for _, watched := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Exit", do: func(_ context.Context, n int, arg any) (any, error) {
					if n == 1 {
						runtime.Goexit()
					}
					return fmt.Sprint("ok ", arg), nil
				}}
				good, bad := &script{name: "Good", do: failing(0)}, &script{name: "Bad", do: failing(always)}
				opt := flow.Options{}
				if watched {
					opt.Watcher = &diary{}
				}
				out, err := once(t, opt, c.src+"\ny = Good(\"y\")\nz = Good(y)\nout z", s, good, bad)
				if out["z"] != "ok ok y" || (err != nil) != c.fail || (out["x"] == nil) != c.fail {
					t.Errorf("watched %v: %s\n%v, %v", watched, c.src, out, err)
				}
				if err != nil && (!strings.Contains(err.Error(), "runtime.Goexit") || !strings.Contains(stackOf(err), "TestGoexit")) {
					t.Errorf("error %v with the stack\n%s", err, stackOf(err))
				}
			})
		}
	}
}

// stackOf is the stack that an error has kept.
func stackOf(err error) string {
	var p *retry.PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}

// TestOrderedListsEnd checks that there is no deadlock between a list whose calls begin in
// order and what is around it.
func TestOrderedListsEnd(t *testing.T) {
	many := "[" + strings.Repeat(`"m", `, 3000) + `"m"]`
	for _, c := range []struct {
		src   string
		calls int
	}{
		{"l = Do(\"l\") with lazy: true\nxs = map([\"0\", \"1\", \"2\"], (x) => Do(x + l) with concurrency: 1)\nout xs", 4},
		{"l = map([\"p\", \"q\"], (y) => Do(y) with concurrency: 1) with lazy: true\nxs = map([\"0\", \"1\"], (x) => map(l, (y) => Do(x + y) with concurrency: 1))\nout xs", 6},
		{"xs = map([\"0\", \"1\"], (x) => filter([\"a\", \"b\"], (y) => Do(x + y) with concurrency: 1 == \"0a\"))\nout xs", 4},
		{"xs = map([\"0\", \"1\"], (x) => any([\"a\", \"b\", \"c\"], (y) => Do(x + y) with concurrency: 1 == x + \"b\"))\nout xs", 4},
		{"xs = map([\"0\", \"1\", \"2\"], (x) => map(" + many + ", (y) => Do(x + y) with concurrency: 7))\nn = Do(\"n\")\nout xs\nout n", 3*3001 + 1},
		{"xs = map([\"0\", \"1\", \"2\"], (x) => if (x == \"1\") map([\"a\", \"b\"], (y) => Do(y) with concurrency: 1) else [Do(x) with concurrency: 1])\nout xs", 4},
		{"xs = map([\"0\", \"1\"], (x) => map([\"a\", \"b\"], (y) => Do(x + y) with concurrency: 1, retry: 2, delay: 1s, fallback: Do(\"f\" + y) with concurrency: 1)) with timeout: 1h, retry: 1\nout xs", 4},
		{"e = map([\"x\"], (x) => Do(x) with concurrency: 1)\nxs = map([\"0\", \"1\"], (x) => map(e, (y) => Do(x + y + list-first(e)) with concurrency: 1))\nout xs", 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{name: "Do", do: taking(time.Second)}
			if _, err := once(t, flow.Options{}, c.src, s); err != nil {
				t.Errorf("%.200s: %v", c.src, err)
			}
			if len(s.args) != c.calls {
				t.Errorf("%.200s: %d calls, not %d", c.src, len(s.args), c.calls)
			}
		})
	}
}
