package cli

import (
	"context"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/spf13/cobra"
)

// resumeOptions are what resume was asked to do.
type resumeOptions struct {
	run runFlags
	id  string // "": the newest run of this directory that can be resumed
}

func (a *app) resumeCmd() *cobra.Command {
	o := &resumeOptions{}
	f := &o.run
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Continue an interrupted or failed run",
		Long: `Continues a run where it stopped: steps and items whose end is recorded do not run
again; waits, budgets, thresholds and breakers continue from where they were. RUN is
an id, its beginning or end, last, last-1, or the name of a workflow; without it, it
is the last run of this directory that can be resumed.

If the workflow file has changed since, resume refuses and shows the
difference; --force continues with the file as it is now.`,
		Example: `  bide resume
  bide resume 01KAJ3 --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = first(args)
			return a.resume(cmd, o)
		},
	}
	cmd.Flags().Var(&countFlag{&f.MaxParallel}, "max-parallel", "agents at once, instead of the recorded number")
	f.withheld(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "continue although the workflow file has changed")
	f.showing(cmd, a)
	return cmd
}

func (a *app) resume(cmd *cobra.Command, o *resumeOptions) error {
	ctx, f := cmd.Context(), &o.run
	opt, err := f.options()
	if err != nil {
		return err
	}
	if o.id == "" {
		if o.id, err = a.lastHere(cmd, " to go on with", func(i runInfo) bool { return i.Resumable }); err != nil {
			return err
		}
	}
	switch whole, is, err := a.elsewhere(o.id); {
	case err != nil:
		return a.explainError(err)
	case is:
		return a.resumeOn(ctx, f, opt, whole)
	}
	if f.jobs, err = a.continueJobs(ctx, o.id, nil); err != nil {
		return a.explainError(err)
	}
	return a.execute(ctx, f, opt, func(ctx context.Context, opt engine.Options) (*engine.Summary, error) {
		return engine.Resume(ctx, o.id, opt)
	})
}
