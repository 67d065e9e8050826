package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
)

// Backtest is how well recorded runs are predicted from each other: each from all others,
// as simulate --from predicts it.
type Backtest struct {
	Runs []Backtested `json:"runs"`
	// Inside is how many of the runs that took their own time were inside the 90 % band,
	// and Of how many those are.
	Inside int `json:"inside"`
	Of     int `json:"of"`
	// Coverage is Inside of Of with its 95 % interval.
	Coverage Share `json:"coverage"`
	// Off is by how much the medians were off, in the median of the runs, as a part.
	Off float64 `json:"off_median"`
}

// Backtested is a run beside what the others say of it.
type Backtested struct {
	Run    string `json:"run"`
	Status string `json:"status"`
	// Took is how long it took; Median, Low and High are what was predicted, and between
	// what 90 in 100 runs are.
	Took   int64 `json:"took_ns"`
	Median int64 `json:"median_ns"`
	Low    int64 `json:"low_ns"`
	High   int64 `json:"high_ns"`
	Inside bool  `json:"inside"`
	// Succeeds is how often it was predicted that such a run succeeds.
	Succeeds float64 `json:"succeeds"`
	Attempts int     `json:"attempts"`
	// Predicted is how many attempts were predicted, in the mean.
	Predicted float64  `json:"attempts_predicted"`
	Assumed   []string `json:"assumed,omitempty"`
	// Left says why it is not predicted; "" where it is.
	Left string `json:"left_out,omitempty"`
}

// backtestSeeds is the fewest runs that are simulated of each model.
const backtestSeeds = 25

// PredictBack predicts each run from the others: of each of those some runs are simulated
// of its file, with its items and its settings, so many that there are seeds in all.
func PredictBack(ctx context.Context, runs []*Recording, seeds int) (*Backtest, error) {
	if len(runs) < 2 {
		return nil, fmt.Errorf("a backtest predicts each run from the others, and needs at least two; there is %d", len(runs))
	}
	for _, r := range runs[1:] {
		if r.Header.Name != runs[0].Header.Name || r.Header.Kind != runs[0].Header.Kind {
			return nil, fmt.Errorf("run %s is one of %s, and run %s one of %s: a backtest is of runs of one workflow", r.Run, r.Header.Name, runs[0].Run, runs[0].Header.Name)
		}
	}
	b := &Backtest{}
	models := make([]*Model, len(runs))
	for i, r := range runs {
		models[i] = r.FitChecked(ctx)
	}
	each := max(seeds/(len(runs)-1), backtestSeeds)
	var offs []float64
	for i, r := range runs {
		x := Backtested{Run: r.Run, Status: r.Status, Took: int64(r.Took), Attempts: r.Attempts(), Left: r.interfered()}
		program, err := r.Program(nil)
		if err != nil {
			x.Left = "its file cannot be read any more: " + err.Error()
		}
		var all []*Sample
		for k, m := range models {
			if k == i || x.Left != "" {
				continue
			}
			_, list, err := r.simulate(ctx, m, program, each)
			if err != nil {
				return nil, fmt.Errorf("run %s from run %s: %w", r.Run, runs[k].Run, err)
			}
			all = append(all, list...)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(all) > 0 {
			says := Summarize(all, false)
			x.Median, x.Low, x.High, x.Succeeds, x.Predicted, x.Assumed = says.Makespan.P50, says.Makespan.P5, says.Makespan.P95, says.Runs.Succeeded.P, says.Attempts.Mean, says.Assumed
			off := func(v int64, factor float64) float64 { return float64(v) * factor }
			x.Inside = float64(x.Took) >= off(x.Low, 1-exact) && float64(x.Took) <= off(x.High, 1+exact)
			if b.Of++; x.Inside {
				b.Inside++
			}
			offs = append(offs, math.Abs(float64(x.Median)/max(float64(x.Took), 1)-1))
		}
		b.Runs = append(b.Runs, x)
	}
	if b.Of > 0 {
		b.Coverage = wilson(b.Inside, b.Of)
		slices.Sort(offs)
		b.Off = round(offs[(len(offs)-1)/2])
	}
	return b, nil
}

// interfered says why a run did not take its own time; "" where it did.
func (r *Recording) interfered() string {
	switch {
	case r.Status == event.Interrupted:
		return "it did not end"
	case len(r.lives) > 1:
		return "it was resumed"
	case len(r.lives) == 1 && len(r.lives[0].asked) > 0:
		return "it was paused or changed while it ran"
	case len(r.attempts) == 0:
		return "it has recorded no attempt"
	}
	return ""
}

// Sentence says in words what came of it.
func (b *Backtest) Sentence() string {
	if b.Of == 0 {
		return "none of the runs can be predicted"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "of %d runs %d took as long as 90 in 100 were predicted to (%.0f %%, and of more runs %.0f to %.0f %%); the median was off by %.1f %%",
		b.Of, b.Inside, 100*b.Coverage.P, math.Floor(100*b.Coverage.Low), math.Ceil(100*b.Coverage.High), 100*b.Off)
	return s.String()
}
