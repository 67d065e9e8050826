package flow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/flow"
)

// The defects of the original that only a run shows; the numbers are those of
// ../DEFECTS.md. Most are in the other tests of this package.

// R3: a call without a timeout may take any time, and one that ran out of its
// time has failed, and so has the run.
func TestR3NoHiddenClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: taking(48 * time.Hour)}
		out, err := once(t, flow.Options{}, "a = Do(\"a\")\nb = Do(a)\nc = Do(\"c\") with timeout: 3s\nout b\nout c", s)
		var failed *flow.Error
		if !errors.As(err, &failed) || len(failed.Failures) != 1 || out["b"] != "a" || time.Since(bubble) != 96*time.Hour {
			t.Errorf("%v %v after %v", out, err, time.Since(bubble))
		}
	})
}

// R20: the value of a fallback and the zero of on_error are not kept.
func TestR20FallbacksAreNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: failing(always)}
		if _, err := once(t, flow.Options{}, "a = Do(\"q\") with cache: 5min, fallback: \"f\"\nb = Do(\"${a}\") with cache: 5min, on_error: skip\nc = Do(if (b == \"\") \"f\" else \"x\") with cache: 5min, on_error: skip\nout a\nout b\nout c", s); err != nil {
			t.Fatal(err)
		}
		if len(s.begun) != 3 {
			t.Errorf("%d calls", len(s.begun))
		}
	})
}

// R24: a chain that is longer than any limit ends, since no call holds a slot
// while it waits for its inputs; and when runs are cancelled at any instant,
// their slots and tokens are free again.
func TestR24SlotsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: taking(time.Second)}
		src := "v0 = Do(\"x\") with concurrency: 1\n"
		for i := 1; i < 50; i++ {
			src += fmt.Sprintf("v%d = Do(v%d) with concurrency: 1\n", i, i-1)
		}
		if out, err := once(t, flow.Options{}, src+"out v49", s); err != nil || out["v49"] != "x" {
			t.Errorf("%v %v", out, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "Do", do: taking(time.Second)}
		f, _ := flowOf(t, `xs = map(["a", "b", "c", "d", "e"], (x) => Do(x) with concurrency: 2, throttle: 100/1s, breaker: 50/1h, retry: 2, delay: 100ms)`+"\nout xs", s)
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Millisecond)
			if _, err := f.Run(ctx, nil, nil, flow.Options{}); err == nil && i < 30 {
				t.Errorf("a run of %d00 ms came to its end", i)
			}
			cancel()
		}
		began := time.Now()
		s.most = 0
		if _, err := f.Run(t.Context(), nil, nil, flow.Options{}); err != nil || s.most != 2 || time.Since(began) != 3*time.Second {
			t.Errorf("%v, %d at once, %v", err, s.most, time.Since(began))
		}
	})
}

// R26: a lazy call is not made unless it is needed, and when it fails, all who
// asked for it fail, and it was made once.
func TestR26LazyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, unused := &script{name: "Do", do: failing(always)}, &script{name: "Unused", do: failing(0)}
		_, err := once(t, flow.Options{}, `
l = Do("l") with lazy
u = Unused("u") with lazy
a = if (string-length(l) > 0) "a" else "b"
b = "${l}!"
c = map(["1", "2"], (x) => "${l}${x}")
out a
out b
out c
`, s, unused)
		var failed *flow.Error
		if !errors.As(err, &failed) || len(failed.Failures) != 1 || len(s.begun) != 1 || len(unused.begun) != 0 {
			t.Errorf("%v, %d calls, %d unused", err, len(s.begun), len(unused.begun))
		}
	})
}
