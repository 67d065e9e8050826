package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/spf13/cobra"
)

// recording reads what happened in a run.
func (a *app) recording(ctx context.Context, run string) (rec *simulate.Recording, err error) {
	if m, err := a.meant(ctx, run, runArg{}); err != nil || m.ID != "" {
		if err != nil {
			return nil, err
		}
		run = m.ID
	}
	err = a.reading(run, func(r *journal.Reader) error {
		rec, err = simulate.Record(ctx, r)
		return err
	})
	return rec, err
}

// recordedProgram is the file of a recorded run, with changes.
func recordedProgram(rec *simulate.Recording, set []string) (simulate.Program, error) {
	p, err := rec.Program(set)
	if errors.As(err, new(*simulate.ChangeError)) {
		err = usageError{err}
	}
	return p, err
}

// replayOptions are the options of replay.
type replayOptions struct {
	*app
	id  string // of the run
	set []string
}

func replayCmd(a *app) *cobra.Command {
	o := &replayOptions{app: a}
	cmd := &cobra.Command{
		Use:   "replay [RUN]",
		Short: "Replay a recorded run under another retry policy",
		Long: `Runs the file of a recorded run again in virtual time, with changes: what would
another policy have done that night? Each recorded attempt ends as it did. The end
of an attempt that the record does not have is drawn at the rates of the others, and
such attempts are counted separately. Nothing is run.

Without --set the same policy makes the same decisions. Without RUN,
it is the newest run of this directory.`,
		Example: `  bide replay
  bide replay 01JD --set fetch.retry.attempts=8 --set fetch.retry.jitter=full`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "change a value of the file, PATH=VALUE, such as fetch.retry.attempts=5")
	return o.withJSON(cmd, "print the result as a JSON object")
}

func (o *replayOptions) run(ctx context.Context) error {
	rec, err := o.recording(ctx, o.id)
	if err != nil {
		return err
	}
	program, err := recordedProgram(rec, o.set)
	if err != nil {
		return err
	}
	got, err := rec.Replay(ctx, program, 1)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(o.out, map[string]any{"run": rec.Run,
			"recorded": map[string]any{"status": rec.Status, "duration_ns": rec.Took.Nanoseconds(), "attempts": rec.Attempts()},
			"replayed": map[string]any{"status": got.Status, "duration_ns": got.Makespan.Nanoseconds(), "attempts": got.Attempts, "beyond_record": got.Beyond,
				"waits_ns": got.Waits.Nanoseconds(), "dead_letters": got.Letters},
			"decisions":    map[string]any{"recorded": got.Decisions, "same": got.Same, "different": append([]string{}, got.Different...)},
			"record_lacks": append([]string{}, got.Lacks...)})
	}
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(fold(fmt.Sprintf(format, args...), o.columns(o.out), "    ") + "\n")
	}
	line("recorded: %s in %s, %s", rec.Status, simulate.Span(int64(rec.Took)), diag.Count(rec.Attempts(), "attempt"))
	drawn := ""
	if got.Beyond > 0 {
		drawn = fmt.Sprintf(", %d of which the record does not have: they were drawn", got.Beyond)
	}
	line("replayed: %s in %s, %s%s", got.Status, simulate.Span(int64(got.Makespan)), diag.Count(got.Attempts, "attempt"), drawn)
	line("%d of %d decisions are the same", got.Same, got.Decisions)
	const shown = 20
	for _, d := range got.Different[:min(len(got.Different), shown)] {
		line("  %s", d)
	}
	if n := len(got.Different) - shown; n > 0 {
		line("  and %d more", n)
	}
	for _, lack := range got.Lacks {
		line("%s", lack)
	}
	return o.print(b.String())
}

// tuneOptions are the options of tune.
type tuneOptions struct {
	*app
	id    string // of the run
	goal  string
	seeds int
}

func tuneCmd(a *app) *cobra.Command {
	o := &tuneOptions{app: a}
	cmd := &cobra.Command{
		Use:   "tune [RUN]",
		Short: "Propose retry policies from a recorded run, and what each gains",
		Long: `Fits a model of failures to a recorded run, tries changes of its file under it, in
virtual time, and shows those that gain most for what --for names: makespan (the
median time of a run), load (the peak on the target), cost, or success. Without --for
it is success for a run that did not succeed, and makespan for one that did. Changes
after which fewer runs succeed are no gain. What the record cannot say is marked.

Without RUN, it is the newest run of this directory.`,
		Example: `  bide tune --for makespan
  bide tune 01JD --for load --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.goal, "for", "", "what is to be better: "+strings.Join(simulate.Goals, ", ")+" (default: success for a run that did not succeed, else makespan)")
	cmd.Flags().IntVar(&o.seeds, "seeds", 100, "how many runs are simulated of each change")
	return o.withJSON(cmd, "print the proposals as a JSON object")
}

func (o *tuneOptions) run(ctx context.Context) error {
	if o.goal != "" && !slices.Contains(simulate.Goals, o.goal) {
		hint := diag.DidYouMean(o.goal, simulate.Goals)
		return usagef("--for is %q; write %s%s", o.goal, strings.Join(simulate.Goals, ", "), strings.TrimRight("; "+hint, "; "))
	}
	if err := someSeeds(o.seeds); err != nil {
		return err
	}
	rec, err := o.recording(ctx, o.id)
	if err != nil {
		return err
	}
	switch {
	case o.goal != "":
	case rec.Status == event.Succeeded:
		o.goal = "makespan"
	default: // failing sooner is no gain
		o.goal = "success"
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	t, err := rec.Tune(ctx, o.goal, o.seeds, func(set []string) (simulate.Program, error) { return recordedProgram(rec, set) })
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(o.out, t)
	}
	var b strings.Builder
	line := func(indent, format string, args ...any) {
		b.WriteString(fold(fmt.Sprintf(format, args...), o.columns(o.out), indent) + "\n")
	}
	line("  ", "now: %s", t.Now.Sentence())
	for i, p := range t.Proposals {
		b.WriteByte('\n')
		line("   ", "%d. %s", i+1, strings.Join(p.Set, "  "))
		line("   ", "   %s %s", gained(t, p), p.Report.Sentence())
		if p.Unsaid != "" {
			line("   ", "   the record cannot say all: %s", p.Unsaid)
		}
	}
	if len(t.Proposals) == 0 {
		b.WriteByte('\n')
		none := fmt.Sprintf("none of the %d changes that were tried gains anything for %s", t.Tried, o.goal)
		if t.Tried == 0 {
			none = "no change of a policy could make a difference to this run: nothing was tried"
		}
		line("  ", "%s", none)
	}
	b.WriteByte('\n')
	for _, w := range t.Warnings {
		line("  ", "%s", w)
	}
	return o.print(b.String())
}

// gained describes what a proposal gains.
func gained(t *simulate.Tuning, p simulate.Proposal) string {
	switch t.Goal {
	case "success":
		return fmt.Sprintf("%.1f in place of %.1f of 100 runs succeed:", 100*p.Report.Runs.Succeeded.P, 100*t.Now.Runs.Succeeded.P)
	case "load":
		return fmt.Sprintf("the peak is %.0f %% lower, at least %.0f %%:", 100*p.Gain, 100*min(p.Least, p.Gain))
	case "cost":
		return fmt.Sprintf("the cost is %.0f %% lower, at least %.0f %%:", 100*p.Gain, 100*min(p.Least, p.Gain))
	}
	return fmt.Sprintf("the median run is %.0f %% shorter, at least %.0f %%:", 100*p.Gain, 100*min(p.Least, p.Gain))
}
