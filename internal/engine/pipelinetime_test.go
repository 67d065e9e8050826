package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

const getModule = "- {name: Get, params: {path: String}, result: String, http: \"http://example.test/{path}\"}\n"

// TestWaitsOfCallsGoOn: attempts, delays and the budget of a call are counted
// over all lives of a run.
func TestWaitsOfCallsGoOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, options string
		interrupt     time.Duration
		pause         time.Duration // between the end of the run and its resume
		want          []float64     // the attempts
		why           string        // of the failure; "": it succeeds
	}{
		{"the rest of a wait", "retry: 4, delay: 2s", time.Second, 0, []float64{0, 2, 4}, ""},
		{"a wait that is over", "retry: 4, delay: 2s", time.Second, time.Minute, []float64{0, 61, 63}, ""},
		{"exponential", "retry: 4, delay: 2s, backoff: exponential", 3 * time.Second, 0, []float64{0, 2, 6}, ""},
		{"attempts", "retry: 1, delay: 2s", time.Second, 0, []float64{0, 2}, "after 2 attempts"},
		{"budget", "retry: 9, delay: 2s, budget: 3s", time.Second, 0, []float64{0, 2}, "budget"},
		{"budget after a pause", "retry: 9, delay: 2s, budget: 5s", time.Second, time.Minute, []float64{0, 61, 63}, ""},
		{"a budget that expires", "retry: 9, delay: 2s, budget: 5s, budget_expires: true", time.Second, time.Minute, []float64{0}, "expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &virtual{fails: func(path string, n int, _ time.Duration) bool { return path == "second" && n < 3 }}
			inTime(t, v, func(b *bench) {
				b.modules(getModule)
				b.interrupt(c.interrupt)
				r := b.pipeline("first = Get(\"first\")\nsecond = Get(\"second\") with "+c.options+"\nout third = Get(second)\nout first\n", nil)
				r.status(event.Interrupted)
				if r.sum.ExitStatus() != 130 {
					t.Errorf("exit status %d, want 130", r.sum.ExitStatus())
				}
				time.Sleep(c.pause)
				r = b.resume(context.Background())
				wantTimes(t, "second", v.times("second"), c.want)
				if v.count["first"] != 1 {
					t.Errorf("requests: %v", v.count)
				}
				if c.why == "" {
					r.status(event.Succeeded)
					return
				}
				r.status(event.Failed)
				if !strings.Contains(r.sum.Message, c.why) || !strings.Contains(r.sum.Message, "500") {
					t.Errorf("it says %s", r.sum.Message)
				}
			})
		})
	}
}

// TestBreakersOfCallsGoOn: failures of an earlier life count, and an open breaker stays
// open as long as it would have.
func TestBreakersOfCallsGoOn(t *testing.T) {
	t.Parallel()
	const flow = `
a = Get("x") with breaker: 3/30s, fallback: "-"
b = Get(if (a == "-") "x" else "?") with breaker: 3/30s, fallback: "-"
wait = Get(if (b == "-") "wait" else "?") with retry: 1, delay: 5s
c = Get(if (wait != "") "x" else "?") with breaker: 3/30s, fallback: "-"
d = Get(if (c == "-") "x" else "?") with breaker: 3/30s, fallback: error.class
late = Get(if (d != "") "late" else "?") with retry: 1, delay: 40s
e = Get(if (late != "") "x" else "?") with breaker: 3/30s, fallback: "-"
out d
out e
`
	v := &virtual{fails: func(path string, n int, at time.Duration) bool {
		return path == "x" && at < 20*time.Second || (path == "wait" || path == "late") && n == 1
	}}
	inTime(t, v, func(b *bench) {
		b.modules(getModule)
		b.interrupt(2 * time.Second) // during the wait, after two have failed
		b.pipeline(flow, nil).status(event.Interrupted)
		r := b.resume(context.Background())
		r.status(event.Succeeded)
		wantTimes(t, "x", v.times("x"), []float64{0, 0, 5, 45})
		r.gave("d", "circuit_open")
		if e, _ := r.sum.Outputs["e"].(string); e == "-" {
			t.Error("the breaker did not let the probe through")
		}
	})
}

// TestAStepPipelineGoesOn: when the pipeline of a step is interrupted, a resume continues
// inside its attempt.
func TestAStepPipelineGoesOn(t *testing.T) {
	t.Parallel()
	v := &virtual{fails: func(path string, n int, _ time.Duration) bool { return path == "second" && n < 3 }}
	inTime(t, v, func(b *bench) {
		b.modules(getModule)
		b.write("fetch.cst", "first = Get(\"first\")\nout second = Get(\"second\") with retry: 4, delay: 2s\nout first\n")
		b.interrupt(time.Second)
		b.run("commands:\n  - pipeline: fetch.cst\n    capture: got\n    capture_format: json\n  - http: \"http://example.test/third?${got.second}\"\n").status(event.Interrupted)
		r := b.resume(context.Background())
		r.status(event.Succeeded)
		wantTimes(t, "second", v.times("second"), []float64{0, 2, 4})
		if v.count["first"] != 1 || v.count["third"] != 1 {
			t.Errorf("requests: %v", v.count)
		}
	})
}
