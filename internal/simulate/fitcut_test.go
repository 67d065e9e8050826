package simulate

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
)

// TestFitCut: attempts that something cut short count neither as successes nor as
// failures, and the long ones among them do not make the others look short.
func TestFitCut(t *testing.T) {
	t.Parallel()
	const n = 8000
	mean := time.Second
	var list []*recorded
	for i := range n {
		l := luck(mix(uint64(i)))
		a := &recorded{from: time.Duration(i) * time.Minute, took: l.exponential(mean)}
		// what takes long fails more often
		if a.took > mean && l.unit() < 0.6 || a.took <= mean && l.unit() < 0.1 {
			a.failure = &failure.Failure{Class: "network"}
		}
		if limit := time.Duration(l.unit() * float64(6*mean)); i%2 == 0 && a.took > limit/2 {
			limit /= 2
			a.took, a.failure, a.cut = limit, nil, true
		}
		list = append(list, a)
	}
	got := fit(list)
	want := 0.6*math.Exp(-1) + 0.1*(1-math.Exp(-1))
	if len(got.Failures) != 1 || math.Abs(got.Failures[0].P-want) > 0.02 {
		t.Errorf("fails with %v, and it is %.3f", got.Failures, want)
	}
	var e []time.Duration // of attempts that the target makes
	x, draws := &live{Target: got}, luck(3)
	for range n {
		class, _ := x.fails(0, got.Failures, draws.unit())
		d := got.Latency.draw(&draws)
		if list := got.spans[class]; len(list) > 0 {
			d = draw(list, &draws)
		}
		e = append(e, d)
	}
	slices.Sort(e)
	for _, q := range []float64{0.25, 0.5, 0.75, 0.9} {
		was, is := -math.Log(1-q), e[int(q*float64(len(e)))].Seconds()
		if math.Abs(is-was) > 0.06*was {
			t.Errorf("quantile %v of the latencies is %.3fs, and it is %.3fs", q, is, was)
		}
	}
}

// TestFitAllCut: of a step that was always cut short it is known that it takes longer.
func TestFitAllCut(t *testing.T) {
	t.Parallel()
	list := []*recorded{{took: 500 * time.Millisecond, cut: true}, {took: 400 * time.Millisecond, cut: true}}
	got := fit(list)
	if len(got.Failures) > 0 || !slices.Equal(got.Latency.Empirical, []time.Duration{800 * time.Millisecond, time.Second}) {
		t.Errorf("fitted %+v", got)
	}
	r := &Recording{static: static, attempts: map[attemptKey]*recorded{{path: "commands[0]", n: 1}: list[0], {path: "commands[0]", n: 2}: list[1]}}
	if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, "2 attempts of commands[0] were cut short, the longest after 500ms") || !strings.Contains(text, "twice") {
		t.Errorf("%s", text)
	}
}
