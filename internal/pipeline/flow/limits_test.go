package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// TestReservation checks that a token is taken when its attempt begins and not
// before: however long the calls wait for a slot, their rate is kept.
func TestReservation(t *testing.T) {
	const src = `xs = map(Items(), (x) => Do(x) with throttle: 2/1s%s)` + "\nout xs"
	for with, parallel := range map[string]int{", concurrency: 1": 0, "": 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{name: "Do", do: func(ctx context.Context, n int, arg any) (any, error) {
				if n == 1 {
					return arg, pass(ctx, 10*time.Second)
				}
				return arg, nil
			}}
			items := make([]string, 22)
			for i := range items {
				items[i] = fmt.Sprintf("%q", fmt.Sprint(i))
			}
			p := compile(t, environment(t, s), strings.Replace(fmt.Sprintf(src, with), "Items()", "["+strings.Join(items, ", ")+"]", 1))
			f, err := flow.New(p, flow.NewShared(flow.SharedOptions{MaxParallel: parallel}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Run(t.Context(), nil, nil, flow.Options{}); err != nil {
				t.Fatal(err)
			}
			for i, at := range s.begun {
				together := 0
				for _, other := range s.begun[i:] {
					if other < at+time.Second {
						together++
					}
				}
				if together > 3 { // the bucket holds two, and fills evenly
					t.Fatalf("%q: %d attempts within a second: %v", with, together, s.begun)
				}
			}
		})
	}
}

// TestReservationBehindOthers checks the same where the slots of all calls, as
// many as there are by default, are busy with other modules.
func TestReservationBehindOthers(t *testing.T) {
	const slots = 64
	synctest.Test(t, func(t *testing.T) {
		other, s := &script{name: "Other", do: taking(10 * time.Second)}, &script{name: "Do", do: failing(0)}
		src := ""
		for i := range slots {
			src += fmt.Sprintf("o%d = Other(\"%d\")\n", i, i)
		}
		src += `xs = map(["1", "2", "3", "4", "5", "6", "7", "8"], (x) => Do(x) with throttle: 2/1s)` + "\nout xs"
		f, err := flow.New(compile(t, environment(t, other, s), src), flow.NewShared(flow.SharedOptions{MaxParallel: slots}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Run(t.Context(), nil, nil, flow.Options{}); err != nil {
			t.Fatal(err)
		}
		if want := seconds(10, 10, 10.5, 11, 11.5, 12, 12.5, 13); !slices.Equal(s.begun, want) {
			t.Errorf("attempts at %v, want %v", s.begun, want)
		}
	})
}

// TestBreakerFirst checks that a refusal costs nothing: no wait for a token, no
// token.
func TestBreakerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: func(_ context.Context, _ int, arg any) (any, error) {
			if arg == "bad" {
				return nil, errDown
			}
			return arg, nil
		}}
		first := &script{name: "First", do: taking(time.Second)}
		const with = " with throttle: 1/10s, breaker: 1/1s"
		out, err := once(t, flow.Options{}, `
f = First("f")
a = Do("bad")`+with+`, fallback: "down"
b = map(["1", "2", "3"], (x) => Do(if (a == "down") x else "?")`+with+`, fallback: "refused")
c = map([f], (x) => Do(x)`+with+`)
out b
out c
`, s, first)
		if err != nil || fmt.Sprint(out["b"]) != "[refused refused refused]" {
			t.Fatalf("%v %v", out, err)
		}
		// The token of c comes 10 s after that of a: the refusals took none, and
		// waited for none.
		if want := seconds(0, 10); !slices.Equal(s.begun, want) {
			t.Errorf("attempts at %v, want %v", s.begun, want)
		}
	})
}

// TestPriorityOverSlots checks that who waits for the slots of all calls holds
// none of its module: a critical call goes first.
func TestPriorityOverSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := &script{name: "Do", do: taking(time.Second)}, &script{name: "Other", do: taking(time.Second)}
		src := "g = Gate(\"g\") with priority: critical\nlow = Do(\"background\") with concurrency: 1, priority: background\n"
		for i := range 4 {
			src += fmt.Sprintf("n%d = Other(\"%d\")\n", i, i)
		}
		src += "c = Do(\"${g}critical\") with concurrency: 1, priority: critical\nout c"
		gate := &script{name: "Gate", do: taking(500 * time.Millisecond)}
		p := compile(t, environment(t, s, other, gate), src)
		f, err := flow.New(p, flow.NewShared(flow.SharedOptions{MaxParallel: 1}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Run(t.Context(), nil, nil, flow.Options{}); err != nil {
			t.Fatal(err)
		}
		if want := seconds(1.5, 5.5); fmt.Sprint(s.args) != "[gcritical background]" || !slices.Equal(s.begun, want) {
			t.Errorf("the order was %v at %v, want %v", s.args, s.begun, want)
		}
	})
}

// TestOwnSlots checks that a module which runs a pipeline on the limits that it
// is called under comes to its end: what it calls goes through its slot.
func TestOwnSlots(t *testing.T) {
	for _, parallel := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var inner *flow.Flow
			s := &script{name: "Do"}
			s.do = func(ctx context.Context, _ int, arg any) (any, error) {
				if len(arg.(string)) > 5 {
					return arg, pass(ctx, time.Second)
				}
				out, err := inner.Run(ctx, []any{arg}, []bool{true}, flow.Options{})
				return out["y"], err
			}
			shared := flow.NewShared(flow.SharedOptions{MaxParallel: parallel})
			prepare := func(src string) *flow.Flow {
				f, err := flow.New(compile(t, environment(t, s), src), shared)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			const with = "with concurrency: 1, timeout: 1h"
			inner = prepare(`in x: String` + "\n" + `ys = map(["a", "b"], (y) => Do("${x}.${y}") ` + with + `)` + "\n" + `y = join(ys, "+")` + "\nout y")
			outer := prepare(`xs = map(["1", "2"], (x) => Do(x) ` + with + `)` + "\nout xs")
			out, err := outer.Run(t.Context(), nil, nil, flow.Options{})
			if err != nil || len(out["xs"].([]any)) != 2 {
				t.Fatalf("parallel %d: %v, %v", parallel, out, err)
			}
			if s.most > 4 {
				t.Errorf("%d at once", s.most)
			}
		})
	}
}

// TestQueued checks that a call that waits for its turn is told as waiting, and
// that the wait is not in its duration.
func TestQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: taking(time.Second)}
		d := &ends{}
		if _, err := once(t, flow.Options{Watcher: d}, "a = Do(\"a\") with concurrency: 1\nb = Do(\"b\") with concurrency: 1\nout b", s); err != nil {
			t.Fatal(err)
		}
		d.has(t, "b attempt 1 queued for limit", "b attempt 1 waited 1s")
		if e := d.ends["b"]; e.Took != 2*time.Second || e.Waited != time.Second {
			t.Errorf("took %v, of that waited %v", e.Took, e.Waited)
		}
		if i, j := slices.Index(d.lines, "b attempt 1 queued for limit"), slices.Index(d.lines, "b attempt 1 waited 1s"); i > j {
			t.Errorf("told out of order: %v", d.lines)
		}
	})
}

type ends struct {
	diary
	ends map[string]flow.End
}

func (d *ends) Finished(c *flow.Call, e flow.End) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil {
		d.ends = map[string]flow.End{}
	}
	d.ends[c.Path] = e
}

// TestBudgetOverLives checks that the time in which nobody ran a call does not
// use its budget.
func TestBudgetOverLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: failing(1)}
		d := &diary{past: map[string]flow.Past{"x": {State: driver.State{
			Attempt: 1, Slept: time.Second, Prev: time.Second, FirstFailure: time.Now().Add(-2 * time.Minute), Due: time.Now().Add(-time.Minute)}, Last: errDown}}}
		out, err := once(t, flow.Options{Watcher: d}, "x = Do(\"q\") with retry: 5, delay: 1s, budget: 1min\nout x", s)
		if err != nil || out["x"] != "ok q" || !slices.Equal(s.begun, seconds(0, 1)) {
			t.Errorf("%v, %v, attempts at %v", out, err, s.begun)
		}
	})
}

// TestDeadlineOverLives checks that the deadline continues where nobody ran the
// call.
func TestDeadlineOverLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: failing(always)}
		d := &diary{past: map[string]flow.Past{"x": {State: driver.State{
			Attempt: 1, Began: time.Now().Add(-50 * time.Second), FirstFailure: time.Now().Add(-50 * time.Second)}, Last: errDown}}}
		_, err := once(t, flow.Options{Watcher: d}, "x = Do(\"q\") with retry: 50, delay: 4s, deadline: 1min\nout x", s)
		var failed *retry.Error
		if !errors.As(err, &failed) || failed.Reason != driver.ReasonDeadline || time.Since(bubble) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(bubble))
		}
	})
}

// TestDeadlineKeepsTheCause: a call whose attempt the deadline ends says what the attempt
// before failed of.
func TestDeadlineKeepsTheCause(t *testing.T) {
	for _, c := range []struct {
		fails int
		want  string
	}{
		{0, "the deadline of 10s is over"},
		{2, "the deadline of 10s is over; the attempt before failed: " + errDown.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{name: "Do", do: func(ctx context.Context, attempt int, arg any) (any, error) {
				if attempt <= c.fails {
					return nil, errDown
				}
				return arg, pass(ctx, time.Hour)
			}}
			_, err := once(t, flow.Options{}, "x = Do(\"q\") with retry: 50, delay: 1s, deadline: 10s\nout x", s)
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}
