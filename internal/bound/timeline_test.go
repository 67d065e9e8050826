package bound_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
	"pgregory.net/rapid"
)

const s, ms = time.Second, time.Millisecond

func secs(list ...float64) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, f := range list {
		out[i] = time.Duration(f * float64(s))
	}
	return out
}

func delays(t bound.Timeline) []time.Duration {
	out := []time.Duration{}
	for _, w := range t.Waits {
		out = append(out, w.Delay)
	}
	return out
}

// The worked rows of the specification and of the golden tables of pipelines.
func TestFailuresWorkedRows(t *testing.T) {
	repeat := func(n int, f float64) []float64 { return slices.Repeat([]float64{f}, n) }
	exponential := append([]float64{1, 2, 4, 8, 16}, repeat(35, 30)...)
	for _, tc := range []struct {
		name string
		b    backoff.Schedule
		want []time.Duration
	}{
		{"fixed 2s", backoff.Schedule{Strategy: backoff.Fixed{}, Initial: 2 * s}, secs(2, 2, 2)},
		{"linear 1s+2s", backoff.Schedule{Strategy: backoff.Linear{Increment: 2 * s}, Initial: s}, secs(1, 3, 5, 7)},
		{"exponential 1s", backoff.Schedule{Initial: s}, secs(1, 2, 4, 8, 16, 30, 30)},
		{"exponential 1s base 3 cap 60s", backoff.Schedule{Strategy: backoff.Exponential{Base: 3}, Initial: s, Max: 60 * s}, secs(1, 3, 9, 27, 60)},
		{"fibonacci 1s", backoff.Schedule{Strategy: backoff.Fibonacci{}, Initial: s}, secs(1, 1, 2, 3, 5, 8)},
		{"custom cap 60s", backoff.Schedule{Strategy: backoff.Custom{Delays: secs(1, 3, 7, 15)}, Max: 60 * s}, secs(1, 3, 7, 15, 60)},
		{"custom 500ms…", backoff.Schedule{Strategy: backoff.Custom{Delays: secs(.5, 1, 2, 5, 10)}}, secs(.5, 1, 2, 5, 10, 30)},
		{"custom empty", backoff.Schedule{Strategy: backoff.Custom{}}, secs(30, 30, 30)},

		{"retry 3", backoff.Schedule{Strategy: backoff.Fixed{}}, secs(0, 0, 0)},
		{"retry 3, delay 1s", backoff.Schedule{Strategy: backoff.Fixed{}, Initial: s, Max: backoff.Unlimited}, secs(1, 1, 1)},
		{"retry 4, linear", backoff.Schedule{Strategy: backoff.Linear{}, Initial: s}, secs(1, 2, 3, 4)},
		{"retry 5, exponential", backoff.Schedule{Initial: s}, secs(1, 2, 4, 8, 16)},
		{"retry 10, exponential", backoff.Schedule{Initial: s}, secs(exponential[:10]...)},
		{"retry 5, 500ms, exponential", backoff.Schedule{Initial: 500 * ms}, secs(.5, 1, 2, 4, 8)},
		{"retry 5, 2s, linear", backoff.Schedule{Strategy: backoff.Linear{}, Initial: 2 * s}, secs(2, 4, 6, 8, 10)},
		{"retry 2, 1min fixed", backoff.Schedule{Strategy: backoff.Fixed{}, Initial: time.Minute, Max: backoff.Unlimited}, secs(60, 60)},
		{"retry 40, exponential", backoff.Schedule{Initial: s}, secs(exponential[:40]...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := bound.Failures(retry.Policy{Attempts: len(tc.want) + 1, Backoff: tc.b}, -1)
			if !slices.Equal(delays(got), tc.want) {
				t.Errorf("delays %v, want %v", delays(got), tc.want)
			}
			var sum time.Duration
			for i, w := range got.Waits {
				sum += tc.want[i]
				if w.After != i+1 || w.Sum != sum || w.Least != w.Delay || w.Greatest != w.Delay {
					t.Errorf("wait %d is %+v, want a sum of %v", i+1, w, sum)
				}
			}
			if got.Attempts != len(tc.want)+1 || got.Total != sum || got.Reason != driver.ReasonAttempts {
				t.Errorf("attempts %d, total %v, ended by %v", got.Attempts, got.Total, got.Reason)
			}
		})
	}
}

func TestFailuresStopsAtTheBudget(t *testing.T) {
	got := bound.Failures(retry.Policy{Attempts: 10, Backoff: backoff.Schedule{Initial: s}, Budget: 5 * s}, -1)
	if got.Attempts != 3 || got.Total != 3*s || got.Reason != driver.ReasonBudget || !slices.Equal(delays(got), secs(1, 2)) {
		t.Errorf("got %+v; the third failure must stop it", got)
	}
}

func TestFailuresKeepsOnlyWhatIsAskedFor(t *testing.T) {
	got := bound.Failures(retry.Policy{Attempts: 1000, Backoff: backoff.Schedule{Strategy: backoff.Fixed{}, Initial: s}}, 5)
	if len(got.Waits) != 5 || got.Attempts != 1000 || got.Total != 999*s {
		t.Errorf("%d waits, %d attempts, %v", len(got.Waits), got.Attempts, got.Total)
	}
}

// A matcher that refuses everything must not end the simulation.
func TestFailuresLeavesOutMatchers(t *testing.T) {
	got := bound.Failures(retry.Policy{Attempts: 4, If: func(error) bool { return false }, AbortOn: func(error) bool { return true }}, -1)
	if got.Attempts != 4 {
		t.Errorf("%d attempts, want 4", got.Attempts)
	}
}

func TestBoundsHoldEveryTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Policy{Attempts: rapid.IntRange(1, 30).Draw(t, "attempts")}
		p.Backoff = backoff.Schedule{
			Initial:      time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "initial")),
			Max:          time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "max")),
			Jitter:       backoff.Jitter(rapid.IntRange(0, 4).Draw(t, "jitter")),
			JitterFactor: rapid.Float64Range(0.01, 1).Draw(t, "factor"),
		}
		if rapid.Bool().Draw(t, "bounded") {
			p.Budget = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "budget"))
		}
		shortest, longest := bound.Bounds(p, -1)
		most := bound.Of(p, bound.Asked{})
		attempts, waits := int(most.Attempts.N), most.Waits.D
		p.Rand = backoff.NewRand(rapid.Uint64().Draw(t, "seed"))
		got := bound.Failures(p, -1)
		if got.Attempts > attempts || got.Total > waits {
			t.Fatalf("%d attempts and %v of waits; at most %d and %v were foretold", got.Attempts, got.Total, attempts, waits)
		}
		for _, w := range got.Waits {
			if w.Delay < w.Least || w.Delay > w.Greatest {
				t.Fatalf("the delay %v is outside [%v, %v]", w.Delay, w.Least, w.Greatest)
			}
		}
		if p.Backoff.Jitter != backoff.None && p.Backoff.Jitter != backoff.Decorrelated && p.Budget == 0 {
			for i, w := range longest.Waits {
				if w.Delay != w.Greatest || shortest.Waits[i].Delay != w.Least {
					t.Fatalf("the ends of the range [%v, %v] were not drawn: %v and %v", w.Least, w.Greatest, shortest.Waits[i].Delay, w.Delay)
				}
			}
		}
	})
}

func TestBoundsSaturate(t *testing.T) {
	_, longest := bound.Bounds(retry.Policy{Attempts: 100_000, Backoff: backoff.Schedule{Initial: s, Max: backoff.Unlimited}}, 1)
	if longest.Total != math.MaxInt64 || longest.Attempts != 100_000 {
		t.Errorf("total %v after %d attempts", longest.Total, longest.Attempts)
	}
}

func ExampleFailures() {
	t := bound.Failures(retry.Policy{Attempts: 10, Backoff: backoff.Schedule{Initial: time.Second}, Budget: 5 * time.Second}, -1)
	for _, w := range t.Waits {
		fmt.Println(w.After, w.Delay, w.Sum)
	}
	fmt.Println(t.Attempts, "attempts, ended by", t.Reason)
	// Output:
	// 1 1s 1s
	// 2 2s 3s
	// 3 attempts, ended by budget
}
