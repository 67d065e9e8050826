package simulate

import (
	"strings"
	"testing"
)

// TestBacktest: of runs against one server each is predicted from the others, and about
// nine in ten are where it is said; a run against another server is not.
func TestBacktest(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	f := mapped(t, 6, "attempts: 6, initial_delay: 100ms, jitter: full")
	world := exactly(modelOf(t, "steps: {'*': {failures: {server_error: 0.2}, latency: {uniform: [40ms, 160ms]}}}"))
	var runs []*Recording
	for seed := range uint64(8) {
		runs = append(runs, madeRun(t, f, world, 100, seed))
	}
	got, err := PredictBack(t.Context(), runs, 100)
	if err != nil {
		t.Fatal(err)
	}
	figure(t, "backtest: runs inside the band", float64(got.Inside), 6, 8)
	if got.Of != 8 || len(got.Runs) != 8 || got.Off > 0.15 || got.Runs[0].Succeeds < 0.9 {
		t.Errorf("%+v", got)
	}
	slow := madeRun(t, f, exactly(modelOf(t, "steps: {'*': {latency: 500ms}}")), 100, 1)
	got, err = PredictBack(t.Context(), append(runs[:3:3], slow), 75)
	if err != nil {
		t.Fatal(err)
	}
	if got.Runs[3].Inside || !strings.HasPrefix(got.Sentence(), "of 4 runs ") {
		t.Errorf("a run against another server is predicted: %+v", got.Runs[3])
	}
	if _, err := PredictBack(t.Context(), runs[:1], 75); err == nil {
		t.Error("one run is predicted from itself")
	}
}
