package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// A model that is fitted to a run has to give that run. Where it does not, there is
// something in the world that a model does not have (items that are slow, a server that
// fails when it is busy), and the answer says so first.

const (
	checkRuns     = 25
	checkAttempts = 100_000 // in all of them
	fewestChecks  = 5
)

// FitChecked is Fit, beside the run itself: what the model does not give of it is in what
// it assumes.
func (r *Recording) FitChecked(ctx context.Context) *Model {
	m := r.Fit()
	p, err := r.Program(nil)
	if err != nil || r.interfered() != "" {
		return m
	}
	list, err := Run(ctx, Options{File: p.File, Pipeline: p.Pipeline, Settings: r.Settings, Model: m, Seeds: max(fewestChecks, min(checkRuns, checkAttempts/len(r.attempts))), First: 1, Items: r.Items})
	if err != nil || len(list) < fewestChecks {
		return m
	}
	var took []float64
	for _, s := range list {
		took = append(took, math.Max(float64(s.Makespan), 1))
	}
	slices.Sort(took)
	const room = 1.02
	was, middle := float64(r.Took), took[len(took)/2]
	if was <= took[len(took)-1]*room && was >= took[0]/room {
		return m
	}
	clause := fmt.Sprintf("what the model lacks makes no difference: it gives %s for the run that it is fitted to, which took %s", Span(int64(middle)), Span(int64(was)))
	m.Assumed = append(m.Assumed, clause)
	for i, d := range m.draws {
		d.slow = math.Pow(was/middle, 1.25*float64(i%5)/4)
	}
	return m
}
