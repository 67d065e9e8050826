package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/simulate"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// backtestFlags are the flags that go with --backtest.
var backtestFlags = []string{"backtest", "seeds", "json"}

// predictBack predicts each recorded run from the others.
func (o *simulateOptions) predictBack(cmd *cobra.Command, runs []string) error {
	seeds := o.seeds
	wrong := ""
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(backtestFlags, f.Name) {
			wrong = f.Name
		}
	})
	switch {
	case wrong != "":
		return usagef("--%s and --backtest cannot be used together: recorded runs have their own inputs and failures", wrong)
	case len(runs) < 2:
		return usagef("--backtest predicts each run from the others, and needs at least two; name another RUN")
	}
	if err := someSeeds(seeds); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	var list []*simulate.Recording
	seen := map[string]bool{}
	for _, run := range runs {
		rec, err := o.recording(ctx, run)
		if err != nil {
			return err
		}
		if seen[rec.Run] {
			return usagef("run %s is named twice: a run is not predicted from itself", rec.Run)
		}
		seen[rec.Run] = true
		list = append(list, rec)
	}
	return o.printBacktest(ctx, list, seeds)
}

func (o *simulateOptions) printBacktest(ctx context.Context, list []*simulate.Recording, seeds int) error {
	got, err := simulate.PredictBack(ctx, list, seeds)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(o.out, got)
	}
	if err := o.print(got.Sentence() + "\n\n"); err != nil {
		return err
	}
	p := o.palette(o.out)
	t := &table{head: []string{"run", "took", "90 in 100", "median", "inside", "attempts", "predicted"}, right: map[int]bool{1: true, 2: true, 3: true, 5: true, 6: true}}
	t.paint = painted(0, p.dim)
	var notes []string
	for _, x := range got.Runs {
		if x.Left != "" {
			t.add(x.Run, simulate.Span(x.Took), "", "", "left out", fmt.Sprint(x.Attempts), "")
			notes = append(notes, fmt.Sprintf("run %s is left out: %s", x.Run, x.Left))
			continue
		}
		inside := "yes"
		if !x.Inside {
			inside = "no"
		}
		t.add(x.Run, simulate.Span(x.Took), simulate.Span(x.Low)+" – "+simulate.Span(x.High), simulate.Span(x.Median), inside, fmt.Sprint(x.Attempts), simulate.Figure(x.Predicted))
		for _, clause := range x.Assumed {
			notes = append(notes, fmt.Sprintf("run %s is predicted assuming that %s", x.Run, clause))
		}
	}
	if err := t.print(o.out, o.columns(o.out)); err != nil {
		return err
	}
	if len(notes) > 0 {
		return o.print("\n" + strings.Join(notes, "\n") + "\n")
	}
	return nil
}
