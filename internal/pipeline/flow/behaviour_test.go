package flow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// diary is a watcher that writes down what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
	past  map[string]flow.Past
	calls map[string]*flow.Call
	ends  map[string]flow.End
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) Past(c *flow.Call) (flow.Past, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls == nil {
		d.calls = map[string]*flow.Call{}
	}
	if d.calls[c.Path] != nil {
		d.lines = append(d.lines, "TWICE "+c.Path)
	}
	d.calls[c.Path] = c
	p, ok := d.past[c.Path]
	return p, ok
}
func (d *diary) Started(c *flow.Call) { d.note("%s started", c.Path) }
func (d *diary) Attempt(c *flow.Call, n int, waited time.Duration) {
	d.note("%s attempt %d waited %v", c.Path, n, waited)
}
func (d *diary) Failed(c *flow.Call, n int, err error, began, _ time.Time) {
	d.note("%s failed %d: %v", c.Path, n, err)
}
func (d *diary) Queued(c *flow.Call, n int, what driver.Source, _ time.Duration) {
	d.note("%s attempt %d queued for %v", c.Path, n, what)
}
func (d *diary) Retry(c *flow.Call, n int, w flow.Wait) {
	d.note("%s retry after %d in %v", c.Path, n, w.Delay)
}
func (d *diary) Finished(c *flow.Call, e flow.End) {
	d.mu.Lock()
	if d.ends == nil {
		d.ends = map[string]flow.End{}
	}
	d.ends[c.Path] = e
	d.mu.Unlock()
	d.note("%s ended %d %v attempts %d cached %v err %v", c.Path, e.Outcome, value.JSON(e.Value), e.Attempts, e.Cached, e.Err != nil)
}

func (d *diary) has(t *testing.T, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !slices.Contains(d.lines, l) {
			t.Errorf("it does not say %q, but:\n%s", l, strings.Join(d.lines, "\n"))
		}
	}
}

// TestFailure checks R2 and R3: what needs a failed call is failed at once and
// not run, what does not comes to its end however long it takes, and the run
// ends with each failure told once.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &script{name: "Bad", do: failing(always)}
		slow := &script{name: "Slow", do: taking(time.Hour)}
		after := &script{name: "After", do: failing(0)}
		d := &diary{}
		out, err := once(t, flow.Options{Watcher: d}, `
a = Bad("a") with retry: 1
b = After(a)
c = "${a} and ${b}"
e = if (c == "") "x" else After(c)
slow = Slow("s")
done = After(slow)
n = 1 / 0
m = n + 1
out e
out done
out m
`, bad, slow, after)
		var failed *flow.Error
		if !errors.As(err, &failed) || len(failed.Failures) != 2 {
			t.Fatalf("error %v", err)
		}
		for _, want := range []string{"test.cst:2:5: a = Bad: failed after 2 attempts: down", "test.cst:8:5: 1 / 0: Division by zero"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error lacks %q:\n%v", want, err)
			}
		}
		if !errors.Is(err, errDown) {
			t.Error("the error does not unwrap to that of the attempt")
		}
		var re *retry.Error
		if !errors.As(err, &re) || len(re.History) != 2 || re.History[1].Number != 2 || re.History[0].Message != "down" {
			t.Errorf("history %+v", re)
		}
		if len(after.begun) != 1 || out["done"] != "ok s" || len(out) != 1 || time.Since(bubble) != time.Hour {
			t.Errorf("%d calls after, outputs %v, %v", len(after.begun), out, time.Since(bubble))
		}
		d.has(t, "a retry after 1 in 0s", "a failed 2: down", `b ended 3 null attempts 0 cached false err true`, `done ended 0 "ok s" attempts 1 cached false err false`)
	})
}

// TestFailFast checks that the first failure cancels everything else.
func TestFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, slow := &script{name: "Bad", do: failing(always)}, &script{name: "Slow", do: taking(time.Hour)}
		_, err := once(t, flow.Options{FailFast: true}, "s = Slow(\"s\") with retry: 5, fallback: \"f\"\nx = Slow(s)\na = Bad(\"a\") with retry: 1, delay: 1s\nout x\nout a", bad, slow)
		var failed *flow.Error
		if !errors.As(err, &failed) || len(failed.Failures) != 1 || time.Since(bubble) != time.Second || len(slow.begun) != 1 {
			t.Errorf("%v after %v, %d slow calls", err, time.Since(bubble), len(slow.begun))
		}
	})
}

// TestFailFastInside checks that a failure which has an answer stops nothing,
// and that a failed element stops the others.
func TestFailFastInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, slow := &script{name: "Bad", do: failing(always)}, &script{name: "Slow", do: taking(time.Hour)}
		out, err := once(t, flow.Options{FailFast: true}, `
s = Slow("s")
a = Bad("a") with fallback: Bad("b"), on_error: skip
m = map(["1"], (x) => Bad(x)) with fallback: ["none"]
out s
out a
out m
`, bad, slow)
		if err != nil || fmt.Sprint(out) != "map[a: m:[none] s:s]" {
			t.Errorf("%v %v", out, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: func(ctx context.Context, _ int, arg any) (any, error) {
			if arg == "bad" {
				return nil, errors.Join(errDown, pass(ctx, time.Second))
			}
			return arg, pass(ctx, time.Hour)
		}}
		_, err := once(t, flow.Options{FailFast: true}, `m = map(["1", "bad", "3"], (x) => Do(x) with retry: 1)`+"\nout m", s)
		var e *flow.ElementsError
		if !errors.As(err, &e) || e.First != 1 || e.Failed != 1 || time.Since(bubble) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(bubble))
		}
	})
}

// TestInterrupt checks that the end of the run is final: calls, waits and queues
// end at once, and neither retry nor fallback nor on_error answer it.
func TestInterrupt(t *testing.T) {
	const src = `
call = Slow("call") with retry: 5, fallback: "f", on_error: skip
wait = Bad("wait") with retry: 5, delay: 1h, fallback: "f"
slot = Slow("slot") with concurrency: 1
queue = Slow("queue") with concurrency: 1, fallback: "f"
rate = Slow("rate") with cache: 1h
rate2 = Slow("rate") with cache: 1h, on_error: wrap
each = map(["a", "b"], (x) => Slow(x) with on_error: log)
out call
out wait
out queue
out rate2
out each
`
	for name, soft := range map[string]bool{"hard": false, "soft": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, bad := &script{name: "Slow", do: taking(time.Minute)}, &script{name: "Bad", do: failing(always)}
				d := &diary{}
				f, _ := flowOf(t, src, slow, bad)
				ctx, cancel := context.WithCancel(t.Context())
				opt := flow.Options{Watcher: d}
				run := ctx
				if soft {
					opt.Soft, run = ctx, t.Context()
				}
				time.AfterFunc(time.Second, cancel)
				out, err := f.Run(run, nil, nil, opt)
				var stopped *flow.InterruptedError
				if !errors.As(err, &stopped) {
					t.Errorf("error %v", err)
				}
				took := time.Since(bubble)
				if !soft && (took != time.Second || len(out) != 0) {
					t.Errorf("it ended after %v with %v", took, out)
				}
				// What runs may end when nothing new is to start.
				if soft && (took != time.Minute || out["call"] != "call" || out["wait"] != nil) {
					t.Errorf("it ended after %v with %v", took, out)
				}
				text := strings.Join(d.lines, "\n")
				if strings.Contains(text, "wait ended") || strings.Contains(text, "queue ended") && strings.Contains(text, "slot ended") {
					t.Errorf("what was interrupted is told as ended:\n%s", text)
				}
				if len(bad.begun) != 1 {
					t.Errorf("%d attempts of Bad", len(bad.begun))
				}
			})
		})
	}
}

// TestCache checks R20, R21 and R35: one key for all call sites, single flight,
// a time to live, and only what a call itself gave.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: func(ctx context.Context, n int, arg any) (any, error) {
			return fmt.Sprint(arg, " ", n), pass(ctx, time.Second)
		}}
		bad := &script{name: "Bad", do: func(ctx context.Context, _ int, _ any) (any, error) {
			return nil, errors.Join(errDown, pass(ctx, time.Second))
		}}
		f, p := flowOf(t, `
in x: String
a = Do(x) with cache: 1min
b = Do("q") with cache: 1h, retry: 3
c = Do("other") with cache: 1min
d = map(["q", "q", "q"], (y) => Do(y) with cache: 1min)
e = Bad("x") with cache: 1h, retry: 1, fallback: "f"
g = Bad("x") with cache: 1h, retry: 1, fallback: "f"
h = Bad("x") with cache: 1h, on_error: skip
out a
out b
out c
out d
out e
out g
out h
`, s, bad)
		do := func() map[string]any {
			values, given, err := p.Decode(map[string]any{"x": "q"})
			if err != nil {
				t.Fatal(err)
			}
			out, err := f.Run(t.Context(), values, given, flow.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		first := do()
		if len(s.begun) != 2 || first["a"] != first["b"] || first["e"] != "f" || first["h"] != "" {
			t.Errorf("%d calls: %v", len(s.begun), first)
		}
		// e and g have the same options and share an operation; h tries for
		// itself.
		if n := len(bad.begun); n != 3 {
			t.Errorf("%d failing calls", n)
		}
		time.Sleep(30 * time.Second)
		if again := do(); len(s.begun) != 2 || fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("%d calls: %v", len(s.begun), again)
		}
		if n := len(bad.begun); n != 6 {
			t.Errorf("a failure or a fallback was kept: %d failing calls", n)
		}
		time.Sleep(time.Hour)
		if do(); len(s.begun) != 4 {
			t.Errorf("%d calls after an hour", len(s.begun))
		}
	})
}

// TestDiskCache checks that results survive the program, and that damaged or old
// files do no harm.
func TestDiskCache(t *testing.T) {
	dir := t.TempDir()
	s := &script{name: "Do", do: failing(0)}
	do := func() (any, error) {
		p := compile(t, environment(t, s), "x = Do(\"q\") with cache: 1h, cache_backend: \"disk\"\nout x")
		f, err := flow.New(p, flow.NewShared(flow.SharedOptions{CacheDir: dir}))
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Run(t.Context(), nil, nil, flow.Options{})
		return out["x"], err
	}
	files := func() (names []string) {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for range 3 {
		if v, err := do(); v != "ok q" || err != nil {
			t.Fatal(v, err)
		}
	}
	if len(s.begun) != 1 || len(files()) != 1 {
		t.Fatalf("%d calls, files %v", len(s.begun), files())
	}
	for _, damage := range []string{"", "{", `{"expires":"2000-01-01T00:00:00Z","value":"old"}`, `{"expires":"2999-01-01T00:00:00Z","value":7}`} {
		if err := os.WriteFile(files()[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(s.begun)
		if v, err := do(); v != "ok q" || err != nil || len(s.begun) != before+1 {
			t.Errorf("%q: %v, %v, %d calls", damage, v, err, len(s.begun)-before)
		}
	}
	if n, size, err := flow.PruneCache(dir, time.Now().Add(2*time.Hour), true); n != 1 || size == 0 || err != nil || len(files()) != 0 {
		t.Errorf("pruned %d, %d bytes, %v, left %v", n, size, err, files())
	}
	p := compile(t, environment(t, s), "x = Do(\"q\") with cache: 1h, cache_backend: \"disk\"\nout x")
	if _, err := flow.New(p, flow.NewShared(flow.SharedOptions{})); err == nil || !strings.Contains(err.Error(), "no directory for a cache on disk") {
		t.Errorf("without a directory: %v", err)
	}
}

// TestBreaker checks R25: it opens after so many failed attempts in a row, of
// all calls of the module, refuses at once, and lets one through when its time
// is over.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: failing(4)}
		clock := &script{name: "Clock", do: func(ctx context.Context, _ int, arg any) (any, error) {
			var d time.Duration
			_, err := fmt.Sscan(fmt.Sprint(arg), (*seconds1)(&d))
			return arg, errors.Join(err, pass(ctx, d))
		}}
		var changes []string
		p := compile(t, environment(t, s, clock), `
a = Do("a") with breaker: 3/30s, retry: 9, delay: 1s, fallback: "fa: ${error.class}"
b = Do(Clock("10")) with breaker: 3/30s, retry: 9, fallback: "fb: ${error.class}"
c = Do(Clock("33")) with breaker: 3/30s, fallback: "fc: ${error.class}"
d = Do(Clock("40")) with breaker: 3/30s, fallback: "fd: ${error.class}"
e = Do(Clock("64")) with breaker: 3/30s
f = Do(Clock("50")) with breaker: 3/30s, retry: 9, delay: 1s, retry_on: [circuit_open]
out a
out b
out c
out d
out e
out f
`)
		f, err := flow.New(p, flow.NewShared(flow.SharedOptions{Breakers: saver(func(name string, before, after circuit.Snapshot) {
			if before.State != after.State {
				changes = append(changes, fmt.Sprintf("%s %v %v→%v", name, time.Since(bubble), before.State, after.State))
			}
		})}))
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Run(t.Context(), nil, nil, flow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// a fails at 0, 1 and 2 s: open until 32 s. c is let through at 33 s
		// and fails: open until 63 s. f waits for that.
		want := map[string]any{"a": "fa: circuit_open", "b": "fb: circuit_open", "c": "fc: error", "d": "fd: circuit_open", "e": "ok 64", "f": "ok 50"}
		if fmt.Sprint(out) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", out, want)
		}
		if !slices.Equal(s.begun, seconds(0, 1, 2, 33, 63, 64)) {
			t.Errorf("attempts at %v", s.begun)
		}
		if got := strings.Join(changes, ", "); got != "Do 3/30s 2s closed→open, Do 3/30s 33s open→half_open, Do 3/30s 33s half_open→open, Do 3/30s 1m3s open→half_open, Do 3/30s 1m3s half_open→closed" {
			t.Errorf("changes %s", got)
		}
	})
}

// seconds1 scans a number of seconds.
type seconds1 time.Duration

func (s *seconds1) Scan(state fmt.ScanState, _ rune) error {
	var n int
	_, err := fmt.Fscan(state, &n)
	*s = seconds1(time.Duration(n) * time.Second)
	return err
}

// TestParallel checks that what does not depend on each other is done at once,
// lazily needed values included, and each call once (R4, R21).
func TestParallel(t *testing.T) {
	cases := []struct {
		src   string
		took  time.Duration
		calls int
	}{
		{"a = Do(\"a\")\nb = Do(\"b\")\nc = Do(\"${a}${b}\")\nout c", 2 * time.Second, 3},
		{"in c: Boolean\nx = if (c) \"${Do(\"a\")}${Do(\"b\")}${Do(\"c\")}\" else \"\"\nout x", time.Second, 3},
		{"in c: Boolean\nx = (if (c) Do(\"a\") else \"\") when c\ny = if (c) Do(\"b\") else Do(\"c\")\nout x\nout y", time.Second, 2},
		{"v = Do(\"a\")\nxs = map([\"1\", \"2\", \"3\"], (x) => \"${Do(x)}${Do(v)}${v}\")\nout xs", 2 * time.Second, 7},
		{"xs = map([\"1\", \"2\"], (x) => join(map([\"3\", \"4\"], (y) => Do(\"${x}${y}\")), \"\"))\nout xs", time.Second, 4},
		{"a = Do(\"a\") with lazy\nx = \"${a}${a}\"\ny = Do(a)\nout x\nout y", 2 * time.Second, 2},
		{"b = any([\"1\", \"2\", \"3\"], (x) => Do(x) == \"2\")\nout b", 2 * time.Second, 2},
		{"a = Do(\"a\") with timeout: 100ms, fallback: Do(\"b\") with retry: 2\nout a", 1100 * time.Millisecond, 2},
	}
	for _, c := range cases {
		t.Run(c.src, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Do", do: taking(time.Second)}
				f, p := flowOf(t, c.src, s)
				in := map[string]any{}
				if strings.HasPrefix(c.src, "in c") {
					in["c"] = true
				}
				values, given, err := p.Decode(in)
				if err != nil {
					t.Fatal(err)
				}
				d := &diary{}
				if _, err := f.Run(t.Context(), values, given, flow.Options{Watcher: d}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(bubble); took != c.took || len(s.begun) != c.calls {
					t.Errorf("it took %v with %d calls, want %v with %d", took, len(s.begun), c.took, c.calls)
				}
				if text := strings.Join(d.lines, "\n"); strings.Contains(text, "TWICE") {
					t.Errorf("two calls have one path:\n%s", text)
				}
			})
		})
	}
}

// TestPast checks R27: a call that ended well in an earlier life is not made
// again, one that did not continues with the attempts and the wait that it had
// left.
func TestPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: failing(always)}
		d := &diary{past: map[string]flow.Past{
			"a":        {Done: true, Value: "recorded"},
			"xs[1].Do": {Done: true, Value: "second"},
			"b": {State: driver.State{Attempt: 2, Slept: 3 * time.Second, Prev: 2 * time.Second,
				FirstFailure: time.Now().Add(-3 * time.Second), Due: time.Now().Add(1500 * time.Millisecond)}, Last: errDown},
			"c": {State: driver.State{Attempt: 2, FirstFailure: time.Now()}, Last: errors.New("as recorded")},
		}}
		out, err := once(t, flow.Options{Watcher: d}, `
a = Do("a")
xs = map(["1", "2"], (x) => Do(x) with fallback: "f")
b = Do("b") with retry: 3, delay: 1s, backoff: exponential, fallback: "${error.attempts} attempts"
c = Do("c") with retry: 1, fallback: error.message
out a
out xs
out b
out c
`, s)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(out) != "map[a:recorded b:4 attempts c:as recorded xs:[f second]]" {
			t.Errorf("got %v", out)
		}
		if !slices.Equal(s.begun, seconds(0, 1.5, 5.5)) {
			t.Errorf("attempts at %v", s.begun)
		}
		d.has(t, "b attempt 3 waited 0s", "b retry after 3 in 4s", "b attempt 4 waited 0s")
		if a, b := d.calls["a"], d.calls["b"]; a.Digest() == b.Digest() || len(a.Digest()) != 32 {
			t.Errorf("digests %s %s", a.Digest(), b.Digest())
		}
	})
}

// TestWaitsAreMeasured checks that a call has waited as long as it really did: also for what
// an earlier life left of a wait, and not for what of one was cut off.
func TestWaitsAreMeasured(t *testing.T) {
	for _, c := range []struct {
		name string
		past flow.Past
		want [2]time.Duration
	}{
		{"whole", flow.Past{}, [2]time.Duration{22 * time.Second, 20 * time.Second}},
		{"continued", flow.Past{State: driver.State{Attempt: 1, Slept: 10 * time.Second, Prev: 10 * time.Second,
			FirstFailure: bubble.Add(-3 * time.Second), Due: bubble.Add(7 * time.Second)}, Last: errDown}, [2]time.Duration{18 * time.Second, 17 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "Do", do: func(ctx context.Context, n int, arg any) (any, error) {
					if n+c.past.State.Attempt < 3 {
						return nil, errors.Join(pass(ctx, time.Second), errDown)
					}
					return arg, nil
				}}
				d := &diary{past: map[string]flow.Past{"a": c.past}}
				if _, err := once(t, flow.Options{Watcher: d}, `a = Do("a") with retry: 2, delay: 10s`+"\nout a", s); err != nil {
					t.Fatal(err)
				}
				if e := d.ends["a"]; e.Took != c.want[0] || e.Waited != c.want[1] {
					t.Errorf("it took %v and waited %v, want %v", e.Took, e.Waited, c.want)
				}
			})
		})
	}
}

// TestElements checks that every element of a list is brought to its end, that
// the error says which failed, and that so many are in work at once as the
// window is wide.
func TestElements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: func(ctx context.Context, _ int, arg any) (any, error) {
			if err := pass(ctx, time.Second); err != nil || fmt.Sprint(arg)[0] == 'x' {
				return nil, errors.Join(err, errDown)
			}
			return arg, nil
		}}
		_, err := once(t, flow.Options{Window: 2}, `ys = map(["a", "x1", "b", "x2", "c"], (x) => Do(x))`+"\nout ys", s)
		var e *flow.ElementsError
		if !errors.As(err, &e) || e.First != 1 || e.Failed != 2 || e.Total != 5 || len(s.begun) != 5 || s.most != 2 || time.Since(bubble) != 3*time.Second {
			t.Errorf("%v; %d calls, %d at once, %v", err, len(s.begun), s.most, time.Since(bubble))
		}
	})
}

// TestMaxParallel checks that attempts are bounded over all modules, and waits
// are not.
func TestMaxParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: taking(time.Second)}
		bad := &script{name: "Bad", do: failing(always)}
		p := compile(t, environment(t, s, bad), `
a = map(["1", "2", "3", "4", "5"], (x) => Do(x))
b = Bad("b") with retry: 1, delay: 1h, fallback: "f"
out a
out b
`)
		f, err := flow.New(p, flow.NewShared(flow.SharedOptions{MaxParallel: 2}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Run(t.Context(), nil, nil, flow.Options{}); err != nil {
			t.Fatal(err)
		}
		if s.most > 2 || s.begun[len(s.begun)-1] > 3*time.Second {
			t.Errorf("%d at once, begun %v", s.most, s.begun)
		}
	})
}

// TestLate checks that what a function gives after its time is over is its
// result all the same, and that a failure then is one of the timeout.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: func(_ context.Context, n int, arg any) (any, error) {
			time.Sleep(10 * time.Second) // it does not look at its context
			if n == 1 {
				return nil, errDown
			}
			return fmt.Sprint(arg, n), nil
		}}
		out, err := once(t, flow.Options{}, "x = Do(\"q\") with timeout: 1s, retry_on: [timeout], retry: 5\nout x", s)
		if err != nil || out["x"] != "q2" {
			t.Errorf("%v %v", out, err)
		}
	})
}

// saver is a circuit.Store that hears of changes alone.
type saver func(key string, before, after circuit.Snapshot)

func (saver) Load(string) (s circuit.Snapshot, ok bool)         { return s, false }
func (f saver) Save(key string, before, after circuit.Snapshot) { f(key, before, after) }
